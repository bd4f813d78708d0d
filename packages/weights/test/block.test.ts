import { assert, describe, it } from "@effect/vitest"
import * as Block from "../src/internal/block.js"
import * as numbers from "../src/internal/numbers.js"
import * as fixtures from "./fixtures.js"

const bitsOf = (values: Float32Array): Uint32Array => new Uint32Array(values.slice().buffer)

/** Adds a delta to a copy of the values by plain loops, term by term in the order of the rank. */
const added = (
  values: Float32Array,
  left: Float32Array,
  right: Float32Array,
  rank: number,
  place: Block.Place
): Float32Array => {
  const out = values.slice()
  const columns = right.length / rank
  for (let row = 0; row < left.length / rank; row++) {
    for (let i = 0; i < columns; i++) {
      let sum = 0
      for (let k = 0; k < rank; k++) {
        sum = Math.fround(sum + Math.fround((left[row * rank + k] ?? 0) * (right[k * columns + i] ?? 0)))
      }
      const at = place.first + row * place.rowStride + i * place.columnStride
      out[at] = (out[at] ?? 0) + sum
    }
  }
  return out
}

describe("Block", () => {
  it("rounds every pattern of upper bits to bfloat16 as the loop does, numbers or not", () => {
    const block = Block.make()
    for (const lower of [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff]) {
      const words = Uint32Array.from({ length: 65_536 }, (_, upper) => (upper << 16) | lower)
      block.load("F32", new Uint8Array(words.buffer))
      const rounded = block.bytes("BF16")
      assert.deepStrictEqual(new Uint16Array(rounded.buffer), Uint16Array.from(words, numbers.toBrain))
      block.load("BF16", rounded)
      assert.deepStrictEqual(block.bytes("BF16"), rounded)
    }
  })

  const cases = [
    ["whole tiles", { rows: 40, columns: 64, width: 64, rank: 32, firstColumn: 0, columnStride: 1 }],
    ["rows and columns that do not fill tiles", {
      rows: 7,
      columns: 13,
      width: 13,
      rank: 3,
      firstColumn: 0,
      columnStride: 1
    }],
    ["a part of the columns", { rows: 8, columns: 16, width: 48, rank: 4, firstColumn: 16, columnStride: 1 }],
    ["every other column", { rows: 8, columns: 16, width: 32, rank: 4, firstColumn: 1, columnStride: 2 }]
  ] as const

  for (const [what, { columnStride, columns, firstColumn, rank, rows, width }] of cases) {
    it(`adds a product to ${what}, bit by bit as plain loops do, and leaves the rest alone`, () => {
      const block = Block.make()
      // Two rows more than the delta has. Adding nothing to a negative zero would show.
      const values = fixtures.random(1, rows + 2, width).values.fill(-0, 0, 3).fill(-0, -3)
      const left = fixtures.random(2, rows, rank).values
      const right = fixtures.random(3, rank, columns).values
      const place = { first: width + firstColumn, columnStride, rowStride: width }
      block.use(right, rank)
      block.load("F32", new Uint8Array(values.buffer))
      block.add(left, place)
      assert.deepStrictEqual(bitsOf(block.floats()), bitsOf(added(values, left, right, rank, place)))
    })
  }

  it("keeps the matrix in use while blocks and matrices of other sizes follow", () => {
    const block = Block.make()
    for (const [rows, columns] of [[4, 8], [64, 512], [16, 1024], [300, 400], [4, 8]] as const) {
      const left = fixtures.random(rows, rows, 4).values
      const right = fixtures.random(columns, 4, columns).values
      const place = { first: 0, columnStride: 1, rowStride: columns }
      for (const seed of [5, 6]) {
        const { values } = fixtures.random(seed, rows, columns)
        block.load("F32", new Uint8Array(values.buffer))
        if (seed === 5) block.use(right, 4)
        block.add(left, place)
        assert.deepStrictEqual(bitsOf(block.floats()), bitsOf(added(values, left, right, 4, place)))
      }
    }
  })

  it("gives halves and floats, into memory that is given", () => {
    const block = Block.make()
    const { values } = fixtures.random(7, 5, 3)
    const into = new Uint8Array(100)
    for (const dtype of ["F16", "F32"] as const) {
      block.load("F32", new Uint8Array(values.buffer))
      const bytes = block.bytes(dtype, into)
      assert.strictEqual(bytes.buffer, into.buffer)
      assert.deepStrictEqual(Uint8Array.from(bytes), Uint8Array.from(numbers.fromFloat32(dtype, values)))
    }
  })
})
