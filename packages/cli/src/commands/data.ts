/**
 * `tinker data check`: what a file of training data comes to before any money is spent on it.
 *
 * @since 0.1.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Example from "@effect-tinker/cookbook/Example"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import type * as Datum from "effect-tinker/Datum"
import * as ModelInput from "effect-tinker/ModelInput"
import * as TensorData from "effect-tinker/TensorData"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"
import * as dataFile from "../training/dataFile.js"
import * as options from "../training/options.js"
import * as setup from "../training/setup.js"

/** The tokens of a row and what each weighs in training. */
interface Weighed {
  readonly tokens: ReadonlyArray<number>
  readonly weights: ReadonlyArray<number>
}

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

/** The rows of a file as what would be trained on; a preference is two of them. */
const rowsOf = (file: string, kind: dataFile.Kind, options: Example.RenderOptions) =>
  kind === "preferences"
    ? Dataset.mapEffect(dataFile.preferences(file), (pair) =>
      Effect.flatMap(Example.toPair(pair, options), ({ chosen, rejected }) =>
        Effect.all([weighed(chosen), weighed(rejected)])))
    : Dataset.mapEffect(dataFile.examples(file, kind), (example) =>
      Effect.map(Effect.flatMap(Example.toDatum(example, options), weighed), (row) => [row]))

/** The value below which a share of the sorted values lies. */
const quantile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0

interface Bucket {
  readonly from: number
  readonly to: number
  readonly count: number
}

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

/** Runs of tokens that are all trained on, or all not. */
const spans = (
  { tokens, weights }: Weighed
): ReadonlyArray<{ readonly trained: boolean; readonly ids: Array<number> }> => {
  const found: Array<{ readonly trained: boolean; readonly ids: Array<number> }> = []
  tokens.forEach((token, i) => {
    const trained = (weights[i] ?? 0) > 0
    const last = found.at(-1)
    if (last?.trained === trained) last.ids.push(token)
    else found.push({ trained, ids: [token] })
  })
  return found
}

/** What is trained on is green, everything else dim; without colours it stands in brackets. */
const painted = (row: Weighed, renderer: Renderer.Renderer, colour: boolean): string =>
  spans(row).map(({ ids, trained }) => {
    const shown = text.printableLines(renderer.tokenizer.decode(ids, { skipSpecialTokens: false }))
    return colour ? `\u001b[${trained ? "32" : "2"}m${shown}\u001b[0m` : trained ? `«${shown}»` : shown
  }).join("")

interface Tally {
  readonly lengths: Array<number>
  readonly shown: Array<{ readonly row: number; readonly parts: ReadonlyArray<Weighed> }>
  readonly skipped: Array<Dataset.Skipped>
  kept: number
  tokens: number
  trained: number
}

const read = Effect.fnUntraced(function*(
  flags: { readonly file: string; readonly show: number },
  kind: dataFile.Kind,
  options: Example.RenderOptions
) {
  const tally: Tally = { lengths: [], shown: [], skipped: [], kept: 0, tokens: 0, trained: 0 }
  const progress = yield* Progress.make({ label: `Reading ${flags.file}` })
  yield* Stream.runForEach(Dataset.rows(rowsOf(flags.file, kind, options)), (row) => {
    if (row._tag === "Skipped") tally.skipped.push(row)
    else {
      tally.kept++
      for (const { tokens, weights } of row.value) {
        tally.lengths.push(tokens.length)
        tally.tokens += tokens.length
        tally.trained += weights.reduce((sum, weight) => sum + Number(weight > 0), 0)
      }
      if (tally.shown.length < flags.show) tally.shown.push({ row: row.origin.row, parts: row.value })
    }
    return progress.update(tally.kept + tally.skipped.length)
  })
  return tally
}, Effect.scoped)

const describeSkipped = ({ skipped }: Tally): string =>
  skipped.length === 0
    ? "none"
    : Object.entries(Dataset.countSkipped(skipped)).map(([reason, count]) => `${count} ${reason.replace("_", " ")}`)
      .join(
        ", "
      )

/** Rows that would not be trained on, listed. */
const listed = 10

const check = Effect.fnUntraced(
  function*(flags: {
    readonly file: string
    readonly model: string
    readonly maxLength: Option.Option<number>
    readonly epochs: number
    readonly price: Option.Option<string>
    readonly show: number
    readonly renderer: Option.Option<string>
    readonly tokenizer: Option.Option<string>
  }) {
    const output = yield* Output
    const { stdout } = yield* Stdio
    const price = Option.isNone(flags.price) ? undefined : yield* setup.parsePrice(flags.price.value)
    const kind = yield* dataFile.detect(flags.file)
    const renderer = yield* setup.rendererFor(flags.model, flags)
    const tally = yield* read(flags, kind, { renderer, maxLength: Option.getOrUndefined(flags.maxLength) })
    const sorted = tally.lengths.sort((a, b) => a - b)
    const lengths = {
      min: sorted[0] ?? 0,
      p50: quantile(sorted, 0.5),
      p90: quantile(sorted, 0.9),
      p99: quantile(sorted, 0.99),
      max: sorted.at(-1) ?? 0
    }
    const buckets = histogram(sorted)
    // A pass of preferences reads each answer twice: for its gradient, and once for the reference.
    const total = tally.tokens * flags.epochs
    const cost = price?.train === undefined
      ? undefined
      : (total * price.train + (kind === "preferences" ? tally.tokens * (price.prefill ?? price.train) : 0)) / 1e6
    const json = {
      file: flags.file,
      kind,
      model: flags.model,
      renderer: renderer.name,
      rows: tally.kept + tally.skipped.length,
      kept: tally.kept,
      skipped: Dataset.countSkipped(tally.skipped),
      skipped_rows: tally.skipped.slice(0, 100).map(({ detail, origin, reason }) => ({
        row: origin.row + 1,
        reason,
        detail
      })),
      tokens: tally.tokens,
      trained_tokens: tally.trained,
      lengths,
      histogram: buckets,
      epochs: flags.epochs,
      training_tokens: total,
      estimated_cost: cost ?? null
    }
    if (output.format !== "table") yield* output.printRecord({ json, properties: [] })
    else {
      for (const { parts, row } of tally.shown) {
        for (const [i, part] of parts.entries()) {
          const side = parts.length === 1 ? "" : i === 0 ? ", chosen" : ", rejected"
          yield* output.write(
            `row ${row + 1}${side} (${part.tokens.length} tokens)\n${painted(part, renderer, stdout.colour)}\n\n`
          )
        }
      }
      yield* output.printRecord({
        json,
        properties: [
          ["Rows", `${json.rows.toLocaleString("en-US")} ${kind}, ${tally.kept.toLocaleString("en-US")} of them used`],
          ["Skipped", describeSkipped(tally)],
          [
            "Tokens",
            `${tally.tokens.toLocaleString("en-US")}, ${tally.trained.toLocaleString("en-US")} of them trained on (${
              tally.tokens === 0 ? 0 : Math.round(100 * tally.trained / tally.tokens)
            } %)`
          ],
          ["Lengths", Object.entries(lengths).map(([name, value]) => `${name} ${value}`).join(", ")],
          ["Training", `${text.count(total, "token")} in ${text.count(flags.epochs, "epoch")}`],
          ["Cost", cost === undefined ? "unknown: give --price train=…" : `about ${Number(cost.toPrecision(3))}`],
          ["Format", renderer.name]
        ]
      })
      const most = Math.max(1, ...buckets.map(({ count }) => count))
      const label = Math.max(0, ...buckets.map(({ from, to }) => `${from}-${to}`.length))
      for (const { count, from, to } of buckets) {
        const bar = Progress.drawBar(count / most, 30, { full: (s) => s, empty: () => "" })
        yield* output.write(`${text.pad(`${from}-${to}`, label, "right")}  ${bar} ${count}\n`)
      }
      for (const skipped of tally.skipped.slice(0, listed)) {
        yield* output.note(Dataset.describeSkipped(skipped))
      }
      if (tally.skipped.length > listed) {
        yield* output.note(`… and ${tally.skipped.length - listed} more: --format json has a hundred`)
      }
    }
    if (tally.kept === 0) {
      return yield* new CliFailure({
        what: `No row of ${flags.file} can be trained on: ${describeSkipped(tally)}`,
        advice: "The rows above say why."
      })
    }
  },
  Effect.provide(setup.tokenizers)
)

const checkCommand = Command.make("check", {
  file: options.dataArgument("Chats, prompts with completions, or preferences"),
  model: options.model("The model whose tokenizer and format are used."),
  maxLength: options.maxLength,
  epochs: options.epochs,
  price: options.price,
  show: Options.integer("show").pipe(
    Options.withDefault(1),
    Options.withDescription("Rows to show, with what is trained on in green, or in «» without colours. Default: 1.")
  ),
  ...options.rendering
}, check).pipe(
  Command.withDescription("Show what would be trained on, what would be skipped and why, lengths, tokens and cost.")
)

/** @internal */
export const command = Command.make("data").pipe(
  Command.withSubcommands([checkCommand]),
  Command.withDescription("Look at training data.")
)
