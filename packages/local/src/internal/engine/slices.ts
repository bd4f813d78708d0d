/**
 * Slices of a thread's time. Work is a generator; fibers with work take turns, first come first served, and the event
 * loop turns between two slices. A slice is counted from the loop's last turn, because everything that ran since then
 * kept timers and sockets waiting, other fibers as well as this work.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import type { Work } from "./space.js"

/** @internal */
export interface Slices {
  /** Yields to the event loop if the slice is over: before work that cannot be cut into steps. */
  readonly yieldIfDue: Effect.Effect<void>
  /** Runs work in slices. Interruption stops it between two steps. */
  readonly run: <A>(work: () => Work<A>) => Effect.Effect<A>
}

// Under a test clock no time passes; then the number of steps bounds a slice.
const maxSteps = 256

/** @internal */
export const makeSlices = (options: {
  readonly sliceMillis: number
  readonly pause: Effect.Effect<void>
}): Effect.Effect<Slices> =>
  Effect.map(Effect.clock, (clock): Slices => {
    let lastTurn = clock.unsafeCurrentTimeMillis()
    let steps = 0

    const due = (): boolean => clock.unsafeCurrentTimeMillis() - lastTurn >= options.sliceMillis || steps >= maxSteps
    // A fiber that asks while a turn is pending waits for that turn and then continues without checking again. Checking
    // again would starve it: running work resumes first, and its next turn is pending before the others are resumed.
    let turning: Deferred.Deferred<void> | undefined
    const pause = Effect.uninterruptibleMask((restore) => {
      const turn = turning = Deferred.unsafeMake<void>(FiberId.none)
      return Effect.ensuring(
        restore(options.pause),
        Effect.sync(() => {
          turning = undefined
          lastTurn = clock.unsafeCurrentTimeMillis()
          steps = 0
          Deferred.unsafeDone(turn, Effect.void)
        })
      )
    })
    const yieldIfDue: Effect.Effect<void> = Effect.suspend(() => {
      if (!due()) return Effect.void
      return turning === undefined ? pause : Deferred.await(turning)
    })

    const turn = Permits.unsafeMake(1).withPermits(1)
    const run: Slices["run"] = <A>(make: () => Work<A>) =>
      Effect.suspend(() => {
        const work = make()
        const slice = turn(Effect.zipRight(
          yieldIfDue,
          Effect.sync((): { readonly value: A } | undefined => {
            do {
              const result = work.next()
              if (result.done === true) return { value: result.value }
              steps++
            } while (!due())
            return undefined
          })
        ))
        const loop: Effect.Effect<A> = Effect.flatMap(
          slice,
          (done) => done === undefined ? loop : Effect.succeed(done.value)
        )
        return loop
      })
    return { yieldIfDue, run }
  })
