import { Series } from "@effect-tinker/studio"
import { assert, describe, it } from "@effect/vitest"
import * as fc from "effect/FastCheck"

const table = (rows: ReadonlyArray<readonly [number, Readonly<Record<string, number>>]>) => {
  const made = Series.make()
  for (const [step, metrics] of rows) made.record(step, undefined, Object.entries(metrics))
  return made
}

const valuesOf = (made: Series.Table, name: string) => {
  const found: Array<readonly [number, number]> = []
  made.each(name, (step, value) => found.push([step, value]))
  return found
}

describe("Series", () => {
  it("metrics of one step meet in one row, in whatever order they arrive", () => {
    const made = table([[2, { loss: 2 }], [1, { loss: 1 }], [2, { "test/nll": 5 }], [3, { loss: 3 }]])
    assert.strictEqual(made.size(), 3)
    assert.deepStrictEqual(valuesOf(made, "loss"), [[1, 1], [2, 2], [3, 3]])
    assert.deepStrictEqual(valuesOf(made, "test/nll"), [[2, 5]])
  })

  it("a metric recorded again means the run was resumed there: later steps are dropped, the last value counts", () => {
    const made = table([[1, { loss: 9 }], [2, { loss: 8 }], [3, { loss: 7 }], [2, { loss: 4 }]])
    assert.deepStrictEqual(valuesOf(made, "loss"), [[1, 9], [2, 4]])
    made.record(3, undefined, [["loss", 3]])
    assert.deepStrictEqual(valuesOf(made, "loss"), [[1, 9], [2, 4], [3, 3]])
  })

  it("a late metric of an earlier step drops nothing", () => {
    const made = table([[1, { loss: 9 }], [2, { loss: 8 }], [1, { "eval/score": 1 }]])
    assert.deepStrictEqual(valuesOf(made, "loss"), [[1, 9], [2, 8]])
  })

  it("NaN is a value: counted, and drawn as a gap", () => {
    const made = table([[1, { loss: 1 }], [2, { loss: NaN }], [3, { loss: Infinity }], [4, { loss: 2 }]])
    assert.deepStrictEqual(made.points("loss")?.y, [1, null, null, 2])
    const { max, min, nonFinite } = made.summary("loss") ?? {}
    assert.deepStrictEqual({ max, min, nonFinite }, { max: 2, min: 1, nonFinite: 2 })
    made.truncate(2)
    assert.strictEqual(made.summary("loss")?.nonFinite, 1)
  })

  it("curves run over steps, over tokens so far, and over seconds since the start", () => {
    const made = Series.make()
    made.record(10, 5_000, [["loss", 3], ["tokens", 100]])
    made.record(20, 7_500, [["loss", 2], ["tokens", 50]])
    assert.deepStrictEqual(made.points("loss", { axis: "step" })?.x, [10, 20])
    assert.deepStrictEqual(made.points("loss", { axis: "tokens" })?.x, [100, 150])
    assert.deepStrictEqual(made.points("loss", { axis: "time" })?.x, [0, 2.5])
    const python = table([[0, { loss: 1, "time/total": 2 }], [1, { loss: 1, "time/total": 3 }]])
    assert.deepStrictEqual(python.points("loss", { axis: "time" })?.x, [2, 5])
  })

  it("a window has one point beyond each end, so that lines reach the edge", () => {
    const made = table(Array.from({ length: 100 }, (_, i) => [i, { loss: i }] as const))
    assert.deepStrictEqual(made.points("loss", { from: 10, to: 12 })?.steps, [9, 10, 11, 12, 13])
  })

  it("smoothing weighs early values as much as they deserve", () => {
    const made = table([[1, { loss: 4 }], [2, { loss: 4 }], [3, { loss: 0 }]])
    const smooth = made.points("loss", { smoothing: 0.5 })?.smooth ?? []
    assert.deepStrictEqual(smooth.slice(0, 2), [4, 4])
    assert.approximately(smooth[2] ?? NaN, (4 * 0.125 + 4 * 0.25) / 0.875, 1e-12)
  })

  it("decimation keeps both ends and every extreme, in order, and within the limit", () => {
    fc.assert(fc.property(
      fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 2, maxLength: 2_000 }),
      fc.integer({ min: 4, max: 200 }),
      (values, limit) => {
        const kept = Series.decimate(values, 0, values.length, limit)
        const picked = kept.map((i) => values[i] ?? NaN)
        return kept.length <= Math.max(limit, 4) &&
          kept[0] === 0 && kept[kept.length - 1] === values.length - 1 &&
          kept.every((index, i) => i === 0 || index > (kept[i - 1] ?? -1)) &&
          Math.max(...picked) === Math.max(...values) && Math.min(...picked) === Math.min(...values)
      }
    ))
  })

  it("rows in any order make the table that rows in order make", () => {
    const rows = fc.uniqueArray(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 40 })
    fc.assert(fc.property(rows, (steps) => {
      const sorted = [...steps].sort((a, b) => a - b)
      const make = (order: ReadonlyArray<number>) => table(order.map((step) => [step, { loss: step * 2 }]))
      assert.deepStrictEqual(valuesOf(make(steps), "loss"), valuesOf(make(sorted), "loss"))
    }))
  })
})
