/**
 * State visible to a waiting caller: whether the server is working on the operation, holding it back, or unreachable.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import type * as TinkerError from "./TinkerError.js"
import type * as Future from "./wire/Future.js"

/**
 * The server's word for where an operation stands.
 *
 * @since 0.1.0
 * @category models
 */
export type QueueState = Future.QueueState

/**
 * Something that happened while waiting for an operation.
 *
 * - `Queued`: the server said where the operation stands.
 * - `Retrying`: a poll failed; the next one follows after `delay`.
 * - `BillingPaused`: the account is blocked by billing; we keep asking.
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  | Base & {
    readonly _tag: "Queued"
    readonly state: QueueState
    /** In the server's words, or ours when it gave none. */
    readonly reason: string | undefined
  }
  | Base & {
    readonly _tag: "Retrying"
    readonly error: TinkerError.TinkerError
    /** Failures in a row. */
    readonly attempt: number
    readonly delay: Duration.Duration
  }
  | Base & {
    readonly _tag: "BillingPaused"
    readonly error: TinkerError.TinkerError
  }

interface Base {
  readonly requestId: string
  /** Kind of the operation, e.g. `ForwardBackward`. */
  readonly requestType: string
  /** Since we began to wait. */
  readonly elapsed: Duration.Duration
}

/**
 * Whether an event says that nothing moves for now.
 *
 * @since 0.1.0
 * @category guards
 */
export const isPaused = (event: Event): boolean => event._tag !== "Queued" || event.state !== "active"

/**
 * One line for people.
 *
 * @since 0.1.0
 * @category combinators
 */
export const describe = (event: Event): string => {
  const what = `${event.requestType} ${event.requestId}`
  const seconds = Math.round(Duration.toSeconds(event.elapsed))
  const after = seconds === 0 ? "" : ` after ${Duration.format(Duration.seconds(seconds))}`
  switch (event._tag) {
    case "Queued":
      return event.state === "active"
        ? `${what} is running`
        : `${what} is paused${after}: ${reason(event)}`
    case "Retrying":
      return `${what} has no response${after}: ${reason(event)}; retrying in ${Duration.format(event.delay)}`
    case "BillingPaused":
      return `${what} is paused${after}: ${reason(event)}`
  }
}

/**
 * Why nothing moves, in the server's words where it gave some.
 *
 * @since 0.1.0
 * @category combinators
 */
export const reason = (event: Event): string => {
  // The first line says what is wrong, the next one what to do about it.
  if (event._tag !== "Queued") return event.error.message.split("\n", 1)[0] ?? ""
  if (event.reason !== undefined) return event.reason
  switch (event.state) {
    case "paused_rate_limit":
      return "the limit of concurrent operations is reached"
    case "paused_capacity":
      return "the service is short of capacity"
    default:
      return `the server says "${event.state}"`
  }
}
