import { assert, describe, it } from "@effect/vitest"
import * as float8 from "../src/internal/float8.js"
import * as numbers from "../src/internal/numbers.js"

const bits = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0

describe("16-bit floats", () => {
  it("every half survives the way to float32 and back", () => {
    for (let half = 0; half < 65_536; half++) {
      const [value = 0] = numbers.toFloat32("F16", new Uint8Array(Uint16Array.of(half).buffer)) ?? []
      if (Number.isNaN(value)) continue
      assert.strictEqual(numbers.toHalf(bits(value)), half)
    }
  })

  it("halves round to nearest even, overflow to infinity, and keep the smallest values", () => {
    assert.strictEqual(numbers.toHalf(bits(1 + 2 ** -11)), 0x3c00)
    assert.strictEqual(numbers.toHalf(bits(1 + 3 * 2 ** -11)), 0x3c02)
    assert.strictEqual(numbers.toHalf(bits(65_519)), 0x7bff)
    assert.strictEqual(numbers.toHalf(bits(65_520)), 0x7c00)
    assert.strictEqual(numbers.toHalf(bits(2 ** -24)), 1)
    assert.strictEqual(numbers.toHalf(bits(2 ** -25)), 0)
    assert.strictEqual(numbers.toHalf(bits(NaN)), 0x7e00)
    assert.strictEqual(numbers.toHalf(bits(-0)), 0x8000)
  })

  it("bfloat16s round to nearest even", () => {
    assert.strictEqual(numbers.toBrain(0x3f808000), 0x3f80)
    assert.strictEqual(numbers.toBrain(0x3f818000), 0x3f82)
    assert.strictEqual(numbers.toBrain(0x3f808001), 0x3f81)
    assert.strictEqual(numbers.toBrain(bits(Infinity)), 0x7f80)
    assert.strictEqual(numbers.toBrain(0x7f800001) & 0x7fff, 0x7fc0)
  })

  it("q8_0 keeps the largest value of a block exactly and the others within half a step", () => {
    const values = Float32Array.from({ length: 64 }, (_, i) => Math.sin(i) * (i < 32 ? 1 : 100))
    const packed = new DataView(numbers.toQ8(values).buffer)
    for (let block = 0; block < 2; block++) {
      const [scale = 0] = numbers.toFloat32(
        "F16",
        new Uint8Array(Uint16Array.of(packed.getUint16(block * 34, true)).buffer)
      ) ?? []
      for (let i = 0; i < 32; i++) {
        const value = values[block * 32 + i] ?? 0
        assert.closeTo(packed.getInt8(block * 34 + 2 + i) * scale, value, scale * 0.56)
      }
    }
  })
})

describe("q8_0", () => {
  it("rounds halves away from zero, as llama.cpp does", () => {
    const given = [127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49, -0.49, 126.5]
    const values = new Float32Array(32)
    values.set(given)
    const packed = new DataView(numbers.toQ8(values).buffer)
    // The scale is 1, in half precision.
    assert.strictEqual(packed.getUint16(0, true), 0x3c00)
    assert.deepStrictEqual(given.map((_, i) => packed.getInt8(2 + i)), [127, 1, 2, 3, -1, -2, -3, 0, 0, 127])
  })
})

describe("float8", () => {
  it("every code survives the way to its value and back", () => {
    float8.values.forEach((value, code) => {
      if (!Number.isNaN(value)) assert.strictEqual(float8.encode(value), code)
    })
    assert.strictEqual(Math.max(...float8.values.filter((value) => !Number.isNaN(value))), 448)
  })

  it("rounds to nearest even, also into the next exponent", () => {
    const between = (code: number, share: number) =>
      (float8.values[code] ?? 0) * (1 - share) + (float8.values[code + 1] ?? 0) * share
    for (const code of [0, 1, 7, 8, 15, 64, 119]) {
      assert.strictEqual(float8.encode(between(code, 0.4)), code)
      assert.strictEqual(float8.encode(between(code, 0.6)), code + 1)
      assert.strictEqual(float8.encode(between(code, 0.5)), code % 2 === 0 ? code : code + 1)
    }
  })

  it("blocks have their own scales, and come back within half a step", () => {
    const columns = 200
    const band = Float32Array.from(
      { length: 3 * columns },
      (_, i) => float8.brain(Math.sin(i) * (i % columns < 128 ? 1 : 100))
    )
    const { codes, scales } = float8.quantizeBand(band, columns)
    assert.strictEqual(scales.length, 2)
    const back = float8.dequantize(codes, { scales, firstRow: 0, columns, blockRows: 128, blockColumns: 128 })
    band.forEach((value, i) => {
      const scale = scales[i % columns < 128 ? 0 : 1] ?? 0
      assert.closeTo(back[i] ?? NaN, value, Math.abs(value) * 0.08 + scale * 0.01)
    })
  })
})
