/**
 * `tinker data check`: what a file of training data comes to before any money is spent on it.
 *
 * @since 0.1.0
 */
import * as DataCheck from "@effect-tinker/studio/DataCheck"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"
import * as dataFile from "../training/dataFile.js"
import * as options from "../training/options.js"
import * as setup from "../training/setup.js"

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

/** What is trained on is green, everything else dim; without colours it stands in brackets. */
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

const check = Effect.fnUntraced(
  function*(flags: {
    readonly file: string
    readonly columns: Option.Option<string>
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
    const columns = yield* dataFile.parseColumns(flags.columns)
    const source = yield* dataFile.locate(flags.file)
    const { kind, shape } = yield* dataFile.recognize(source, columns)
    const renderer = yield* setup.rendererFor(flags.model, flags)
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
      estimated_cost: cost ?? null
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
    }
    if (found.kept === 0) {
      return yield* new CliFailure({
        what: `No row of ${flags.file} can be trained on: ${describeSkipped(found)}`,
        advice: "The rows above say why."
      })
    }
  },
  Effect.provide(setup.tokenizers)
)

const checkCommand = Command.make("check", {
  file: options.dataArgument("Chats, prompts with completions, or preferences"),
  model: options.model("The model whose tokenizer and format are used."),
  columns: options.columns,
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
  Command.withDescription("Show trained and skipped rows, the reasons, lengths, token counts and cost.")
)

/** @internal */
export const command = Command.make("data").pipe(
  Command.withSubcommands([checkCommand]),
  Command.withDescription("Inspect training data.")
)
