import { SafetensorsHeader } from "@effect-tinker/weights"
import { assert, describe, it } from "@effect/vitest"

describe("SafetensorsHeader", () => {
  it("is JSON behind its length, with spaces up to a multiple of eight and no more", () => {
    for (const name of ["a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"]) {
      const header = SafetensorsHeader.encode([
        { name, dtype: "F32", shape: [2, 3] },
        { name: "z", dtype: "BF16", shape: [4] }
      ])
      const view = new DataView(header.buffer, header.byteOffset, header.byteLength)
      const length = Number(view.getBigUint64(0, true))
      assert.strictEqual(header.length, 8 + length)
      assert.strictEqual(length % 8, 0)
      const text = new TextDecoder().decode(header.subarray(8))
      assert.isBelow(text.length - text.trimEnd().length, 8)
      assert.deepStrictEqual(JSON.parse(text), {
        [name]: { dtype: "F32", shape: [2, 3], data_offsets: [0, 24] },
        z: { dtype: "BF16", shape: [4], data_offsets: [24, 32] }
      })
    }
  })
})
