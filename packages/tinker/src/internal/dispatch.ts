/**
 * Who may send a sample request now: one for all sampling clients of a tenant.
 *
 * A request is admitted by count and by bytes, and holds its place until the server has accepted it; waiting for the
 * result holds nothing. A rate limit stops everyone for a moment, and for ten seconds more newcomers enter slowly:
 * few at a time, their bytes weighing twenty times as much.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as TinkerError from "../TinkerError.js"
import * as ByteBudget from "./byteBudget.js"
import * as FifoSemaphore from "./fifoSemaphore.js"
import type * as Tenant from "./tenant.js"

const most = 400
const mostWhenThrottled = 10
const throttledFor = 10_000
const throttledWeight = 20

/** Large prompts are what a busy server can take least of. */
const small = 128 * 1024
const smallPause = Duration.seconds(1)
const largePause = Duration.seconds(5)

/** @internal */
export interface Submission<A> {
  /** Estimated size of the request. */
  readonly bytes: number
  /** Sends it; a rate limit is ours to wait out, and is not retried by `send`. */
  readonly send: Effect.Effect<A, TinkerError.TinkerError>
  /** Called whenever the request is held back, with how often that was. */
  readonly onBackoff: (
    error: TinkerError.TinkerError,
    attempt: number,
    delay: Duration.Duration
  ) => Effect.Effect<void>
  /** Told when it may be sent for the first time. */
  readonly onAdmitted?: ((now: number) => void) | undefined
  /** Asked before every attempt: the reason to stop trying, if there is one. */
  readonly giveUp: (now: number) => TinkerError.TinkerError | undefined
}

/** @internal */
export interface Dispatch {
  /** The answer of the first `send` that the server does not hold back. */
  readonly submit: <A>(submission: Submission<A>) => Effect.Effect<A, TinkerError.TinkerError>
  readonly resize: (bytes: number) => Effect.Effect<void>
}

/** A 402 waits as a rate limit does, for as long as the billing pause allows (which the transport has noted on it). */
const isHeldBack = (error: TinkerError.TinkerError): boolean =>
  error._tag === "RateLimited"
    ? error.shouldRetry !== false
    : error._tag === "BillingBlocked" && error.shouldRetry === true

/** @internal */
export const make = (bytes: number): Dispatch => {
  const count = FifoSemaphore.make(most)
  const throttled = FifoSemaphore.make(mostWhenThrottled)
  const budget = ByteBudget.make(bytes)
  let closedUntil = Number.NEGATIVE_INFINITY
  let longest = 0

  /** How much longer the door is closed, negative for how long it has been open. */
  const closedFor = (now: number): number => {
    // A clock may be set back: nobody waits longer than the server asked for.
    if (closedUntil - now > longest) closedUntil = now + longest
    return closedUntil - now
  }

  const isThrottled = (now: number): boolean => closedFor(now) > -throttledFor

  const inLine = <A, E>(cost: number, self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    count.withPermit(
      Effect.clockWith((clock) =>
        isThrottled(clock.unsafeCurrentTimeMillis())
          ? throttled.withPermit(budget.withBytes(cost * throttledWeight)(self))
          : budget.withBytes(cost)(self)
      )
    )

  /** Where nobody has to wait, as is usual, both gates are passed in one step. */
  const admitted = <A, E>(cost: number, self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.clockWith((clock) => {
        if (isThrottled(clock.unsafeCurrentTimeMillis()) || !count.tryEnter(1)) return restore(inLine(cost, self))
        if (!budget.tryEnter(cost)) {
          count.leave(1)
          return restore(inLine(cost, self))
        }
        return FifoSemaphore.finishing(restore(self), () => {
          budget.leave(cost)
          count.leave(1)
        })
      })
    )

  const pauseFor = (error: TinkerError.TinkerError, cost: number): Duration.Duration =>
    error.retryAfter ?? (cost <= small ? smallPause : largePause)

  const attempt = <A>(submission: Submission<A>, held: number): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.clockWith((clock) => {
      const now = clock.unsafeCurrentTimeMillis()
      const reason = submission.giveUp(now)
      if (reason !== undefined) return Effect.fail(reason)
      const wait = closedFor(now)
      if (wait > 0) {
        // Somebody else may have met the limit again meanwhile: look once more.
        return Effect.zipRight(Effect.sleep(wait), attempt(submission, held))
      }
      if (held === 0) submission.onAdmitted?.(now)
      return Effect.catchAll(
        submission.send,
        (error) => isHeldBack(error) ? holdBack(submission, held, error) : Effect.fail(error)
      )
    })

  const holdBack = <A>(
    submission: Submission<A>,
    held: number,
    error: TinkerError.TinkerError
  ): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const pause = pauseFor(error, submission.bytes)
      longest = Math.max(closedFor(now), Duration.toMillis(pause))
      closedUntil = now + longest
      return Effect.zipRight(submission.onBackoff(error, held + 1, pause), attempt(submission, held + 1))
    })

  return {
    submit: (submission) => admitted(submission.bytes, attempt(submission, 0)),
    resize: budget.resize
  }
}

const defaultBytes = 10 * 1024 * 1024

const key: Tenant.SharedKey<Dispatch> = { make: () => make(defaultBytes) }

/** @internal */
export const ofTenant = (tenant: Tenant.Tenant): Dispatch => tenant.shared(key)
