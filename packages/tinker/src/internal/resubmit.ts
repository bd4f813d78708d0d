/**
 * A sample whose result the server has lost is asked for again, as a new request.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as RetryPolicy from "../RetryPolicy.js"
import type * as TinkerError from "../TinkerError.js"

const policy: RetryPolicy.Policy = RetryPolicy.backoff({
  budget: "2 hours",
  while: (error) => error._tag === "FutureExpired"
})

/**
 * Runs it until its result arrives; `onAgain` is told before each repetition. The schedule is only driven once there is
 * something to try again.
 *
 * @internal
 */
export const resubmitting = <A>(
  self: Effect.Effect<A, TinkerError.TinkerError>,
  onAgain: (error: TinkerError.TinkerError, now: number) => void
): Effect.Effect<A, TinkerError.TinkerError> =>
  Effect.catchAll(self, (expired) => {
    if (expired._tag !== "FutureExpired") return Effect.fail(expired)
    let last: TinkerError.TinkerError = expired
    let first = true
    const again = Effect.suspend(() => {
      if (!first) return self
      first = false
      return Effect.fail(expired)
    })
    const told = Schedule.onDecision(policy, (_, decision) =>
      Effect.clockWith((clock) =>
        Effect.sync(() => {
          if (ScheduleDecision.isContinue(decision)) onAgain(last, clock.unsafeCurrentTimeMillis())
        })
      ))
    return Effect.retry(
      Effect.tapError(again, (error) =>
        Effect.sync(() => {
          last = error
        })),
      told
    )
  })
