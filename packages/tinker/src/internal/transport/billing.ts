/**
 * The pause for unpaid bills: a 402 holds operations back instead of ending a training run, within a bound.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"

/** Quiet for this long, the next 402 begins a new incident. */
const resetAfter = 300_000

const logEvery = 60_000

/** @internal */
export interface Verdict {
  readonly pause: boolean
  /** Whether it is time to tell the user (again). */
  readonly announce: boolean
  readonly since: number
  readonly until: number
}

/** @internal */
export interface Billing {
  /** Takes note of a 402 at the given time. */
  readonly blocked: (now: number) => Verdict
  readonly limit: (bound: Duration.Duration) => void
}

/** @internal */
export const make = (bound: Duration.Duration): Billing => {
  let limit = Duration.toMillis(bound)
  let first: number | undefined
  let last: number | undefined
  let logged: number | undefined
  return {
    limit: (next) => {
      limit = Duration.toMillis(next)
    },
    blocked: (now) => {
      if (first === undefined || last === undefined || now - last > resetAfter) {
        first = now
        logged = undefined
      }
      last = now
      const announce = logged === undefined || now - logged > logEvery
      if (announce) logged = now
      return { pause: now - first <= limit, announce, since: first, until: first + limit }
    }
  }
}
