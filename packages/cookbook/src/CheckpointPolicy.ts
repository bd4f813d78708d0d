/**
 * When a run is saved, and for how long the checkpoints are kept.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"

/**
 * How often: after so many steps, tokens, or so much time, whichever comes first.
 *
 * @since 0.1.0
 * @category models
 */
export interface Cadence {
  readonly steps?: number | undefined
  readonly tokens?: number | undefined
  readonly time?: Duration.DurationInput | undefined
}

/**
 * When a run is saved. The final checkpoint never expires.
 *
 * @since 0.1.0
 * @category models
 */
export interface CheckpointPolicy {
  /** Checkpoints to resume from, to sample from, and to go back to. Defaults to every 20 steps. */
  readonly periodic?: Cadence | undefined
  /** How long they are kept. Defaults to 7 days. */
  readonly ttl?: Duration.DurationInput | undefined
  /** Checkpoints to resume from only; each takes the place of the one before. Defaults to none. */
  readonly rolling?: Cadence | undefined
  /** How long they are kept. Defaults to 2 hours. */
  readonly rollingTtl?: Duration.DurationInput | undefined
  /** Go on with the next steps while a checkpoint is written. Defaults to false. */
  readonly background?: boolean | undefined
  /** Save when the run is interrupted, or its stream is cut short. Defaults to true. */
  readonly onExit?: boolean | undefined
  /** How long saving may take then. Defaults to 1 minute. */
  readonly exitTimeout?: Duration.DurationInput | undefined
  /** How long before it expires the latest checkpoint is warned about. Defaults to a quarter of its time. */
  readonly warnBefore?: Duration.DurationInput | undefined
}

/**
 * Steps, tokens and time since a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export interface Since {
  readonly steps: number
  readonly tokens: number
  readonly millis: number
}

/**
 * Whether it is time for the next checkpoint.
 *
 * @since 0.1.0
 * @category combinators
 */
export const isDue = (cadence: Cadence, since: Since): boolean =>
  since.steps > 0 && (
    (cadence.steps !== undefined && cadence.steps > 0 && since.steps >= cadence.steps) ||
    (cadence.tokens !== undefined && since.tokens >= cadence.tokens) ||
    (cadence.time !== undefined && since.millis >= Duration.toMillis(cadence.time))
  )

/**
 * A policy with its defaults.
 *
 * @since 0.1.0
 * @category combinators
 */
export const resolve = (policy: CheckpointPolicy): {
  readonly periodic: Cadence
  readonly ttl: number
  readonly rolling: Cadence
  readonly rollingTtl: number
  readonly background: boolean
  readonly onExit: boolean
  readonly exitTimeout: number
  readonly warnBefore: (ttl: number) => number
} => {
  const { warnBefore } = policy
  return {
    periodic: policy.periodic ?? { steps: 20 },
    ttl: Duration.toMillis(policy.ttl ?? "7 days"),
    rolling: policy.rolling ?? {},
    rollingTtl: Duration.toMillis(policy.rollingTtl ?? "2 hours"),
    background: policy.background ?? false,
    onExit: policy.onExit ?? true,
    exitTimeout: Duration.toMillis(policy.exitTimeout ?? "1 minute"),
    warnBefore: warnBefore === undefined ? (ttl) => ttl / 4 : () => Duration.toMillis(warnBefore)
  }
}
