import { assert, describe, it } from "@effect/vitest"
import { adamStep, squares } from "../../src/internal/engine/adamw.js"
import type { AdamSettings } from "../../src/internal/engine/adamw.js"

const settings: AdamSettings = {
  learningRate: 0.1,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-12,
  weightDecay: 0,
  gradClipNorm: 0
}

const run = (change: Partial<AdamSettings>, gradients: ReadonlyArray<ReadonlyArray<number>>, start = [1, -2]) => {
  const values = Float32Array.from(start)
  const moments = { first: new Float32Array(2), second: new Float32Array(2), steps: 0 }
  for (const gradient of gradients) {
    const slopes = Float32Array.from(gradient)
    adamStep(values, slopes, moments, { ...settings, ...change }, Math.sqrt(squares(slopes, 0, 2)))(0, 2)
  }
  return Array.from(values)
}

const near = (actual: ReadonlyArray<number>, expected: ReadonlyArray<number>): void =>
  expected.forEach((value, i) => assert.approximately(actual[i] ?? NaN, value, 1e-5))

describe("adamw", () => {
  it("the first step is the learning rate against the sign of the gradient, whatever its size", () => {
    near(run({}, [[5, -0.001]]), [0.9, -1.9])
  })

  it("later steps follow the bias-corrected moments", () => {
    // By hand: m = 0.19 and 0.05, v = 0.0975 + ..., each over 1 - beta^2.
    const second = (g1: number, g2: number): number => {
      const m = (0.9 * 0.1 * g1 + 0.1 * g2) / (1 - 0.81)
      const v = (0.95 * 0.05 * g1 * g1 + 0.05 * g2 * g2) / (1 - 0.9025)
      return m / Math.sqrt(v)
    }
    near(run({}, [[1, 2], [3, -1]]), [1 - 0.1 - 0.1 * second(1, 3), -2 - 0.1 - 0.1 * second(2, -1)])
  })

  it("weight decay shrinks the weights themselves, not the gradient", () => {
    near(run({ weightDecay: 0.5 }, [[0, 0]]), [0.95, -1.9])
    near(run({ weightDecay: 0.5 }, [[7, 7]]), [0.85, -2])
  })

  it("clipping scales the whole gradient to the given norm", () => {
    const large = { eps: 1, learningRate: 1, gradClipNorm: 0.5 }
    // Clipped to (0.3, 0.4); with eps 1 the size shows in the step.
    near(run(large, [[30, 40]]), [1 - 0.3 / 1.3, -2 - 0.4 / 1.4])
    near(run({ ...large, gradClipNorm: 100 }, [[0.3, 0.4]]), [1 - 0.3 / 1.3, -2 - 0.4 / 1.4])
  })

  it("a parameter without any gradient stays, even with eps 0", () => {
    near(run({ eps: 0 }, [[1, 0]]), [0.9, -2])
  })
})
