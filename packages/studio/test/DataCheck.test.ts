import { Dataset } from "@effect-tinker/cookbook"
import { DataCheck } from "@effect-tinker/studio"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import { Datum } from "effect-tinker"

/** A row of so many tokens, of which the last ones are trained on. */
const datum = (length: number, trained: number) =>
  Either.getOrThrow(Datum.fromTokens(Array.from({ length }, (_, i) => i), {
    weights: Array.from({ length }, (_, i) => i >= length - trained ? 1 : 0)
  }))

describe("DataCheck", () => {
  it.effect("counts rows, tokens and lengths, and keeps the first rows with their weights", () =>
    Effect.gen(function*() {
      const data = Dataset.fromIterable([[datum(4, 1)], [datum(9, 3)], [datum(5, 2), datum(6, 2)]])
      const found = yield* DataCheck.measure(data, { show: 1 })
      assert.deepStrictEqual(
        [found.rows, found.kept, found.tokens, found.trainedTokens, found.complete],
        [3, 3, 24, 8, true]
      )
      assert.deepStrictEqual(found.lengths, { min: 4, p50: 6, p90: 9, p99: 9, max: 9 })
      assert.deepStrictEqual(found.histogram, [{ from: 4, to: 7, count: 3 }, { from: 8, to: 15, count: 1 }])
      assert.deepStrictEqual(found.shown, [{ row: 1, parts: [{ tokens: [0, 1, 2, 3], weights: [0, 0, 0, 1] }] }])
    }))

  it.effect("rows that would be dropped are listed with their reason", () =>
    Effect.gen(function*() {
      const data = Dataset.mapEffect(Dataset.fromIterable([4, 200, 5]), (length) =>
        length > 100
          ? new Dataset.Skip({ reason: "too_long", detail: `${length} tokens` })
          : Effect.succeed([datum(length, 1)]))
      const found = yield* DataCheck.measure(data, { show: 0 })
      assert.deepStrictEqual([found.rows, found.kept, found.skipped], [3, 2, { too_long: 1 }])
      assert.deepStrictEqual(found.skippedRows, [{ row: 2, reason: "too_long", detail: "200 tokens" }])
    }))

  it.effect("reads no more rows than it may, and says so", () =>
    Effect.gen(function*() {
      const data = Dataset.fromIterable(Array.from({ length: 10 }, () => [datum(4, 1)]))
      const cut = yield* DataCheck.measure(data, { show: 0, maxRows: 4 })
      assert.deepStrictEqual([cut.rows, cut.tokens, cut.complete], [4, 16, false])
      const all = yield* DataCheck.measure(data, { show: 0, maxRows: 10 })
      assert.deepStrictEqual([all.rows, all.complete], [10, true])
    }))

  it("preferences are read once more for the reference", () => {
    const tokens = 2_000_000
    const price = { train: 3, prefill: 1 }
    assert.strictEqual(DataCheck.costOf({ tokens, epochs: 2, preferences: false, price }), 12)
    assert.strictEqual(DataCheck.costOf({ tokens, epochs: 2, preferences: true, price }), 14)
    assert.strictEqual(DataCheck.costOf({ tokens, epochs: 2, preferences: false, price: {} }), undefined)
  })
})
