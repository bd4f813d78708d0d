/**
 * Results of an evaluation that were written to a file, and two of them beside each other: example by example, with the
 * uncertainty of the difference.
 *
 * Files are those of `Benchmark.run`, and what `tinker eval --format json` prints.
 *
 * @since 0.2.0
 */
import * as Lines from "@effect-tinker/platform/Lines"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Benchmark from "./Benchmark.js"
import * as Statistics from "./Statistics.js"

/**
 * One attempt at one example.
 *
 * @since 0.2.0
 * @category models
 */
export interface Attempt {
  readonly value: number
  readonly answer: string
}

/**
 * An example with all attempts at it.
 *
 * @since 0.2.0
 * @category models
 */
export interface Example {
  readonly id: string
  readonly input: string
  readonly target: string
  readonly attempts: ReadonlyArray<Attempt>
}

/**
 * An evaluation.
 *
 * @since 0.2.0
 * @category models
 */
export interface Results {
  readonly name: string
  readonly model: string
  readonly examples: ReadonlyMap<string, Example>
  /** Attempts that have no result, and do not count. */
  readonly failed: number
}

/**
 * A file that holds no results of an evaluation.
 *
 * @since 0.2.0
 * @category errors
 */
export class NoResults extends Schema.TaggedError<NoResults>("@effect-tinker/cookbook/EvalResults/NoResults")(
  "NoResults",
  { path: Schema.String, description: Schema.String }
) {
  override get message(): string {
    return `${this.path} has no results of an evaluation: ${this.description}`
  }
}

const maxBytes = 256 * 1024 * 1024

const Header = Schema.parseJson(Schema.Struct({ benchmark: Schema.String, model: Schema.String }))

const Printed = Schema.parseJson(Schema.Struct({
  target: Schema.String,
  metrics: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Unknown })),
  examples: Schema.Array(Schema.Struct({
    row: Schema.NonNegativeInt,
    value: Schema.NullOr(Schema.Number),
    input: Schema.optional(Schema.String),
    output: Schema.optional(Schema.String),
    expected: Schema.optional(Schema.String)
  }))
}))

const decodeHeader = Schema.decodeUnknownEither(Header)
const decodePrinted = Schema.decodeUnknownEither(Printed)
const decodeResult = Schema.decodeUnknownEither(Schema.parseJson(Benchmark.Result))

/**
 * The results of a report.
 *
 * @since 0.2.0
 * @category constructors
 */
export const fromResults = (
  of: { readonly name: string; readonly model: string; readonly results: Iterable<Benchmark.Result> }
): Results => {
  const examples = new Map<
    string,
    { readonly id: string; readonly input: string; readonly target: string; readonly attempts: Array<Attempt> }
  >()
  // a file that was gone on with has an attempt twice: the later one counts
  const latest = new Map(Array.from(of.results, (result) => [`${result.sample}:${result.id}`, result]))
  let failed = 0
  for (const { answer, id, input = "", outcome, reward, target = "" } of latest.values()) {
    if (outcome === "failed") {
      failed++
      continue
    }
    const example = examples.get(id) ?? { id, input, target, attempts: [] }
    examples.set(id, example)
    example.attempts.push({ value: reward, answer })
  }
  return { name: of.name, model: of.model, examples, failed }
}

/** Metrics as `tinker eval` prints them: losses are turned around, so that more is better everywhere. */
const fromPrinted = (printed: typeof Printed.Type, path: string): Results => {
  const sign = Object.hasOwn(printed.metrics ?? {}, "nll") ? -1 : 1
  const judged = printed.examples.filter(({ value }) => value !== null)
  return {
    name: path.split(/[\\/]/).at(-1) ?? path,
    model: printed.target,
    failed: printed.examples.length - judged.length,
    examples: new Map(judged.map(({ expected = "", input = "", output = "", row, value }) => [
      String(row),
      { id: String(row), input, target: expected, attempts: [{ value: sign * (value ?? 0), answer: output }] }
    ]))
  }
}

/**
 * Reads a file of results.
 *
 * @since 0.2.0
 * @category constructors
 */
export const read: (
  path: string
) => Effect.Effect<Results, NoResults | PlatformError.PlatformError, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(path) {
    const fs = yield* FileSystem.FileSystem
    const { size } = yield* fs.stat(path)
    if (size > maxBytes) {
      return yield* new NoResults({ path, description: `it has ${size} bytes, of ${maxBytes} allowed` })
    }
    const decoder = new TextDecoder()
    const lines = yield* Lines.stream(path, { offset: 0, limit: 16 * 1024 * 1024 }).pipe(
      Stream.map(({ bytes }) => decoder.decode(bytes)),
      Stream.runCollect,
      Effect.map(Chunk.toReadonlyArray)
    )
    const header = decodeHeader(lines[0])
    const found = Either.isRight(header)
      ? fromResults({
        name: header.right.benchmark,
        model: header.right.model,
        // a last line that was cut short is one attempt less
        results: lines.slice(1).flatMap((line) =>
          Either.match(decodeResult(line), {
            onLeft: () => [],
            onRight: (result) => [result]
          })
        )
      })
      : Either.match(decodePrinted(lines.join("\n")), {
        onLeft: () => undefined,
        onRight: (printed) => fromPrinted(printed, path)
      })
    if (found === undefined) {
      return yield* new NoResults({
        path,
        description: "it is neither a benchmark's nor printed by `tinker eval --format json`"
      })
    }
    return found.examples.size === 0
      ? yield* new NoResults({ path, description: "no attempt in it has a result" })
      : found
  }
)

/**
 * An example whose values differ.
 *
 * @since 0.2.0
 * @category models
 */
export interface Changed {
  readonly id: string
  readonly input: string
  readonly target: string
  /** The mean of the attempts, and the answer of the first. */
  readonly first: Attempt
  readonly second: Attempt
}

/**
 * Two evaluations of the same examples.
 *
 * @since 0.2.0
 * @category models
 */
export interface Comparison {
  readonly name: string
  readonly models: readonly [first: string, second: string]
  /** Means over the shared examples. */
  readonly scores: readonly [first: number, second: number]
  /** The second's minus the first's, above zero where the second is better. */
  readonly difference: Statistics.Interval
  readonly p: number
  readonly shared: number
  /** Examples that only one of them has. */
  readonly alone: readonly [first: number, second: number]
  readonly better: number
  readonly worse: number
  /** Those that became worse first, by how much. */
  readonly changed: ReadonlyArray<Changed>
}

const mean = (values: ReadonlyArray<number>): number => values.reduce((sum, one) => sum + one, 0) / values.length

const summed = ({ attempts }: Example): Attempt => ({
  value: mean(attempts.map(({ value }) => value)),
  answer: attempts[0]?.answer ?? ""
})

/**
 * The second evaluation beside the first, by the examples that both have.
 *
 * @since 0.2.0
 * @category combinators
 */
export const compare = (first: Results, second: Results, options?: Statistics.Options): Comparison => {
  const pairs = Array.from(first.examples.values()).flatMap((example): ReadonlyArray<Changed> => {
    const other = second.examples.get(example.id)
    return other === undefined
      ? []
      : [{
        id: example.id,
        input: example.input,
        target: example.target,
        first: summed(example),
        second: summed(other)
      }]
  })
  const changeOf = (pair: Changed) => pair.second.value - pair.first.value
  const changed = pairs.filter((pair) => Math.abs(changeOf(pair)) > 1e-9).sort((a, b) => changeOf(a) - changeOf(b))
  const worse = changed.filter((pair) => changeOf(pair) < 0).length
  return {
    name: first.name,
    models: [first.model, second.model],
    scores: [mean(pairs.map((pair) => pair.first.value)), mean(pairs.map((pair) => pair.second.value))],
    ...Statistics.compare(pairs.map((pair) => ({ first: pair.first.value, second: pair.second.value })), options),
    shared: pairs.length,
    alone: [first.examples.size - pairs.length, second.examples.size - pairs.length],
    better: changed.length - worse,
    worse,
    changed
  }
}

const figure = (value: number): string => Number.isFinite(value) ? String(Number(value.toPrecision(3))) : "unknown"

/** Text in a cell of a table, on one line. */
const cell = (text: string, most: number): string => {
  const line = text.replace(/\s+/g, " ").trim()
  const cut = line.length > most ? `${line.slice(0, most)}…` : line
  return cut.replace(/[\\|`<>[\]*_]/g, "\\$&")
}

/**
 * Comparisons as Markdown, for a pull request: a table of the differences, and the examples that changed.
 *
 * @since 0.2.0
 * @category combinators
 */
export const toMarkdown = (
  comparisons: ReadonlyArray<Comparison>,
  options?: {
    /** Examples of each comparison to list. Defaults to 20. */
    readonly examples?: number | undefined
  }
): string => {
  const rows = comparisons.map(({ better, difference, name, p, scores, shared, worse }) =>
    `| ${cell(name, 60)} | ${figure(scores[0])} | ${figure(scores[1])} | ${figure(difference.mean)} | ${
      figure(difference.low)
    } to ${figure(difference.high)} | ${p < 0.001 ? "< 0.001" : figure(p)} | ${better} / ${worse} of ${shared} |`
  )
  const [first] = comparisons
  const details = comparisons.filter(({ changed }) => changed.length > 0).flatMap(({ changed, name }) => [
    "",
    `<details><summary>${cell(name, 60)}: ${changed.length} changed</summary>`,
    "",
    "| example | expected | first | second |",
    "| --- | --- | --- | --- |",
    ...changed.slice(0, options?.examples ?? 20).map((one) =>
      `| ${cell(one.id, 40)} | ${cell(one.target, 60)} | ${figure(one.first.value)}: ${cell(one.first.answer, 120)} | ${
        figure(one.second.value)
      }: ${cell(one.second.answer, 120)} |`
    ),
    "",
    "</details>"
  ])
  return [
    ...first === undefined ? [] : [`**${cell(first.models[1], 120)}** beside **${cell(first.models[0], 120)}**`, ""],
    "| | first | second | difference | 95 % interval | p | better / worse |",
    "| --- | --- | --- | --- | --- | --- | --- |",
    ...rows,
    ...details,
    ""
  ].join("\n")
}
