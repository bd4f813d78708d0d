import { assert, describe, it } from "@effect/vitest"
import type { Example, Task } from "../../src/internal/engine/examples.js"
import { initialFactors, makeLora, namedPieces } from "../../src/internal/engine/lora.js"
import type { LossName } from "../../src/internal/engine/losses.js"
import { lossDefaults } from "../../src/internal/engine/losses.js"
import { merge } from "../../src/internal/engine/merge.js"
import { pass } from "../../src/internal/engine/pass.js"
import { makeRandom } from "../../src/internal/engine/random.js"
import { drain, micro, microWorkspace, randomArray } from "./support.js"

const dot = (left: Float32Array, right: Float32Array): number => {
  let sum = 0
  for (let i = 0; i < left.length; i++) sum += (left[i] ?? 0) * (right[i] ?? 0)
  return sum
}

/** Ragged lengths: within a block of rows, exactly one, more than one. */
const makeExamples = (loss: LossName, width: number, sampled: (index: number) => number): ReadonlyArray<Example> => {
  const random = makeRandom(5)
  const token = (): number => Math.floor(random.next() * micro.vocabularySize)
  return [5, 32, 41, 1].map((length): Example => {
    const cells = length * width
    return {
      tokens: Int32Array.from({ length }, token),
      targets: Int32Array.from({ length: cells }, token),
      width,
      shape: width === 1 ? [length] : [length, width],
      inputs: {
        weights: loss === "cross_entropy" ? randomArray(cells, random.next) : new Float32Array(0),
        logprobs: Float32Array.from({ length: cells }, (_, i) => sampled(i)),
        advantages: randomArray(cells, random.next)
      }
    }
  })
}

const settings = { rank: 5, seed: 3, groups: new Set(["attn", "mlp", "unembed"] as const) }

const makeSubject = (mode: "wasm" | "js", loss: LossName, config = lossDefaults[loss]) => {
  const workspace = microWorkspace(mode)
  const lora = makeLora(workspace.shape, settings)
  const values = initialFactors(lora)
  // Away from the starting point, where half of the gradient is zero.
  const random = makeRandom(9)
  for (const { b, matrix } of lora.factors) {
    values.set(randomArray(settings.rank * matrix.columns, random.next, 0.002), b)
  }
  const run = (at: Float32Array, gradient: Float32Array | undefined, examples: ReadonlyArray<Example>) => {
    const task: Task = {
      examples,
      loss,
      config: new Map(Object.entries(config)),
      forwardOnly: gradient === undefined
    }
    drain(merge(workspace, { lora, values: at }, true))
    const results = drain(
      pass(workspace, { lora, values: at, gradient: gradient ?? new Float32Array(0) }, task, examples)
    )
    assert.isDefined(results)
    return results ?? []
  }
  return { lora, values, run }
}

const total = (results: ReadonlyArray<{ readonly loss: number }>): number =>
  results.reduce((sum, { loss }) => sum + loss, 0)

/** Compares the gradient of every factor with central differences of the loss, along several directions. */
const checkByDifferences = (mode: "wasm" | "js", loss: LossName, width: number): void => {
  const { lora, run, values } = makeSubject(mode, loss)
  // Near the logprobs themselves, so that ratios are near 1 and some clip while others do not.
  const plain = makeExamples(loss, width, () => -5.5)
  const gradient = new Float32Array(lora.size)
  run(values, gradient, plain)
  const random = makeRandom(11)
  for (const piece of namedPieces(lora)) {
    const own = gradient.subarray(piece.from, piece.to)
    assert.isAbove(dot(own, own), 0, `${piece.name} has a gradient`)
    const length = Math.sqrt(dot(own, own))
    const along = own.map((value) => value / length)
    const aside = randomArray(own.length, random.next)
    const mixed = along.map((value, i) => value + 0.5 * (aside[i] ?? 0) / Math.sqrt(dot(aside, aside)))
    for (const direction of [along, mixed]) {
      const expected = dot(own, direction)
      // A change of the loss well above the noise of floats, well below the curvature.
      const step = 0.15 / length
      const moved = (sign: number): number => {
        const shifted = values.slice()
        direction.forEach((value, i) => shifted[piece.from + i] = (shifted[piece.from + i] ?? 0) + sign * step * value)
        return total(run(shifted, undefined, plain))
      }
      const measured = (moved(1) - moved(-1)) / (2 * step)
      assert.approximately(measured / length, expected / length, 0.02, `${loss} ${mode} ${piece.name}`)
    }
  }
}

describe("backward", () => {
  for (const mode of ["wasm", "js"] as const) {
    it(`${mode}: cross entropy, one target per token`, () => checkByDifferences(mode, "cross_entropy", 1))
  }
  it("cross entropy, three targets per token", () => checkByDifferences("wasm", "cross_entropy", 3))
  it("importance sampling", () => checkByDifferences("wasm", "importance_sampling", 1))
  it("ppo", () => checkByDifferences("wasm", "ppo", 1))
  it("dro", () => checkByDifferences("wasm", "dro", 1))

  it("cispo is cross entropy weighted by the clipped ratio, which counts as a constant", () => {
    const { lora, run, values } = makeSubject("wasm", "cispo")
    const examples = makeExamples("cispo", 1, (i) => -5.5 - (i % 4))
    const gradient = new Float32Array(lora.size)
    const results = run(values, gradient, examples)
    const weighted = examples.map((example, index): Example => ({
      ...example,
      inputs: {
        ...example.inputs,
        weights: example.inputs.advantages.map((advantage, i) =>
          advantage * Math.min(4, Math.exp((results[index]?.logprobs[i] ?? 0) - (example.inputs.logprobs[i] ?? 0)))
        )
      }
    }))
    const other = makeSubject("wasm", "cross_entropy")
    const expected = new Float32Array(lora.size)
    other.run(values, expected, weighted)
    const size = Math.sqrt(dot(expected, expected))
    const difference = gradient.map((value, i) => value - (expected[i] ?? 0))
    assert.isAbove(size, 0)
    assert.isBelow(Math.sqrt(dot(difference, difference)) / size, 1e-5)
  })

  it("both kernels give the same logprobs and the same gradient", () => {
    const examples = makeExamples("cross_entropy", 1, () => 0)
    const [left, right] = (["wasm", "js"] as const).map((mode) => {
      const { lora, run, values } = makeSubject(mode, "cross_entropy")
      const gradient = new Float32Array(lora.size)
      return { results: run(values, gradient, examples), gradient }
    })
    if (left === undefined || right === undefined) return assert.fail()
    left.results.forEach(({ logprobs }, index) =>
      logprobs.forEach((value, i) => assert.approximately(value, right.results[index]?.logprobs[i] ?? NaN, 1e-4))
    )
    const difference = left.gradient.map((value, i) => value - (right.gradient[i] ?? 0))
    assert.isBelow(dot(difference, difference) / dot(left.gradient, left.gradient), 1e-8)
  })

  it("a batch gives what its sequences give one by one", () => {
    const examples = makeExamples("cross_entropy", 1, () => 0)
    const { lora, run, values } = makeSubject("wasm", "cross_entropy")
    const together = new Float32Array(lora.size)
    const results = run(values, together, examples)
    const apart = new Float32Array(lora.size)
    examples.forEach((example, index) => {
      const [single] = run(values, apart, [example])
      single?.logprobs.forEach((value, i) => assert.approximately(value, results[index]?.logprobs[i] ?? NaN, 1e-5))
    })
    const difference = together.map((value, i) => value - (apart[i] ?? 0))
    assert.isBelow(dot(difference, difference) / dot(together, together), 1e-9)
  })
})
