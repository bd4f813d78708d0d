import { assert, describe, it } from "@effect/vitest"
import { Effect, FiberRef } from "effect"
import { timeSlicedScheduler } from "../../src/internal/eventLoop.js"
import * as NodeTinkerLocal from "../../src/NodeTinkerLocal.js"

/** Keeps the thread busy for a while. */
const burn = (millis: number): void => {
  const until = performance.now() + millis
  while (performance.now() < until);
}

/** Calls of a timer that is always due, while the effect runs. */
const turnsDuring = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const state = { turns: 0, handle: setImmediate(() => {}) }
      const count = () => {
        state.turns++
        state.handle = setImmediate(count)
      }
      state.handle = setImmediate(count)
      return state
    }),
    (state) => Effect.map(effect, () => state.turns),
    ({ handle }) => Effect.sync(() => clearImmediate(handle))
  )

const busy = Effect.forEach(
  [1, 2, 3],
  () => Effect.repeatN(Effect.zipRight(Effect.sync(() => burn(0.2)), Effect.yieldNow()), 99),
  { concurrency: "unbounded" }
)

describe("timeSlicedScheduler", () => {
  it.effect("lets the event loop turn while fibers have work", () =>
    Effect.gen(function*() {
      // 60 ms of work at least, in slices of 3
      assert.isAtLeast(yield* Effect.withScheduler(turnsDuring(busy), timeSlicedScheduler), 5)
    }))

  it.effect("lets it turn while a single fiber never waits", () =>
    Effect.gen(function*() {
      const alone = Effect.iterate(0, {
        while: (n) => n < 5_000,
        body: (n) => Effect.as(Effect.sync(() => burn(0.02)), n + 1)
      })
      assert.isAtLeast(yield* Effect.withScheduler(turnsDuring(alone), timeSlicedScheduler), 5)
    }))

  it.effect("runs tasks in the order in which they became ready, across turns of the loop", () =>
    Effect.gen(function*() {
      const log: Array<number> = []
      const names = Array.from({ length: 100 }, (_, index) => index)
      const turns = yield* turnsDuring(Effect.async<void>((resume) => {
        for (const name of names) {
          timeSlicedScheduler.scheduleTask(() => {
            log.push(name)
            burn(0.2)
          }, 0)
        }
        timeSlicedScheduler.scheduleTask(() => resume(Effect.void), 0)
      }))
      assert.deepStrictEqual(log, names)
      assert.isAbove(turns, 1)
    }))

  it.effect("runs urgent tasks first", () =>
    Effect.gen(function*() {
      const order: Array<string> = []
      yield* Effect.async<void>((resume) => {
        timeSlicedScheduler.scheduleTask(() => order.push("later"), 10)
        timeSlicedScheduler.scheduleTask(() => order.push("sooner"), 0)
        timeSlicedScheduler.scheduleTask(() => resume(Effect.void), 20)
      })
      assert.deepStrictEqual(order, ["sooner", "later"])
    }))

  it.scoped("is what programs over the backend in their process run on", () =>
    Effect.gen(function*() {
      const before = yield* FiberRef.get(FiberRef.currentScheduler)
      const inside = yield* FiberRef.get(FiberRef.currentScheduler).pipe(
        Effect.provide(NodeTinkerLocal.layerInProcess())
      )
      assert.strictEqual(inside, timeSlicedScheduler)
      assert.strictEqual(yield* FiberRef.get(FiberRef.currentScheduler), before)
    }))
})
