import { assert, describe, it } from "@effect/vitest"
import { makeLora, namedPieces } from "../../src/internal/engine/architecture.js"
import { makeTrainingInstaller } from "../../src/internal/engine/factors.js"
import type { LossName } from "../../src/internal/engine/losses.js"
import { lossDefaults } from "../../src/internal/engine/losses.js"
import { makeRandom } from "../../src/internal/engine/numbers.js"
import { makeSharedPass } from "../../src/internal/engine/parts.js"
import { pass } from "../../src/internal/engine/pass.js"
import type { Example, Task } from "../../src/internal/engine/requests.js"
import type { LocalModel } from "../../src/LocalModel.js"
import { drain, makeTestSpace, micro, microPartial, microQwen, randomArray } from "./support.js"

const dot = (left: Float32Array, right: Float32Array): number => {
  let sum = 0
  for (let i = 0; i < left.length; i++) sum += (left[i] ?? 0) * (right[i] ?? 0)
  return sum
}

/** Ragged lengths: within a block of rows, exactly one, more than one. */
const makeExamples = (
  vocabulary: number,
  loss: LossName,
  width: number,
  sampled: (index: number) => number
): ReadonlyArray<Example> => {
  const random = makeRandom(5)
  const token = (): number => Math.floor(random.next() * vocabulary)
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

const settings = { rank: 5, groups: ["attn", "mlp", "unembed"] as const }

const makeSubject = (
  model: LocalModel,
  mode: "wasm" | "js",
  loss: LossName,
  options: Parameters<typeof makeTestSpace>[2] = {}
) => {
  const space = makeTestSpace(model, mode, options)
  const lora = makeLora(space.architecture, settings)
  const values = new Float32Array(lora.size)
  // Away from the starting point, where B is zero and so is the gradient of A.
  const random = makeRandom(9)
  for (const { a, b, part } of lora.factors.values()) {
    values.set(randomArray(settings.rank * part.inputs, random.next, 1 / Math.sqrt(part.inputs)), a)
    values.set(randomArray(settings.rank * part.outputs, random.next, 0.002), b)
  }
  const installer = makeTrainingInstaller(space)
  const none = new Float32Array(0)
  let key = 1
  const run = (at: Float32Array, gradient: Float32Array | undefined, examples: ReadonlyArray<Example>) => {
    const task: Task = {
      examples,
      loss,
      config: new Map(Object.entries(lossDefaults[loss])),
      forwardOnly: gradient === undefined
    }
    const { shared: { batch } } = makeSharedPass(examples, {
      partTokens: Infinity,
      gradientFloats: 0,
      mostWaiting: 0,
      take: (length) => new Float32Array(length)
    })
    const adapted = { key: key++, lora, values: at }
    const whole = { from: 0, to: examples.length }
    assert.isTrue(drain(pass(space, installer, adapted, task, batch, whole, gradient ?? none)))
    return examples.map((_, index) => ({
      logprobs: batch.logprobs.slice(batch.targetStarts[index], batch.targetStarts[index + 1]),
      loss: batch.losses[index] ?? NaN
    }))
  }
  return { lora, run, space, values }
}

const total = (results: ReadonlyArray<{ readonly loss: number }>): number =>
  results.reduce((sum, { loss }) => sum + loss, 0)

/** Compares the gradient of every factor with central differences of the loss, along several directions. */
const checkByDifferences = (model: LocalModel, mode: "wasm" | "js", loss: LossName, width: number): void => {
  const { lora, run, values } = makeSubject(model, mode, loss)
  // Near the logprobs themselves, so that ratios are near 1 and some clip while others do not.
  const plain = makeExamples(model.vocabularySize, loss, width, () => -5.5)
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
      const step = 0.015 / length
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
    for (const model of [micro, microPartial, microQwen]) {
      it(`${mode}: cross entropy, ${model.name}, one target per token`, () =>
        checkByDifferences(model, mode, "cross_entropy", 1))
    }
  }
  it("cross entropy, three targets per token", () => checkByDifferences(micro, "wasm", "cross_entropy", 3))
  it("importance sampling", () => checkByDifferences(micro, "wasm", "importance_sampling", 1))
  it("ppo", () => checkByDifferences(micro, "wasm", "ppo", 1))
  it("dro", () => checkByDifferences(micro, "wasm", "dro", 1))

  it("cispo is cross entropy weighted by the clipped ratio, which counts as a constant", () => {
    const { lora, run, values } = makeSubject(micro, "wasm", "cispo")
    const examples = makeExamples(micro.vocabularySize, "cispo", 1, (i) => -5.5 - (i % 4))
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
    const other = makeSubject(micro, "wasm", "cross_entropy")
    const expected = new Float32Array(lora.size)
    other.run(values, expected, weighted)
    const size = Math.sqrt(dot(expected, expected))
    const difference = gradient.map((value, i) => value - (expected[i] ?? 0))
    assert.isAbove(size, 0)
    assert.isBelow(Math.sqrt(dot(difference, difference)) / size, 1e-5)
  })

  it("both kernels give the same logprobs and the same gradient", () => {
    const examples = makeExamples(micro.vocabularySize, "cross_entropy", 1, () => 0)
    const [left, right] = (["wasm", "js"] as const).map((mode) => {
      const { lora, run, values } = makeSubject(micro, mode, "cross_entropy")
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

  it("blocks computed again on the way back give the same bits as blocks that were kept", () => {
    const examples = makeExamples(microQwen.vocabularySize, "cross_entropy", 1, () => 0)
    const [kept, again] = [{}, { activationBytes: 0 }].map((options) => {
      const { lora, run, space, values } = makeSubject(microQwen, "wasm", "cross_entropy", options)
      const gradient = new Float32Array(lora.size)
      return { kept: space.training.keptTokens, results: run(values, gradient, examples), gradient }
    })
    assert.deepStrictEqual([kept?.kept, again?.kept], [512, 0])
    assert.deepStrictEqual(again?.results, kept?.results)
    assert.deepStrictEqual(again?.gradient, kept?.gradient)
  })

  for (const model of [micro, microQwen]) {
    it(`${model.name}: factors beside the weights give what factors multiplied into them give`, () => {
      const examples = makeExamples(model.vocabularySize, "cross_entropy", 1, () => 0)
      const [merged, beside] = [{}, { mergedFloats: 0 }].map((options) => {
        const { lora, run, space, values } = makeSubject(model, "wasm", "cross_entropy", options)
        const gradient = new Float32Array(lora.size)
        return { merges: space.layout.merges, results: run(values, gradient, examples), gradient }
      })
      assert.deepStrictEqual([merged?.merges, beside?.merges], [true, false])
      if (merged === undefined || beside === undefined) return assert.fail()
      merged.results.forEach(({ logprobs }, index) =>
        logprobs.forEach((value, i) => assert.approximately(value, beside.results[index]?.logprobs[i] ?? NaN, 1e-4))
      )
      const difference = merged.gradient.map((value, i) => value - (beside.gradient[i] ?? 0))
      assert.isBelow(dot(difference, difference) / dot(merged.gradient, merged.gradient), 1e-8)
    })
  }

  it("a batch gives what its sequences give one by one", () => {
    const examples = makeExamples(micro.vocabularySize, "cross_entropy", 1, () => 0)
    const { lora, run, values } = makeSubject(micro, "wasm", "cross_entropy")
    const together = new Float32Array(lora.size)
    const results = run(values, together, examples)
    const apart = new Float32Array(lora.size)
    examples.forEach((example, index) => {
      const own = new Float32Array(lora.size)
      const [single] = run(values, own, [example])
      own.forEach((value, i) => apart[i] = (apart[i] ?? 0) + value)
      single?.logprobs.forEach((value, i) => assert.approximately(value, results[index]?.logprobs[i] ?? NaN, 1e-5))
    })
    const difference = together.map((value, i) => value - (apart[i] ?? 0))
    assert.isBelow(dot(difference, difference) / dot(together, together), 1e-9)
  })
})
