/**
 * Summary of a file of training data before any money is spent on it: its lengths, what is trained on, what would be
 * skipped and why, and what a run would cost.
 *
 * {@link measure} counts the rows of a dataset. {@link DataCheck} is how the studio gets at files: which ones there are,
 * and how a model writes their rows.
 *
 * @since 0.1.0
 */
import type * as DataQuality from "@effect-tinker/cookbook/DataQuality"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type * as CostLedger from "effect-tinker/CostLedger"
import type * as Datum from "effect-tinker/Datum"
import * as ModelInput from "effect-tinker/ModelInput"
import * as TensorData from "effect-tinker/TensorData"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tokens from "./internal/tokens.js"

// =============================================================================
// models
// =============================================================================

/**
 * The tokens of a row and what each weighs in training.
 *
 * @since 0.1.0
 * @category models
 */
export interface Weighed {
  readonly tokens: ReadonlyArray<number>
  readonly weights: ReadonlyArray<number>
}

/**
 * Rows whose lengths lie between two numbers of tokens, both included.
 *
 * @since 0.1.0
 * @category models
 */
export interface Bucket {
  readonly from: number
  readonly to: number
  readonly count: number
}

/**
 * A row that would not be trained on.
 *
 * @since 0.1.0
 * @category models
 */
export interface SkippedRow {
  /** Counted from 1. */
  readonly row: number
  readonly reason: string
  readonly detail: string
}

/**
 * A dataset in numbers.
 *
 * @since 0.1.0
 * @category models
 */
export interface Measured {
  readonly rows: number
  readonly kept: number
  readonly skipped: Readonly<Partial<Record<Dataset.SkipReason, number>>>
  /** The first of them. */
  readonly skippedRows: ReadonlyArray<SkippedRow>
  readonly tokens: number
  readonly trainedTokens: number
  readonly lengths: {
    readonly min: number
    readonly p50: number
    readonly p90: number
    readonly p99: number
    readonly max: number
  }
  /** By powers of two. */
  readonly histogram: ReadonlyArray<Bucket>
  /** The first rows; a preference is two of them, the chosen one first. `row` counts from 1. */
  readonly shown: ReadonlyArray<{ readonly row: number; readonly parts: ReadonlyArray<Weighed> }>
  /** Whether all rows were read. */
  readonly complete: boolean
}

/**
 * A part of a row to read: its tokens, what they say and what they weigh.
 *
 * @since 0.1.0
 * @category models
 */
export interface Part {
  /** `chosen` or `rejected` in a preference, and empty otherwise. */
  readonly side: string
  readonly length: number
  /** The tokens that are shown, from the first on. */
  readonly ids: ReadonlyArray<number>
  readonly texts: ReadonlyArray<string>
  readonly weights: ReadonlyArray<number>
}

/**
 * The answer to a {@link Request}.
 *
 * @since 0.1.0
 * @category models
 */
export interface Report extends Omit<Measured, "shown"> {
  readonly file: string
  readonly kind: string
  readonly model: string
  readonly renderer: string
  readonly epochs: number
  readonly trainingTokens: number
  /** In the currency of the prices; `null` where there are none. */
  readonly estimatedCost: number | null
  /** Duplicates, answers cut short, personal data and more, where the file was looked through for them. */
  readonly quality?: DataQuality.Report | undefined
  readonly shown: ReadonlyArray<{ readonly row: number; readonly parts: ReadonlyArray<Part> }>
}

/**
 * A file that can be checked.
 *
 * @since 0.1.0
 * @category models
 */
export interface File {
  readonly path: string
  readonly bytes: number
}

// =============================================================================
// measuring
// =============================================================================

/** A datum has no weight for its first token: it is never predicted. */
const weighed = (datum: Datum.Datum): Effect.Effect<Weighed, Dataset.Skip> =>
  Effect.mapBoth(ModelInput.toInts(datum.modelInput), {
    onFailure: (error) => new Dataset.Skip({ reason: "malformed", detail: error.message }),
    onSuccess: (inputs) => {
      const { target_tokens: targets, weights } = datum.lossFnInputs
      return {
        tokens: [...inputs, ...(targets === undefined ? [] : TensorData.toArray(targets).slice(-1))],
        weights: [0, ...(weights === undefined ? [] : TensorData.toArray(weights))]
      }
    }
  })

/** The value below which a share of the sorted values lies. */
const quantile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0

/** Lengths by powers of two, without the empty ends. */
const histogram = (sorted: ReadonlyArray<number>): ReadonlyArray<Bucket> => {
  const buckets: Array<Bucket> = []
  const longest = sorted.at(-1) ?? 0
  for (let from = 2 ** Math.floor(Math.log2(Math.max(1, sorted[0] ?? 1))); from <= longest; from *= 2) {
    const to = 2 * from - 1
    buckets.push({ from, to, count: sorted.filter((length) => length >= from && length <= to).length })
  }
  return buckets
}

const maxSkipped = 100

/**
 * Reads rows and counts what they come to. Each row is what it is trained as: one datum, or two for a preference.
 *
 * @since 0.1.0
 * @category constructors
 */
export const measure: <E, R, E2 = never, R2 = never>(
  data: Dataset.Dataset<ReadonlyArray<Datum.Datum>, E, R>,
  options: {
    /** How many of the first rows to keep for people to read. */
    readonly show: number
    /** Defaults to all. */
    readonly maxRows?: number | undefined
    /** Called after every row with how many there were. */
    readonly onRow?: ((rows: number) => Effect.Effect<void, E2, R2>) | undefined
  }
) => Effect.Effect<Measured, E | E2, R | R2> = Effect.fnUntraced(function*(data, { maxRows, onRow, show }) {
  const lengths: Array<number> = []
  const shown: Array<Measured["shown"][number]> = []
  const skipped: Array<Dataset.Skipped> = []
  let rows = 0
  let trainedTokens = 0
  let tokens = 0
  const limit = maxRows ?? Infinity
  const found = Dataset.rows(Dataset.mapEffect(data, (parts) => Effect.forEach(parts, weighed)))
  yield* Stream.runForEach(limit === Infinity ? found : Stream.take(found, limit + 1), (row) => {
    if (++rows > limit) return Effect.void
    if (row._tag === "Skipped") skipped.push(row)
    else {
      for (const { tokens: ids, weights } of row.value) {
        lengths.push(ids.length)
        tokens += ids.length
        trainedTokens += weights.reduce((sum, weight) => sum + Number(weight > 0), 0)
      }
      if (shown.length < show) shown.push({ row: row.origin.row + 1, parts: row.value })
    }
    return onRow === undefined ? Effect.void : onRow(rows)
  })
  const sorted = lengths.sort((a, b) => a - b)
  const read = Math.min(rows, limit)
  return {
    rows: read,
    kept: read - skipped.length,
    skipped: Dataset.countSkipped(skipped),
    skippedRows: skipped.slice(0, maxSkipped).map(({ detail, origin, reason }) => ({
      row: origin.row + 1,
      reason,
      detail
    })),
    tokens,
    trainedTokens,
    lengths: {
      min: sorted[0] ?? 0,
      p50: quantile(sorted, 0.5),
      p90: quantile(sorted, 0.9),
      p99: quantile(sorted, 0.99),
      max: sorted.at(-1) ?? 0
    },
    histogram: histogram(sorted),
    shown,
    complete: rows <= limit
  }
})

/**
 * Price of training on a number of tokens, by prices of a million; `undefined` without a price.
 *
 * @since 0.1.0
 * @category combinators
 */
export const costOf = (options: {
  readonly tokens: number
  readonly epochs: number
  /** Preferences also read each answer once for the reference. */
  readonly preferences: boolean
  readonly price: CostLedger.Price | undefined
}): number | undefined => {
  const { epochs, preferences, price, tokens } = options
  if (price?.train === undefined) return undefined
  return (tokens * epochs * price.train + (preferences ? tokens * (price.prefill ?? price.train) : 0)) / 1e6
}

/** More than this of one row no person reads. */
const maxTokens = 4_000

/**
 * The parts of a row with what their tokens say.
 *
 * @since 0.1.0
 * @category combinators
 */
export const readable = (parts: ReadonlyArray<Weighed>, tokenizer: Tokenizer.Tokenizer): ReadonlyArray<Part> =>
  parts.map(({ tokens, weights }, i) => {
    const ids = tokens.slice(0, maxTokens)
    return {
      side: parts.length === 1 ? "" : i === 0 ? "chosen" : "rejected",
      length: tokens.length,
      ids,
      texts: Tokens.texts(tokenizer, ids),
      weights: weights.slice(0, maxTokens)
    }
  })

// =============================================================================
// the service
// =============================================================================

/**
 * Which file to check, and as what.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Request extends Schema.Class<Request>("@effect-tinker/studio/DataCheck/Request")({
  file: Schema.NonEmptyString.pipe(Schema.maxLength(4096)),
  model: Schema.NonEmptyString.pipe(Schema.maxLength(512)),
  /** Longer rows are skipped. Defaults to no limit. */
  maxLength: Schema.optional(Schema.Int.pipe(Schema.between(1, 10_000_000))),
  /** Defaults to 1. */
  epochs: Schema.optionalWith(Schema.Int.pipe(Schema.between(1, 10_000)), { default: () => 1 }),
  /** Price of a million tokens. Defaults to none. */
  price: Schema.optional(Schema.Finite.pipe(Schema.nonNegative()))
}) {}

/**
 * The file cannot be checked.
 *
 * @since 0.1.0
 * @category errors
 */
export class CheckFailed extends Schema.TaggedError<CheckFailed>("@effect-tinker/studio/DataCheck/CheckFailed")(
  "CheckFailed",
  { file: Schema.String, description: Schema.String }
) {
  override get message(): string {
    return this.description
  }
}

/**
 * Checks files of training data.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly files: ReadonlyArray<File>
  /** The model to begin with; empty where none was named. */
  readonly model: string
  /** Only the files above are ever opened. */
  readonly check: (request: Request) => Effect.Effect<Report, CheckFailed>
}

/**
 * Where files of training data come from. Without it the studio has no page for them.
 *
 * @since 0.1.0
 * @category services
 */
export class DataCheck extends Context.Tag("@effect-tinker/studio/DataCheck")<DataCheck, Service>() {}
