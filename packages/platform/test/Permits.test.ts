import { Permits } from "@effect-tinker/platform"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, FiberId, Option, Scheduler } from "effect"

/** Yields before one of a fiber's operations, and interrupts it there. */
class InterruptsAt extends Scheduler.MixedScheduler {
  private operations = 0
  private fiber: Fiber.RuntimeFiber<unknown, unknown> | undefined
  constructor(private readonly at: number) {
    super(2048)
  }
  override shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
    this.fiber ??= fiber
    if (fiber !== this.fiber || ++this.operations !== this.at) return super.shouldYield(fiber)
    fiber.unsafeInterruptAsFork(FiberId.none)
    return 0
  }
}

/** Interrupts the effect at each of its operations; says after which ones `after` never ended. */
const stuckAfter = <A>(
  make: () => { readonly interrupted: Effect.Effect<A>; readonly after: Effect.Effect<unknown> }
) =>
  Effect.gen(function*() {
    const stuck: Array<number> = []
    for (let at = 1;; at++) {
      const { after, interrupted } = make()
      const fiber = yield* Effect.fork(Effect.withScheduler(interrupted, new InterruptsAt(at)))
      const ended = yield* Effect.timeoutOption(after, "50 millis")
      if (Option.isNone(ended)) stuck.push(at)
      if (Exit.isSuccess(yield* Fiber.await(fiber))) return { operations: at, stuck }
    }
  })

describe("Permits", () => {
  it.live("no permit is lost, at whichever operation its holder is interrupted", () =>
    Effect.gen(function*() {
      const { operations, stuck } = yield* stuckAfter(() => {
        const { withPermits } = Permits.unsafeMake(1)
        return {
          interrupted: withPermits(1)(Effect.yieldNow()),
          after: Effect.zipRight(Effect.yieldNow(), withPermits(1)(Effect.void))
        }
      })
      assert.isAbove(operations, 20)
      assert.deepStrictEqual(stuck, [])
    }))

  it.live("nor at whichever operation it is interrupted while it waits", () =>
    Effect.gen(function*() {
      const { operations, stuck } = yield* stuckAfter(() => {
        const { withPermits } = Permits.unsafeMake(1)
        const first = Effect.runFork(withPermits(1)(Effect.replicateEffect(Effect.yieldNow(), 3)))
        return {
          interrupted: withPermits(1)(Effect.yieldNow()),
          after: Effect.zipRight(Fiber.join(first), withPermits(1)(Effect.void))
        }
      })
      assert.isAbove(operations, 20)
      assert.deepStrictEqual(stuck, [])
    }))

  it.effect("those who wait are served in the order in which they asked, and nobody overtakes them", () =>
    Effect.gen(function*() {
      const { withPermits } = yield* Permits.make(3)
      const served: Array<string> = []
      const end = yield* Deferred.make<void>()
      const ask = (name: string, permits: number) =>
        Effect.fork(withPermits(permits)(Effect.zipRight(Effect.sync(() => served.push(name)), Deferred.await(end))))
          .pipe(
            Effect.zipLeft(Effect.yieldNow())
          )
      yield* ask("two", 2)
      const large = yield* ask("three", 3)
      // It would fit, and waits behind the one that does not.
      yield* ask("one", 1)
      assert.deepStrictEqual(served, ["two"])
      yield* Fiber.interrupt(large)
      yield* Effect.yieldNow()
      assert.deepStrictEqual(served, ["two", "one"])
      const last = yield* ask("all", 9)
      assert.deepStrictEqual(served, ["two", "one"])
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(last)
      assert.deepStrictEqual(served, ["two", "one", "all"])
    }))
})
