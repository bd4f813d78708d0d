/**
 * When a failed request is tried again, and how long we wait: one `Schedule` per class of operation, in one table.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleInterval from "effect/ScheduleInterval"
import * as ScheduleIntervals from "effect/ScheduleIntervals"
import * as TinkerError from "./TinkerError.js"

/**
 * What kind of operation a request belongs to; it selects the policy.
 *
 * @since 0.1.0
 * @category models
 */
export type Class =
  | "submit"
  | "poll"
  | "sample"
  | "restRead"
  | "restWrite"
  | "startup"
  | "heartbeat"
  | "telemetry"

/**
 * A policy: fed with the error of each attempt, it says whether to go on and after which delay.
 *
 * @since 0.1.0
 * @category models
 */
export type Policy = Schedule.Schedule<unknown, TinkerError.TinkerError>

/**
 * One policy for each class.
 *
 * @since 0.1.0
 * @category models
 */
export type Policies = { readonly [K in Class]: Policy }

/**
 * Bounds a schedule in time: no recurrence starts later than `budget` after the first decision. The delay that would
 * cross the border is shortened to it, so the last attempt happens at the border rather than beyond.
 *
 * @since 0.1.0
 * @category combinators
 */
export const within =
  (budget: Duration.DurationInput) =>
  <Out, In, R>(self: Schedule.Schedule<Out, In, R>): Schedule.Schedule<Out, In, R> => {
    const millis = Duration.toMillis(budget)
    const initial: readonly [state: unknown, start: Option.Option<number>] = [self.initial, Option.none()]
    return Schedule.makeWithState(initial, (now, input: In, [state, startOption]) => {
      const start = Option.getOrElse(startOption, () => now)
      return Effect.map(self.step(now, input, state), ([next, out, decision]) => {
        // Less than a millisecond before the border is the border: a clock with fractions may never quite reach it.
        if (ScheduleDecision.isDone(decision) || now - start > millis - 1) {
          return [[next, Option.some(start)] as const, out, ScheduleDecision.done] as const
        }
        const at = Math.min(ScheduleIntervals.start(decision.intervals), start + millis)
        return [
          [next, Option.some(start)] as const,
          out,
          ScheduleDecision.continueWith(ScheduleInterval.after(at))
        ] as const
      })
    })
  }

/**
 * Exponential delays with jitter (each shortened by up to a quarter) up to a cap, while the error is retryable and the
 * budget lasts. A hint of the server (`retryAfter`) replaces the delay and is never shortened by jitter.
 *
 * @since 0.1.0
 * @category constructors
 */
export const backoff = (options: {
  /** Defaults to 500 milliseconds. */
  readonly base?: Duration.DurationInput | undefined
  /** Defaults to 10 seconds. */
  readonly cap?: Duration.DurationInput | undefined
  /** Longest time from the first failure to the last attempt. */
  readonly budget: Duration.DurationInput
  /** Most attempts after the first. Defaults to no limit but the budget. */
  readonly times?: number | undefined
  /** Which errors to try again. Defaults to `TinkerError.isRetryable`. */
  readonly while?: ((error: TinkerError.TinkerError) => boolean) | undefined
}): Policy =>
  Schedule.exponential(options.base ?? "500 millis", 2).pipe(
    Schedule.union(Schedule.spaced(options.cap ?? "10 seconds")),
    Schedule.jitteredWith({ min: 0.75, max: 1 }),
    Schedule.whileInput(options.while ?? TinkerError.isRetryable),
    Schedule.passthrough,
    Schedule.modifyDelay((error, delay) => error.retryAfter ?? delay),
    Schedule.intersect(Schedule.recurs(options.times ?? Number.MAX_SAFE_INTEGER)),
    within(options.budget)
  )

/**
 * Never tries again.
 *
 * @since 0.1.0
 * @category constructors
 */
export const never: Policy = Schedule.stop

/**
 * The table.
 *
 * | class | tried again for | notes |
 * | --- | --- | --- |
 * | `submit` | 5 minutes | operations with a `seq_id`: a resend is recognised by the server |
 * | `poll` | 1 hour of failures in a row | slower: up to 30 s apart; an expired result is final |
 * | `sample` | 5 minutes | rate limits are left to the sampling client's dispatcher |
 * | `restRead`, `restWrite` | 2 minutes | a 409 is an answer for writes |
 * | `startup` | 5 minutes | configuration, token exchange, session creation |
 * | `heartbeat` | never | the next beat is the retry |
 * | `telemetry` | 15 seconds | |
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaults: Policies = {
  submit: backoff({ budget: "5 minutes" }),
  poll: backoff({
    base: "1 second",
    cap: "30 seconds",
    budget: "1 hour",
    while: (error) => error._tag !== "FutureExpired" && TinkerError.isRetryable(error)
  }),
  sample: backoff({
    budget: "5 minutes",
    while: (error) => error._tag !== "RateLimited" && error._tag !== "BillingBlocked" && TinkerError.isRetryable(error)
  }),
  restRead: backoff({ budget: "2 minutes" }),
  restWrite: backoff({ budget: "2 minutes" }),
  startup: backoff({ budget: "5 minutes" }),
  heartbeat: never,
  telemetry: backoff({ base: "1 second", budget: "15 seconds", times: 3 })
}

/**
 * The policies in force. Provide it to a client's layer to change them for that client, or to a single effect with
 * {@link provide} to change them for the calls made in it.
 *
 * @since 0.1.0
 * @category configuration
 */
export class RetryPolicy extends Context.Reference<RetryPolicy>()("effect-tinker/RetryPolicy", {
  defaultValue: (): Policies => defaults
}) {}

/**
 * Runs an effect with some policies replaced.
 *
 * @example
 * ```ts
 * import { Effect, Schedule } from "effect"
 * import { RestClient, RetryPolicy } from "effect-tinker"
 *
 * const sessions = Effect.flatMap(RestClient.RestClient, (rest) => rest.listSessions())
 *
 * // at most one retry, in this effect only
 * const once = Schedule.intersect(RetryPolicy.defaults.restRead, Schedule.recurs(1))
 * const impatient = sessions.pipe(RetryPolicy.provide({ restRead: once }))
 * ```
 *
 * @since 0.1.0
 * @category combinators
 */
export const provide =
  (policies: Partial<Policies>) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(RetryPolicy, (current) => Effect.provideService(self, RetryPolicy, { ...current, ...policies }))

/**
 * Runs an effect without any retry of its requests.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withoutRetries: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> = provide({
  submit: never,
  poll: never,
  sample: never,
  restRead: never,
  restWrite: never,
  startup: never,
  heartbeat: never,
  telemetry: never
})
