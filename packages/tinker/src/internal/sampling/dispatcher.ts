/**
 * Admission of sample requests: one dispatcher for all sampling clients of a tenant, which sends them and sends them
 * again. The `rateLimit` policy decides whether and how long to wait after a rate limit; the dispatcher keeps the moment
 * until which everyone waits.
 *
 * A request is admitted by count and by bytes, and holds its permits until the server has accepted it; waiting for the
 * result holds nothing. A rate limit stops everyone for a moment, and for ten seconds after it requests are admitted
 * slowly: few at a time, their bytes weighing twenty times as much.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as QueueState from "../../QueueState.js"
import type * as TinkerError from "../../TinkerError.js"
import * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"
import type * as Retry from "../transport/retry.js"
import type * as Tenants from "../transport/tenants.js"

const most = 400
const mostWhenThrottled = 10
const throttledFor = 10_000
const throttledWeight = 20

/** A busy server is most sensitive to large prompts. */
const small = 128 * 1024
const largePause = 5_000

/**
 * The place of a request, taken without a wait.
 *
 * @internal
 */
export class Place {
  private isTaken = true

  constructor(private readonly giveBack: () => void) {}

  /** Gives it back, unless that has been done. */
  leave(): void {
    if (!this.isTaken) return
    this.isTaken = false
    this.giveBack()
  }
}

/** @internal */
export interface Submission<A> {
  /** Encodes the request: run when it may be sent, so that those in line take no memory. */
  readonly call: () => Effect.Effect<ApiClient.Prepared<A>, TinkerError.TinkerError>
  /** Estimated size of the request. */
  readonly bytes: number
  readonly clock: Clock.Clock
  /** Whether to show the wait as a span. */
  readonly spans: boolean
  readonly again: Retry.Retry["again"]
  /** The reason to stop trying, if there is one. Consulted before every attempt. */
  readonly giveUp: (now: number) => TinkerError.TinkerError | undefined
  /** Identifies the request in events. */
  readonly id: readonly [samplingSessionId: string, seqId: number]
  readonly onEvent: (event: QueueState.Event) => Effect.Effect<void>
}

/** @internal */
export interface Dispatcher {
  /** A place, if there is one without a wait. The caller gives it back. */
  readonly enter: (bytes: number, now: number) => Place | undefined
  /**
   * Sends a request when no rate limit is in force, and again as its policy says. Without a place it waits in line for
   * one, and has it until it has been accepted.
   */
  readonly submit: <A>(submission: Submission<A>, place: Place | undefined) => Effect.Effect<A, TinkerError.TinkerError>
  readonly resize: (bytes: number) => Effect.Effect<void>
}

/** @internal */
export const make = (bytes: number): Dispatcher => {
  const count = Admission.makeSemaphore(most)
  const throttled = Admission.makeSemaphore(mostWhenThrottled)
  const budget = Admission.makeByteBudget(bytes)
  let closedUntil = Number.NEGATIVE_INFINITY
  let longest = 0

  /** How much longer a rate limit is in force, negative for how long it has been over. */
  const closedFor = (now: number): number => {
    // If the clock is set back, callers still wait no longer than the limit asked for.
    if (closedUntil - now > longest) closedUntil = now + longest
    return closedUntil - now
  }

  const isThrottled = (now: number): boolean => closedFor(now) > -throttledFor

  const enter: Dispatcher["enter"] = (bytes, now) => {
    // In the usual case nobody waits, and both gates are passed in one step.
    if (isThrottled(now) || !count.tryEnter(1)) return undefined
    if (!budget.tryEnter(bytes)) {
      count.leave(1)
      return undefined
    }
    return new Place(() => {
      budget.leave(bytes)
      count.leave(1)
    })
  }

  const inLine = <A>(
    { bytes, clock }: Submission<A>,
    send: Effect.Effect<A, TinkerError.TinkerError>
  ): Effect.Effect<A, TinkerError.TinkerError> =>
    count.withPermit(
      Effect.suspend(() =>
        isThrottled(clock.unsafeCurrentTimeMillis())
          ? throttled.withPermit(budget.withBytes(bytes * throttledWeight)(send))
          : budget.withBytes(bytes)(send)
      )
    )

  /** Waits until no rate limit is in force. */
  const opened = (submission: Submission<unknown>): Effect.Effect<void, TinkerError.TinkerError> =>
    Effect.suspend(() => {
      const now = submission.clock.unsafeCurrentTimeMillis()
      const reason = submission.giveUp(now)
      if (reason !== undefined) return Effect.fail(reason)
      const wait = closedFor(now)
      // Another request may meet the limit meanwhile: look again.
      return wait > 0 ? Effect.zipRight(Effect.sleep(wait), opened(submission)) : Effect.void
    })

  /**
   * Stops everyone after a rate limit, for the delay its policy decided on; longer for a large prompt, unless the server
   * said how long. Returns the milliseconds.
   */
  const close = (now: number, bytes: number, delay: number, error: TinkerError.TinkerError): number => {
    const pause = bytes <= small || error.retryAfter !== undefined ? delay : Math.max(delay, largePause)
    longest = Math.max(closedFor(now), pause)
    closedUntil = now + longest
    return pause
  }

  const afterFailure = (
    { bytes, clock, id, onEvent }: Submission<unknown>,
    started: number,
    { class: decider, delay, error, failures }: Retry.Decision
  ): Effect.Effect<void> => {
    if (delay === undefined || (decider !== "rateLimit" && decider !== "billing")) return Effect.void
    const now = clock.unsafeCurrentTimeMillis()
    const pause = Duration.millis(close(now, bytes, delay, error))
    const event = { requestId: id.join(":"), requestType: "Sample", error, elapsed: Duration.millis(now - started) }
    return onEvent(
      decider === "billing"
        ? { ...event, _tag: "BillingPaused" }
        : { ...event, _tag: "Retrying", attempt: failures, delay: pause }
    )
  }

  const attempts = <A>(
    submission: Submission<A>,
    { decode, name, retry, send }: ApiClient.Prepared<A>,
    started: number
  ): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.flatMap(
      Effect.catchAll(send(0), (error) =>
        submission.again({
          name,
          class: retry,
          error,
          run: (attempt) => Effect.zipRight(opened(submission), send(attempt)),
          onDecision: (decision) => afterFailure(submission, started, decision)
        })),
      decode
    )

  const whenOpen = <A>(submission: Submission<A>, started: number): Effect.Effect<A, TinkerError.TinkerError> => {
    const { call, clock, giveUp } = submission
    const admitted = (now: number) => {
      Observer.waited("dispatch", now - started)
      return Effect.flatMap(call(), (prepared) => attempts(submission, prepared, started))
    }
    const now = clock.unsafeCurrentTimeMillis()
    if (closedFor(now) > 0) {
      return Effect.zipRight(opened(submission), Effect.suspend(() => admitted(clock.unsafeCurrentTimeMillis())))
    }
    const reason = giveUp(now)
    return reason === undefined ? admitted(now) : Effect.fail(reason)
  }

  return {
    enter,
    submit: (submission, place) => {
      const started = submission.clock.unsafeCurrentTimeMillis()
      if (!submission.spans && place !== undefined) return whenOpen(submission, started)
      const send = Effect.suspend(() => whenOpen(submission, started))
      if (!submission.spans) return inLine(submission, send)
      return Tracing.queued("dispatch", (send) => place === undefined ? inLine(submission, send) : send, send)
    },
    resize: budget.resize
  }
}

const defaultBytes = 10 * 1024 * 1024

const key: Tenants.SharedKey<Dispatcher> = { make: () => make(defaultBytes) }

/** @internal */
export const ofTenant = (tenant: Tenants.Tenant): Dispatcher => tenant.shared(key)
