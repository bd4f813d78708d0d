import { assert, describe, it } from "@effect/vitest"
import { PCGRandom } from "effect/Utils"
import * as Statistics from "../src/Statistics.js"

const values = (...list: ReadonlyArray<number>): ReadonlyArray<Statistics.Sample> => list.map((value) => ({ value }))

/** Share of intervals that hold the true mean. */
const coverage = (
  truth: number,
  draw: (random: PCGRandom) => ReadonlyArray<Statistics.Sample>,
  runs = 2000
) => {
  const random = new PCGRandom(7)
  let held = 0
  for (let run = 0; run < runs; run++) {
    const { high, low } = Statistics.interval(draw(random), { draws: 250, seed: run + 1 })
    if (low <= truth && truth <= high) held++
  }
  return held / runs
}

describe("Statistics", () => {
  it("the bounds are the nearest of the sorted draws", () => {
    // of 3 draws, the quantile of 0.29 is at 0.58 and that of 0.71 at 1.42: both are the one in the middle
    const samples = Array.from({ length: 20 }, (_, value) => ({ value }))
    const middle = Statistics.interval(samples, { draws: 3, level: 0.4, seed: 5 })
    assert.strictEqual(middle.low, middle.high)
    const ends = Statistics.interval(samples, { draws: 3, level: 0.99, seed: 5 })
    assert.isBelow(ends.low, middle.low)
    assert.isAbove(ends.high, middle.low)
  })

  it("a 95 % interval holds the true mean in 93 to 97 % of draws: scores of right and wrong, and rewards", () => {
    const right = (p: number, n: number) => (random: PCGRandom) =>
      Array.from({ length: n }, () => ({ value: random.number() < p ? 1 : 0 }))
    const rewards = (random: PCGRandom) => Array.from({ length: 60 }, () => ({ value: random.number() ** 2 }))
    for (const share of [coverage(0.3, right(0.3, 60)), coverage(0.6, right(0.6, 150)), coverage(1 / 3, rewards)]) {
      assert.isAtLeast(share, 0.93)
      assert.isAtMost(share, 0.97)
    }
  })

  it("and so do the intervals of a difference, of clusters of unequal sizes, of another level, and of kappa", () => {
    const runs = 2000
    const draws = 240
    /** Share of runs whose interval holds the truth. */
    const held = (
      truth: number,
      found: (random: PCGRandom, seed: number) => { readonly low: number; readonly high: number }
    ) => {
      const random = new PCGRandom(11)
      let count = 0
      for (let run = 1; run <= runs; run++) {
        const { high, low } = found(random, run)
        if (low <= truth && truth <= high) count++
      }
      return count / runs
    }
    const bit = (random: PCGRandom, p: number) => random.number() < p ? 1 : 0

    // the second model is right on 0.1 + 0.9 x 0.4 of what the first is wrong on, and on 0.9 of the rest: 0.4 x 0.9 + 0.6 x 0.46
    const difference = held(0.4 * 0.9 + 0.6 * 0.46 - 0.4, (random, seed) =>
      Statistics.compare(
        Array.from({ length: 60 }, () => {
          const first = bit(random, 0.4)
          return { first, second: first === 1 ? bit(random, 0.9) : bit(random, 0.46) }
        }),
        { draws, seed }
      ).difference)

    // one to four answers to a problem, of which the easy half is mostly right
    const clustered = held(0.5, (random, seed) =>
      Statistics.interval(
        Array.from({ length: 60 }, (_, cluster) => {
          const p = random.number() < 0.5 ? 0.8 : 0.2
          return Array.from({ length: 1 + cluster % 4 }, () => ({ value: bit(random, p), cluster }))
        }).flat(),
        { draws, seed }
      ))

    const wide = held(
      0.5,
      (random, seed) =>
        Statistics.interval(Array.from({ length: 40 }, () => ({ value: random.number() })), { draws, seed, level: 0.8 })
    )

    // one grader repeats the other's grade, of three as likely ones, with 0.6, and says any of them else: chance is 1/3
    const grades = (random: PCGRandom) => () => {
      const first = random.integer(3)
      return { first, second: random.number() < 0.6 ? first : random.integer(3) }
    }
    const agreements = (["none", "quadratic"] as const).map((weights) =>
      held(
        0.6,
        (random, seed) => Statistics.agreement(Array.from({ length: 60 }, grades(random)), { draws, seed, weights })
      )
    )

    // a standard error of 2,000 runs is 0.5 points at 95 %, and 0.9 at 80 %
    for (const share of [difference, clustered, ...agreements]) assert.closeTo(share, 0.95, 0.02)
    assert.closeTo(wide, 0.8, 0.03)
  })

  it("several answers to a problem are one cluster: as independent values they would claim too much", () => {
    const draw = (random: PCGRandom) =>
      Array.from({ length: 60 }, (_, problem) => {
        const value = random.number() < 0.5 ? 1 : 0
        return Array.from({ length: 4 }, () => ({ value, cluster: problem }))
      }).flat()
    assert.isAtLeast(coverage(0.5, draw, 400), 0.92)
    assert.isAtMost(coverage(0.5, (random) => draw(random).map(({ value }) => ({ value })), 400), 0.8)
    const { clusters, mean } = Statistics.interval(draw(new PCGRandom(1)))
    assert.strictEqual(clusters, 60)
    assert.isTrue(mean > 0 && mean < 1)
  })

  it("one cluster says nothing, and equal values leave no doubt", () => {
    assert.deepInclude(Statistics.interval(values(0.5)), { mean: 0.5, low: -Infinity, high: Infinity })
    assert.deepInclude(Statistics.interval(values(2, 2, 2, 2)), { mean: 2, low: 2, high: 2, clusters: 4 })
  })

  it("the permutation test has the probabilities of all sign changes, counted by hand", () => {
    const pairs = (...differences: ReadonlyArray<number>) => differences.map((second) => ({ first: 0, second }))
    // + + + and - - - of eight
    assert.strictEqual(Statistics.compare(pairs(1, 1, 1)).p, 2 / 8)
    // |1 + 2 - 4| = 1: reached by all but none is smaller
    assert.strictEqual(Statistics.compare(pairs(1, 2, -4)).p, 1)
    // |3 + 2 + 1 - 4| = 2: of the 16 sums 10 8 6 4 4 2 2 0 and their opposites, only the two zeros are smaller
    assert.strictEqual(Statistics.compare(pairs(3, 2, 1, -4)).p, 14 / 16)
    assert.strictEqual(Statistics.compare(pairs(0, 0, 0)).p, 1)
    // clusters change their signs together
    assert.strictEqual(
      Statistics.compare([1, 1, 1, 1].map((second, i) => ({ first: 0, second, cluster: i % 2 }))).p,
      2 / 4
    )
  })

  it("under no difference p is below 0.05 in about 5 % of draws, and a real difference is found", () => {
    const random = new PCGRandom(3)
    const draw = (better: number) =>
      Array.from({ length: 60 }, () => ({
        first: random.number() < 0.5 ? 1 : 0,
        second: random.number() < 0.5 + better ? 1 : 0
      }))
    const found = (better: number, runs: number) => {
      let count = 0
      for (let run = 0; run < runs; run++) {
        if (Statistics.compare(draw(better), { draws: 400, seed: run }).p < 0.05) count++
      }
      return count / runs
    }
    assert.isBelow(Math.abs(found(0, 600) - 0.045), 0.025)
    assert.isAbove(found(0.4, 50), 0.9)
  })

  it("kappa is the agreement beyond chance", () => {
    const times = (n: number, first: string, second: string) => Array.from({ length: n }, () => ({ first, second }))
    const pairs = [
      ...times(20, "yes", "yes"),
      ...times(5, "yes", "no"),
      ...times(10, "no", "yes"),
      ...times(15, "no", "no")
    ]
    // 35 of 50 are equal; by chance 25/50 x 30/50 + 25/50 x 20/50; (0.7 - 0.5) / (1 - 0.5)
    const found = Statistics.agreement(pairs)
    assert.closeTo(found.kappa, 0.4, 1e-12)
    assert.deepInclude(found, { equal: 0.7, byChance: 0.5, pairs: 50, level: 0.95 })
    // its standard error is 0.13: sqrt(0.7 x 0.3 / (50 x 0.5 x 0.5))
    assert.closeTo(found.high - found.low, 2 * 1.96 * 0.13, 0.03)
    assert.isTrue(found.low < 0.4 && found.high > 0.4)
    // five copies of each are no more to go by
    const copies = pairs.flatMap((pair, cluster) => Array.from({ length: 5 }, () => ({ ...pair, cluster })))
    assert.closeTo(Statistics.agreement(copies).high - Statistics.agreement(copies).low, found.high - found.low, 0.02)
  })

  it("weights count how far grades are apart", () => {
    const pairs = [[1, 1], [2, 2], [3, 3], [1, 2], [3, 1]].map(([first = 0, second = 0]) => ({ first, second }))
    // shares (2, 1, 2) / 5 and (2, 2, 1) / 5: 1 - 0.4 / 0.68, 1 - 0.6 / 0.92 and 1 - 1 / 1.4
    assert.closeTo(Statistics.agreement(pairs).kappa, 7 / 17, 1e-12)
    assert.closeTo(Statistics.agreement(pairs, { weights: "linear" }).kappa, 8 / 23, 1e-12)
    assert.closeTo(Statistics.agreement(pairs, { weights: "quadratic" }).kappa, 2 / 7, 1e-12)
  })

  it("kappa of the same grades is 1, of opposite ones -1, and of a single grade none", () => {
    const of = (...pairs: ReadonlyArray<readonly [number, number]>) =>
      Statistics.agreement(pairs.map(([first, second]) => ({ first, second })))
    assert.strictEqual(of([0, 0], [1, 1]).kappa, 1)
    assert.strictEqual(of([0, 1], [1, 0]).kappa, -1)
    assert.isNaN(of([1, 1], [1, 1]).kappa)
    assert.deepInclude(of([1, 1]), { low: -Infinity, high: Infinity })
  })
})
