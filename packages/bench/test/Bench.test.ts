import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { interleaved, median, render } from "../src/Bench.js"
import type { Variant } from "../src/Bench.js"

describe("Bench", () => {
  it("takes the middle, not the mean", () => {
    assert.strictEqual(median([1000, 1, 2]), 2)
    assert.strictEqual(median([4, 1, 3, 2]), 2.5)
  })

  it.effect("runs variants in turns and compares them round by round", () =>
    Effect.gen(function*() {
      const order: Array<string> = []
      const variant = (name: string, ...times: ReadonlyArray<number>): Variant => {
        let round = 0
        return {
          name,
          once: Effect.sync(() => {
            order.push(name)
            return times[round++] ?? NaN
          })
        }
      }
      // the second round was slow for both
      const results = yield* interleaved([variant("a", 9, 1, 10, 1), variant("b", 9, 2, 20, 2)], {
        rounds: 3,
        warmup: 1
      })
      assert.deepStrictEqual(order, ["b", "a", "a", "b", "b", "a", "a", "b"])
      assert.deepStrictEqual(results.get("a"), { ms: 1, relative: 1 })
      assert.deepStrictEqual(results.get("b"), { ms: 2, relative: 2 })
    }))

  it("aligns columns", () => {
    assert.strictEqual(render([["", "ms"], ["ours", "1.25"], ["x", "10"]]), "        ms\nours  1.25\nx       10")
  })
})
