/**
 * Runs a training run for a person: says where it stands, shows its progress, ends it at its budget, and says how to go on
 * after an interruption.
 *
 * @since 0.1.0
 */
import type * as RunEntry from "@effect-tinker/cookbook/RunEntry"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import type * as Trainer from "@effect-tinker/cookbook/Trainer"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as CostLedger from "effect-tinker/CostLedger"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure } from "../internal/CliFailure.js"
import { RecordedWords } from "../internal/recordedWords.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"

/** A number as people compare it. @internal */
export const figure = (value: number): string =>
  !Number.isFinite(value)
    ? String(value)
    : value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6)
    ? String(Number(value.toPrecision(4)))
    : value.toExponential(2)

/** Metrics that an evaluation is judged by, the most telling first. */
const telling = [/^(env\/all\/)?reward$/, /accuracy$|correct$/, /win_rate$/, /score$/, /nll$|loss$/]

/** One figure to judge by, and all others; names that have only one place are shown without it. */
const figures = (metrics: RunEntry.Metrics): { readonly headline: string; readonly others: string } => {
  const names = Object.keys(metrics)
  const first = telling.flatMap((pattern) => names.find((name) => pattern.test(name)) ?? [])[0] ?? names[0]
  const one = (name: string) => `${name.replace("env/all/", "")} ${figure(metrics[name] ?? NaN)}`
  return {
    headline: first === undefined ? "-" : one(first),
    others: names.filter((name) => name !== first).map(one).join(", ")
  }
}

/** Metrics shown of a step, beside its loss. */
const headlines = ["env/all/reward", "accuracy", "kl_reference"]

const describeStep = (report: Trainer.StepReport): string => {
  const of = Option.match(report.totalSteps, { onNone: () => "", onSome: (total) => `/${total}` })
  const more = headlines.flatMap((name) => {
    const value = report.metrics[name]
    return value === undefined ? [] : [`, ${name.replace("env/all/", "")} ${figure(value)}`]
  })
  const cost = costOf(report.metrics)
  const paid = cost === undefined ? "" : `, ${cost}`
  return `step ${report.step}${of}: loss ${figure(report.loss)}${more.join("")}${paid}`
}

/** Costs of a run by the metrics of its last step, with the currency they name. @internal */
export const costOf = (metrics: RunEntry.Metrics): string | undefined => {
  const prefix = "cost/cumulative_"
  for (const [name, value] of Object.entries(metrics)) {
    if (name.startsWith(prefix)) return `${figure(value)} ${name.slice(prefix.length).toUpperCase()}`
  }
  return undefined
}

/** Bound on the cost of the next step, in steps so far: their costs differ. */
const margin = 2

/**
 * Whether the next step may not fit into the budget any more. One step is usually submitted behind those that have been
 * reported. The ledger refuses what would exceed the budget all the same, but a run that ends by itself is saved.
 */
const isSpent = ({ budget, reserved, spent }: CostLedger.Totals, steps: number): boolean => {
  const used = spent + reserved
  return budget !== undefined && budget - used < margin * used / (steps + 1)
}

const money = (totals: CostLedger.Totals, inTokens: boolean): string =>
  inTokens ? text.count(totals.spent, "token") : String(Number(totals.spent.toFixed(4)))

/**
 * Leaves the command line in the directory of its run, so that the studio can say how to resume it. A run without it is
 * as good as any.
 */
const recordCommand = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const words = yield* RecordedWords
  if (words.length === 0) return
  yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
  yield* fs.writeFileString(`${directory}/command.json`, `${JSON.stringify({ cwd: process.cwd(), words })}\n`, {
    mode: 0o600
  })
}, Effect.ignore)

interface Options<E, R> {
  readonly directory: string
  readonly run: Stream.Stream<Trainer.StepReport, E, R>
  readonly ledger: Option.Option<CostLedger.Service>
  /** Whether the ledger counts tokens instead of money. */
  readonly inTokens: boolean
}

const lastSaved = (directory: string) =>
  Effect.gen(function*() {
    const run = yield* RunLog.read(directory)
    const now = yield* Clock.currentTimeMillis
    return Option.map(
      Option.flatMap(run, (found) => RunLog.latestCheckpoint(found, now)),
      ({ step }) => step
    )
  }).pipe(Effect.orElseSucceed(() => Option.none<number>()))

/** The lines after a run that did not reach its end. */
const sayHowToResume = Effect.fnUntraced(function*(directory: string) {
  const { note } = yield* Output
  const step = yield* lastSaved(directory)
  yield* note(
    Option.match(step, {
      onNone: () => `Nothing was saved yet in ${directory}. Run the same command again to start over.`,
      onSome: (step) => `Saved at step ${step} in ${directory}. Run the same command again to go on from there.`
    })
  )
})

/**
 * Runs it to its end.
 *
 * @internal
 */
export const drive: <E, R>(
  options: Options<E, R>
) => Effect.Effect<
  void,
  E | CliFailure | RunLog.RunLogError,
  R | Output | Stdio | FileSystem.FileSystem
> = Effect.fnUntraced(function*<E, R>({ directory, inTokens, ledger, run }: Options<E, R>) {
  const output = yield* Output
  const { stderr } = yield* Stdio
  const before = yield* RunLog.read(directory)
  const wasComplete = Option.exists(Option.flatMap(before, ({ ended }) => ended), ({ complete }) => complete)
  if (Option.isSome(before) && !wasComplete) {
    const step = yield* lastSaved(directory)
    yield* output.note(`Resuming the run in ${directory} at step ${Option.getOrElse(step, () => 0)}`)
  } else if (!wasComplete) yield* output.note(`The run is recorded in ${directory}`)

  let steps = 0
  let outOfBudget = false
  const show = Effect.fnUntraced(function*(report: Trainer.StepReport, progress: Progress.Progress) {
    if (steps++ === 0) yield* recordCommand(directory)
    if (output.format === "ndjson") {
      yield* output.printItem({
        step: report.step,
        total_steps: Option.getOrNull(report.totalSteps),
        epoch: report.epoch,
        loss: report.loss,
        learning_rate: report.learningRate,
        tokens: report.tokens,
        metrics: report.metrics,
        evaluations: report.evaluations,
        skipped: report.skipped.length
      })
    }
    const tests = Object.entries(report.evaluations)
    for (const [name, metrics] of tests) {
      yield* progress.clear
      const { headline, others } = figures(metrics)
      yield* output.note(`after step ${report.step - 1}: ${name} ${headline}`)
      if (others !== "") yield* output.note(`  ${others}`)
    }
    if (stderr.isTTY) {
      yield* progress.update(report.step, Option.getOrUndefined(report.totalSteps), describeStep(report))
    } else yield* output.note(describeStep(report))
  })

  const work = Effect.gen(function*() {
    const progress = yield* Progress.make({ label: "Training" })
    yield* run.pipe(
      Stream.tap((report) => show(report, progress)),
      Stream.takeUntilEffect(() =>
        Option.match(ledger, {
          onNone: () => Effect.succeed(false),
          onSome: ({ totals }) =>
            Effect.map(totals, (now) => {
              outOfBudget = isSpent(now, steps)
              return outOfBudget
            })
        })
      ),
      Stream.runDrain
    )
  }).pipe(
    Effect.scoped,
    // By now the trainer has saved.
    Effect.onInterrupt(() => Effect.orDie(sayHowToResume(directory))),
    Effect.tapError(() => steps === 0 ? Effect.void : Effect.orDie(sayHowToResume(directory)))
  )
  yield* work
  if (wasComplete) yield* output.note(`The run in ${directory} is complete: nothing is left to do`)

  const after = yield* RunLog.read(directory)
  const totals = yield* Effect.transposeMapOption(ledger, ({ totals }) => totals)
  yield* Option.match(after, {
    onNone: () => Effect.void,
    onSome: (found) => print(directory, found, Option.map(totals, (now) => [now, inTokens]))
  })
  const complete = Option.exists(Option.flatMap(after, ({ ended }) => ended), (ended) => ended.complete)
  if (outOfBudget && !complete) {
    return yield* new CliFailure({
      what: "The budget is used up before the run is complete",
      advice: `It is saved in ${directory}: run the same command again, with another budget, to go on from there.`
    })
  }
})

/** Outcome of a run. */
const print = Effect.fnUntraced(function*(
  directory: string,
  run: RunLog.Run,
  spent: Option.Option<readonly [CostLedger.Totals, inTokens: boolean]>
) {
  const { format, printItem, printRecord } = yield* Output
  const last = run.steps.at(-1)
  const first = run.steps[0]
  const checkpoint = Option.getOrUndefined(
    Arr.findLast(run.checkpoints, ({ samplerPath }) => samplerPath !== undefined)
  )
  const evaluations = Object.fromEntries(run.evaluations.map(({ metrics, name }) => [name, metrics]))
  const complete = Option.exists(run.ended, (ended) => ended.complete)
  const tokens = run.steps.reduce((sum, { metrics }) => sum + (metrics["tokens"] ?? 0), 0)
  const json = {
    run_dir: directory,
    complete,
    steps: last?.step ?? 0,
    loss: last?.metrics["loss"] ?? null,
    first_loss: first?.metrics["loss"] ?? null,
    tokens,
    evaluations,
    sampler_path: checkpoint?.samplerPath ?? null,
    state_path: run.checkpoints.at(-1)?.statePath ?? null,
    spent: Option.match(spent, { onNone: () => null, onSome: ([{ spent }]) => spent })
  }
  if (format === "ndjson") return yield* printItem(json)
  const losses = last === undefined || first === undefined
    ? "-"
    : `${figure(first.metrics["loss"] ?? NaN)} -> ${figure(last.metrics["loss"] ?? NaN)}`
  yield* printRecord({
    json,
    properties: [
      ["Run", directory],
      ["Steps", `${last?.step ?? 0}${complete ? ", complete" : ""}`],
      ["Loss", losses],
      ["Tokens", tokens.toLocaleString("en-US")],
      ...(last === undefined || costOf(last.metrics) === undefined
        ? []
        : [["Cost", costOf(last.metrics) ?? ""] as const]),
      ...Object.entries(evaluations).flatMap(([name, metrics]) => {
        const { headline, others } = figures(metrics)
        return [[`On ${name}`, headline] as const, ...(others === "" ? [] : [["", others] as const])]
      }),
      ...Option.match(spent, {
        onNone: () => [],
        onSome: ([totals, inTokens]) => [["Spent", money(totals, inTokens)] as const]
      }),
      ["Sampler", checkpoint?.samplerPath ?? "-"]
    ]
  })
})
