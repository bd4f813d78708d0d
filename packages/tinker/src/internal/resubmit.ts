/**
 * A sample whose result the server has lost is asked for again, as a new request.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as RetryPolicy from "../RetryPolicy.js"
import type * as TinkerError from "../TinkerError.js"
import * as Drive from "./drive.js"

const policy: RetryPolicy.Policy = RetryPolicy.backoff({
  budget: "2 hours",
  while: (error) => error._tag === "FutureExpired"
})

type OnAgain = (error: TinkerError.TinkerError, now: number) => void

const again = Effect.fnUntraced(function*<A>(
  self: Effect.Effect<A, TinkerError.TinkerError>,
  expired: TinkerError.TinkerError,
  onAgain: OnAgain
) {
  const drive = Drive.make(policy)
  for (let error = expired;;) {
    const now = yield* Clock.currentTimeMillis
    const wait = yield* drive.next(now, error)
    if (Option.isNone(wait)) return yield* error
    onAgain(error, now)
    yield* Effect.sleep(wait.value)
    const result = yield* Effect.either(self)
    if (Either.isRight(result)) return result.right
    error = result.left
  }
})

/**
 * Runs it until its result arrives; `onAgain` is told before each repetition. The policy is only driven once there is
 * something to try again.
 *
 * @internal
 */
export const resubmitting = <A>(
  self: Effect.Effect<A, TinkerError.TinkerError>,
  onAgain: OnAgain
): Effect.Effect<A, TinkerError.TinkerError> =>
  Effect.catchAll(self, (error) => error._tag === "FutureExpired" ? again(self, error, onAgain) : Effect.fail(error))
