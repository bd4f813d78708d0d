/**
 * `tinker eval`: what a model or a checkpoint is worth, on held-out data, by a scorer, in an environment, or by
 * benchmarks.
 *
 * @since 0.1.0
 */
import * as Benchmark from "@effect-tinker/cookbook/Benchmark"
import * as Benchmarks from "@effect-tinker/cookbook/Benchmarks"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Statistics from "@effect-tinker/cookbook/Statistics"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { CliFailure, usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import * as userModule from "../internal/userModule.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"
import * as benchmarks from "../training/benchmarks.js"
import * as dataFile from "../training/dataFile.js"
import * as modelSettings from "../training/modelSettings.js"
import * as options from "../training/options.js"
import { figure } from "../training/progress.js"
import * as scoring from "../training/scoring.js"
import type * as TrainModule from "../TrainModule.js"
import { command as compareCommand } from "./evalCompare.js"

const isScorer = (u: unknown): u is TrainModule.Scorer => typeof u === "function"

const scorerOf = Effect.fnUntraced(function*(path: string) {
  const found = yield* userModule.defaultExport(path)
  return isScorer(found) ? found : yield* new CliFailure({
    what: `The default export of ${path} is not a function`,
    advice: "Export ({ input, output, expected }) => a number from 0 to 1."
  })
})

interface Asked {
  readonly benchmark: Option.Option<string>
  readonly inspectLog: Option.Option<string>
  readonly out: Option.Option<string>
  readonly maxTokens: Option.Option<number>
  readonly temperature: Option.Option<number>
}

interface Flags extends Omit<Asked, "maxTokens" | "temperature"> {
  readonly target: string
  readonly compare: Option.Option<string>
  readonly on: Option.Option<string>
  readonly scorer: Option.Option<string>
  readonly env: Option.Option<string>
  readonly noRegression: boolean
  readonly minDelta: Option.Option<number>
  readonly limit: Option.Option<number>
  readonly groupSize: number
  readonly maxTokens: number
  readonly temperature: number
  readonly seed: number
  readonly renderer: Option.Option<string>
  readonly tokenizer: Option.Option<string>
}

/** How to measure, by what the flags name; the modules are loaded once. */
const measureBy = Effect.fnUntraced(function*(flags: Flags) {
  const { limit } = flags
  const drawing = { maxTokens: flags.maxTokens, temperature: flags.temperature, seed: flags.seed }
  const rendererOf = (sampler: SamplingClient.Service) =>
    Effect.flatMap(sampler.baseModel, (model) => modelSettings.rendererFor(model, flags))
  if (Option.isSome(flags.env)) {
    if (Option.isSome(flags.on) || Option.isSome(flags.scorer)) {
      return yield* usage("--env needs no --on and no --scorer", "An environment has its problems and rewards.")
    }
    const loaded = yield* userModule.environments(flags.env.value)
    return (sampler: SamplingClient.Service) =>
      Effect.flatMap(
        rendererOf(sampler),
        (renderer) =>
          scoring.rollouts(sampler, { environments: loaded, renderer, limit, groupSize: flags.groupSize, drawing })
      )
  }
  if (Option.isNone(flags.on)) {
    return yield* usage("There is nothing to evaluate on", "Name a file with --on, or an environment with --env.")
  }
  const file = flags.on.value
  if (Option.isSome(flags.scorer)) {
    yield* dataFile.requireFile(file)
    const score = yield* scorerOf(flags.scorer.value)
    return (sampler: SamplingClient.Service) =>
      Effect.flatMap(
        rendererOf(sampler),
        (renderer) => scoring.scores(sampler, { file, renderer, limit, score, drawing })
      )
  }
  const { kind } = yield* dataFile.recognize(file)
  return (sampler: SamplingClient.Service) =>
    Effect.flatMap(rendererOf(sampler), (renderer) =>
      kind === "preferences"
        ? scoring.preferences(sampler, { file, renderer, limit })
        : scoring.nll(sampler, { file, kind, renderer, limit }))
})

/** Negative log-likelihoods are better when they are lower, all else when it is higher. */
const signOf = (measured: scoring.Measured): 1 | -1 => "nll" in measured.metrics ? -1 : 1

/** Values by example; several answers to one row are one cluster. */
const samplesOf = (measured: scoring.Measured): ReadonlyArray<Statistics.Sample> =>
  measured.examples.flatMap(({ row, value }) => value === null ? [] : [{ value, cluster: row }])

/** The target beside another one, example by example: a difference above zero is for the target. */
const compared = (target: scoring.Measured, other: scoring.Measured) => {
  const sign = signOf(target)
  const others = new Map(other.examples.map(({ row, value }) => [row, value]))
  const pairs = target.examples.flatMap(({ row, value }) => {
    const beside = others.get(row)
    return value === null || beside === null || beside === undefined
      ? []
      : [{ row, first: sign * beside, second: sign * value, cluster: row }]
  })
  const changed = pairs.filter(({ first, second }) => Math.abs(second - first) > 1e-9)
  const better = changed.filter(({ first, second }) => second > first)
  return {
    ...Statistics.compare(pairs),
    better: better.length,
    worse: changed.length - better.length,
    same: pairs.length - changed.length,
    changed: changed.map(({ first, row, second }) => ({ row, difference: second - first }))
      .sort((a, b) => a.difference - b.difference)
  }
}

const shownInterval = ({ high, level, low, mean }: Statistics.Interval): string =>
  Number.isFinite(low)
    ? `${figure(mean)}, ${Math.round(level * 100)} % between ${figure(low)} and ${figure(high)}`
    : `${figure(mean)}, from too few examples to say how sure`

/** Rows that changed most, shown below a comparison. */
const listedChanges = 5

/** Benchmarks by name, one after another. */
const benchmark = Effect.fnUntraced(function*(names: string, flags: Flags, asked: Asked) {
  const output = yield* Output
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  if ([flags.on, flags.scorer, flags.env, flags.compare].some(Option.isSome)) {
    return yield* usage(
      "--benchmark has its own data and graders",
      "Leave out --on, --scorer, --env and --compare; `tinker eval compare` compares results that --out wrote."
    )
  }
  const definitions = yield* benchmarks.parse(names)
  const found = yield* Effect.scoped(Effect.gen(function*() {
    const sampler = yield* scoring.open(flags.target)
    const renderer = yield* Effect.flatMap(sampler.baseModel, (model) => modelSettings.rendererFor(model, flags))
    return yield* Effect.forEach(definitions, (definition) =>
      benchmarks.run(sampler, {
        definition,
        target: flags.target,
        renderer,
        limit: flags.limit,
        samples: flags.groupSize,
        maxTokens: asked.maxTokens,
        temperature: asked.temperature,
        seed: flags.seed,
        out: flags.out
      }))
  }))
  if (Option.isSome(flags.inspectLog)) {
    const directory = flags.inspectLog.value
    yield* fs.makeDirectory(directory, { recursive: true })
    for (const { report } of found) {
      yield* fs.writeFileString(
        path.join(directory, `${report.name}.json`),
        text.json(yield* Benchmark.toInspect(report))
      )
    }
  }
  yield* output.print({
    title: flags.target,
    columns: [
      { header: "Benchmark", keep: true },
      { header: "Problems", align: "right" },
      { header: "Score", align: "right" },
      { header: "95 % interval", align: "right" },
      ...flags.groupSize > 1 ? [{ header: `pass@${flags.groupSize}`, align: "right" as const }] : [],
      { header: "Cut off", align: "right" },
      { header: "Failed", align: "right" }
    ],
    rows: found.map(({ interval, report }) => [
      report.name,
      String(report.examples),
      figure(report.score),
      Number.isFinite(interval.low) ? `${figure(interval.low)} to ${figure(interval.high)}` : "unknown",
      ...flags.groupSize > 1 ? [figure(report.passAt[flags.groupSize] ?? NaN)] : [],
      String(report.truncated),
      String(report.failed)
    ]),
    json: {
      target: flags.target,
      benchmarks: found.map(({ file, interval, report, skipped }) => ({
        name: report.name,
        problems: report.examples,
        attempts: report.results.length,
        score: report.score,
        interval: Number.isFinite(interval.low) ? { ...interval } : null,
        pass_at: report.passAt,
        truncated: report.truncated,
        failed: report.failed,
        resumed: report.resumed,
        skipped_rows: skipped,
        file: file ?? null
      }))
    }
  })
  for (const { report, skipped } of found) {
    const error = report.results.find(({ outcome }) => outcome === "failed")?.error
    if (error !== undefined) yield* output.warn(`${report.name}: ${report.failed} failed; the first: ${error}`)
    if (skipped > 0) yield* output.note(`${report.name}: ${text.count(skipped, "row")} left out`)
  }
})

/** Limits of answers where no benchmark has its own. */
const usual = { maxTokens: 256, temperature: 0 }

const evaluate = Effect.fnUntraced(
  function*(given: Omit<Flags, keyof Asked> & Asked) {
    const { maxTokens, temperature } = given
    const flags: Flags = {
      ...given,
      maxTokens: Option.getOrElse(maxTokens, () => usual.maxTokens),
      temperature: Option.getOrElse(temperature, () => usual.temperature)
    }
    if (Option.isSome(flags.benchmark)) return yield* benchmark(flags.benchmark.value, flags, given)
    const output = yield* Output
    const by = yield* measureBy(flags)
    const of = (target: string) => Effect.scoped(Effect.flatMap(scoring.open(target), by))
    const first = yield* of(flags.target)
    const second = Option.isNone(flags.compare)
      ? Option.none<scoring.Measured>()
      : Option.some(yield* of(flags.compare.value))
    const [skipped] = first.skipped
    if (skipped !== undefined) {
      const count = text.count(first.skipped.length, "row")
      yield* output.warn(`${count} skipped; the first is ${Dataset.describeSkipped(skipped)}`)
    }
    const versus = Option.map(second, (other) => compared(first, other))
    const uncertainty = Statistics.interval(samplesOf(first))
    const names = Object.keys(first.metrics)
    yield* output.print({
      title: `${flags.target}${
        Option.match(flags.compare, { onNone: () => "", onSome: (other) => `, compared with ${other}` })
      }, ${text.count(first.examples.length, "example")}${
        Option.match(versus, {
          onNone: () => "",
          onSome: ({ better, same, worse }) => `: better on ${better}, worse on ${worse}, the same on ${same}`
        })
      }`,
      columns: [
        { header: "Metric", keep: true },
        { header: "Value", align: "right" },
        ...(Option.isSome(flags.compare) ? [{ header: "Compared", align: "right" as const }] : [])
      ],
      rows: names.map((name) => [
        name,
        figure(first.metrics[name] ?? NaN),
        ...(Option.isSome(second) ? [figure(second.value.metrics[name] ?? NaN)] : [])
      ]),
      json: {
        target: flags.target,
        metrics: first.metrics,
        interval: Number.isFinite(uncertainty.low) ? { ...uncertainty } : null,
        total: first.examples.length,
        skipped: first.skipped.length,
        ...(Option.isSome(second)
          ? {
            compare: Option.getOrNull(flags.compare),
            compare_metrics: second.value.metrics,
            ...Option.match(versus, {
              onNone: () => ({}),
              onSome: ({ difference, ...rest }) => ({ difference: { ...difference }, ...rest })
            })
          }
          : {}),
        examples: first.examples
      },
      items: first.examples
    })
    yield* output.note(`mean per example: ${shownInterval(uncertainty)}`)
    if (Option.isNone(versus)) return
    const { changed, difference, p } = versus.value
    yield* output.note(
      `difference for ${flags.target}: ${shownInterval(difference)}; p ${p < 0.001 ? "below 0.001" : figure(p)}`
    )
    for (const { difference, row } of changed.slice(0, listedChanges).filter((change) => change.difference < 0)) {
      yield* output.note(`row ${row + 1} became worse by ${figure(-difference)}`)
    }
    const fails = flags.noRegression && difference.high < 0
      ? `${flags.target} is worse than ${Option.getOrElse(flags.compare, () => "")}`
      : Option.isSome(flags.minDelta) && difference.mean < flags.minDelta.value
      ? `The difference is ${figure(difference.mean)}, and ${figure(flags.minDelta.value)} were asked for`
      : undefined
    if (fails !== undefined) return yield* new CliFailure({ what: fails, advice: "--format json has every example." })
  },
  Effect.provide(Layer.mergeAll(live.training, modelSettings.tokenizers, FetchHttpClient.layer))
)

const runCommand = Command.make("run", {
  target: Args.text({ name: "target" }).pipe(
    Args.withDescription("A run directory, a checkpoint (tinker://RUN/sampler_weights/NAME), or a base model.")
  ),
  benchmark: options.optionalText(
    "benchmark",
    `Benchmarks by name, with commas between: ${Benchmarks.all.map(({ name }) => name).join(", ")}.`
  ),
  out: options.optionalText(
    "out",
    "With --benchmark: a directory for the results, to go on from when cut short, and for `eval compare`."
  ),
  inspectLog: options.optionalText(
    "inspect-log",
    "With --benchmark: a directory for logs that Inspect's viewer reads."
  ),
  on: options.optionalText(
    "on",
    "A file of chats or completions (by their likelihood), or of preferences (by which answer is likelier)."
  ),
  scorer: options.optionalText(
    "scorer",
    "A module whose default export scores answers to the prompts of --on, 0 to 1."
  ),
  env: options.optionalText("env", "A module whose default export is an environment, as for `train rl`."),
  compare: options.optionalText("compare", "Another target, compared with example by example."),
  noRegression: Options.boolean("no-regression").pipe(
    Options.withDescription("With --compare: fail when the target is worse, beyond the uncertainty of the difference.")
  ),
  minDelta: options.optionalFloat("min-delta", "With --compare: fail when the target is not better by this much."),
  limit: options.optionalInteger("limit", "Maximum number of rows to evaluate on."),
  groupSize: options.answers({ groupSize: 1, temperature: 0 }).groupSize,
  maxTokens: options.optionalInteger(
    "max-tokens",
    `Maximum number of tokens to generate. Default: ${usual.maxTokens}, or the benchmark's.`
  ),
  temperature: options.optionalFloat(
    "temperature",
    "Sampling temperature; 0 is greedy. Default: 0, or the benchmark's."
  ),
  seed: options.seed("The same seed gives the same answers."),
  ...options.rendering
}, evaluate).pipe(
  Command.withDescription(
    "Evaluate a model or checkpoint: likelihood of held-out data, mean of a scorer, rewards in an environment, or benchmarks."
  )
)

/** @internal */
export const command = Command.make("eval").pipe(
  Command.withSubcommands([runCommand, compareCommand]),
  Command.withDescription(
    "Evaluate a model or checkpoint, and compare evaluations. `eval TARGET` is `eval run TARGET`."
  )
)
