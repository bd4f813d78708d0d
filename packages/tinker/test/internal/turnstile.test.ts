import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Option, Scope } from "effect"
import * as fc from "effect/FastCheck"
import * as Admission from "../../src/internal/transport/admission.js"

const settle = Effect.yieldNow().pipe(Effect.repeatN(30))
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
      yield* settle
      const second = yield* Effect.fork(line.take(Effect.sync(() => sent.push("second"))))
      const third = yield* Effect.fork(line.take(Effect.sync(() => sent.push("third"))))
      yield* settle
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
      yield* settle
      yield* Fiber.interrupt(first)
      events.push("caller left")
      yield* settle
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
      yield* settle
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
