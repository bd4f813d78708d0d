import { assert, describe, it } from "@effect/vitest"
import { FastCheck as fc } from "effect"
import { makeTurns } from "../../src/internal/server/models.js"

describe("turns", () => {
  it.prop(
    "whatever the order of arrival, requests run 1, 2, 3 …, each once",
    {
      order: fc.integer({ min: 1, max: 20 }).chain((n) =>
        fc.shuffledSubarray(Array.from({ length: n }, (_, i) => i + 1), { minLength: n })
      )
    },
    ({ order }) => {
      const turns = makeTurns<number>()
      const ran = order.flatMap((seq) => turns.accept(seq, seq))
      assert.deepStrictEqual(ran, Array.from(order).sort((a, b) => a - b))
    }
  )

  it("a missing number holds the later ones, and is named", () => {
    const turns = makeTurns<string>()
    assert.deepStrictEqual(turns.accept(2, "b"), [])
    assert.deepStrictEqual(turns.accept(3, "c"), [])
    assert.strictEqual(turns.gap(), 1)
    assert.deepStrictEqual(turns.accept(1, "a"), ["a", "b", "c"])
    assert.isUndefined(turns.gap())
    assert.strictEqual(turns.find(2), "b")
  })

  it("a refused number holds nobody up, and can be used again until its turn is over", () => {
    const turns = makeTurns<string>()
    turns.accept(1, "a")
    assert.deepStrictEqual(turns.refuse(2), [])
    assert.isFalse(turns.missed(2))
    assert.deepStrictEqual(turns.accept(2, "b"), ["b"])
    assert.deepStrictEqual(turns.refuse(3), [])
    assert.deepStrictEqual(turns.accept(4, "d"), ["d"])
    assert.isTrue(turns.missed(3))
    assert.deepStrictEqual(turns.accept(6, "f"), [])
    assert.deepStrictEqual(turns.refuse(5), ["f"])
  })

  it("requests without a number come after all others", () => {
    const turns = makeTurns<string>()
    assert.strictEqual(turns.free(), 1)
    turns.accept(1, "a")
    turns.refuse(2)
    assert.strictEqual(turns.free(), 3)
  })

  it("remembers the last ten thousand, and of those before that their turn is over", () => {
    const turns = makeTurns<number>()
    for (let seq = 1; seq <= 10_001; seq++) turns.accept(seq, seq)
    assert.isUndefined(turns.find(1))
    assert.isTrue(turns.missed(1))
    assert.strictEqual(turns.find(2), 2)
  })
})
