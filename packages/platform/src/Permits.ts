/**
 * A semaphore that never loses a permit, and serves its waiters in the order in which they asked.
 *
 * `Effect.makeSemaphore` (3.22) loses a permit when a fiber is interrupted after it has taken the permit and before it runs
 * its effect, which happens if the scheduler yields at that moment. All later callers then wait forever. It also lets a late
 * caller overtake the waiters. The tests of this module interrupt a fiber at each of its operations.
 *
 * @since 0.2.0
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"

/**
 * Permits of which each caller holds some for as long as its effect runs.
 *
 * @since 0.2.0
 * @category models
 */
export interface Permits {
  /**
   * Runs the effect with so many permits, and gives them back when it ends, however it ends. More than there are in total are
   * all of them.
   */
  readonly withPermits: (permits: number) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

interface Waiter {
  readonly permits: number
  readonly granted: Deferred.Deferred<void>
}

/**
 * A semaphore, outside of an Effect.
 *
 * @since 0.2.0
 * @category constructors
 */
export const unsafeMake = (total: number): Permits => {
  const line: Array<Waiter> = []
  let free = total

  const handOver = () => {
    for (let [first] = line; first !== undefined && first.permits <= free; [first] = line) {
      line.shift()
      free -= first.permits
      Deferred.unsafeDone(first.granted, Effect.void)
    }
  }
  const giveBack = (permits: number) => {
    free += permits
    handOver()
  }
  const leave = (waiter: Waiter) => {
    const place = line.indexOf(waiter)
    // Granted, and not yet used.
    if (place === -1) return giveBack(waiter.permits)
    line.splice(place, 1)
    // What it asked for may have been too much for now, and what others ask for may not be.
    handOver()
  }

  return {
    withPermits: (asked) => (self) =>
      Effect.uninterruptibleMask((restore) => {
        const permits = Math.min(asked, total)
        const run = Effect.ensuring(restore(self), Effect.sync(() => giveBack(permits)))
        if (line.length === 0 && permits <= free) {
          free -= permits
          return run
        }
        const waiter: Waiter = { permits, granted: Deferred.unsafeMake(FiberId.none) }
        line.push(waiter)
        return Effect.zipRight(
          Effect.onInterrupt(restore(Deferred.await(waiter.granted)), () => Effect.sync(() => leave(waiter))),
          run
        )
      })
  }
}

/**
 * A semaphore.
 *
 * @since 0.2.0
 * @category constructors
 */
export const make = (total: number): Effect.Effect<Permits> => Effect.sync(() => unsafeMake(total))
