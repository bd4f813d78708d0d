/**
 * `tinker data`: what a file of training data comes to before any money is spent on it, and files made of others.
 *
 * @since 0.1.0
 */
import * as DataQuality from "@effect-tinker/cookbook/DataQuality"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Language from "@effect-tinker/cookbook/Language"
import * as Sensitive from "@effect-tinker/cookbook/Sensitive"
import * as DataCheck from "@effect-tinker/studio/DataCheck"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure, usage } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"
import * as dataFile from "../training/dataFile.js"
import * as modelSettings from "../training/modelSettings.js"
import * as options from "../training/options.js"

/** Runs of tokens that are all trained on, or all not. */
const spans = (
  { tokens, weights }: DataCheck.Weighed
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

/** Text with the trained part in green and the rest dim; without colours the trained part stands in brackets. */
const painted = (row: DataCheck.Weighed, renderer: Renderer.Renderer, colour: boolean): string =>
  spans(row).map(({ ids, trained }) => {
    const shown = text.printableLines(renderer.tokenizer.decode(ids, { skipSpecialTokens: false }))
    return colour ? `\u001b[${trained ? "32" : "2"}m${shown}\u001b[0m` : trained ? `«${shown}»` : shown
  }).join("")

const describeSkipped = ({ skipped }: DataCheck.Measured): string => {
  const counts = Object.entries(skipped).map(([reason, count]) => `${count} ${reason.replace("_", " ")}`)
  return counts.length === 0 ? "none" : counts.join(", ")
}

/** Rows that would not be trained on, listed. */
const listed = 10

/** Problems of rows, for people. */
const described: Readonly<Record<DataQuality.Finding["kind"], string>> = {
  exact: "the same as another row",
  near: "nearly the same as another row",
  leaked: "in the held-out data",
  empty: "without an answer",
  truncated: "with an answer cut short",
  sensitive: "with personal data or secrets"
}

const percent = (share: number): string => `${Number((100 * share).toPrecision(3))} %`

/** Problems of the data, below its summary. */
const qualityOf = Effect.fnUntraced(function*(
  source: dataFile.Source,
  columns: Parameters<typeof dataFile.recognize>[1],
  heldOut: Option.Option<string>
) {
  // without the package the languages are not told, and all else is
  const detect = yield* Effect.option(Language.detector)
  return yield* DataQuality.inspect(dataFile.raw(source), {
    columns,
    detect: Option.getOrUndefined(detect),
    heldOut: Option.isSome(heldOut) ? dataFile.raw(yield* dataFile.locate(heldOut.value)) : undefined
  })
})

const printQuality = Effect.fnUntraced(function*(quality: DataQuality.Report) {
  const output = yield* Output
  const languages = Object.entries(quality.languages)
  const told = languages.reduce((sum, [, count]) => sum + count, 0)
  for (const [kind, what] of Object.entries(described)) {
    const count = Object.entries(quality.counts).find(([name]) => name === kind)?.[1] ?? 0
    if (count === 0) continue
    const first = quality.findings.find((finding) => finding.kind === kind)
    const like = first?.like === undefined ? "" : ` (like row ${first.like + 1})`
    const detail = first?.detail === undefined ? "" : `: ${first.detail.replace(/\s+/g, " ")}`
    yield* output.warn(
      `${text.count(count, "row")} ${what}; the first is row ${(first?.row ?? 0) + 1}${like}${detail}`
    )
  }
  if (told > 0) {
    yield* output.note(
      `languages: ${languages.slice(0, 5).map(([code, count]) => `${code} ${percent(count / told)}`).join(", ")}`
    )
  }
  yield* output.note(
    `characters of an answer: median ${quality.answers.p50}, 9 of 10 at most ${quality.answers.p90}, longest ${quality.answers.max}`
  )
  const [most] = quality.frequent
  if (most !== undefined && most.share > 0.5) {
    yield* output.warn(`${percent(most.share)} of the answers are ${JSON.stringify(most.answer)}`)
  }
  if (quality.chosenLonger !== undefined) {
    yield* output.note(`the chosen answer is the longer one in ${percent(quality.chosenLonger)} of the preferences`)
  }
})

const newline = new TextEncoder().encode("\n")

/** Writes rows as JSON lines beside the file, which is put in its place when all are there. */
const writeRows = <E, R>(path: string, rows: Stream.Stream<unknown, E, R>) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const encoder = new TextEncoder()
    let count = 0
    const draft = `${path}.partial`
    yield* rows.pipe(
      Stream.tap(() => Effect.sync(() => count++)),
      Stream.flatMap((row) => Stream.make(encoder.encode(text.json(row)), newline)),
      Stream.run(fs.sink(draft)),
      Effect.onError(() => Effect.ignore(fs.remove(draft)))
    )
    yield* fs.rename(draft, path)
    return count
  })

const wrote = Effect.fnUntraced(function*(files: ReadonlyArray<{ readonly file: string; readonly rows: number }>) {
  const output = yield* Output
  yield* output.print({
    columns: [{ header: "File", keep: true }, { header: "Rows", align: "right" }],
    rows: files.map(({ file, rows }) => [file, rows.toLocaleString("en-US")]),
    json: { files }
  })
})

const check = Effect.fnUntraced(
  function*(flags: {
    readonly file: string
    readonly columns: Option.Option<string>
    readonly heldOut: Option.Option<string>
    readonly redact: Option.Option<string>
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
    const price = Option.isNone(flags.price) ? undefined : yield* modelSettings.parsePrice(flags.price.value)
    const columns = yield* dataFile.parseColumns(flags.columns)
    const source = yield* dataFile.locate(flags.file)
    const { kind, shape } = yield* dataFile.recognize(source, columns)
    const renderer = yield* modelSettings.rendererFor(flags.model, flags)
    const found = yield* Effect.scoped(Effect.gen(function*() {
      const progress = yield* Progress.make({ label: `Reading ${flags.file}` })
      const maxLength = Option.getOrUndefined(flags.maxLength)
      return yield* DataCheck.measure(dataFile.data(source, kind, { renderer, maxLength }, columns), {
        show: flags.show,
        onRow: (rows) => progress.update(rows)
      })
    }))
    const total = found.tokens * flags.epochs
    const cost = DataCheck.costOf({
      tokens: found.tokens,
      epochs: flags.epochs,
      preferences: kind === "preferences",
      price
    })
    const quality = yield* qualityOf(source, columns, flags.heldOut)
    const json = {
      file: flags.file,
      kind,
      shape,
      model: flags.model,
      renderer: renderer.name,
      rows: found.rows,
      kept: found.kept,
      skipped: found.skipped,
      skipped_rows: found.skippedRows,
      tokens: found.tokens,
      trained_tokens: found.trainedTokens,
      lengths: found.lengths,
      histogram: found.histogram,
      epochs: flags.epochs,
      training_tokens: total,
      estimated_cost: cost ?? null,
      quality
    }
    if (output.format !== "table") yield* output.printRecord({ json, properties: [] })
    else {
      for (const { parts, row } of found.shown) {
        for (const [i, part] of parts.entries()) {
          const side = parts.length === 1 ? "" : i === 0 ? ", chosen" : ", rejected"
          yield* output.write(
            `row ${row}${side} (${part.tokens.length} tokens)\n${painted(part, renderer, stdout.colour)}\n\n`
          )
        }
      }
      yield* output.printRecord({
        json,
        properties: [
          ["Shape", shape],
          ["Rows", `${json.rows.toLocaleString("en-US")} ${kind}, ${found.kept.toLocaleString("en-US")} of them used`],
          ["Skipped", describeSkipped(found)],
          [
            "Tokens",
            `${found.tokens.toLocaleString("en-US")}, ${
              found.trainedTokens.toLocaleString("en-US")
            } of them trained on (${found.tokens === 0 ? 0 : Math.round(100 * found.trainedTokens / found.tokens)} %)`
          ],
          ["Lengths", Object.entries(found.lengths).map(([name, value]) => `${name} ${value}`).join(", ")],
          ["Training", `${text.count(total, "token")} in ${text.count(flags.epochs, "epoch")}`],
          ["Cost", cost === undefined ? "unknown: give --price train=…" : `about ${Number(cost.toPrecision(3))}`],
          ["Format", renderer.name]
        ]
      })
      const most = Math.max(1, ...found.histogram.map(({ count }) => count))
      const label = Math.max(0, ...found.histogram.map(({ from, to }) => `${from}-${to}`.length))
      for (const { count, from, to } of found.histogram) {
        const bar = Progress.drawBar(count / most, 30, { full: (s) => s, empty: () => "" })
        yield* output.write(`${text.pad(`${from}-${to}`, label, "right")}  ${bar} ${count}\n`)
      }
      for (const { detail, reason, row } of found.skippedRows.slice(0, listed)) {
        yield* output.note(`row ${row}: ${reason.replace("_", " ")}: ${detail.replace(/\s+/g, " ")}`)
      }
      const dropped = found.rows - found.kept
      if (dropped > listed) yield* output.note(`… and ${dropped - listed} more: --format json has a hundred`)
      yield* printQuality(quality)
    }
    if (Option.isSome(flags.redact)) {
      const rows = yield* writeRows(
        flags.redact.value,
        Stream.map(Dataset.values(dataFile.raw(source)), Sensitive.redactJson)
      )
      yield* output.note(
        `wrote ${text.count(rows, "row")} to ${flags.redact.value}, with words in place of what was found`
      )
    }
    if (found.kept === 0) {
      return yield* new CliFailure({
        what: `No row of ${flags.file} can be trained on: ${describeSkipped(found)}`,
        advice: "The rows above say why."
      })
    }
  },
  Effect.provide(modelSettings.tokenizers)
)

const checkCommand = Command.make("check", {
  file: options.dataArgument("Chats, prompts with completions, or preferences"),
  model: options.model("The model whose tokenizer and format are used."),
  columns: options.columns,
  heldOut: options.optionalText("held-out", "Data to evaluate with: rows of it that are in the file are reported."),
  redact: options.optionalText(
    "redact",
    "A file to write the rows to without personal data and secrets, as JSON lines."
  ),
  maxLength: options.maxLength,
  epochs: options.epochs,
  price: options.price,
  show: Options.integer("show").pipe(
    Options.withDefault(1),
    Options.withDescription(
      "Number of rows to show, with trained tokens in green, or in «» without colors. Default: 1."
    )
  ),
  ...options.rendering
}, check).pipe(
  Command.withDescription(
    "Show trained and skipped rows, lengths, token counts and cost; duplicates, leaks, answers cut short, personal data."
  )
)

const file = options.dataArgument("Rows of any kind")

const out = Options.text("out").pipe(
  Options.withAlias("o"),
  Options.withDescription("The file to write, as JSON lines.")
)

const seed = options.seed("The same seed chooses the same rows.")

/** Share, above 0 and below 1. */
const requireShare = (share: number) =>
  share > 0 && share < 1 ? Effect.void : usage("--share must be above 0 and below 1", "For example: --share 0.1")

const split = Effect.fnUntraced(function*(flags: {
  readonly file: string
  readonly share: number
  readonly seed: number
  readonly train: string
  readonly heldOut: string
}) {
  yield* requireShare(flags.share)
  const [rest, share] = Dataset.split(dataFile.raw(yield* dataFile.locate(flags.file)), flags)
  yield* wrote([
    { file: flags.train, rows: yield* writeRows(flags.train, Dataset.values(rest)) },
    { file: flags.heldOut, rows: yield* writeRows(flags.heldOut, Dataset.values(share)) }
  ])
})

const splitCommand = Command.make("split", {
  file,
  share: Options.float("share").pipe(
    Options.withDefault(0.1),
    Options.withDescription("Share of the rows to hold out. Default: 0.1.")
  ),
  seed,
  train: Options.text("train").pipe(Options.withDescription("The file for the rows to train on.")),
  heldOut: Options.text("held-out").pipe(Options.withDescription("The file for the rows to evaluate with."))
}, split).pipe(Command.withDescription("Write two files: rows to train on, and rows to evaluate with."))

const dedupe = Effect.fnUntraced(function*(flags: {
  readonly file: string
  readonly columns: Option.Option<string>
  readonly exact: boolean
  readonly likeness: number
  readonly out: string
}) {
  const columns = yield* dataFile.parseColumns(flags.columns)
  const rows = DataQuality.withoutDuplicates(dataFile.raw(yield* dataFile.locate(flags.file)), {
    columns,
    likeness: flags.likeness,
    exactOnly: flags.exact
  })
  yield* wrote([{ file: flags.out, rows: yield* writeRows(flags.out, rows) }])
})

const dedupeCommand = Command.make("dedupe", {
  file,
  columns: options.columns,
  exact: Options.boolean("exact").pipe(Options.withDescription("Leave out only rows that are the same.")),
  likeness: Options.float("likeness").pipe(
    Options.withDefault(0.8),
    Options.withDescription("How like rows are that count as the same, from 0.5 to 1. Default: 0.8.")
  ),
  out
}, dedupe).pipe(Command.withDescription("Write the rows without those that are there already, exactly or nearly."))

const sample = Effect.fnUntraced(function*(flags: {
  readonly file: string
  readonly rows: number
  readonly seed: number
  readonly out: string
}) {
  const data = Dataset.shuffle(dataFile.raw(yield* dataFile.locate(flags.file)), { seed: flags.seed })
  yield* wrote([{ file: flags.out, rows: yield* writeRows(flags.out, Stream.take(Dataset.values(data), flags.rows)) }])
})

const sampleCommand = Command.make("sample", {
  file,
  rows: Options.integer("rows").pipe(
    Options.withAlias("n"),
    Options.withDescription("Number of rows.")
  ),
  seed,
  out
}, sample).pipe(Command.withDescription("Write so many rows, drawn at random."))

const mix = Effect.fnUntraced(function*(flags: {
  readonly files: ReadonlyArray<string>
  readonly weights: Option.Option<string>
  readonly seed: number
  readonly all: boolean
  readonly out: string
}) {
  const weights = Option.map(flags.weights, (given) => given.split(",").map(Number))
  if (Option.exists(weights, (list) => list.length !== flags.files.length || !list.every((one) => one > 0))) {
    return yield* usage("--weights needs a number above 0 for each file", "For example: --weights 3,1")
  }
  const sources = yield* Effect.forEach(flags.files, (name) => Effect.map(dataFile.locate(name), dataFile.raw))
  const data = Dataset.interleave(sources, {
    weights: Option.getOrUndefined(weights),
    seed: flags.seed,
    until: flags.all ? "all" : "first"
  })
  yield* wrote([{ file: flags.out, rows: yield* writeRows(flags.out, Dataset.values(data)) }])
})

const mixCommand = Command.make("mix", {
  weights: options.optionalText("weights", "How often each file is drawn from, in their order. Default: all alike."),
  seed,
  all: Options.boolean("all").pipe(
    Options.withDescription("Go on until every file is read, not until the first is.")
  ),
  out,
  files: Args.text({ name: "files" }).pipe(
    Args.withDescription("The files: JSON lines, a JSON array, Parquet, or hub:NAME[@REVISION][:[CONFIG/]SPLIT]."),
    Args.atLeast(2)
  )
}, mix).pipe(
  Command.withDescription("Write rows of several files in one, each drawn from as often as its weight says.")
)

/** @internal */
export const command = Command.make("data").pipe(
  Command.withSubcommands([checkCommand, splitCommand, dedupeCommand, sampleCommand, mixCommand]),
  Command.withDescription("Inspect training data, and write files of it.")
)
