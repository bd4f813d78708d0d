import { assert, describe, it } from "@effect/vitest"
import { evaluateLoss, lossDefaults, lossNames, sequenceRatio } from "../../src/internal/engine/losses.js"
import type { LossName } from "../../src/internal/engine/losses.js"

const evaluate = (loss: LossName, logprob: number, sampled: number, advantage: number, config = lossDefaults[loss]) => {
  const elementwise = new Float32Array(1)
  const derivative = new Float32Array(1)
  const inputs = {
    weights: Float32Array.of(advantage),
    logprobs: Float32Array.of(sampled),
    advantages: Float32Array.of(advantage)
  }
  const logprobs = Float32Array.of(logprob)
  const ratio = sequenceRatio(logprobs, inputs)
  const settings = new Map(Object.entries(config))
  const value = evaluateLoss(loss, settings, logprobs, inputs, elementwise, derivative, 0, 1, ratio)
  return { value, elementwise: elementwise[0] ?? NaN, derivative: derivative[0] ?? NaN }
}

// Exact in single precision, so that the expected values can be written down.
const half = Math.log(0.5)

describe("losses", () => {
  it("have the values of their definitions", () => {
    assert.approximately(evaluate("cross_entropy", -2, 0, 3).value, 6, 1e-6)
    assert.approximately(evaluate("importance_sampling", half, 0, 4).value, -2, 1e-5)
    // Ratio 0.5, clipped to 0.8: the smaller of the two products counts.
    assert.approximately(evaluate("ppo", half, 0, 1).value, -0.5, 1e-5)
    assert.approximately(evaluate("ppo", half, 0, -1).value, 0.8, 1e-5)
    assert.approximately(evaluate("ppo", 0, half, 1).value, -1.2, 1e-5)
    assert.approximately(evaluate("ppo", 0, half, -1).value, 2, 1e-5)
    assert.approximately(evaluate("cispo", -1, -3, 2, { clip_low_threshold: 0, clip_high_threshold: 4 }).value, 8, 1e-5)
    assert.approximately(evaluate("dro", -1, -3, 2, { beta: 0.5 }).value, 2 + 0.5 * 0.5 * 4, 1e-5)
  })

  it("cispo without a lower bound is truncated importance sampling: as numpy has it", () => {
    const logprobs = Float32Array.of(-0.5, -1, -2)
    const inputs = {
      weights: new Float32Array(0),
      logprobs: Float32Array.of(-1.5, -0.9, -2.3),
      advantages: Float32Array.of(1, -2, -0.5)
    }
    const config = new Map([["clip_low_threshold", 0], ["clip_high_threshold", 2]])
    const elementwise = new Float32Array(3)
    const derivative = new Float32Array(3)
    const sum = evaluateLoss("cispo", config, logprobs, inputs, elementwise, derivative, 0, 3, 1)
    assert.approximately(sum, -2.159533643647922, 1e-6)
    const slopes = [-2, 1.8096748360719193, 0.6749294037880015]
    slopes.forEach((value, i) => assert.approximately(derivative[i] ?? NaN, value, 1e-6))
  })

  it("gspo: the mean ratio of the marked tokens, clipped for each, with the gradient of its own token: as numpy has it", () => {
    const logprobs = Float32Array.of(-0.1, -1, -3, -0.7)
    const inputs = {
      weights: Float32Array.of(0, 1, 1, 1),
      logprobs: Float32Array.of(-0.2, -1.05, -2.9, -0.9),
      advantages: Float32Array.of(1, -2, 0.5, 0.25)
    }
    const ratio = sequenceRatio(logprobs, inputs)
    assert.approximately(ratio, 1.0512710963760241, 1e-6)
    const cases = [
      {
        bounds: [0.9, 1.1],
        losses: [-1.0512710963760241, 2.1025421927520482, -0.5256355481880121, -0.26281777409400603],
        slopes: [-1.0512711, 2.1025422, -0.5256355, -0.2628178]
      },
      { bounds: [0.99, 1.01], losses: [-1.01, 2.1025421927520482, -0.505, -0.2525], slopes: [0, 2.1025422, 0, 0] }
    ]
    for (const { bounds: [low = 0, high = 0], losses, slopes } of cases) {
      const config = new Map([["clip_low_threshold", low], ["clip_high_threshold", high]])
      const elementwise = new Float32Array(4)
      const derivative = new Float32Array(4)
      const sum = evaluateLoss("gspo", config, logprobs, inputs, elementwise, derivative, 0, 4, ratio)
      assert.approximately(sum, losses.reduce((a, b) => a + b), 1e-5)
      losses.forEach((value, i) => assert.approximately(elementwise[i] ?? NaN, value, 1e-6))
      slopes.forEach((value, i) => assert.approximately(derivative[i] ?? NaN, value, 1e-6))
    }
  })

  it("cross entropy of a token that does not count is a plain zero", () => {
    assert.isTrue(Object.is(evaluate("cross_entropy", -2, 0, 0).elementwise, 0))
  })

  for (const loss of lossNames) {
    it(`${loss}: the derivative is that of the value`, () => {
      for (const logprob of [-0.1, -1, -3]) {
        for (const sampled of [-0.2, -1.1, -2.9]) {
          for (const advantage of [-1.5, 0.5]) {
            const step = 1e-3
            const { derivative } = evaluate(loss, logprob, sampled, advantage)
            const ratio = Math.min(4, Math.exp(logprob - sampled))
            // Of cispo the ratio is held fixed.
            const value = (at: number): number =>
              loss === "cispo" ? -ratio * at * advantage : evaluate(loss, at, sampled, advantage).value
            const measured = (value(logprob + step) - value(logprob - step)) / (2 * step)
            assert.approximately(derivative, measured, 5e-3 * (1 + Math.abs(measured)))
          }
        }
      }
    })
  }
})
