/**
 * A request as it goes to the server, and what its caller asks of it.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Redacted from "effect/Redacted"
import type * as Endpoint from "../Endpoint.js"
import type * as RetryPolicy from "../RetryPolicy.js"
import type * as TinkerError from "../TinkerError.js"
import type * as Wire from "./exchange.js"
import type * as Failure from "./failure.js"
import type * as Prepared from "./prepared.js"

/** @internal */
export interface CallOptions {
  /** Module and method for errors. Defaults to the endpoint. */
  readonly from?: { readonly module: string; readonly method: string } | undefined
  /** Id of the server-side operation, for errors. */
  readonly requestId?: string | undefined
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** One for all attempts of a call. Defaults to a fresh one. */
  readonly idempotencyKey?: string | undefined
  /** Of one attempt. */
  readonly timeout?: Duration.DurationInput | undefined
  readonly retry?: RetryPolicy.Policy | undefined
  /** Told of every attempt that fails, also of those that are tried again. */
  readonly onFailed?: ((error: TinkerError.TinkerError) => void) | undefined
  /** Presented instead of the tenant's own. */
  readonly credential?: Redacted.Redacted | undefined
  /**
   * Where to leave the request under way, for a caller who abandons it when interrupted: one region of its own then
   * serves for all its requests, instead of one for each. Without it a call cleans up after itself.
   */
  readonly custody?: Custody | undefined
}

/** @internal */
export interface Custody {
  flight: Wire.Flight | undefined
}

/**
 * A request as it goes to the server, the same for all its attempts.
 *
 * @internal
 */
export interface Call {
  readonly endpoint: Prepared.Prepared
  readonly encoded: Endpoint.Encoded
  readonly origin: Failure.Origin
  readonly key: string | undefined
  readonly options: CallOptions | undefined
}
