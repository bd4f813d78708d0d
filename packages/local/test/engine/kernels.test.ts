import { assert, describe, it } from "@effect/vitest"
import type { Kernels } from "../../src/internal/engine/kernels.js"
import { makeKernels } from "../../src/internal/engine/kernels.js"
import { makeRandom } from "../../src/internal/engine/numbers.js"
import { native } from "./support.js"

const element = (memory: Float32Array, offset: number, row: number, column: number, i: number, j: number): number =>
  memory[offset + i * row + j * column] ?? NaN

describe("kernels", () => {
  it("wasm is available here, so that the comparison below means something", () => {
    assert.strictEqual(makeKernels(1024, "wasm").mode, "wasm")
  })

  for (const mode of native === undefined ? ["wasm", "js"] as const : ["native", "wasm", "js"] as const) {
    it(`${mode}: products of all shapes and strides equal the definition`, () => {
      const random = makeRandom(1)
      const kernels = makeKernels(40_000, mode, native)
      const { memory } = kernels
      assert.strictEqual(kernels.mode, mode)
      const wrong: Array<ReadonlyArray<number>> = []
      const [b, packed, c] = [10_000, 20_000, 30_000]
      for (
        const [m, n, k] of [
          [1, 8, 1],
          [4, 8, 3],
          [5, 16, 7],
          [7, 24, 33],
          [13, 8, 5],
          [32, 40, 16],
          [1, 72, 9],
          [
            3,
            40,
            6
          ],
          [2, 56, 11],
          [3, 24, 300]
        ] as const
      ) {
        for (const transposed of [false, true]) {
          for (const accumulate of [false, true]) {
            for (let i = 0; i < memory.length; i++) memory[i] = random.next() - 0.5
            const a = transposed ? { offset: 3, row: 1, column: m + 2 } : { offset: 3, row: k + 1, column: 1 }
            const from = transposed ? { offset: b, row: 1, column: k } : { offset: b, row: n + 3, column: 1 }
            const before = memory.slice()
            kernels.pack(from.offset, from.row, from.column, k, n, packed)
            kernels.gemm(a.offset, a.row, a.column, packed, k * 8, c, n + 5, m, n, k, accumulate ? 1 : 0)
            for (let i = 0; i < m; i++) {
              for (let j = 0; j < n; j++) {
                let sum = accumulate ? element(before, c, n + 5, 1, i, j) : 0
                for (let p = 0; p < k; p++) {
                  sum += element(before, a.offset, a.row, a.column, i, p) *
                    element(before, from.offset, from.row, from.column, p, j)
                }
                if (!(Math.abs(element(memory, c, n + 5, 1, i, j) - sum) < 1e-4)) wrong.push([m, n, k, i, j])
              }
              // What lies beside the result is left alone.
              if (element(memory, c, n + 5, 1, i, n) !== element(before, c, n + 5, 1, i, n)) wrong.push([m, n, k, i])
            }
          }
        }
      }
      assert.deepStrictEqual(wrong, [])
    })

    it(`${mode}: widens bfloat16s from a place on, as many as asked for`, () => {
      const { memory, widen } = makeKernels(1024, mode, native)
      memory.fill(7)
      // The upper halves of 1, 2, ... as floats.
      const values = Uint16Array.from(
        { length: 40 },
        (_, i) => (new Uint32Array(Float32Array.of(i + 1).buffer)[0] ?? 0) >>> 16
      )
      widen(values, "bf16", 8, 3, 100, 16)
      assert.deepStrictEqual(
        Array.from(memory.subarray(98, 118)),
        [7, 7, ...Array.from({ length: 16 }, (_, i) => i + 4), 7, 7]
      )
    })

    it(`${mode}: a last panel that is not full is filled up with zeros`, () => {
      const kernels = makeKernels(1024, mode)
      kernels.memory.fill(7)
      kernels.pack(0, 3, 1, 2, 3, 512)
      assert.deepStrictEqual(Array.from(kernels.memory.subarray(512, 528)), [
        ...[7, 7, 7, 0, 0, 0, 0, 0],
        ...[7, 7, 7, 0, 0, 0, 0, 0]
      ])
    })
  }

  const operations: Record<string, (kernels: Kernels) => unknown> = {
    rowMax: (kernels) => kernels.rowMax(8, 36),
    expSum: (kernels) => kernels.expSum(8, 36, 1.5),
    expScale: (kernels) => kernels.expScale(8, 36, 0.5, -2),
    addRow: (kernels) => kernels.addRow(8, 100, 24),
    normalize: (kernels) => kernels.normalize(0, 200, 400, 16, 5, 1e-5),
    normalizeBackward: (kernels) => kernels.normalizeBackward(0, 100, 400, 200, 16, 5, 1e-5, 1),
    "normalizeBackward in place": (kernels) => kernels.normalizeBackward(0, 100, 400, 0, 16, 5, 1e-5, 0),
    swiglu: (kernels) => kernels.swiglu(0, 200, 12, 5),
    swigluBackward: (kernels) => kernels.swigluBackward(0, 200, 300, 12, 5),
    relu2: (kernels) => kernels.relu2(0, 200, 16, 4),
    relu2Backward: (kernels) => kernels.relu2Backward(0, 200, 300, 16, 4),
    transposePanels: (kernels) => kernels.transposePanels(0, 16, 1000, 24, 24 * 8),
    "rotate forwards": (kernels) => kernels.rotate(0, 80, 3, 300, 340, 4, 8, 1),
    "rotate backwards": (kernels) => kernels.rotate(0, 80, 3, 300, 340, 4, 8, -1),
    "softmax from the first column": (kernels) => kernels.softmax(0, 16, 11, 1, 0.7),
    "softmax further on": (kernels) => kernels.softmax(0, 48, 9, 33, 0.2),
    softmaxBackward: (kernels) => kernels.softmaxBackward(0, 300, 16, 11, 0.7)
  }
  for (const [name, operate] of Object.entries(operations)) {
    it(`${name}: wasm and js agree everywhere in memory`, () => {
      const random = makeRandom(2)
      const initial = Float32Array.from({ length: 2048 }, () => (random.next() - 0.5) * 6)
      const [wasm, js] = (["wasm", "js"] as const).map((mode) => {
        const kernels = makeKernels(2048, mode)
        kernels.memory.set(initial)
        return { answer: operate(kernels), memory: kernels.memory.slice(0, 2048) }
      })
      if (wasm === undefined || js === undefined) return assert.fail()
      if (typeof js.answer === "number") {
        assert.approximately(Number(wasm.answer), js.answer, 1e-4 * Math.abs(js.answer))
      } else assert.notDeepEqual(js.memory, initial)
      // What lies behind is scratch.
      const differing = Array.from({ length: 1900 }, (_, i) => i).filter((i) => {
        const [left, right] = [wasm.memory[i] ?? NaN, js.memory[i] ?? NaN]
        return !(Math.abs(left - right) <= 2e-6 + 2e-6 * Math.abs(right))
      })
      assert.deepStrictEqual(differing, [])
    })
  }

  for (const mode of native === undefined ? ["wasm"] as const : ["native", "wasm"] as const) {
    it(`${mode}: an element's sum has the same bits in every tile, and whether it is computed at once or not`, () => {
      const [n, k] = [88, 300]
      const random = makeRandom(3)
      const kernels = makeKernels(100_000, mode, native)
      for (let i = 0; i < 40_000; i++) kernels.memory[i] = random.next() - 0.5
      kernels.pack(5000, n, 1, k, n, 40_000)
      const rows = (m: number): Float32Array => {
        kernels.gemm(0, k, 1, 40_000, k * 8, 80_000, n, m, n, k, 0)
        return kernels.memory.slice(80_000, 80_000 + m * n)
      }
      const all = rows(13)
      for (const m of [1, 2, 3, 4, 5, 6, 7, 11]) assert.deepStrictEqual(rows(m), all.slice(0, m * n), `${m}`)
      for (const first of [1, 100, 256]) {
        kernels.gemm(0, k, 1, 40_000, k * 8, 80_000, n, 13, n, first, 0)
        kernels.gemm(first, k, 1, 40_000 + first * 8, k * 8, 80_000, n, 13, n, k - first, 1)
        assert.deepStrictEqual(kernels.memory.slice(80_000, 80_000 + 13 * n), all, `${first}`)
      }
    })
  }

  // Without relaxed SIMD, WebAssembly rounds a product before it is added.
  const fused = Number.parseInt(process.versions.node, 10) >= 22
  it.skipIf(native === undefined || !fused)("native products have the bits of WebAssembly's (need Node 22)", () => {
    const random = makeRandom(4)
    const initial = Float32Array.from({ length: 90_000 }, () => random.next() - 0.5)
    for (const [m, n, k] of [[1, 88, 300], [2, 40, 17], [6, 16, 256], [29, 24, 301]] as const) {
      const [here, there] = (["native", "wasm"] as const).map((mode) => {
        const kernels = makeKernels(100_000, mode, native)
        kernels.memory.set(initial)
        kernels.gemm(0, k, 1, 20_000, k * 8, 80_000, n, m, n, k, 1)
        return kernels.memory.slice(80_000)
      })
      assert.deepStrictEqual(here, there)
    }
  })

  it("the exponential is exact to the last bits over its range, and vanishes below it", () => {
    const kernels = makeKernels(1024, "wasm")
    const inputs = Float32Array.from({ length: 400 }, (_, i) => -i / 5)
    kernels.memory.set(inputs)
    kernels.expScale(0, 400, 0, 1)
    inputs.forEach((x, i) => assert.approximately((kernels.memory[i] ?? NaN) / Math.exp(x), 1, 1e-5, `e^${x}`))
    kernels.memory.fill(-3e38, 0, 4)
    kernels.expScale(0, 4, 10, 1)
    assert.isBelow(kernels.memory[0] ?? 1, 1e-37)
  })
})
