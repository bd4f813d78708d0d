/**
 * Detects a stuck sampler: samples wait, and none has finished for too long.
 *
 * @since 0.2.0
 */
import * as Duration from "effect/Duration"
import * as TinkerError from "../../TinkerError.js"

/** @internal */
export interface SampleProgress {
  /** A sample begins. */
  readonly begin: (now: number) => void
  /** It has ended, with a response or without. */
  readonly end: (answered: boolean, now: number) => void
  /** The reason to stop waiting, if there is one. */
  readonly giveUp: (now: number) => TinkerError.TinkerError | undefined
  /** Samples in flight. */
  readonly inFlight: () => number
}

/**
 * @param within no response for this long, while samples wait, means stuck
 * @internal
 */
export const make = (label: string, within: Duration.Duration): SampleProgress => {
  const limit = Duration.toMillis(within)
  let inFlight = 0
  let moved = 0
  return {
    begin: (now) => {
      // Idle time does not count.
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
        description: `no response to any of the ${inFlight} samples in flight from ${label} for ${
          Duration.format(Duration.millis(now - moved))
        }`
      }),
    inFlight: () => inFlight
  }
}
