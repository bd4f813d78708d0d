/**
 * A line of a metrics log, from text and to text.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { Entry, Line, Outcome } from "../../MetricsLog.js"

/** Names that are no metrics. */
const reserved = new Set(["step", "time", "total_steps", "event"])

const words = new Map([["NaN", NaN], ["Infinity", Infinity], ["-Infinity", -Infinity]])

const outcomes: ReadonlyArray<Outcome> = ["success", "failure", "interrupted"]

/** JSON has no words for them; Python writes them bare. */
const bare = /([:,[]\s*)(NaN|-?Infinity)(?=\s*[,}\]])/g

const parseJson = (text: string): Either.Either<unknown, unknown> =>
  Either.try((): unknown => JSON.parse(text)).pipe(
    Either.orElse(() => Either.try((): unknown => JSON.parse(text.replace(bare, "$1\"$2\""))))
  )

const numberOf = (value: unknown): number | undefined =>
  typeof value === "number" ? value : typeof value === "string" ? words.get(value) : undefined

/** Others count seconds, which as milliseconds would be of the early seventies. */
const timeOf = (value: unknown): number | undefined => {
  const time = numberOf(value)
  return time !== undefined && time >= 1e8 && time < 1e11 ? time * 1000 : time
}

/** What `MetricsLog` says between the steps. */
const markOf = (fields: ReadonlyMap<string, unknown>): Line | undefined => {
  const time = timeOf(fields.get("time"))
  switch (fields.get("event")) {
    case "waiting": {
      const reason = fields.get("reason")
      return { _tag: "Waiting", time, reason: typeof reason === "string" ? reason : undefined }
    }
    case "end":
      return {
        _tag: "Ended",
        time,
        outcome: outcomes.find((outcome) => outcome === fields.get("outcome")) ?? "success"
      }
    default:
      return undefined
  }
}

const entryOf = (fields: ReadonlyMap<string, unknown>, index: number): Entry => {
  const metrics: Array<[string, number]> = []
  for (const [name, field] of fields) {
    const number = numberOf(field)
    // What is no number (a text, a nested object) belongs to other readers.
    if (number !== undefined && !reserved.has(name)) metrics.push([name, number])
  }
  const totalSteps = numberOf(fields.get("total_steps"))
  return {
    step: numberOf(fields.get("step")) ?? index,
    time: timeOf(fields.get("time")),
    metrics: Object.fromEntries(metrics),
    ...(totalSteps === undefined ? {} : { totalSteps })
  }
}

/**
 * What a line says; `index` counts where it does not say its step.
 *
 * @internal
 */
export const parse = (text: string, index: number): Either.Either<Line, string> =>
  Either.flatMap(Either.mapLeft(parseJson(text), () => "not JSON"), (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return Either.left("not a JSON object")
    const fields = new Map<string, unknown>(Object.entries(value))
    return Either.right(markOf(fields) ?? { _tag: "Step", entry: entryOf(fields, index) })
  })

/**
 * The first of the names that a metric cannot have.
 *
 * @internal
 */
export const wrongName = (metrics: Readonly<Record<string, number>>): string | undefined =>
  Object.keys(metrics).find((name) => reserved.has(name))

const line = (fields: Readonly<Record<string, unknown>>): string => `${JSON.stringify(fields)}\n`

/** @internal */
export const step = (time: number, step: number, totalSteps: number | undefined, metrics: Iterable<[string, number]>) =>
  line({
    step,
    time,
    ...Object.fromEntries(
      Array.from(metrics, ([name, value]) => [name, Number.isFinite(value) ? value : String(value)])
    ),
    total_steps: totalSteps
  })

/** @internal */
export const waiting = (time: number, step: number | undefined, reason: string | undefined) =>
  line({ event: "waiting", step, time, reason: reason ?? null })

/** @internal */
export const ended = (time: number, step: number | undefined, outcome: Outcome) =>
  line({ event: "end", step, time, outcome })
