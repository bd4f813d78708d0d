import { assert, describe, it } from "@effect/vitest"
import { PCGRandom } from "effect/Utils"
import { forecast } from "../forecasting/main.js"
import { auc, brier, markets } from "../shared/markets.js"
import { perturb, trueThinking } from "../true-thinking/main.js"

const day = (outcome: boolean) => ({ town: "Oslo", barometer: 1, outcome })

describe("forecasts", () => {
  it("a forecast is a probability and nothing else", () => {
    assert.deepStrictEqual(["0.7", " 70% ", ".25.", "1", "0"].map(forecast), [0.7, 0.7, 0.25, 1, 0])
    assert.deepStrictEqual(["1.7", "170%", "about 0.7", "-0.1", ""].map(forecast), Array(5).fill(undefined))
  })

  it("the scores are those worked out by hand", () => {
    assert.closeTo(brier(0.7, day(true)), 0.91, 1e-12)
    assert.closeTo(brier(0.7, day(false)), 0.51, 1e-12)
    // of the pairs .9 > .2, .9 > .5, .5 > .2 and .5 = .5, the last counts half
    assert.strictEqual(auc([[0.9, day(true)], [0.5, day(true)], [0.2, day(false)], [0.5, day(false)]]), 3.5 / 4)
  })

  it("the days of other towns are not those that were trained on, and other seeds are other days", () => {
    const { known, unknown } = markets(3)
    const towns = new Set(known.map(({ town }) => town))
    assert.isTrue(unknown.every(({ town }) => !towns.has(town)))
    assert.notDeepEqual(markets(4).unknown, unknown)
    // an honest forecaster who knew the chances would have this on average: 1 - (0.09 + 0.21) / 2
    const chances: Readonly<Record<number, number>> = { 1: 0.9, 3: 0.7, 7: 0.3, 9: 0.1 }
    const scores = unknown.map((market) => brier(chances[market.barometer] ?? NaN, market))
    assert.closeTo(scores.reduce((sum, score) => sum + score, 0) / scores.length, 0.85, 0.03)
  })
})

describe("true thinking", () => {
  it("every number is off by one to three, and a step without numbers is left out", () => {
    const random = new PCGRandom(1)
    for (let n = 0; n < 50; n++) {
      const [, left, right] = /^(\d+) \+ x = (\d+)$/.exec(perturb("40 + x = 52", random)) ?? []
      for (const [number, was] of [[left, 40], [right, 52]] as const) {
        assert.include([1, 2, 3], Math.abs(Number(number) - was))
      }
    }
    assert.strictEqual(perturb("Let me see.", random), "")
  })

  it("a step counts where it is needed, or where it is enough", () => {
    assert.closeTo(trueThinking([[0.9, 0.1], [0.8, 0.2]]), 0.7, 1e-12)
    // needless beside the others, and enough without them
    assert.closeTo(trueThinking([[0.9, 0.9], [0.8, 0]]), 0.4, 1e-12)
    assert.strictEqual(trueThinking([[0.5, 0.5], [0.1, 0.1]]), 0)
  })
})
