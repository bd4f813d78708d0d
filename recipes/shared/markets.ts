/**
 * Days with what the barometer said and whether it rained, for the recipes that forecast: what is known, and what came of it.
 */
import { Array } from "effect"
import { PCGRandom } from "effect/Utils"

/** Chance of rain for each reading of the barometer. The model never sees it, only days and their outcomes. */
const chances = [[1, 0.9], [3, 0.7], [7, 0.3], [9, 0.1]] as const

/** A question with an outcome that was not known when it was asked. */
export interface Market {
  readonly town: string
  readonly barometer: number
  /** Whether it rained. */
  readonly outcome: boolean
}

const days = (towns: ReadonlyArray<string>, count: number, seed: number): ReadonlyArray<Market> => {
  const random = new PCGRandom(seed)
  return Array.makeBy(count, (n) => {
    const [barometer, chance] = chances[n % chances.length] ?? chances[0]
    return { barometer, town: towns[random.integer(towns.length)] ?? "", outcome: random.number() < chance }
  })
}

/** What came of the days of some towns is known; those of others, of which nothing was seen, are forecast. */
export const markets = (seed: number) => ({
  known: days(["Oslo", "Rome", "Paris", "Lima"], 192, 2 * seed + 1),
  unknown: days(["Cairo", "Bern", "Riga", "Turin"], 512, 2 * seed + 2)
})

/** What is to be seen of a day. */
export const seen = ({ barometer, town }: Pick<Market, "barometer" | "town">) =>
  `The barometer of ${town} is at ${barometer}.`

/** 1 for a probability of the outcome of 1, and 0 for 0: it is highest on average for the true chance. */
export const brier = (probability: number, { outcome }: Market) => 1 - (probability - Number(outcome)) ** 2

/** The share of pairs of a rainy and a dry day in which the rainy one was given the higher probability; ties count half. */
export const auc = (forecasts: ReadonlyArray<readonly [probability: number, market: Market]>) => {
  const of = (outcome: boolean) => forecasts.filter(([, market]) => market.outcome === outcome).map(([p]) => p)
  const [rainy, dry] = [of(true), of(false)]
  const higher = rainy.flatMap((p) => dry.map((other) => p > other ? 1 : p === other ? 0.5 : 0))
  return higher.reduce<number>((sum, value) => sum + value, 0) / higher.length
}
