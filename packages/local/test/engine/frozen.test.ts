import { assert, describe, it } from "@effect/vitest"
import { FastCheck as fc } from "effect"
import { quantizeRow, scalesOf, widenBytes } from "../../src/internal/engine/frozen.js"
import { makeRandom } from "../../src/internal/engine/numbers.js"
import { makeTestSpace, microQwen, native, randomArray } from "./support.js"

const inputs = 8
const matrixOf = (outputs: number) => new Int8Array(outputs * (inputs + 4))

describe("weights of eight bits", () => {
  it("are the nearest multiples of a 127th of the output's largest, ties to even", () => {
    const matrix = matrixOf(8)
    // a scale of 1: the numbers are those that are written
    quantizeRow(matrix, inputs, 3, Float32Array.of(127, -63.5, 0.5, 1.5, 2.5, -0.5, -126.6, 0))
    assert.deepStrictEqual(Array.from({ length: 8 }, (_, i) => matrix[3 + 8 * i]), [127, -64, 0, 2, 2, 0, -127, 0])
    assert.deepStrictEqual(Array.from(scalesOf(matrix, inputs)), [0, 0, 0, 1, 0, 0, 0, 0])
    quantizeRow(matrix, inputs, 4, Float32Array.of(0.254, -0.1271, 0.0009, 0, 0, 0, 0, 0))
    assert.deepStrictEqual([matrix[4], matrix[12], matrix[20]], [127, -64, 0])
    assert.closeTo(scalesOf(matrix, inputs)[4] ?? NaN, 0.002, 1e-9)
    // an output without any weight
    quantizeRow(matrix, inputs, 5, new Float32Array(8))
    assert.deepStrictEqual([matrix[5], scalesOf(matrix, inputs)[5]], [0, 0])
  })

  it.prop(
    "are off by half of their scale at most",
    [fc.array(fc.float({ noNaN: true, min: -100, max: 100 }), { minLength: 8, maxLength: 8 })],
    ([row]) => {
      const matrix = matrixOf(16)
      quantizeRow(matrix, inputs, 9, Float32Array.from(row))
      const widened = new Float32Array(8)
      widenBytes(matrix, inputs, inputs * 8 + 1, widened, 0, 8, 8)
      const scale = scalesOf(matrix, inputs)[9] ?? NaN
      row.forEach((value, i) => assert.isAtMost(Math.abs(value - (widened[i] ?? NaN)), scale * 0.50001 + 1e-30))
    }
  )

  for (const mode of (["native", "wasm", "js"] as const).filter((mode) => mode !== "native" || native !== undefined)) {
    it(`products by ${mode} have the bits of products with their floats, for any number of rows`, () => {
      const { architecture, frozen, kernels, memory, training } = makeTestSpace(
        { ...microQwen, quantize: "int8" },
        mode,
        { mergedFloats: 0, partTokens: 256 }
      )
      const { next } = makeRandom(7)
      const [projection] = architecture.projections
      assert.isDefined(projection)
      const { inputs, outputs } = projection
      // the floats of the matrix: each output's product with each unit vector
      const panels = training.dStream
      const [source, target, expected] = [training.logits, training.dProduct, training.dNormed]
      for (let input = 0; input < inputs; input++) {
        memory.fill(0, source, source + inputs)
        memory[source + input] = 1
        frozen.multiply(projection, 0, outputs, source, target, outputs, 1, 0)
        for (let output = 0; output < outputs; output++) {
          memory[panels + (output >> 3) * inputs * 8 + input * 8 + (output & 7)] = memory[target + output] ?? NaN
        }
      }
      for (let rows = 1; rows <= 9; rows++) {
        for (const accumulate of [0, 1] as const) {
          memory.set(randomArray(rows * inputs, next), source)
          const before = randomArray(rows * outputs, next)
          memory.set(before, target)
          memory.set(before, expected)
          frozen.multiply(projection, 0, outputs, source, target, outputs, rows, accumulate)
          kernels.gemm(source, inputs, 1, panels, inputs * 8, expected, outputs, rows, outputs, inputs, accumulate)
          const size = rows * outputs
          assert.deepStrictEqual(memory.slice(target, target + size), memory.slice(expected, expected + size))
        }
      }
      frozen.transpose(projection, 0, outputs, target)
      kernels.transposePanels(panels, inputs, expected, outputs, outputs * 8)
      const size = inputs * outputs
      assert.deepStrictEqual(memory.slice(target, target + size), memory.slice(expected, expected + size))
    })
  }
})
