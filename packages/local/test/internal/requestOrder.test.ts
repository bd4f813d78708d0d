import { assert, describe, it } from "@effect/vitest"
import { FastCheck as fc } from "effect"
import { readIds } from "../../src/internal/server/requestIds.js"
import * as RequestOrder from "../../src/internal/server/requestOrder.js"

describe("requestOrder", () => {
  it.prop(
    "whatever the order of arrival, requests run 1, 2, 3 …, each once",
    {
      order: fc.integer({ min: 1, max: 20 }).chain((n) =>
        fc.shuffledSubarray(Array.from({ length: n }, (_, i) => i + 1), { minLength: n })
      )
    },
    ({ order: arrivals }) => {
      const order = RequestOrder.make<number>()
      const ran = arrivals.flatMap((seq) => order.accept(seq, seq))
      assert.deepStrictEqual(ran, Array.from(arrivals).sort((a, b) => a - b))
    }
  )

  it("a missing number holds the later ones, and is named", () => {
    const order = RequestOrder.make<string>()
    assert.deepStrictEqual(order.accept(2, "b"), [])
    assert.deepStrictEqual(order.accept(3, "c"), [])
    assert.strictEqual(order.gap(), 1)
    assert.deepStrictEqual(order.accept(1, "a"), ["a", "b", "c"])
    assert.isUndefined(order.gap())
    assert.strictEqual(order.find(2), "b")
  })

  it("a refused number holds nobody up, and can be used again until its turn is over", () => {
    const order = RequestOrder.make<string>()
    order.accept(1, "a")
    assert.deepStrictEqual(order.refuse(2), [])
    assert.isFalse(order.missed(2))
    assert.deepStrictEqual(order.accept(2, "b"), ["b"])
    assert.deepStrictEqual(order.refuse(3), [])
    assert.deepStrictEqual(order.accept(4, "d"), ["d"])
    assert.isTrue(order.missed(3))
    assert.deepStrictEqual(order.accept(6, "f"), [])
    assert.deepStrictEqual(order.refuse(5), ["f"])
  })

  it("requests without a number come after all others", () => {
    const order = RequestOrder.make<string>()
    assert.strictEqual(order.free(), 1)
    order.accept(1, "a")
    order.refuse(2)
    assert.strictEqual(order.free(), 3)
  })

  it("remembers the last ten thousand, and of those before that their turn is over", () => {
    const order = RequestOrder.make<number>()
    for (let seq = 1; seq <= 10_001; seq++) order.accept(seq, seq)
    assert.isUndefined(order.find(1))
    assert.isTrue(order.missed(1))
    assert.strictEqual(order.find(2), 2)
  })
})

describe("readIds", () => {
  it("reads fields 1 and 2 among others, in any order, and nothing of what is cut off", () => {
    // Field 2 is 300 = 0b10_0101100, field 3 a string of one byte, field 1 the string "m1".
    const body = Uint8Array.of(16, 0xac, 0x02, 26, 1, 0x78, 10, 2, 0x6d, 0x31)
    assert.deepStrictEqual(readIds(body), { modelId: "m1", seqId: 300 })
    assert.deepStrictEqual(readIds(body.subarray(0, 6)), { modelId: undefined, seqId: 300 })
    // Field 5 holds 32 bits, which a request never does: what follows is not guessed at.
    assert.deepStrictEqual(readIds(Uint8Array.of(45, 0, 0, 0, 0, 16, 1)), { modelId: undefined, seqId: undefined })
  })
})
