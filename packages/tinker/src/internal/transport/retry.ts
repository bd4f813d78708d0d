/**
 * Tries a failed step again, as the policy of its class says. This is the only retry loop of the package: it steps a
 * `Schedule` by hand because what happens between two attempts (events, logs, billing, admission) needs the error and
 * the delay, which `Effect.retry` does not show.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleIntervals from "effect/ScheduleIntervals"
import * as RetryPolicy from "../../RetryPolicy.js"
import type * as TinkerError from "../../TinkerError.js"
import * as Logs from "../observability/logs.js"
import type * as Observer from "../observability/observer.js"
import type * as Tenants from "./tenants.js"

/** Accepted work waits for a bill to be paid; a start, a listing or a heartbeat does not. */
const waitsForBilling = new Set<RetryPolicy.Class>(["submit", "poll", "sample"])

/** Classes whose callers would otherwise wait in silence; polls, samples and heartbeats have their own reports. */
const logged = new Set<RetryPolicy.Class>(["submit", "startup", "restRead", "restWrite", "archive"])

/** The first failures are not worth a warning: the next attempt usually works. */
const quietAttempts = 3

const warnEvery = 60_000

/** The policy that decides about a failure of an operation. */
const classOf = (operation: RetryPolicy.Class, error: TinkerError.TinkerError): RetryPolicy.Class => {
  if (error._tag === "BillingBlocked" && waitsForBilling.has(operation)) return "billing"
  if (error._tag === "RateLimited" && operation === "sample") return "rateLimit"
  if (error.status === 400 && operation === "poll") return "refusedPoll"
  return operation
}

/**
 * Decision about a failure.
 *
 * @internal
 */
export interface Decision {
  readonly error: TinkerError.TinkerError
  /** Whose policy decided. */
  readonly class: RetryPolicy.Class
  /** How many attempts have failed so far. */
  readonly failures: number
  /** Milliseconds until the next attempt; `undefined` where the failure is final. */
  readonly delay: number | undefined
  /** Milliseconds since the first failure. */
  readonly elapsed: number
}

/**
 * A step that has failed once.
 */
interface Options<A> {
  /** For events and logs. */
  readonly name: string
  readonly class: RetryPolicy.Class
  readonly error: TinkerError.TinkerError
  readonly run: (attempt: number) => Effect.Effect<A, TinkerError.TinkerError>
  /** Decides instead of the policies in force, whatever the failure. */
  readonly policy?: RetryPolicy.Policy | undefined
  /** Used instead of the policies in force. */
  readonly policies?: RetryPolicy.Policies | undefined
  /** Runs after each decision, before the wait. */
  readonly onDecision?: ((decision: Decision) => Effect.Effect<void>) | undefined
}

/** @internal */
export interface Retry {
  /** The policies of the running fiber, or else of the client. */
  readonly policies: Effect.Effect<RetryPolicy.Policies>
  readonly again: <A>(options: Options<A>) => Effect.Effect<A, TinkerError.TinkerError>
}

/**
 * Milliseconds that only grow: a wall clock that is set, or goes on while the machine sleeps, would use up a budget in
 * which nothing was tried.
 */
const monotonicMillis: Effect.Effect<number> = Effect.clockWith((clock) =>
  Effect.sync(() => Number(clock.unsafeCurrentTimeNanos()) / 1e6)
)

/** Milliseconds to wait, and the state to go on with. */
const step = (policy: RetryPolicy.Policy, state: unknown, now: number, error: TinkerError.TinkerError) =>
  Effect.map(policy.step(now, error, state), ([next, , decision]) => ({
    state: next,
    delay: ScheduleDecision.isDone(decision)
      ? undefined
      : Math.max(0, ScheduleIntervals.start(decision.intervals) - now)
  }))

/** @internal */
export const make = (options: {
  readonly billing: Tenants.Billing
  readonly observers: Observer.Observers
  /** In force where the caller's context has none. */
  readonly policies: RetryPolicy.Policies
}): Retry => {
  const { billing, observers } = options
  let lastWarning = Number.NEGATIVE_INFINITY

  const policies: Effect.Effect<RetryPolicy.Policies> = Effect.map(
    Effect.context<never>(),
    (context) =>
      context.unsafeMap.has(RetryPolicy.RetryPolicy.key)
        ? Context.get(context, RetryPolicy.RetryPolicy)
        : options.policies
  )

  /** Whether the tenant's billing incident still allows waiting. */
  const mayPause = Effect.fnUntraced(function*(name: string, error: TinkerError.TinkerError) {
    const { announce, pause, since, until } = billing.blocked(yield* Clock.currentTimeMillis)
    observers.emit({ _tag: "BillingPaused", endpoint: name, since, until, description: error.description })
    if (pause && announce) {
      yield* Effect.logWarning(
        `Paused by billing until ${new Date(until).toISOString()} at the latest: ${
          error.description ?? "the server responded with 402"
        }`
      ).pipe(Logs.of("ApiClient", { endpoint: name, status: error.status, requestId: error.requestId }))
    }
    return pause
  })

  const logWait = (name: string, operation: RetryPolicy.Class, decision: Decision, now: number) => {
    const { delay = 0, error, failures } = decision
    const warn = logged.has(operation) && failures > quietAttempts && now - lastWarning >= warnEvery
    if (warn) lastWarning = now
    return (warn
      ? Effect.logWarning(`${error.message.split("\n", 1)[0]}; retrying`)
      : Effect.logDebug(`${name}: retrying in ${Math.round(delay)} ms`)).pipe(
        Logs.of("ApiClient", {
          endpoint: name,
          attempt: failures - 1,
          delay: Math.round(delay),
          error: error._tag,
          status: error.status,
          requestId: error.requestId
        })
      )
  }

  const again: Retry["again"] = Effect.fnUntraced(function*({ name, onDecision, run, ...given }) {
    const inForce = given.policies ?? (yield* policies)
    const started = yield* monotonicMillis
    const states = new Map<RetryPolicy.Class, unknown>()
    let { error } = given
    for (let attempt = 0;; attempt++) {
      const now = yield* monotonicMillis
      const decider = classOf(given.class, error)
      const policy = given.policy ?? inForce[decider]
      const next = decider === "billing" && !(yield* mayPause(name, error))
        ? { state: undefined, delay: undefined }
        : yield* step(policy, states.has(decider) ? states.get(decider) : policy.initial, now, error)
      states.set(decider, next.state)
      const decision: Decision = {
        error,
        class: decider,
        failures: attempt + 1,
        delay: next.delay,
        elapsed: now - started
      }
      if (decider !== "billing" || next.delay === undefined) {
        observers.emit({
          _tag: "AttemptFailed",
          endpoint: name,
          class: given.class,
          attempt,
          error,
          retrying: next.delay !== undefined,
          elapsed: now - started
        })
      }
      if (next.delay !== undefined && decider !== "billing") {
        observers.emit({ _tag: "RetryScheduled", endpoint: name, attempt, delay: next.delay, error })
      }
      if (onDecision !== undefined) yield* onDecision(decision)
      if (next.delay === undefined) return yield* error
      if (decider !== "billing") yield* logWait(name, given.class, decision, now)
      yield* Effect.sleep(next.delay)
      const result = yield* Effect.either(run(attempt + 1))
      if (Either.isRight(result)) return result.right
      error = result.left
    }
  })

  return { again, policies }
}
