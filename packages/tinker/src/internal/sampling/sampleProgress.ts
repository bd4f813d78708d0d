/**
 * Whether anything moves in a sampler: samples that wait while none has ended for too long are stuck.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as TinkerError from "../../TinkerError.js"

/** @internal */
export interface SampleProgress {
  /** A sample begins. */
  readonly begin: (now: number) => void
  /** It has ended, with an answer or without. */
  readonly end: (answered: boolean, now: number) => void
  /** The reason to stop waiting, if there is one. */
  readonly giveUp: (now: number) => TinkerError.TinkerError | undefined
  /** Samples under way. */
  readonly inFlight: () => number
}

/**
 * @param within no answer for this long, while samples wait, means stuck
 * @internal
 */
export const make = (label: string, within: Duration.Duration): SampleProgress => {
  const limit = Duration.toMillis(within)
  let inFlight = 0
  let moved = 0
  return {
    begin: (now) => {
      // The time nobody asked does not count.
      if (inFlight++ === 0) moved = now
    },
    end: (answered, now) => {
      inFlight--
      if (answered) moved = now
    },
    giveUp: (now) =>
      now - moved <= limit ? undefined : new TinkerError.Stuck({
        module: "SamplingClient",
        method: "sample",
        description: `none of the ${inFlight} samples under way from ${label} has been answered for ${
          Duration.format(Duration.millis(now - moved))
        }`
      }),
    inFlight: () => inFlight
  }
}
