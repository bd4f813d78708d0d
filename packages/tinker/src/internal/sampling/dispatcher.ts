/**
 * Admission of sample requests: one dispatcher for all sampling clients of a tenant. Whether and how long to wait after
 * a rate limit is for the `rateLimit` policy to say; this keeps the moment until which everyone waits.
 *
 * A request is admitted by count and by bytes, and holds its permits until the server has accepted it; waiting for the
 * result holds nothing. A rate limit stops everyone for a moment, and for ten seconds after it requests are admitted
 * slowly: few at a time, their bytes weighing twenty times as much.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as TinkerError from "../../TinkerError.js"
import * as Admission from "../transport/admission.js"
import type * as Tenants from "../transport/tenants.js"

const most = 400
const mostWhenThrottled = 10
const throttledFor = 10_000
const throttledWeight = 20

/** A busy server is most sensitive to large prompts. */
const small = 128 * 1024
const largePause = 5_000

/**
 * How to give back what a submission was admitted with: for its caller to call when the server has accepted it, and when
 * it has ended in any other way. A caller with an uninterruptible region of its own needs no other one for this.
 *
 * @internal
 */
export interface DispatchSlot {
  release: (() => void) | undefined
}

/** @internal */
export interface Submission<A> {
  /** Estimated size of the request. */
  readonly bytes: number
  readonly clock: Clock.Clock
  readonly slot: DispatchSlot
  /** Sends it, with its retries. */
  readonly send: Effect.Effect<A, TinkerError.TinkerError>
  /** Called when it may be sent. */
  readonly onAdmitted?: ((now: number) => void) | undefined
  /** Asked whenever it may be sent: the reason to stop trying, if there is one. */
  readonly giveUp: (now: number) => TinkerError.TinkerError | undefined
}

/** @internal */
export interface Dispatcher {
  /** Runs `send` once there is a permit and no rate limit is in force. */
  readonly submit: <A>(submission: Submission<A>) => Effect.Effect<A, TinkerError.TinkerError>
  /** Waits until no rate limit is in force: what a retry has to wait for besides its own delay. */
  readonly opened: (giveUp: Submission<unknown>["giveUp"]) => Effect.Effect<void, TinkerError.TinkerError>
  /**
   * Stops everyone after a rate limit, for the delay its policy decided on; longer for a large prompt, unless the server
   * said how long. Returns the milliseconds.
   */
  readonly close: (now: number, bytes: number, delay: number, error: TinkerError.TinkerError) => number
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

  const inLine = <A>(submission: Submission<A>): Effect.Effect<A, TinkerError.TinkerError> => {
    const { bytes, clock } = submission
    const self = Effect.suspend(() => whenOpen(submission))
    return count.withPermit(
      Effect.suspend(() =>
        isThrottled(clock.unsafeCurrentTimeMillis())
          ? throttled.withPermit(budget.withBytes(bytes * throttledWeight)(self))
          : budget.withBytes(bytes)(self)
      )
    )
  }

  /** In the usual case nobody waits, and both gates are passed in one step. */
  const enters = ({ bytes, clock, slot }: Submission<unknown>): boolean => {
    if (isThrottled(clock.unsafeCurrentTimeMillis()) || !count.tryEnter(1)) return false
    if (!budget.tryEnter(bytes)) {
      count.leave(1)
      return false
    }
    slot.release = () => {
      slot.release = undefined
      budget.leave(bytes)
      count.leave(1)
    }
    return true
  }

  const opened: Dispatcher["opened"] = (giveUp) =>
    Effect.clockWith((clock) => {
      const now = clock.unsafeCurrentTimeMillis()
      const reason = giveUp(now)
      if (reason !== undefined) return Effect.fail(reason)
      const wait = closedFor(now)
      // Another request may meet the limit meanwhile: look again.
      return wait > 0 ? Effect.zipRight(Effect.sleep(wait), opened(giveUp)) : Effect.void
    })

  const whenOpen = <A>(
    { clock, giveUp, onAdmitted, send }: Submission<A>
  ): Effect.Effect<A, TinkerError.TinkerError> => {
    const now = clock.unsafeCurrentTimeMillis()
    if (closedFor(now) > 0) {
      return Effect.zipRight(
        opened(giveUp),
        Effect.suspend(() => {
          onAdmitted?.(clock.unsafeCurrentTimeMillis())
          return send
        })
      )
    }
    const reason = giveUp(now)
    if (reason !== undefined) return Effect.fail(reason)
    onAdmitted?.(now)
    return send
  }

  return {
    submit: (submission) => Effect.suspend(() => enters(submission) ? whenOpen(submission) : inLine(submission)),
    opened,
    close: (now, bytes, delay, error) => {
      const pause = bytes <= small || error.retryAfter !== undefined ? delay : Math.max(delay, largePause)
      longest = Math.max(closedFor(now), pause)
      closedUntil = now + longest
      return pause
    },
    resize: budget.resize
  }
}

const defaultBytes = 10 * 1024 * 1024

const key: Tenants.SharedKey<Dispatcher> = { make: () => make(defaultBytes) }

/** @internal */
export const ofTenant = (tenant: Tenants.Tenant): Dispatcher => tenant.shared(key)
