/**
 * A retry policy led through failures in a row by whoever keeps the loop: what is between two attempts (events, pauses,
 * what a failure means) is not for `Effect.retry` to know.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleIntervals from "effect/ScheduleIntervals"
import type * as RetryPolicy from "../RetryPolicy.js"
import type * as TinkerError from "../TinkerError.js"

/** @internal */
export interface Drive {
  /** Milliseconds to wait before the next attempt; none when the policy gives up. */
  readonly next: (now: number, error: TinkerError.TinkerError) => Effect.Effect<Option.Option<number>>
}

/** @internal */
export const make = (policy: RetryPolicy.Policy): Drive => {
  let state = policy.initial
  return {
    next: (now, error) =>
      Effect.map(policy.step(now, error, state), ([next, , decision]) => {
        state = next
        return ScheduleDecision.isDone(decision)
          ? Option.none()
          : Option.some(Math.max(0, ScheduleIntervals.start(decision.intervals) - now))
      })
  }
}
