/**
 * How servers that speak the same wire differ.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"

/**
 * How a compatible server differs from the hosted service.
 *
 * @since 0.1.0
 * @category models
 */
export interface Compatibility {
  /** A poll answered with HTTP 400 and `{"detail"}` is a failed operation, not a bad poll. */
  readonly failedFutureIsBadRequest: boolean
  /** `POST /client/dynamic_config` exists. */
  readonly dynamicConfig: boolean
  /** Longest time of one poll, where `Options` name none: a server may hold them longer than the usual 45 seconds allow. */
  readonly pollTimeout?: Duration.DurationInput | undefined
}

/**
 * The hosted service.
 *
 * @since 0.1.0
 * @category configuration
 */
export const hosted: Compatibility = { failedFutureIsBadRequest: false, dynamicConfig: true }

/**
 * A self-hosted SkyRL server. It holds a poll for 5 minutes.
 *
 * @since 0.1.0
 * @category configuration
 */
export const skyrl: Compatibility = { failedFutureIsBadRequest: true, dynamicConfig: false, pollTimeout: "330 seconds" }
