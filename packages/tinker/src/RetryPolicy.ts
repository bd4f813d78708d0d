/**
 * When a failed step is tried again, and after which delay: one `Schedule` per class, in one table. Nothing in the SDK
 * is retried by anything else.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Record from "effect/Record"
import * as Schedule from "effect/Schedule"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleInterval from "effect/ScheduleInterval"
import * as ScheduleIntervals from "effect/ScheduleIntervals"
import * as TinkerError from "./TinkerError.js"

/**
 * Class of a failure; it selects the policy. The second group takes over for failures that need another rhythm than the
 * operation they happen to, and for steps that are more than one request.
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
  | "rateLimit"
  | "billing"
  | "refusedPoll"
  | "resubmit"
  | "archive"
  | "download"

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
 * The delays behind every back-off: doubling up to a cap, each shortened by up to a quarter at random.
 *
 * @since 0.1.0
 * @category constructors
 */
export const exponential = (options: {
  /** Defaults to 500 milliseconds. */
  readonly base?: Duration.DurationInput | undefined
  /** Defaults to 10 seconds. */
  readonly cap?: Duration.DurationInput | undefined
} = {}): Schedule.Schedule<unknown> =>
  Schedule.exponential(options.base ?? "500 millis", 2).pipe(
    Schedule.union(Schedule.spaced(options.cap ?? "10 seconds")),
    Schedule.jitteredWith({ min: 0.75, max: 1 })
  )

/**
 * Exponential delays with jitter (each shortened by up to a quarter) up to a cap, while the error is retryable and the
 * budget lasts. A hint from the server (`retryAfter`) replaces the delay and is never shortened by jitter.
 *
 * @since 0.1.0
 * @category constructors
 */
export const backoff = (options: {
  /** Defaults to 500 milliseconds. */
  readonly base?: Duration.DurationInput | undefined
  /** Defaults to 10 seconds. */
  readonly cap?: Duration.DurationInput | undefined
  /** Longest time from the first failure to the last attempt. Defaults to no limit but `times`. */
  readonly budget?: Duration.DurationInput | undefined
  /** Most attempts after the first. Defaults to no limit but the budget. */
  readonly times?: number | undefined
  /** Which errors to try again. Defaults to `TinkerError.isRetryable`. */
  readonly while?: ((error: TinkerError.TinkerError) => boolean) | undefined
  /** Replaces the delay for some errors. Defaults to the server's hint. */
  readonly delay?: ((error: TinkerError.TinkerError) => Duration.Duration | undefined) | undefined
}): Policy =>
  exponential(options).pipe(
    Schedule.whileInput(options.while ?? TinkerError.isRetryable),
    Schedule.passthrough,
    Schedule.modifyDelay((error, delay) => (options.delay ?? hint)(error) ?? delay),
    Schedule.intersect(Schedule.recurs(options.times ?? Number.MAX_SAFE_INTEGER)),
    within(options.budget ?? Duration.infinity)
  )

const hint = (error: TinkerError.TinkerError): Duration.Duration | undefined => error.retryAfter

/**
 * The same delay each time, or the server's hint, for the errors of the given kind.
 *
 * @since 0.1.0
 * @category constructors
 */
export const spaced = (
  delay: Duration.DurationInput,
  options: { readonly while: (error: TinkerError.TinkerError) => boolean }
): Policy =>
  Schedule.spaced(delay).pipe(
    Schedule.whileInput(options.while),
    Schedule.passthrough,
    Schedule.modifyDelay((error, delay) => error.retryAfter ?? delay)
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
 * | class | retried for | notes |
 * | --- | --- | --- |
 * | `submit` | 5 minutes | operations with a `seq_id`: the server recognises a resend |
 * | `poll` | 1 hour of failures in a row | up to 30 s apart; an expired result is final |
 * | `sample` | 5 minutes | submitting a sample |
 * | `restRead`, `restWrite` | 2 minutes | a 409 is final for writes |
 * | `startup` | 5 minutes | configuration, token exchange, session creation |
 * | `heartbeat` | never | the next heartbeat is the retry |
 * | `telemetry` | 15 seconds | |
 * | `rateLimit` | as long as it lasts | a 429 while sampling; all samplers of the tenant wait; bounded by `progressTimeout` |
 * | `billing` | as long as `billingPause` allows | a 402 of accepted work: asked again every 5 seconds |
 * | `refusedPoll` | 3 times | a 400 of a poll |
 * | `resubmit` | 2 hours | a sample whose result the server has lost (410), as a new request |
 * | `archive` | 5 times | a checkpoint archive that is being built: 30 s apart |
 * | `download` | 5 times without new bytes | files from signed URLs |
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
  sample: backoff({ budget: "5 minutes" }),
  restRead: backoff({ budget: "2 minutes" }),
  restWrite: backoff({ budget: "2 minutes" }),
  startup: backoff({ budget: "5 minutes" }),
  heartbeat: never,
  telemetry: backoff({ base: "1 second", budget: "15 seconds", times: 3 }),
  rateLimit: spaced("1 second", { while: (error) => error._tag === "RateLimited" && error.shouldRetry !== false }),
  billing: spaced("5 seconds", { while: (error) => error._tag === "BillingBlocked" && error.shouldRetry !== false }),
  refusedPoll: backoff({ base: "250 millis", cap: "1 second", times: 3, while: (error) => error.status === 400 }),
  resubmit: backoff({ budget: "2 hours", while: (error) => error._tag === "FutureExpired" }),
  archive: backoff({
    budget: "5 minutes",
    times: 5,
    delay: (error) => error.retryAfter ?? (error.status === 503 ? Duration.seconds(30) : undefined)
  }),
  download: backoff({ budget: "5 minutes", times: 5 })
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
 * Runs an effect without retries: each request is sent once, and its failure is the caller's at once.
 *
 * A poll that gets "not ready yet" (408 included) is followed by the next poll: that is waiting for a
 * result, not a retry. A sampler's shared poll belongs to all its samples and follows the policies of the client.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withoutRetries: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> = provide(
  Record.map(defaults, () => never)
)
