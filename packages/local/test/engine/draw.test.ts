import { assert, describe, it } from "@effect/vitest"
import { draw } from "../../src/internal/engine/draw.js"
import type { DrawSettings } from "../../src/internal/engine/draw.js"
import { makeRandom } from "../../src/internal/engine/numbers.js"

const probabilities = [0.1, 0.4, 0.2, 0.3]
const logprobs = Float32Array.from(probabilities, Math.log)
const draws = 20_000

const shares = (settings: Partial<DrawSettings>): ReadonlyArray<number> => {
  const random = makeRandom(7)
  const counts = [0, 0, 0, 0]
  for (let i = 0; i < draws; i++) {
    const token = draw(logprobs, { temperature: 1, topK: -1, topP: 1, ...settings }, random)
    counts[token] = (counts[token] ?? 0) + 1
  }
  return counts.map((count) => count / draws)
}

const near = (actual: ReadonlyArray<number>, expected: ReadonlyArray<number>): void =>
  expected.forEach((value, i) => assert.approximately(actual[i] ?? NaN, value, 0.015))

const normalised = (weights: ReadonlyArray<number>): ReadonlyArray<number> => {
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}

describe("draw", () => {
  it("follows the probabilities", () => near(shares({}), probabilities))

  it("temperature sharpens and flattens them", () => {
    near(shares({ temperature: 0.5 }), normalised(probabilities.map((p) => p * p)))
    near(shares({ temperature: 2 }), normalised(probabilities.map(Math.sqrt)))
    assert.deepStrictEqual(shares({ temperature: 0 }), [0, 1, 0, 0])
  })

  it("top_k keeps the k most likely, and 0 and -1 keep all", () => {
    near(shares({ topK: 2 }), normalised([0, 0.4, 0, 0.3]))
    near(shares({ topK: 0 }), probabilities)
    near(shares({ topK: 99 }), probabilities)
  })

  it("top_p keeps the fewest that reach the share, after top_k and temperature", () => {
    near(shares({ topP: 0.65 }), normalised([0, 0.4, 0, 0.3]))
    near(shares({ topP: 0.75 }), normalised([0, 0.4, 0.2, 0.3]))
    // Of the two that top_k leaves, the first alone has more than half.
    near(shares({ topK: 2, topP: 0.5 }), [0, 1, 0, 0])
    near(shares({ temperature: 0.5, topP: 0.5 }), [0, 1, 0, 0])
  })

  it("never draws what is impossible", () => {
    const sure = Float32Array.of(-Infinity, 0, -Infinity)
    const random = makeRandom(1)
    for (let i = 0; i < 1000; i++) {
      assert.strictEqual(draw(sure, { temperature: 1, topK: -1, topP: 1 }, random), 1)
    }
  })
})
