/**
 * The uncertainty of a score, and whether one model is better than another on the same examples.
 *
 * Values of one cluster, such as several answers to one problem, are drawn together: they do not count as independent. All
 * draws follow from a seed.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { makeFast } from "./internal/random.js"

/**
 * A measured value.
 *
 * @since 0.2.0
 * @category models
 */
export interface Sample {
  readonly value: number
  /** Values with the same cluster are not independent. Defaults to one for each value. */
  readonly cluster?: string | number | undefined
}

/**
 * A mean with the bounds between which it lies with the given confidence.
 *
 * @since 0.2.0
 * @category schemas
 */
export class Interval extends Schema.Class<Interval>("@effect-tinker/cookbook/Statistics/Interval")({
  mean: Schema.Number,
  low: Schema.Number,
  high: Schema.Number,
  /** Confidence, such as 0.95. */
  level: Schema.Number,
  /** Independent clusters behind it. */
  clusters: Schema.Int
}) {}

/**
 * A difference between two models on the same examples.
 *
 * @since 0.2.0
 * @category schemas
 */
export class Comparison extends Schema.Class<Comparison>("@effect-tinker/cookbook/Statistics/Comparison")({
  /** Mean of the second minus mean of the first. */
  difference: Interval,
  /** Probability of a difference at least as large if neither model were better: a paired permutation test, two-sided. */
  p: Schema.Number
}) {}

/**
 * How an interval is found.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Options {
  /** Defaults to 0.95. */
  readonly level?: number | undefined
  /** Bootstrap samples, or permutations. Defaults to 2,000 and 10,000. */
  readonly draws?: number | undefined
  /** Defaults to 1. */
  readonly seed?: number | undefined
}

interface Cluster {
  sum: number
  count: number
}

const clustersOf = (samples: ReadonlyArray<Sample>): ReadonlyArray<Cluster> => {
  const clusters: Array<Cluster> = []
  const named = new Map<string | number, Cluster>()
  for (const { cluster, value } of samples) {
    const known = cluster === undefined ? undefined : named.get(cluster)
    if (known === undefined) {
      const found = { sum: value, count: 1 }
      clusters.push(found)
      if (cluster !== undefined) named.set(cluster, found)
    } else {
      known.sum += value
      known.count++
    }
  }
  return clusters
}

const meanOf = (clusters: ReadonlyArray<Cluster>): number => {
  let sum = 0
  let count = 0
  for (const cluster of clusters) {
    sum += cluster.sum
    count += cluster.count
  }
  return sum / count
}

/** Quantile of the standard normal distribution (Acklam's rational approximation, |error| < 1.2e-9). */
const normalQuantile = (p: number): number => {
  const tail = (q: number) =>
    (((((-7.784894002430293e-3 * q - 0.3223964580411365) * q - 2.400758277161838) * q - 2.549732539343734) * q +
          4.374664141464968) * q + 2.938163982698783) /
    ((((7.784695709041462e-3 * q + 0.3224671290700398) * q + 2.445134137142996) * q + 3.754408661907416) * q + 1)
  if (p < 0.02425) return tail(Math.sqrt(-2 * Math.log(p)))
  if (p > 1 - 0.02425) return -tail(Math.sqrt(-2 * Math.log(1 - p)))
  const q = p - 0.5
  const r = q * q
  return (((((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r + 138.3577518672690) * r -
        30.66479806614716) * r + 2.506628277459239) *
    q /
    (((((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r + 66.80131188771972) * r -
          13.28068155288572) * r + 1)
}

/** Quantile of Student's t distribution, by the expansion of Cornish and Fisher around the normal one. */
const studentQuantile = (p: number, freedom: number): number => {
  const z = normalQuantile(p)
  const z3 = z ** 3
  const z5 = z ** 5
  const z7 = z ** 7
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom ** 2) +
    (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom ** 3)
}

/** Probability of a standard normal variable below a value, by its complementary error function. */
const normalProbability = (z: number): number => {
  const t = 1 / (1 + 0.2316419 * Math.abs(z))
  const density = Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI)
  const upper = density * t *
    (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return z >= 0 ? 1 - upper : upper
}

/**
 * The mean with its interval: a bootstrap over clusters. Percentiles are widened for the number of clusters, without which
 * intervals of few examples are too narrow.
 *
 * @since 0.2.0
 * @category combinators
 */
export const interval = (samples: ReadonlyArray<Sample>, options: Options = {}): Interval => {
  const { draws = 2000, level = 0.95, seed = 1 } = options
  const clusters = clustersOf(samples)
  const n = clusters.length
  const mean = meanOf(clusters)
  if (n < 2) return new Interval({ mean, low: -Infinity, high: Infinity, level, clusters: n })
  const below = makeFast(seed)
  const means = Array.from({ length: draws }, () => {
    let sum = 0
    let count = 0
    for (let i = 0; i < n; i++) {
      const cluster = clusters[below(n)]
      sum += cluster?.sum ?? 0
      count += cluster?.count ?? 0
    }
    return sum / count
  }).sort((a, b) => a - b)
  // the share of the normal distribution that reaches as far as Student's would, and as n reaches beyond n - 1
  const reach = studentQuantile((1 - level) / 2, n - 1) * Math.sqrt(n / (n - 1))
  const share = normalProbability(reach)
  const at = (q: number) => means[Math.min(draws - 1, Math.max(0, Math.round(q * (draws - 1))))] ?? mean
  return new Interval({ mean, low: at(share), high: at(1 - share), level, clusters: n })
}

/** Fewer clusters than this have few enough permutations to look at all of them. */
const enumerated = 14

/**
 * Compares two models example by example: pairs are values of the same example, the first model's and the second's.
 *
 * @since 0.2.0
 * @category combinators
 */
export const compare = (
  pairs: ReadonlyArray<{
    readonly first: number
    readonly second: number
    readonly cluster?: string | number | undefined
  }>,
  options: Options = {}
): Comparison => {
  const differences = pairs.map(({ cluster, first, second }) => ({ value: second - first, cluster }))
  const clusters = clustersOf(differences)
  const sums = clusters.map(({ sum }) => sum)
  const observed = Math.abs(sums.reduce((all, sum) => all + sum, 0))
  // sums of the same terms in another order differ in their last bits
  const bar = observed - 1e-9 * Math.max(1, observed)
  const total = (signs: (i: number) => boolean) =>
    Math.abs(sums.reduce((all, sum, i) => all + (signs(i) ? sum : -sum), 0))
  let extreme = 0
  let looked = 0
  if (sums.length < enumerated) {
    looked = 2 ** sums.length
    for (let n = 0; n < looked; n++) if (total((i) => ((n >> i) & 1) === 1) >= bar) extreme++
  } else {
    const below = makeFast((options.seed ?? 1) + 1)
    const draws = options.draws ?? 10_000
    // what was observed is one of them
    looked = draws + 1
    extreme = 1
    for (let n = 0; n < draws; n++) if (total(() => below(2) === 1) >= bar) extreme++
  }
  return new Comparison({
    difference: interval(differences, options),
    p: extreme / looked
  })
}
