import { LearningRate } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"

describe("LearningRate", () => {
  const rates = (fields: ConstructorParameters<typeof LearningRate.LearningRate>[0], total: number) => {
    const rate = new LearningRate.LearningRate(fields)
    return Array.from({ length: total + 2 }, (_, step) => Number(LearningRate.at(rate, step, total).toFixed(6)))
  }

  it("rises by equal steps, stays, or falls as a line or half a cosine, and not below its end", () => {
    assert.deepStrictEqual(rates({ peak: 8 }, 2), [8, 8, 8, 8])
    // a quarter, two and three of the peak, then the peak
    assert.deepStrictEqual(rates({ peak: 8, warmUp: 3 }, 4), [2, 4, 6, 8, 8, 8])
    assert.deepStrictEqual(rates({ peak: 8, decay: "linear" }, 4), [8, 6, 4, 2, 0, 0])
    assert.deepStrictEqual(rates({ peak: 8, decay: "linear", warmUp: 1, floor: 0.25 }, 4), [4, 8, 6, 4, 2, 2])
    // (1 + cos(pi / 4)) / 2 = 0.853553, (1 + cos(3 pi / 4)) / 2 = 0.146447
    assert.deepStrictEqual(rates({ peak: 8, decay: "cosine" }, 4), [8, 6.828427, 4, 1.171573, 0, 0])
    assert.deepStrictEqual(rates({ peak: 8, decay: "cosine", floor: 0.5 }, 2), [8, 6, 4, 4])
    // nothing is left after the warm-up
    assert.deepStrictEqual(rates({ peak: 8, decay: "linear", warmUp: 1 }, 1), [4, 8, 0])
  })
})
