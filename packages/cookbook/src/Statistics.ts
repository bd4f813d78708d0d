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
 * Share of the bootstrap's draws below the lower bound: that of the normal distribution that reaches as far as Student's
 * would, and as n clusters reach beyond n - 1.
 */
const tailOf = (level: number, n: number): number =>
  normalProbability(studentQuantile((1 - level) / 2, n - 1) * Math.sqrt(n / (n - 1)))

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
  const share = tailOf(level, n)
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

/**
 * Two grades of the same thing: a person's and a judge's, or two people's.
 *
 * @since 0.2.0
 * @category models
 */
export interface Graded<out A extends string | number = string | number> {
  readonly first: A
  readonly second: A
  /** Grades with the same cluster are not independent. Defaults to one for each pair. */
  readonly cluster?: string | number | undefined
}

/**
 * Agreement of two graders.
 *
 * @since 0.2.0
 * @category schemas
 */
export class Agreement extends Schema.Class<Agreement>("@effect-tinker/cookbook/Statistics/Agreement")({
  /** Cohen's kappa: 1 for the same grades, 0 for what chance gives, below 0 for less than that; `NaN` where both always gave one and the same grade. */
  kappa: Schema.Number,
  low: Schema.Number,
  high: Schema.Number,
  /** Confidence of the interval, such as 0.95. */
  level: Schema.Number,
  /** Share of equal grades. */
  equal: Schema.Number,
  /** Share of equal grades that the graders would have by chance, each with its own habits. */
  byChance: Schema.Number,
  pairs: Schema.Int
}) {}

/** Kappa from how often each grade met each other one: 1 minus the disagreement there is over that of chance. */
const kappaOf = (counts: Float64Array, grades: number, distances: Float64Array): number => {
  const [rows, columns] = [new Float64Array(grades), new Float64Array(grades)]
  let [there, byChance, n] = [0, 0, 0]
  for (let i = 0; i < grades; i++) {
    for (let j = 0; j < grades; j++) {
      const count = counts[i * grades + j] ?? 0
      rows[i] = (rows[i] ?? 0) + count
      columns[j] = (columns[j] ?? 0) + count
      there += count * (distances[i * grades + j] ?? 0)
      n += count
    }
  }
  for (let i = 0; i < grades; i++) {
    for (let j = 0; j < grades; j++) byChance += (rows[i] ?? 0) * (columns[j] ?? 0) * (distances[i * grades + j] ?? 0)
  }
  return byChance === 0 ? NaN : 1 - there * n / byChance
}

/** Maximum number of different grades: every pair of them is counted, so scores of many digits are refused. */
const maxGrades = 200

/**
 * Cohen's kappa of two graders, with a bootstrap interval, widened for few clusters as that of a mean is. With `weights`, grades are numbers, and grades that are near each
 * other agree more than those that are far apart.
 *
 * @example
 * ```ts
 * import { Statistics } from "@effect-tinker/cookbook"
 *
 * const { kappa } = Statistics.agreement([
 *   { first: "good", second: "good" },
 *   { first: "bad", second: "bad" },
 *   { first: "bad", second: "good" },
 *   { first: "good", second: "good" }
 * ])
 * ```
 *
 * @since 0.2.0
 * @category combinators
 */
export const agreement = <A extends string | number>(
  pairs: ReadonlyArray<Graded<A>>,
  options: Options & {
    /** Defaults to `none`: two grades are equal or not. */
    readonly weights?: A extends number ? "none" | "linear" | "quadratic" : "none"
  } = {}
): Agreement => {
  const { draws = 2000, level = 0.95, seed = 1, weights = "none" } = options
  const grades = [...new Set(pairs.flatMap(({ first, second }) => [first, second]))]
  if (grades.length > maxGrades) {
    throw new RangeError(`${grades.length} different grades; round them to ${maxGrades} or fewer`)
  }
  const k = grades.length
  const index = new Map(grades.map((grade, i) => [grade, i]))
  const distances = Float64Array.from({ length: k * k }, (_, at) => {
    const [a, b] = [grades[Math.floor(at / k)], grades[at % k]]
    if (weights === "none") return a === b ? 0 : 1
    return Math.abs(Number(a) - Number(b)) ** (weights === "linear" ? 1 : 2)
  })
  const cells = new Map<string | number, Array<number>>()
  for (const [i, { cluster, first, second }] of pairs.entries()) {
    const name = cluster === undefined ? `pair ${i}` : typeof cluster === "number" ? cluster : `cluster ${cluster}`
    const cell = (index.get(first) ?? 0) * k + (index.get(second) ?? 0)
    const own = cells.get(name)
    if (own === undefined) cells.set(name, [cell])
    else own.push(cell)
  }
  const clusters = [...cells.values()]
  const all = new Float64Array(k * k)
  for (const cell of clusters.flat()) all[cell] = (all[cell] ?? 0) + 1
  const below = makeFast(seed)
  const drawn = Array.from({ length: clusters.length < 2 ? 0 : draws }, () => {
    const counts = new Float64Array(k * k)
    for (let i = 0; i < clusters.length; i++) {
      for (const cell of clusters[below(clusters.length)] ?? []) counts[cell] = (counts[cell] ?? 0) + 1
    }
    return kappaOf(counts, k, distances)
    // a draw of one grade only says nothing
  }).filter((kappa) => !Number.isNaN(kappa)).sort((a, b) => a - b)
  const tail = tailOf(level, Math.max(2, clusters.length))
  const at = (q: number) => drawn[Math.round(q * (drawn.length - 1))]
  const share = (side: "first" | "second", grade: A) =>
    pairs.filter((pair) => pair[side] === grade).length / pairs.length
  return new Agreement({
    kappa: kappaOf(all, k, distances),
    low: at(tail) ?? -Infinity,
    high: at(1 - tail) ?? Infinity,
    level,
    equal: pairs.filter(({ first, second }) => first === second).length / pairs.length,
    byChance: grades.reduce((sum, grade) => sum + share("first", grade) * share("second", grade), 0),
    pairs: pairs.length
  })
}
