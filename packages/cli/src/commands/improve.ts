/**
 * `tinker improve`: from what an agent did to a better agent, and a page that says whether to ship it.
 *
 * @since 0.2.0
 */
import * as Improve from "@effect-tinker/agents/Improve"
import * as Trace from "@effect-tinker/agents/Trace"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Environment from "@effect-tinker/cookbook/Environment"
import * as Message from "@effect-tinker/tokenizer/Message"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as TinkerError from "effect-tinker/TinkerError"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure, usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import * as LocalModels from "../internal/LocalModels.js"
import * as userModule from "../internal/userModule.js"
import { Output } from "../terminal/Output.js"
import * as judgingFlags from "../training/judging.js"
import * as modelSettings from "../training/modelSettings.js"
import * as options from "../training/options.js"
import { figure } from "../training/progress.js"
import * as TrainModule from "../TrainModule.js"
import { imported, judging, splitting } from "./dataTraces.js"

type Suite = Improve.Suite<unknown, TrainModule.Services>

/** The command provides all that the cases of a module need. */
const isSuite = (u: unknown): u is Suite => Improve.isSuite(u)

const isScorer = (u: unknown): u is TrainModule.Scorer => typeof u === "function"

/** Answers to what was asked, judged by a function. */
const scored = (scorer: TrainModule.Scorer): Suite =>
  Improve.suite((trace) => {
    const opening = Trace.opening(trace)
    const last = opening.at(-1)
    if (last === undefined) return undefined
    const example = { input: Message.text(last), expected: Trace.answer(trace) }
    return Environment.problem({
      question: opening,
      check: (answer) =>
        Effect.flatMap(
          Effect.tryPromise({
            try: async () => scorer({ ...example, output: answer }),
            catch: (cause) =>
              new CliFailure({ what: `The scorer failed: ${String(cause)}`, advice: "Correct it.", cause })
          }),
          (said) => {
            const value = TrainModule.numberOf(said)
            return value === undefined
              ? new CliFailure({
                what: `The scorer gave ${JSON.stringify(said)}`,
                advice: "A score is a number from 0 to 1, or { score }; null when it cannot be judged."
              })
              : Effect.succeed(value ?? 0)
          }
        )
    })
  })

/** Problems of their own, which have nothing to do with the traces. */
const fixed = Effect.fnUntraced(function*({ limits, problems, test }: TrainModule.Loaded) {
  const cases = Chunk.toReadonlyArray(yield* Stream.runCollect(Dataset.values(test ?? problems)))
  const suite: Suite = {
    _tag: "Suite",
    limits,
    cases: () => cases.map((problem, i) => ({ id: String(i), session: String(i), input: `problem ${i + 1}`, problem }))
  }
  return suite
})

const suiteOf = Effect.fnUntraced(function*(path: string) {
  const found = yield* userModule.defaultExport(path)
  if (isSuite(found)) return found
  if (isScorer(found)) return scored(found)
  const loaded = TrainModule.environmentsOf(found)
  return typeof loaded === "string"
    ? yield* new CliFailure({
      what: `The default export of ${path} evaluates nothing: ${loaded}`,
      advice: "Export a scorer of answers, Improve.suite(trace => problem), an agent, or environments."
    })
    : yield* fixed(loaded)
})

/** Answers to what was asked, graded by a model. */
const rubricSuite = Effect.fnUntraced(function*(flags: judgingFlags.Flags) {
  if (Option.isNone(flags.criteria)) {
    return yield* usage(
      "There is nothing to evaluate by",
      "Name a module with --eval, or say with --criteria what makes an answer good."
    )
  }
  const model = yield* judgingFlags.judgeFor(flags)
  const judge = yield* judgingFlags.groupJudge(model, { ...flags, rubric: true })
  const suite: Suite = Improve.suite((trace) => {
    const opening = Trace.opening(trace)
    return opening.length === 0 ? undefined : judgingFlags.problemOf(opening, judge)
  })
  return suite
})

const verdicts: Readonly<Record<Improve.Verdict, string>> = {
  ship: "ship it",
  worse: "do not ship it: it is worse",
  unproven: "do not ship it yet: the difference is within the uncertainty"
}

const improve = Effect.fnUntraced(
  function*(
    flags: judgingFlags.Flags & modelSettings.BudgetFlags & {
      readonly files: ReadonlyArray<string>
      readonly model: string
      readonly eval: Option.Option<string>
      readonly production: Option.Option<string>
      readonly method: Improve.Method
      readonly bestOnly: boolean
      readonly score: Option.Option<string>
      readonly atLeast: number
      readonly share: number
      readonly seed: number
      readonly rank: number
      readonly learningRate: Option.Option<number>
      readonly batchSize: Option.Option<number>
      readonly epochs: number
      readonly groupSize: number
      readonly maxTokens: number
      readonly temperature: number
      readonly minDelta: number
      readonly requireBetter: boolean
      readonly runDir: Option.Option<string>
      readonly keepSensitive: boolean
      readonly currency: string
      readonly renderer: Option.Option<string>
      readonly tokenizer: Option.Option<string>
    }
  ) {
    if (!(flags.share > 0 && flags.share < 1)) {
      return yield* usage("--share must be above 0 and below 1", "For example: --share 0.2")
    }
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const output = yield* Output
    const [first = ""] = flags.files
    const directory = Option.getOrElse(flags.runDir, () => path.join("runs", `improve-${path.parse(first).name}`))
    yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
    const suite = Option.isSome(flags.eval) ? yield* suiteOf(flags.eval.value) : yield* rubricSuite(flags)
    const traces = path.join(directory, "traces.jsonl")
    yield* modelSettings.costOf(flags)
    const ledger = yield* modelSettings.ledgerFor(flags.model, flags)
    const unit = Option.isSome(flags.tokenBudget) ? "tokens" : flags.currency.toUpperCase()
    const spent = Option.map(ledger, ({ totals }) => Effect.map(totals, (now) => Number(now.spent.toPrecision(6))))
    yield* imported({ sources: flags.files, out: traces, redact: !flags.keepSensitive })
    const report = yield* Improve.run({
      traces: Trace.jsonl(traces),
      model: { baseModel: flags.model, rank: flags.rank, seed: flags.seed },
      production: Option.getOrUndefined(flags.production),
      renderer: yield* modelSettings.rendererFor(flags.model, flags),
      suite,
      directory,
      method: flags.method,
      split: { share: flags.share, seed: flags.seed },
      success: { score: Option.getOrUndefined(flags.score), atLeast: flags.atLeast, bestOnly: flags.bestOnly },
      learningRate: yield* modelSettings.learningRateFor(flags.learningRate, flags.model),
      batchSize: Option.getOrUndefined(flags.batchSize),
      epochs: flags.epochs,
      sampling: {
        maxTokens: flags.maxTokens,
        temperature: flags.temperature,
        attempts: flags.groupSize,
        seed: flags.seed
      },
      minDelta: flags.minDelta,
      cost: Option.getOrUndefined(Option.map(spent, Effect.map((amount) => `${amount} ${unit}`))),
      onStep: (stage, { loss, step, totalSteps }) =>
        output.note(
          `${stage} step ${step}${Option.match(totalSteps, { onNone: () => "", onSome: (n) => `/${n}` })}: loss ${
            figure(loss)
          }`
        )
    }).pipe(
      Effect.catchIf(
        (error): error is Improve.NotEnough => error instanceof Improve.NotEnough,
        (error) => new CliFailure({ what: error.description, advice: error.advice, cause: error })
      ),
      Effect.catchIf(
        (error): error is TinkerError.BudgetExceeded => error instanceof TinkerError.BudgetExceeded,
        (cause) =>
          new CliFailure({
            what: "The budget is used up before it is done",
            advice: `What was saved in ${directory} is not done again: run the same command with a larger budget.`,
            cause
          })
      ),
      Effect.provide(modelSettings.layerBudget(ledger, flags.model))
    )
    const { comparison, examples, sessions, verdict } = report
    const { difference, p } = comparison
    const page = path.join(directory, "report.md")
    yield* output.printRecord({
      json: {
        verdict,
        before: comparison.scores[0],
        after: comparison.scores[1],
        difference: {
          ...difference,
          low: Number.isFinite(difference.low) ? difference.low : null,
          high: Number.isFinite(difference.high) ? difference.high : null
        },
        p,
        better: comparison.better,
        worse: comparison.worse,
        cases: comparison.shared,
        sessions,
        examples,
        traces: report.traces,
        tokens: report.tokens,
        ...Option.isSome(spent) ? { cost: yield* spent.value, currency: unit.toLowerCase() } : {},
        sampler_path: report.samplerPath,
        report: page
      },
      properties: [
        ["Verdict", verdicts[verdict]],
        ["In production", figure(comparison.scores[0])],
        ["Trained", figure(comparison.scores[1])],
        [
          "Difference",
          `${figure(difference.mean)}, 95 % between ${figure(difference.low)} and ${figure(difference.high)}; p ${
            p < 0.001 ? "below 0.001" : figure(p)
          }`
        ],
        ["Evaluated on", `${comparison.shared} prompts of ${sessions.heldOut} held-out sessions`],
        [
          "Trained on",
          `${examples.sft} successes, ${examples.dpo} pairs, ${examples.offline} rewards of ${sessions.train} sessions`
        ],
        ...report.cost === undefined ? [] : [["Cost", report.cost] as const],
        ["Sampler", report.samplerPath],
        ["Report", page]
      ]
    })
    if (flags.requireBetter && verdict !== "ship") {
      return yield* new CliFailure({ what: `It is not to be shipped: ${verdict}`, advice: `${page} says why.` })
    }
  },
  Effect.scoped,
  (effect, { model }) =>
    Effect.provideService(effect, LocalModels.Requested, model.startsWith("local/") ? [] : [model]),
  Effect.provide(Layer.mergeAll(live.training, modelSettings.tokenizers, FetchHttpClient.layer))
)

/** @internal */
export const command = Command.make("improve", {
  files: Args.text({ name: "files" }).pipe(
    Args.withDescription("Traces, or logs that `tinker data import` reads."),
    Args.atLeast(1)
  ),
  model: options.model("The base model to adapt."),
  eval: options.optionalText(
    "eval",
    "A module: a scorer of answers to what held-out sessions asked, Improve.suite, an agent, or environments."
  ),
  ...judgingFlags.flags,
  production: options.optionalText(
    "production",
    "What is in production: a base model or tinker:// path. Default: --model."
  ),
  method: Options.choice("method", ["sft", "dpo", "sft+dpo", "offline"]).pipe(
    Options.withDefault("sft" as const),
    Options.withDescription(
      "Learn from successes, from pairs of a better and a worse answer, from both, or from what all of them are worth. Default: sft."
    )
  ),
  bestOnly: Options.boolean("best-only").pipe(
    Options.withDescription("Of traces that were asked the same, train on the best alone.")
  ),
  ...judging,
  ...splitting,
  rank: options.common.rank,
  learningRate: options.common.learningRate,
  batchSize: options.batchSize,
  epochs: Options.integer("epochs").pipe(
    Options.withDefault(3),
    Options.withDescription("Number of passes over the data. Default: 3.")
  ),
  ...options.answers({ groupSize: 1, temperature: 0 }),
  minDelta: Options.float("min-delta").pipe(
    Options.withDefault(0),
    Options.withDescription("What the difference must exceed to be shipped. Default: 0.")
  ),
  requireBetter: Options.boolean("require-better").pipe(
    Options.withDescription("Fail unless the result is to be shipped.")
  ),
  runDir: options.common.runDir,
  budget: options.optionalFloat(
    "budget",
    "Most to spend on training and evaluating in this invocation, by --price. What would exceed it is refused."
  ),
  price: options.common.price,
  currency: options.common.currency,
  tokenBudget: options.common.tokenBudget,
  keepSensitive: Options.boolean("keep-sensitive").pipe(
    Options.withDescription("Do not replace addresses of mail, keys, card and account numbers.")
  ),
  ...options.rendering
}, improve).pipe(
  Command.withDescription("From traces to a better model: import, split by session, train, compare, and report.")
)
