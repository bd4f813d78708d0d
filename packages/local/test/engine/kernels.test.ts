import { assert, describe, it } from "@effect/vitest"
import { makeKernels } from "../../src/internal/engine/kernels.js"
import { makeRandom } from "../../src/internal/engine/random.js"

const element = (memory: Float32Array, offset: number, row: number, column: number, i: number, j: number): number =>
  memory[offset + i * row + j * column] ?? NaN

describe("kernels", () => {
  it("wasm is available here, so that the comparison below means something", () => {
    assert.strictEqual(makeKernels(1024, "wasm").mode, "wasm")
  })

  for (const mode of ["wasm", "js"] as const) {
    it(`${mode}: products of all shapes and strides equal the definition`, () => {
      const random = makeRandom(1)
      const kernels = makeKernels(40_000, mode)
      const { memory } = kernels
      const [b, packed, c] = [10_000, 20_000, 30_000]
      for (const [m, n, k] of [[1, 8, 1], [4, 8, 3], [5, 16, 7], [7, 24, 33], [13, 8, 5], [32, 40, 16]] as const) {
        for (const transposed of [false, true]) {
          for (const accumulate of [false, true]) {
            for (let i = 0; i < memory.length; i++) memory[i] = random.next() - 0.5
            const a = transposed ? { offset: 3, row: 1, column: m + 2 } : { offset: 3, row: k + 1, column: 1 }
            const from = transposed ? { offset: b, row: 1, column: k } : { offset: b, row: n + 3, column: 1 }
            const before = memory.slice()
            kernels.pack(from, k, n, packed)
            kernels.gemm(a, packed, k * 8, c, n + 5, m, n, k, accumulate)
            for (let i = 0; i < m; i++) {
              for (let j = 0; j < n; j++) {
                let sum = accumulate ? element(before, c, n + 5, 1, i, j) : 0
                for (let p = 0; p < k; p++) {
                  sum += element(before, a.offset, a.row, a.column, i, p) *
                    element(before, from.offset, from.row, from.column, p, j)
                }
                assert.approximately(element(memory, c, n + 5, 1, i, j), sum, 1e-4)
              }
              // What lies beside the result is left alone.
              assert.strictEqual(element(memory, c, n + 5, 1, i, n), element(before, c, n + 5, 1, i, n))
            }
          }
        }
      }
    })

    it(`${mode}: a last panel that is not full is filled up with zeros`, () => {
      const kernels = makeKernels(1024, mode)
      kernels.memory.fill(7)
      kernels.pack({ offset: 0, row: 3, column: 1 }, 2, 3, 512)
      assert.deepStrictEqual(Array.from(kernels.memory.subarray(512, 528)), [
        ...[7, 7, 7, 0, 0, 0, 0, 0],
        ...[7, 7, 7, 0, 0, 0, 0, 0]
      ])
    })
  }
})
