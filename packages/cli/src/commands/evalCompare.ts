/**
 * `tinker eval compare`: two evaluations example by example, with the uncertainty of the difference.
 *
 * @since 0.2.0
 */
import * as EvalResults from "@effect-tinker/cookbook/EvalResults"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"
import * as options from "../training/options.js"
import { figure } from "../training/progress.js"

/** Pairs of files: two files, or those of the same name in two directories. */
const pairsOf = Effect.fnUntraced(function*(first: string, second: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const isDirectory = (name: string) => Effect.map(fs.stat(name), ({ type }) => type === "Directory")
  const [a, b] = [yield* isDirectory(first), yield* isDirectory(second)]
  if (!a && !b) return [[first, second] as const]
  const files = (directory: string) =>
    Effect.map(fs.readDirectory(directory), (names) => names.filter((name) => name.endsWith(".jsonl")).sort())
  const others = a && b ? new Set(yield* files(second)) : new Set<string>()
  const shared = a && b ? (yield* files(first)).filter((name) => others.has(name)) : []
  return shared.length > 0
    ? shared.map((name) => [path.join(first, name), path.join(second, name)] as const)
    : yield* new CliFailure({
      what: `${first} and ${second} have no results of the same name`,
      advice: "Name two files, or two directories that `tinker eval --benchmark … --out DIR` wrote."
    })
})

const shownP = (p: number): string => p < 0.001 ? "below 0.001" : figure(p)

const between = ({ high, low }: EvalResults.Comparison["difference"]): string =>
  Number.isFinite(low) ? `${figure(low)} to ${figure(high)}` : "unknown"

const compare = Effect.fnUntraced(function*(flags: {
  readonly first: string
  readonly second: string
  readonly show: number
  readonly markdown: Option.Option<string>
  readonly noRegression: boolean
  readonly minDelta: Option.Option<number>
}) {
  const fs = yield* FileSystem.FileSystem
  const output = yield* Output
  const pairs = yield* pairsOf(flags.first, flags.second)
  const comparisons = yield* Effect.forEach(pairs, ([first, second]) =>
    Effect.gen(function*() {
      const found = EvalResults.compare(yield* EvalResults.read(first), yield* EvalResults.read(second))
      return found.shared > 0 ? found : yield* new CliFailure({
        what: `${first} and ${second} have no examples in common`,
        advice: "Compare evaluations of the same examples."
      })
    }))
  yield* output.print({
    title: comparisons.map(({ models }) => `${models[1]}, beside ${models[0]}`)[0],
    columns: [
      { header: "Evaluation", keep: true },
      { header: "First", align: "right" },
      { header: "Second", align: "right" },
      { header: "Difference", align: "right" },
      { header: "95 % interval", align: "right" },
      { header: "p", align: "right" },
      { header: "Better", align: "right" },
      { header: "Worse", align: "right" },
      { header: "Of", align: "right" }
    ],
    rows: comparisons.map((one) => [
      one.name,
      figure(one.scores[0]),
      figure(one.scores[1]),
      figure(one.difference.mean),
      between(one.difference),
      shownP(one.p),
      String(one.better),
      String(one.worse),
      String(one.shared)
    ]),
    json: comparisons.map((one) => ({
      ...one,
      difference: {
        ...one.difference,
        // JSON has no infinity: an interval of a single example has no bounds
        low: Number.isFinite(one.difference.low) ? one.difference.low : null,
        high: Number.isFinite(one.difference.high) ? one.difference.high : null
      }
    }))
  })
  if (output.format === "table") {
    for (const { changed, name } of comparisons) {
      for (const { first, id, second, target } of changed.slice(0, flags.show)) {
        yield* output.note(`${name} ${id}: ${figure(first.value)} became ${figure(second.value)}; expected ${target}`)
        yield* output.note(`  first:  ${first.answer.replace(/\s+/g, " ").slice(-200)}`)
        yield* output.note(`  second: ${second.answer.replace(/\s+/g, " ").slice(-200)}`)
      }
      if (changed.length > flags.show) {
        yield* output.note(`… and ${text.count(changed.length - flags.show, "change")} more: --show, or --format json`)
      }
    }
  }
  for (const { alone, name } of comparisons) {
    const [first, second] = alone
    if (first + second > 0) {
      yield* output.warn(`${name}: ${first} examples are only in the first, ${second} only in the second`)
    }
  }
  if (Option.isSome(flags.markdown)) {
    yield* fs.writeFileString(flags.markdown.value, EvalResults.toMarkdown(comparisons))
  }
  const fails = comparisons.flatMap(({ difference, name }) =>
    flags.noRegression && difference.high < 0
      ? [`${name} became worse by ${figure(-difference.mean)}`]
      : Option.isSome(flags.minDelta) && difference.mean < flags.minDelta.value
      ? [`${name}: the difference is ${figure(difference.mean)}, and ${figure(flags.minDelta.value)} were asked for`]
      : []
  )
  if (fails.length > 0) {
    return yield* new CliFailure({ what: fails.join("; "), advice: "--format json has every example that changed." })
  }
})

const results = (name: string) =>
  Args.text({ name }).pipe(
    Args.withDescription("Results: a directory of `eval --benchmark --out`, a file of it, or of `eval --format json`.")
  )

/** @internal */
export const command = Command.make("compare", {
  first: results("first"),
  second: results("second"),
  show: Options.integer("show").pipe(
    Options.withDefault(5),
    Options.withDescription("Number of changed examples to show, the worst first. Default: 5.")
  ),
  markdown: options.optionalText("markdown", "A file to write the comparison to as Markdown, for a pull request."),
  noRegression: Options.boolean("no-regression").pipe(
    Options.withDescription("Fail when the second is worse, beyond the uncertainty of the difference.")
  ),
  minDelta: options.optionalFloat("min-delta", "Fail when the second is not better by this much.")
}, compare).pipe(
  Command.withDescription(
    "Compare two evaluations example by example: the difference, its 95 % interval, p, and what changed."
  )
)
