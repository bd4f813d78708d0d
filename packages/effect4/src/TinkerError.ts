/**
 * Failures of calls. Each has a `_tag`, so that `Effect.catchTag` handles one of them, and a message that says what to do.
 *
 * @since 0.1.0
 */
import * as Client from "@effect-tinker/promise"
import * as Data from "effect/Data"

/**
 * A call that failed.
 *
 * @since 0.1.0
 * @category errors
 */
export type TinkerError = Client.TinkerError

/**
 * Tags of the failures of calls.
 *
 * @since 0.1.0
 * @category models
 */
export type Tag = Client.Tag

/**
 * A trainer that ended for another reason than a call: a configuration that makes no sense, data that cannot be read, a
 * model that broke.
 *
 * @since 0.1.0
 * @category errors
 */
export class TrainingFailed extends Data.TaggedError("TrainingFailed")<{
  /** Name of the reason, such as `InvalidRun`. */
  readonly reason: string
  readonly message: string
  readonly cause: unknown
}> {}

/**
 * Whether something is a failure of a call.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTinkerError: (u: unknown) => u is TinkerError = Client.isTinkerError

/**
 * Whether the same call may succeed when it is made again: the condition of an `Effect.retry`.
 *
 * @since 0.1.0
 * @category guards
 */
export const isRetryable: (error: TinkerError) => boolean = Client.isRetryable
