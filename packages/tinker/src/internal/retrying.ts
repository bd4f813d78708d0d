/**
 * What happens after a first attempt has failed: the endpoint's one policy, and the pause for unpaid bills.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as RetryPolicy from "../RetryPolicy.js"
import * as TinkerError from "../TinkerError.js"
import * as Billing from "./billing.js"
import * as Drive from "./drive.js"
import * as Logs from "./logs.js"
import type * as Observer from "./observer.js"

/** Work under way waits for a bill to be paid; a start, a listing or a beat does not. */
const pausing = new Set<RetryPolicy.Class>(["submit", "poll"])

/** Whose callers would otherwise wait without a word: polls, samples and heartbeats have reports of their own. */
const telling = new Set<RetryPolicy.Class>(["submit", "startup", "restRead", "restWrite"])

/** Some seconds of failures are nothing to talk about: the next attempt usually works. */
const quietAttempts = 3

const tellingInterval = 60_000

/** @internal */
export interface Subject {
  readonly name: string
  readonly retry: RetryPolicy.Class
}

/** @internal */
export interface Retrying {
  /** The policies of the running fiber, or else of the client. */
  readonly inForce: Effect.Effect<RetryPolicy.Policies>
  readonly pauseForBilling: (error: TinkerError.TinkerError, endpoint: string) => Effect.Effect<boolean>
  readonly again: <A>(
    subject: Subject,
    policy: RetryPolicy.Policy | undefined,
    first: TinkerError.TinkerError,
    run: (attempt: number) => Effect.Effect<A, TinkerError.TinkerError>
  ) => Effect.Effect<A, TinkerError.TinkerError>
}

/** @internal */
export const make = (options: {
  readonly billing: Billing.Billing
  readonly observers: Observer.Observers
  /** In force where the call's own context names none. */
  readonly policies: RetryPolicy.Policies
}): Retrying => {
  const { billing, observers, policies } = options
  let lastTold = Number.NEGATIVE_INFINITY

  const blocked = (endpoint: string, error: TinkerError.TinkerError): Effect.Effect<boolean> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const { announce, pause, since, until } = billing.blocked(now)
      observers.emit({ _tag: "BillingPaused", endpoint, since, until, description: error.description })
      return Effect.as(
        pause && announce
          ? Effect.logWarning(
            `Paused because of billing, until ${new Date(until).toISOString()} at most: ${
              error.description ?? "the server answered 402"
            }`
          ).pipe(Logs.of("Transport", { endpoint, status: error.status, requestId: error.requestId }))
          : Effect.void,
        pause
      )
    })

  const pauseForBilling: Retrying["pauseForBilling"] = (error, endpoint) =>
    error._tag !== "BillingBlocked" || error.shouldRetry === false
      ? Effect.succeed(false)
      : Effect.tap(blocked(endpoint, error), (pause) => pause ? Effect.sleep(Billing.interval) : Effect.void)

  const inForce: Effect.Effect<RetryPolicy.Policies> = Effect.map(
    Effect.context<never>(),
    (context) =>
      context.unsafeMap.has(RetryPolicy.RetryPolicy.key) ? Context.get(context, RetryPolicy.RetryPolicy) : policies
  )

  const again: Retrying["again"] = Effect.fnUntraced(function*(subject, given, first, run) {
    const { name, retry } = subject
    const policy = given ?? (yield* inForce)[retry]
    const start = yield* Clock.currentTimeMillis
    let error = first
    const drive = Drive.make(policy)
    for (let attempt = 0;; attempt++) {
      if (retry === "sample" && error._tag === "BillingBlocked" && error.shouldRetry === undefined) {
        // Sampling has a dispatcher that holds everyone back: tell it whether waiting makes sense.
        error = new TinkerError.BillingBlocked({ ...error, shouldRetry: yield* blocked(name, error) })
      }
      if (!pausing.has(retry) || !(yield* pauseForBilling(error, name))) {
        const now = yield* Clock.currentTimeMillis
        const wait = yield* drive.next(now, error)
        observers.emit({
          _tag: "AttemptFailed",
          endpoint: name,
          class: retry,
          attempt,
          error,
          retrying: Option.isSome(wait),
          elapsed: now - start
        })
        if (Option.isNone(wait)) return yield* error
        const delay = wait.value
        observers.emit({ _tag: "RetryScheduled", endpoint: name, attempt, delay, error })
        const tell = telling.has(retry) && attempt >= quietAttempts && now - lastTold >= tellingInterval
        if (tell) lastTold = now
        yield* (tell
          ? Effect.logWarning(`${error.message.split("\n", 1)[0]}; trying again`)
          : Effect.logDebug(`${name}: trying again in ${Math.round(delay)} ms`)).pipe(
            Logs.of("Transport", {
              endpoint: name,
              attempt,
              delay: Math.round(delay),
              error: error._tag,
              status: error.status,
              requestId: error.requestId
            })
          )
        yield* Effect.sleep(delay)
      }
      const result = yield* Effect.either(run(attempt + 1))
      if (Either.isRight(result)) return result.right
      error = result.left
    }
  })

  return { again, inForce, pauseForBilling }
}
