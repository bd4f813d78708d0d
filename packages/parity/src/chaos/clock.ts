/**
 * A clock that is set by someone else in the middle of everything: what it shows jumps, what one waits for does not.
 */
import { Clock, Effect } from "effect"

export interface Jumping {
  readonly clock: Clock.Clock
  /** Moves the hands by so many milliseconds, either way. */
  readonly jump: (millis: number) => void
}

export const make = (): Jumping => {
  const real = Clock.make()
  let offset = 0
  const millis = () => real.unsafeCurrentTimeMillis() + offset
  return {
    clock: {
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: millis,
      currentTimeMillis: Effect.sync(millis),
      // counts from nowhere in particular, so nobody sets it
      unsafeCurrentTimeNanos: () => real.unsafeCurrentTimeNanos(),
      currentTimeNanos: real.currentTimeNanos,
      sleep: (duration) => real.sleep(duration)
    },
    jump: (by) => {
      offset += by
    }
  }
}
