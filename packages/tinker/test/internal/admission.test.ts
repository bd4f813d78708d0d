import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Option, Scope, TestClock } from "effect"
import * as fc from "effect/FastCheck"
import * as Admission from "../../src/internal/transport/admission.js"

describe("byteBudget", () => {
  it.effect("G13: admits one request larger than the whole budget and makes the next wait", () =>
    Effect.gen(function*() {
      const budget = Admission.makeByteBudget(100)
      const gate = yield* Deferred.make<void>()
      const big = yield* Effect.fork(budget.withBytes(1_000)(Deferred.await(gate)))
      yield* settle
      assert.strictEqual(yield* budget.balance, -900)
      const small = yield* Effect.fork(budget.withBytes(1)(Effect.succeed("in")))
      yield* settle
      assert.isTrue(Option.isNone(yield* Fiber.poll(small)))
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(small), "in")
      yield* Fiber.join(big)
      assert.strictEqual(yield* budget.balance, 100)
    }))

  it.effect("waits only while the balance is negative", () =>
    Effect.gen(function*() {
      const budget = Admission.makeByteBudget(100)
      const gate = yield* Deferred.make<void>()
      // 60 + 60 overdraws to -20; a third waits
      const fibers = yield* Effect.forEach([60, 60, 60], (n) => Effect.fork(budget.withBytes(n)(Deferred.await(gate))))
      yield* settle
      assert.strictEqual(yield* budget.balance, -20)
      assert.strictEqual(yield* budget.waiting, 1)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.joinAll(fibers)
      assert.strictEqual(yield* budget.balance, 100)
    }))

  it.effect.prop(
    "G13: any mix of sizes and interruptions drains: no deadlock, nothing leaks",
    {
      plan: fc.array(fc.record({ bytes: fc.nat({ max: 500 }), leave: fc.option(fc.nat({ max: 8 })) }), {
        maxLength: 25
      })
    },
    ({ plan }) =>
      Effect.gen(function*() {
        const budget = Admission.makeByteBudget(100)
        const fibers = yield* Effect.forEach(
          plan,
          ({ bytes }) => Effect.fork(budget.withBytes(bytes)(Effect.yieldNow()))
        )
        yield* Effect.forEach(fibers, (fiber, i) => {
          const leave = plan[i]?.leave ?? null
          return leave === null
            ? Effect.void
            : Effect.fork(Effect.yieldNow().pipe(Effect.repeatN(leave), Effect.zipRight(Fiber.interrupt(fiber))))
        }, { discard: true })
        yield* Effect.forEach(fibers, Fiber.await)
        assert.strictEqual(yield* budget.balance, 100)
        assert.strictEqual(yield* budget.waiting, 0)
      }),
    { fastCheck: { numRuns: 200 } }
  )
})

const settleTurns = Effect.yieldNow().pipe(Effect.repeatN(30))
const closed = Effect.fail("closed" as const)

describe("turnstile", () => {
  it.scoped("G1: sends happen one at a time in the order in which the effects start", () =>
    Effect.gen(function*() {
      const line = yield* Admission.makeTurnstile(closed)
      const sent: Array<number> = []
      let busy = 0
      yield* Effect.forEach(
        Array.from({ length: 100 }, (_, i) => i),
        (i) =>
          line.take(Effect.gen(function*() {
            assert.strictEqual(++busy, 1)
            yield* Effect.yieldNow().pipe(Effect.repeatN(i % 4))
            sent.push(i)
            busy--
          })),
        { concurrency: "unbounded", discard: true }
      )
      assert.deepStrictEqual(sent, Array.from({ length: 100 }, (_, i) => i))
    }))

  it.scoped("G2: left while queued, the send never starts and the line moves on", () =>
    Effect.gen(function*() {
      const line = yield* Admission.makeTurnstile(closed)
      const gate = yield* Deferred.make<void>()
      const sent: Array<string> = []
      const first = yield* Effect.fork(line.take(Deferred.await(gate)))
      yield* settleTurns
      const second = yield* Effect.fork(line.take(Effect.sync(() => sent.push("second"))))
      const third = yield* Effect.fork(line.take(Effect.sync(() => sent.push("third"))))
      yield* settleTurns
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(second)))
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(third)
      yield* Fiber.join(first)
      assert.deepStrictEqual(sent, ["third"])
    }))

  it.scoped("G3: left while sending, the caller returns at once and the send settles before the next", () =>
    Effect.gen(function*() {
      const line = yield* Admission.makeTurnstile(closed)
      const gate = yield* Deferred.make<void>()
      const events: Array<string> = []
      const first = yield* Effect.fork(line.take(
        Effect.zipRight(Deferred.await(gate), Effect.sync(() => events.push("settled")))
      ))
      const second = yield* Effect.fork(line.take(Effect.sync(() => events.push("second"))))
      yield* settleTurns
      yield* Fiber.interrupt(first)
      events.push("caller left")
      yield* settleTurns
      assert.isTrue(Option.isNone(yield* Fiber.poll(second)))
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(second)
      assert.deepStrictEqual(events, ["caller left", "settled", "second"])
    }))

  it.scoped("G4: a failed or dying send frees the next turn", () =>
    Effect.gen(function*() {
      const line = yield* Admission.makeTurnstile(closed)
      assert.strictEqual(yield* Effect.flip(line.take(Effect.fail("boom"))), "boom")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(line.take(Effect.die("defect")))))
      assert.strictEqual(yield* line.take(Effect.succeed(1)), 1)
    }))

  it.effect("G12: closing the scope fails the sender, the queued and the late", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const line = yield* Scope.extend(Admission.makeTurnstile(closed), scope)
      let started = 0
      const callers = yield* Effect.forEach([1, 2, 3], () =>
        Effect.fork(line.take(Effect.zipRight(
          Effect.sync(() => {
            started++
          }),
          Effect.never
        ))))
      yield* settleTurns
      yield* Scope.close(scope, Exit.void)
      for (const caller of callers) assert.strictEqual(yield* Effect.flip(Fiber.join(caller)), "closed")
      assert.strictEqual(yield* Effect.flip(line.take(Effect.succeed(1))), "closed")
      assert.strictEqual(started, 1)
    }))

  it.effect.prop(
    "G1 G2: random interruptions leave no gap in the numbers taken inside the turn",
    { plan: fc.array(fc.option(fc.nat({ max: 30 })), { maxLength: 25 }) },
    ({ plan }) =>
      Effect.scoped(Effect.gen(function*() {
        const line = yield* Admission.makeTurnstile(closed)
        let seq = 0
        const sent: Array<readonly [number, number]> = []
        const fibers = yield* Effect.forEach(plan, (_, i) =>
          Effect.fork(line.take(Effect.suspend(() => {
            const n = ++seq
            return Effect.zipRight(Effect.yieldNow(), Effect.sync(() => sent.push([n, i])))
          }))))
        yield* Effect.forEach(fibers, (fiber, i) => {
          const leave = plan[i] ?? null
          return leave === null
            ? Effect.void
            : Effect.fork(Effect.yieldNow().pipe(Effect.repeatN(leave), Effect.zipRight(Fiber.interrupt(fiber))))
        }, { discard: true })
        yield* Effect.forEach(fibers, Fiber.await)
        yield* line.take(Effect.void)
        assert.deepStrictEqual(sent.map(([n]) => n), sent.map((_, i) => i + 1))
        const callers = sent.map(([, i]) => i)
        assert.deepStrictEqual(callers, [...callers].sort((a, b) => a - b))
        plan.forEach((leave, i) => {
          if (leave === null) assert.include(callers, i)
        })
      })),
    { fastCheck: { numRuns: 200 } }
  )
})

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

  it.effect("one who needs less does not overtake one who needs more, and enters when that one leaves", () =>
    Effect.gen(function*() {
      const semaphore = Admission.makeSemaphore(2)
      const gate = yield* Deferred.make<void>()
      const holder = yield* Effect.fork(semaphore.withPermit(Deferred.await(gate)))
      yield* settle
      const large = yield* Effect.fork(semaphore.admit(2)(Effect.void))
      yield* settle
      assert.isFalse(semaphore.tryEnter(1), "a permit is free, but somebody waits")
      const small = yield* Effect.fork(semaphore.withPermit(Effect.succeed("in")))
      yield* settle
      assert.strictEqual(yield* semaphore.waiting, 2)
      yield* Fiber.interrupt(large)
      assert.strictEqual(yield* Fiber.join(small), "in")
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(holder)
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
    }))

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
