/**
 * From what an agent did to a better agent: traces are split by session, the good ones are trained on, and the model is
 * evaluated before and after on what was held out, by a paired test. A page says whether to ship it.
 *
 * @since 0.2.0
 */
import * as Benchmark from "@effect-tinker/cookbook/Benchmark"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import type * as Environment from "@effect-tinker/cookbook/Environment"
import * as EvalResults from "@effect-tinker/cookbook/EvalResults"
import * as Example from "@effect-tinker/cookbook/Example"
import * as Policy from "@effect-tinker/cookbook/Policy"
import * as Preference from "@effect-tinker/cookbook/Preference"
import * as Rollout from "@effect-tinker/cookbook/Rollout"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as Statistics from "@effect-tinker/cookbook/Statistics"
import * as Supervised from "@effect-tinker/cookbook/Supervised"
import type * as Trainer from "@effect-tinker/cookbook/Trainer"
import * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as SamplingClient from "effect-tinker/SamplingClient"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Trace from "./Trace.js"
import * as TraceData from "./TraceData.js"

// =============================================================================
// models
// =============================================================================

/**
 * A case of an evaluation: one problem of a held-out session.
 *
 * @since 0.2.0
 * @category models
 */
export interface Case<out E = never, out R = never> {
  readonly id: string
  /** Cases of one session count as one. */
  readonly session: string
  /** Question and recorded answer, for the list of changes. */
  readonly input: string
  readonly target?: string | undefined
  readonly problem: Environment.Group<E, R>
}

/**
 * Evaluation of a model: the cases of the held-out traces.
 *
 * @since 0.2.0
 * @category models
 */
export interface Suite<out E = never, out R = never> {
  readonly _tag: "Suite"
  readonly cases: (heldOut: ReadonlyArray<Trace.Trace>) => ReadonlyArray<Case<E, R>>
  readonly limits?: Rollout.Limits | undefined
}

const lastOf = (messages: ReadonlyArray<Message.Message>): string => {
  const last = messages.at(-1)
  return last === undefined ? "" : Message.text(last)
}

/**
 * A suite that asks what the held-out traces were asked: a problem for each of them, such as a task of an agent. Traces for
 * which there is none are left out.
 *
 * @since 0.2.0
 * @category constructors
 */
export const suite = <E, R>(
  problem: (trace: Trace.Trace) => Environment.Group<E, R> | undefined,
  options?: { readonly limits?: Rollout.Limits | undefined }
): Suite<E, R> => ({
  _tag: "Suite",
  limits: options?.limits,
  cases: (heldOut) =>
    heldOut.flatMap((trace) => {
      const made = problem(trace)
      return made === undefined ? [] : [{
        id: trace.id,
        session: trace.session,
        input: lastOf(Trace.opening(trace)),
        target: Trace.answer(trace),
        problem: made
      }]
    })
})

/**
 * Whether a value is a suite.
 *
 * @since 0.2.0
 * @category guards
 */
export const isSuite = (u: unknown): u is Suite<unknown, unknown> =>
  typeof u === "object" && u !== null && "_tag" in u && u._tag === "Suite"

/**
 * Data to train on: successes, pairs of a better and a worse answer to one prompt, or one after the other; or all that was
 * judged, with what it was worth as reward (`offline`).
 *
 * @since 0.2.0
 * @category schemas
 */
export const Method = Schema.Literal("sft", "dpo", "sft+dpo", "offline")

/**
 * Names of the methods.
 *
 * @since 0.2.0
 * @category models
 */
export type Method = typeof Method.Type

/**
 * The model to improve, its traces, and the way to do it.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Options<ED, RD, E, R> {
  readonly traces: Dataset.Dataset<Trace.Trace, ED, RD>
  /** The model to train. */
  readonly model: { readonly baseModel: string; readonly rank: number; readonly seed: number }
  /** The model in production: a base model or the `tinker://` path of a sampler. Defaults to the model as it begins. */
  readonly production?: string | undefined
  readonly renderer: Renderer.Renderer
  readonly suite: Suite<E, R>
  /** The directory of the run: data, journals, results and the report. The same call again resumes it. */
  readonly directory: string
  /** Defaults to `sft`. */
  readonly method?: Method | undefined
  /** Which sessions are held out. */
  readonly split?: TraceData.Split | undefined
  /** Which traces are imitated. */
  readonly success?: TraceData.Successful & { readonly bestOnly?: boolean | undefined } | undefined
  /** Learning rate of supervised learning; a fifth of it where `offline` learns from recorded log probabilities. */
  readonly learningRate: Trainer.LearningRateInput
  /** Examples of a step. Defaults to 32, or all where there are fewer. */
  readonly batchSize?: number | undefined
  /** Defaults to 3. */
  readonly epochs?: number | undefined
  /** Learning rate of the preferences. Defaults to a tenth of `learningRate`: the model that they correct is there already. */
  readonly preferenceRate?: Trainer.LearningRateInput | undefined
  /** Strength of the constraint to the model before the preferences. Defaults to 0.1. */
  readonly beta?: number | undefined
  /** Sampling settings of the evaluation. */
  readonly sampling?: {
    /** Defaults to 256. */
    readonly maxTokens?: number | undefined
    /** Defaults to 0. */
    readonly temperature?: number | undefined
    /** Attempts at each case. Defaults to 1. */
    readonly attempts?: number | undefined
    /** Defaults to 0. */
    readonly seed?: number | undefined
  } | undefined
  /** Cases at once. Defaults to 16. */
  readonly concurrency?: number | undefined
  /** Difference that an evaluation must exceed to ship. Defaults to 0. */
  readonly minDelta?: number | undefined
  /** Cost of it all, such as `1.2 USD`: asked after the last evaluation, for the page. */
  readonly cost?: Effect.Effect<string> | undefined
  readonly onStep?: ((stage: "sft" | "dpo" | "offline", step: Trainer.StepReport) => Effect.Effect<void>) | undefined
}

/**
 * Whether to ship: the interval of the difference is above what was asked for, below zero, or neither.
 *
 * @since 0.2.0
 * @category models
 */
export type Verdict = "ship" | "worse" | "unproven"

/**
 * Outcome of an improvement.
 *
 * @since 0.2.0
 * @category models
 */
export interface Report {
  readonly verdict: Verdict
  readonly comparison: EvalResults.Comparison
  readonly traces: number
  readonly sessions: { readonly train: number; readonly heldOut: number }
  readonly examples: { readonly sft: number; readonly dpo: number; readonly offline: number }
  readonly tokens: number
  /** Cost of training and of both evaluations, where it was asked for. */
  readonly cost?: string | undefined
  /** The `tinker://` path of the trained weights. */
  readonly samplerPath: string
  /** One page of Markdown, also in the directory as `report.md`. */
  readonly markdown: string
}

/**
 * There is too little in the traces to go on.
 *
 * @since 0.2.0
 * @category errors
 */
export class NotEnough extends Schema.TaggedError<NotEnough>("@effect-tinker/agents/Improve/NotEnough")(
  "NotEnough",
  { description: Schema.String, advice: Schema.String }
) {
  override get message(): string {
    return this.description
  }
}

// =============================================================================
// evaluating
// =============================================================================

const answerOf = (group: Trajectory.Group, member: number): string => {
  const message = group.trajectories[member]?.turns.at(-1)?.message
  return message === undefined ? "" : Message.text(message)
}

/** Every case, as the results of a benchmark: `tinker eval compare` and the studio read their file. */
const evaluate = <E, R>(
  sampler: SamplingClient.Service,
  cases: ReadonlyArray<Case<E, R>>,
  options: Pick<Options<never, never, E, R>, "concurrency" | "renderer" | "sampling" | "suite">
) => {
  const { attempts = 1, maxTokens = 256, seed = 0, temperature = 0 } = options.sampling ?? {}
  const policy = Policy.fromSampler(sampler, { maxTokens, temperature })
  return Effect.map(
    Effect.forEach(
      cases,
      ({ id, input, problem, target }, i) =>
        Effect.map(
          Rollout.group(policy, problem, {
            size: attempts,
            // an answer that ends badly is worth nothing; to be punished is for training
            settings: { renderer: options.renderer, overflowReward: 0, parseErrors: { reward: 0 } },
            limits: options.suite.limits,
            seed: seed + 1000 * i
          }),
          (group) =>
            Trajectory.rewardsOf(group).map((reward, sample) =>
              new Benchmark.Result({
                id,
                sample,
                outcome: "completed",
                reward,
                answer: answerOf(group, sample),
                tokens: group.trajectories[sample]?.turns.reduce((sum, { action }) => sum + action.tokens.length, 0) ??
                  0,
                input,
                ...target === undefined ? {} : { target }
              })
            )
        ),
      { concurrency: options.concurrency ?? 16 }
    ),
    (results) => results.flat()
  )
}

const encodeResult = Schema.encodeSync(Schema.parseJson(Benchmark.Result))

const resultLines = (model: string, samples: number, seed: number, results: ReadonlyArray<Benchmark.Result>): string =>
  [
    JSON.stringify({ benchmark: "held-out", model, samples, seed }),
    ...results.map((result) => encodeResult(result)),
    ""
  ]
    .join("\n")

/** Cases of one session are one cluster. */
const compared = (
  cases: ReadonlyArray<Case<unknown, unknown>>,
  before: EvalResults.Results,
  after: EvalResults.Results
): EvalResults.Comparison => {
  const plain = EvalResults.compare(before, after)
  const sessions = new Map(cases.map(({ id, session }) => [id, session]))
  const mean = (example: EvalResults.Example) =>
    example.attempts.reduce((sum, { value }) => sum + value, 0) / example.attempts.length
  return {
    ...plain,
    ...Statistics.compare(
      Array.from(before.examples.values()).flatMap((first) => {
        const second = after.examples.get(first.id)
        return second === undefined
          ? []
          : [{ first: mean(first), second: mean(second), cluster: sessions.get(first.id) ?? first.id }]
      })
    )
  }
}

// =============================================================================
// the report
// =============================================================================

const figure = (value: number): string => Number.isFinite(value) ? String(Number(value.toPrecision(3))) : "unknown"

const verdictOf = ({ difference, p }: EvalResults.Comparison, minDelta: number): Verdict =>
  difference.low > minDelta && p < 0.05 ? "ship" : difference.high < 0 ? "worse" : "unproven"

const decisions: Readonly<Record<Verdict, string>> = {
  ship: "**Ship it.** It is better on the sessions it was not trained on, beyond the uncertainty of the comparison.",
  worse: "**Do not ship it.** It is worse on the sessions it was not trained on.",
  unproven:
    "**Do not ship it yet.** The difference is within the uncertainty of the comparison: more held-out sessions " +
    "would tell, or better data."
}

const markdownOf = (
  options: Options<never, never, never, never> | Options<unknown, unknown, unknown, unknown>,
  report: Omit<Report, "markdown">
): string => {
  const { comparison, examples, sessions, verdict } = report
  const { difference, p } = comparison
  return [
    `# ${options.model.baseModel}, improved by its traces`,
    "",
    decisions[verdict],
    "",
    "| | |",
    "| --- | --- |",
    `| in production | ${figure(comparison.scores[0])} |`,
    `| trained | ${figure(comparison.scores[1])} |`,
    `| difference | ${figure(difference.mean)}, 95 % interval ${figure(difference.low)} to ${
      figure(difference.high)
    } |`,
    `| p (paired permutation test) | ${p < 0.001 ? "below 0.001" : figure(p)} |`,
    `| better, worse, the same | ${comparison.better}, ${comparison.worse}, ${
      comparison.shared - comparison.better - comparison.worse
    } |`,
    `| evaluated on | ${comparison.shared} prompts of ${difference.clusters} held-out sessions |`,
    `| traces | ${report.traces} of ${
      sessions.train + sessions.heldOut
    } sessions, ${sessions.heldOut} of them held out |`,
    `| trained on | ${
      [
        ...examples.sft > 0 ? [`${examples.sft} successes`] : [],
        ...examples.dpo > 0 ? [`${examples.dpo} pairs`] : [],
        ...examples.offline > 0 ? [`${examples.offline} judged traces`] : []
      ].join(", ")
    }: ${report.tokens.toLocaleString("en-US")} tokens |`,
    ...report.cost === undefined ? [] : [`| cost | ${report.cost} |`],
    `| weights | \`${report.samplerPath}\` |`,
    "",
    "## What changed",
    "",
    EvalResults.toMarkdown([comparison], { examples: 10 })
  ].join("\n")
}

// =============================================================================
// improving
// =============================================================================

const trained = <E, R>(
  run: Stream.Stream<Trainer.StepReport, E, R>,
  directory: string,
  onStep: (step: Trainer.StepReport) => Effect.Effect<void>
) =>
  Effect.gen(function*() {
    yield* Stream.runForEach(run, onStep)
    const found = yield* RunLog.read(directory)
    const run_ = Option.getOrUndefined(found)
    const last = run_?.checkpoints.at(-1)
    const tokens = run_?.steps.reduce((sum, { metrics }) => sum + (metrics["tokens"] ?? 0), 0) ?? 0
    return last?.samplerPath === undefined
      ? yield* new NotEnough({ description: "the training saved nothing", advice: "Give it more data or epochs." })
      : { samplerPath: last.samplerPath, statePath: last.statePath, tokens }
  })

/** Keeps the training data with the run, to be looked at. */
const writeRows = <A, E, R>(path: string, rows: Stream.Stream<A, E, R>, toRow: (row: A) => unknown) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    let count = 0
    yield* rows.pipe(
      Stream.map((row) => {
        count++
        return `${JSON.stringify(toRow(row))}\n`
      }),
      Stream.encodeText,
      Stream.run(fs.sink(path, { flag: "w", mode: 0o600 }))
    )
    return count
  })

/** Judged traces as data of one loss: that with log probabilities where there are some. */
const rewardsOf = Effect.fnUntraced(function*<ED, RD>(
  train: Dataset.Dataset<Trace.Trace, ED, RD>,
  { renderer, success }: Pick<Options<ED, RD, never, never>, "renderer" | "success">
) {
  const all = Chunk.toReadonlyArray(
    yield* Stream.runCollect(
      Dataset.values(yield* TraceData.rewarded(train, { renderer, score: success?.score }))
    )
  )
  const sampled = all.filter(({ loss }) => loss === "importance_sampling")
  const chosen = sampled.length > 0 ? sampled : all
  const [first] = chosen
  return first === undefined ? undefined : {
    loss: first.loss,
    count: chosen.length,
    data: Dataset.fromIterable(chosen.map(({ datum }) => datum))
  }
})

const divided = (rate: Trainer.LearningRateInput, by: number): Trainer.LearningRateInput =>
  typeof rate === "number" ? rate / by : { ...rate, peak: rate.peak / by }

const sizeOf = (rows: number, wanted: number | undefined): number => Math.max(1, Math.min(rows, wanted ?? 32))

/**
 * Splits, trains, evaluates, and writes the report.
 *
 * @since 0.2.0
 * @category constructors
 */
export const run = <ED, RD, E, R>(options: Options<ED, RD, E, R>): Effect.Effect<
  Report,
  | ED
  | E
  | NotEnough
  | Trainer.TrainError
  | TinkerError.TinkerError
  | Rollout.ActionTimedOut
  | Rollout.GroupFailed
  | RunLog.RunLogError
  | PlatformError.PlatformError,
  RD | R | FileSystem.FileSystem | ServiceClient.ServiceClient
> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const { directory, epochs = 3, method = "sft", model, renderer } = options
    const [train, held] = TraceData.split(options.traces, options.split)
    const heldOut = Chunk.toReadonlyArray(yield* Stream.runCollect(Dataset.values(held)))
    const sessions = new Set<string>()
    let traces = heldOut.length
    yield* Stream.runForEach(Dataset.values(train), ({ session }) =>
      Effect.sync(() => {
        traces++
        sessions.add(session)
      }))
    const cases = options.suite.cases(heldOut)
    if (cases.length === 0) {
      return yield* new NotEnough({
        description: `none of ${heldOut.length} held-out traces can be evaluated, of ${traces} in all`,
        advice: "Hold out a larger share, or import more sessions."
      })
    }
    const good: Dataset.Dataset<Example.Conversation, ED, RD> = method === "dpo" || method === "offline"
      ? Dataset.fromIterable([])
      : options.success?.bestOnly === true
      ? yield* TraceData.best(train, options.success)
      : TraceData.successes(train, options.success)
    const pairs: Dataset.Dataset<Example.Preference, ED, RD> = method === "sft" || method === "offline"
      ? Dataset.fromIterable([])
      : yield* TraceData.preferences(train, options.success)
    yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
    const sftFile = `${directory}/sft.jsonl`
    const dpoFile = `${directory}/dpo.jsonl`
    const sft = yield* writeRows(sftFile, Dataset.values(good), TraceData.chatRow)
    const dpo = yield* writeRows(dpoFile, Dataset.values(pairs), TraceData.preferenceRow)
    yield* writeRows(`${directory}/held-out.jsonl`, Stream.fromIterable(heldOut), TraceData.promptRow)
    const rewards = method === "offline" ? yield* rewardsOf(train, options) : undefined
    if (method === "offline" && rewards === undefined) {
      return yield* new NotEnough({
        description: `none of the ${traces - heldOut.length} traces to train on was worth more than the mean`,
        advice: "Name the score that counts."
      })
    }
    if (method !== "dpo" && method !== "offline" && sft === 0) {
      return yield* new NotEnough({
        description: `none of the ${traces - heldOut.length} traces to train on is a success`,
        advice: "Name the score that counts, or what it must be worth."
      })
    }
    if (method === "dpo" && dpo === 0) {
      return yield* new NotEnough({
        description: "no two traces that were asked the same were worth more and less",
        advice: "Learn from the successes: sft."
      })
    }
    const common = {
      learningRate: options.learningRate,
      adam: { clip: 1 },
      epochs,
      shuffle: model.seed,
      partial: "keep" as const,
      renderer
    }
    let tokens = 0
    let samplerPath = ""
    let statePath: string | undefined
    if (sft > 0) {
      const at = `${directory}/sft`
      const done = yield* trained(
        Supervised.train({
          ...common,
          model,
          data: Example.chats(sftFile),
          batchSize: sizeOf(sft, options.batchSize),
          log: RunLog.directory(at)
        }),
        at,
        (step) => options.onStep?.("sft", step) ?? Effect.void
      )
      tokens += done.tokens
      samplerPath = done.samplerPath
      statePath = done.statePath
    }
    if (rewards !== undefined) {
      const at = `${directory}/offline`
      const done = yield* trained(
        Supervised.train({
          ...common,
          model,
          // recorded samples are those of a policy that every step leaves further behind
          learningRate: rewards.loss === "importance_sampling"
            ? divided(options.learningRate, 5)
            : options.learningRate,
          data: rewards.data,
          loss: rewards.loss,
          batchSize: sizeOf(rewards.count, options.batchSize),
          log: RunLog.directory(at)
        }),
        at,
        (step) => options.onStep?.("offline", step) ?? Effect.void
      )
      tokens += done.tokens
      samplerPath = done.samplerPath
    }
    if (dpo > 0) {
      const at = `${directory}/dpo`
      const done = yield* trained(
        Preference.train({
          ...common,
          model: { ...model, ...statePath === undefined ? {} : { from: statePath } },
          ...samplerPath === "" ? {} : { reference: samplerPath },
          learningRate: options.preferenceRate ?? divided(options.learningRate, 10),
          data: Example.preferences(dpoFile),
          batchSize: sizeOf(dpo, options.batchSize),
          ...options.beta === undefined ? {} : { beta: options.beta },
          log: RunLog.directory(at)
        }),
        at,
        (step) => options.onStep?.("dpo", step) ?? Effect.void
      )
      tokens += done.tokens
      samplerPath = done.samplerPath
    }
    const production = options.production ?? model.baseModel
    const { attempts = 1, seed = 0 } = options.sampling ?? {}
    const measure = (name: string, file: string) =>
      Effect.gen(function*() {
        const sampler = yield* SamplingClient.make(
          name.startsWith("tinker://") ? { modelPath: name } : { baseModel: name }
        )
        const results = yield* evaluate(sampler, cases, options)
        yield* fs.writeFileString(`${directory}/${file}.jsonl`, resultLines(name, attempts, seed, results))
        return EvalResults.fromResults({ name: "held-out", model: name, results })
      }).pipe(Effect.scoped)
    const comparison = compared(cases, yield* measure(production, "before"), yield* measure(samplerPath, "after"))
    const report = {
      verdict: verdictOf(comparison, options.minDelta ?? 0),
      comparison,
      traces,
      sessions: { train: sessions.size, heldOut: new Set(heldOut.map(({ session }) => session)).size },
      examples: { sft, dpo, offline: rewards?.count ?? 0 },
      tokens,
      ...options.cost === undefined ? {} : { cost: yield* options.cost },
      samplerPath
    }
    const markdown = markdownOf(options, report)
    yield* fs.writeFileString(`${directory}/report.md`, markdown)
    return { ...report, markdown }
  })
