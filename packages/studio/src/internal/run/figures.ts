/**
 * Figures of a run, by its metrics and its configuration.
 */
import type * as CostLedger from "effect-tinker/CostLedger"
import type { Detail, Summary } from "../../RunDirectory.js"
import type * as Series from "../../Series.js"
import * as Json from "../json.js"
import type { State } from "./state.js"

/** Losses first, then rewards, then evaluations: what people look for. */
const wanted: ReadonlyArray<RegExp> = [
  /^(train_mean_nll|loss|nll|dpo_loss)$|^(?!eval|test|time).*\bloss$/,
  /^(env\/all\/reward(\/total|\/mean)?|reward|env\/all\/reward\/total)$|^env\/.*reward/,
  /^(eval|test)\/.*(reward|accuracy|correct|nll|score|win_rate|loss)/
]

/** The metrics to look at first. @internal */
export const headlines = (table: Series.Table): ReadonlyArray<string> => {
  const names = table.names()
  const found = wanted.flatMap((pattern) => names.filter((name) => pattern.test(name)).slice(0, 1))
  // With reinforcement, the reward says more than the loss.
  const order = found.length > 1 && /reward/.test(found[1] ?? "") ? [found[1], found[0], ...found.slice(2)] : found
  const chosen = order.flatMap((name) => name === undefined ? [] : [name])
  return chosen.length > 0 ? chosen : names.filter((name) => !name.startsWith("time/")).slice(0, 1)
}

/** The sum of the first of these columns that there is. @internal */
export const sumOf = (table: Series.Table, ...known: ReadonlyArray<string>): number | null => {
  const names = table.names()
  const name = known.find((candidate) => names.includes(candidate))
  if (name === undefined) return null
  let sum = 0
  table.each(name, (_, value) => {
    if (Number.isFinite(value)) sum += value
  })
  return sum
}

const cumulative = /^cost\/cumulative_([a-z]+)$/

/** As the run recorded it, in all or step by step, in the currency its metrics name, or else the given one. @internal */
export const costOf = (table: Series.Table, currency: string): Pick<Summary, "cost" | "currency"> => {
  const name = table.names().find((candidate) => cumulative.test(candidate))
  const cost = name === undefined ? undefined : table.summary(name)?.last
  return name === undefined || cost === undefined || cost === null
    ? { cost: sumOf(table, "cost"), currency }
    : { cost, currency: cumulative.exec(name)?.[1]?.toUpperCase() ?? currency }
}

/** A run that was resumed has slept in between: what its steps took says more than the calendar. @internal */
export const secondsOf = (table: Series.Table, { startedAt, updatedAt }: State): number | null => {
  if (table.size() === 0) return null
  const steps = sumOf(table, "time/step", "time/total")
  if (steps !== null && steps > 0) return steps
  return startedAt === null || updatedAt === null ? null : Math.max(0, updatedAt - startedAt) / 1000
}

/** By the names of our trainers and of the Python cookbook. */
const settingNames: ReadonlyArray<readonly [name: string, paths: ReadonlyArray<string>]> = [
  ["lr", ["learningRate.peak", "learningRate", "learning_rate"]],
  ["rank", ["model.rank", "lora_rank", "rank"]],
  ["batch", ["batchSize", "batch_size", "groupsPerBatch", "groups_per_batch", "dataset_builder.batch_size"]],
  ["group", ["groupSize", "group_size"]],
  ["epochs", ["epochs", "num_epochs"]]
]

/** The settings people tell runs apart by. @internal */
export const settingsOf = (config: unknown): Summary["settings"] =>
  settingNames.flatMap(([name, paths]) => {
    for (const path of paths) {
      const value = path.split(".").reduce<unknown>((inner, key) => Json.objectOf(inner)[key], config)
      if (typeof value === "number" && Number.isFinite(value)) return [{ name, value: String(value) }]
    }
    return []
  })

const waitPrefix = "time/wait/"

/** Seconds of waiting by reason. @internal */
export const waitsOf = (table: Series.Table): Detail["waits"] =>
  table.names().flatMap((name) => {
    const seconds = name.startsWith(waitPrefix) ? sumOf(table, name) : null
    return seconds === null || seconds === 0 ? [] : [{ reason: name.slice(waitPrefix.length), seconds }]
  })

type Metrics = ReadonlyArray<readonly [string, number]>

/**
 * Costs of a step by its tokens: those trained on, those sampled, and those given to the sampler. Our trainers and the
 * Python cookbook's count them under different names.
 *
 * @internal
 */
export const withCost = (metrics: Metrics, price: CostLedger.Price | undefined): Metrics => {
  if (price === undefined || metrics.some(([name]) => name === "cost" || cumulative.test(name))) {
    return metrics
  }
  const table = new Map(metrics)
  const of = (name: string) => table.get(`env/all/${name}`)
  const [turns, perTurn, rollouts] = [of("turns"), of("tokens_per_turn"), of("rollouts")]
  const sampled = of("total_ac_tokens") ??
    (turns === undefined || perTurn === undefined || rollouts === undefined ? 0 : turns * perTurn * rollouts)
  const counted = table.get("tokens") ?? table.get("num_tokens")
  const given = of("total_ob_tokens") ?? (sampled === 0 ? 0 : Math.max(0, (counted ?? 0) - sampled))
  const trained = counted ?? given + sampled
  const cost = (trained * (price.train ?? 0) + given * (price.prefill ?? 0) + sampled * (price.sample ?? 0)) / 1e6
  // An evaluation has no tokens, and does not make the cost of its step zero.
  return trained === 0 ? metrics : [...metrics, ["cost", cost]]
}
