import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Option, TestClock } from "effect"
import * as fc from "effect/FastCheck"
import * as Admission from "../../src/internal/transport/admission.js"

const settle = Effect.yieldNow().pipe(Effect.repeatN(20))

describe("fifoSemaphore", () => {
  it.effect("serves waiters in arrival order, a late caller never overtakes", () =>
    Effect.gen(function*() {
      const semaphore = Admission.makeSemaphore(1)
      const order: Array<string> = []
      const step = (name: string) =>
        semaphore.withPermit(Effect.zipRight(Effect.sync(() => order.push(name)), Effect.sleep("1 seconds")))
      // a2 asks the very moment a1 releases, when b1 has long been waiting
      const a = yield* Effect.fork(Effect.zipRight(step("a1"), step("a2")))
      yield* settle
      const b = yield* Effect.fork(step("b1"))
      yield* settle
      yield* TestClock.adjust("3 seconds")
      yield* Fiber.join(Fiber.zip(a, b))
      assert.deepStrictEqual(order, ["a1", "b1", "a2"])
    }))

  it.effect("an interrupted waiter leaves the line at once and costs nobody a turn", () =>
    Effect.gen(function*() {
      const semaphore = Admission.makeSemaphore(1)
      const gate = yield* Deferred.make<void>()
      const holder = yield* Effect.fork(semaphore.withPermit(Deferred.await(gate)))
      yield* settle
      let ran = false
      const leaver = yield* Effect.fork(semaphore.withPermit(Effect.sync(() => {
        ran = true
      })))
      const next = yield* Effect.fork(semaphore.withPermit(Effect.succeed("served")))
      yield* settle
      assert.strictEqual(yield* semaphore.waiting, 2)
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(leaver)))
      assert.strictEqual(yield* semaphore.waiting, 1)
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(next), "served")
      yield* Fiber.join(holder)
      assert.isFalse(ran)
      assert.strictEqual(yield* semaphore.balance, 1)
    }))

  it.effect("a permit granted to a waiter that was interrupted meanwhile travels on", () =>
    Effect.gen(function*() {
      const semaphore = Admission.makeSemaphore(1)
      const gate = yield* Deferred.make<void>()
      yield* Effect.fork(semaphore.withPermit(Deferred.await(gate)))
      yield* settle
      const doomed = yield* Effect.fork(semaphore.withPermit(Effect.never))
      const next = yield* Effect.fork(semaphore.withPermit(Effect.succeed(1)))
      yield* settle
      // Grant and interruption reach the fiber in the same tick: the grant is queued first.
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.forkDaemon(Fiber.interrupt(doomed))
      assert.strictEqual(yield* Fiber.join(next), 1)
      assert.strictEqual(yield* semaphore.balance, 1)
    }))

  it.effect("a failing or interrupted holder gives its permit back", () =>
    Effect.gen(function*() {
      const semaphore = Admission.makeSemaphore(2)
      yield* Effect.exit(semaphore.admit(2)(Effect.fail("no")))
      const fiber = yield* Effect.fork(semaphore.admit(2)(Effect.never))
      yield* settle
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* semaphore.balance, 2)
    }))

  it.effect("asking for more than the total waits for the whole total", () =>
    Effect.gen(function*() {
      const semaphore = Admission.makeSemaphore(2)
      const gate = yield* Deferred.make<void>()
      yield* Effect.fork(semaphore.withPermit(Deferred.await(gate)))
      yield* settle
      const big = yield* Effect.fork(semaphore.admit(5)(Effect.succeed("done")))
      yield* settle
      assert.isTrue(Option.isNone(yield* Fiber.poll(big)))
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(big), "done")
      assert.strictEqual(yield* semaphore.balance, 2)
    }))

  it.effect("growing admits waiters, shrinking does not evict holders", () =>
    Effect.gen(function*() {
      const semaphore = Admission.makeSemaphore(1)
      const gate = yield* Deferred.make<void>()
      const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.fork(semaphore.withPermit(Deferred.await(gate))))
      yield* settle
      yield* semaphore.resize(3)
      assert.strictEqual(yield* semaphore.waiting, 0)
      yield* semaphore.resize(1)
      const late = yield* Effect.fork(semaphore.withPermit(Effect.void))
      yield* settle
      assert.strictEqual(yield* semaphore.waiting, 1)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(late)
      yield* Fiber.joinAll(fibers)
      assert.strictEqual(yield* semaphore.balance, 1)
    }))

  it.live("20 000 waiters pass in order in linear time", () =>
    Effect.gen(function*() {
      const semaphore = Admission.makeSemaphore(1)
      const order: Array<number> = []
      yield* Effect.forEach(
        Array.from({ length: 20_000 }, (_, i) => i),
        (i) => semaphore.withPermit(Effect.zipRight(Effect.yieldNow(), Effect.sync(() => order.push(i)))),
        { concurrency: "unbounded", discard: true }
      )
      assert.strictEqual(order.length, 20_000)
      assert.isTrue(order.every((value, i) => value === i))
      assert.strictEqual(yield* semaphore.waiting, 0)
    }), 15_000)

  it.effect.prop(
    "whatever is interrupted when, survivors run in order and no permit is lost",
    {
      plan: fc.array(fc.record({ hold: fc.nat({ max: 3 }), leave: fc.option(fc.nat({ max: 12 })) }), { maxLength: 25 })
    },
    ({ plan }) =>
      Effect.gen(function*() {
        const semaphore = Admission.makeSemaphore(1)
        const entered: Array<number> = []
        const fibers = yield* Effect.forEach(plan, ({ hold }, i) =>
          Effect.fork(semaphore.withPermit(
            Effect.zipRight(Effect.sync(() => entered.push(i)), Effect.yieldNow().pipe(Effect.repeatN(hold)))
          )))
        const leavers = yield* Effect.forEach(plan, ({ leave }, i) => {
          const fiber = fibers[i]
          return leave === null || fiber === undefined
            ? Effect.void
            : Effect.asVoid(
              Effect.fork(Effect.yieldNow().pipe(Effect.repeatN(leave), Effect.zipRight(Fiber.interrupt(fiber))))
            )
        })
        yield* Effect.forEach(fibers, Fiber.await)
        assert.strictEqual(leavers.length, plan.length)
        assert.deepStrictEqual(entered, [...entered].sort((a, b) => a - b))
        assert.strictEqual(yield* semaphore.balance, 1)
        assert.strictEqual(yield* semaphore.waiting, 0)
        plan.forEach(({ leave }, i) => {
          if (leave === null) assert.include(entered, i)
        })
      }),
    { fastCheck: { numRuns: 200 } }
  )
})
