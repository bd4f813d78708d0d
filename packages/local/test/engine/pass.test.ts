import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"
import { planParts } from "../../src/internal/engine/pass.js"

const Lengths = Schema.Array(Schema.Int.pipe(Schema.between(1, 1024))).pipe(Schema.maxItems(64))

const tokensOf = (lengths: ReadonlyArray<number>) => (part: { readonly from: number; readonly to: number }): number =>
  lengths.slice(part.from, part.to).reduce((sum, length) => sum + length, 0)

describe("planParts", () => {
  it.prop("parts follow each other, cover everything and keep to the limit", [Arbitrary.make(Lengths)], ([lengths]) => {
    const parts = planParts(lengths, 512)
    const ends = parts.map(({ to }) => to)
    assert.deepStrictEqual(parts.map(({ from }) => from), [0, ...ends].slice(0, parts.length))
    assert.strictEqual(ends.at(-1) ?? 0, lengths.length)
    // what is longer than the limit is a part by itself
    for (const part of parts) assert.isTrue(tokensOf(lengths)(part) <= 512 || part.to === part.from + 1)
  })

  it("the last quarter of a batch is cut into parts half as long", () => {
    const lengths = Array.from({ length: 16 }, () => 128)
    assert.deepStrictEqual(
      planParts(lengths, 512).map(tokensOf(lengths)),
      [256, 256, 256, 256, 256, 256, 128, 128, 128, 128]
    )
  })

  it("no part is cut below the tokens that are worth sending", () => {
    const lengths = Array.from({ length: 32 }, () => 16)
    assert.deepStrictEqual(planParts(lengths, 512).map(tokensOf(lengths)), [128, 128, 128, 128])
  })
})
