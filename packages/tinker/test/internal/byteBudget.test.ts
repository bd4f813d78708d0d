import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Option } from "effect"
import * as fc from "effect/FastCheck"
import * as Admission from "../../src/internal/transport/admission.js"

const settle = Effect.yieldNow().pipe(Effect.repeatN(20))

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
