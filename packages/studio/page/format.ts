/**
 * Numbers and times for people.
 */

export const number = (value: number | null | undefined): string => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–"
  const size = Math.abs(value)
  // What is left of sums that should be nothing.
  if (size < 1e-14) return "0"
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2).replace("e+", "e")
  if (Number.isInteger(value)) return value.toLocaleString("en-US")
  return size >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(4)))
}

export const count = (value: number): string =>
  value < 10_000
    ? value.toLocaleString("en-US")
    : value < 1e6
    ? `${(value / 1e3).toFixed(value < 1e5 ? 1 : 0)}k`
    : value < 1e9
    ? `${(value / 1e6).toFixed(1)}M`
    : `${(value / 1e9).toFixed(1)}B`

/** In its currency; small amounts have two digits that say something. */
export const money = (value: number, currency: string): string => {
  const digits = value === 0 || Math.abs(value) >= 0.01
    ? 2
    : Math.min(12, 1 - Math.floor(Math.log10(Math.abs(value))))
  const amount = value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: digits })
  return currency === "USD" ? `$${amount}` : `${amount} ${currency}`
}

export const bytes = (value: number): string =>
  value < 1e3
    ? `${value} B`
    : value < 1e6
    ? `${(value / 1e3).toFixed(0)} kB`
    : value < 1e9
    ? `${(value / 1e6).toFixed(1)} MB`
    : `${(value / 1e9).toFixed(1)} GB`

export const seconds = (total: number): string => {
  if (total < 1) return `${Math.round(total * 1000)} ms`
  if (total < 10) return `${Number(total.toPrecision(2))} s`
  if (total < 90) return `${Math.round(total)} s`
  const minutes = Math.floor(total / 60)
  if (minutes < 90) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`
}

export const ago = (time: number | null): string => {
  if (time === null) return "–"
  const passed = (Date.now() - time) / 1000
  return passed < 10 ? "just now" : `${seconds(passed)} ago`
}

export const date = (time: number | null): string =>
  time === null ? "–" : new Date(time).toISOString().slice(0, 16).replace("T", " ")

const recipes: Readonly<Record<string, string>> = {
  supervised: "Supervised fine-tuning",
  preference: "Preference learning",
  dpo: "Preference learning",
  reinforce: "Reinforcement learning",
  distill: "Distillation",
  "off-policy": "Distillation",
  offline: "Offline learning"
}

/** The kind of training, in words. */
export const recipe = (trainer: string): string =>
  recipes[trainer] ?? (trainer === "" ? "Run" : `${trainer[0]?.toUpperCase()}${trainer.slice(1).replaceAll("_", " ")}`)

/** What a run is: `Supervised fine-tuning of Qwen3-8B`. */
export const titleOf = ({ model, trainer }: { readonly model: string; readonly trainer: string }): string =>
  model === "" ? recipe(trainer) : `${recipe(trainer)} of ${model.replace(/^(?!local\/)[\w.-]+\/(?=[\w.-]+$)/, "")}`

const metricNames: Readonly<Record<string, string>> = {
  "env/all/reward/total": "reward",
  "env/all/reward/mean": "reward",
  train_mean_nll: "loss per token",
  dpo_loss: "preference loss",
  num_tokens: "tokens",
  grad_norm: "gradient norm",
  kl_sample_train_v1: "KL, sampler to trainer (v1)",
  kl_sample_train_v2: "KL, sampler to trainer (v2)"
}

/** Units of what has one. */
const unitOf = (name: string): string =>
  name.startsWith("time/")
    ? " (s)"
    : cumulativeCost.test(name)
    ? ` (${cumulativeCost.exec(name)?.[1]?.toUpperCase()})`
    : ""

const cumulativeCost = /^cost\/cumulative_([a-z]+)$/

/** The name of a metric for people; programs keep theirs: `env/all/reward` is `reward`, `eval/held-out/nll` `held-out: nll`. */
export const metric = (name: string): string => {
  const known = metricNames[name]
  if (known !== undefined) return known
  if (cumulativeCost.test(name)) return `cost so far${unitOf(name)}`
  const parts = name.replace(/^(env\/all|time\/wait|time|eval|train)\//, "").split("/")
  const last = (parts.pop() ?? "").replaceAll("_", " ")
  return `${parts.length === 0 ? "" : `${parts.join(", ")}: `}${last}${unitOf(name)}`
}

export const axisNames = { step: "Step", tokens: "Tokens", time: "Time" } as const

export const onAxis = (axis: "step" | "tokens" | "time", value: number): string =>
  axis === "time" ? seconds(Math.max(0, value)) : axis === "tokens" ? count(value) : number(value)
