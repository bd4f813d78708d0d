import { assert, describe, it } from "@effect/vitest"
import { TopkLogprobs } from "effect-tinker/wire"

describe("TopkLogprobs", () => {
  it("pads rows to the longest and reads them back", () => {
    const rows = [null, [[7, -0.25], [8, -1.5]], [[9, -0.5]]] as const
    const matrix = TopkLogprobs.fromLists(rows)
    assert.strictEqual(matrix.k, 2)
    assert.strictEqual(matrix.length, 3)
    assert.deepStrictEqual(Array.from(matrix.tokenIds), [0, 0, 7, 8, 9, 0])
    assert.deepStrictEqual(TopkLogprobs.toLists(matrix), [null, [[7, -0.25], [8, -1.5]], [[9, -0.5]]])
  })

  it("keeps positions none of which has a candidate", () => {
    assert.deepStrictEqual(TopkLogprobs.toLists(TopkLogprobs.fromLists([null, null])), [null, null])
  })

  it("takes token 0 for a token where it has a probability", () => {
    const matrix = { tokenIds: Int32Array.of(0, 3), logprobs: Float32Array.of(-1, -2), k: 2, length: 1 }
    assert.deepStrictEqual(TopkLogprobs.toLists(matrix), [[[0, -1], [3, -2]]])
  })
})
