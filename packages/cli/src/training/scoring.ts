/**
 * Measures a model or a checkpoint: by the likelihood of held-out data, by a scorer of its answers, or by rollouts in an
 * environment. Each gives a number for every example, so that two models can be compared example by example.
 *
 * @since 0.1.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Evaluator from "@effect-tinker/cookbook/Evaluator"
import * as Example from "@effect-tinker/cookbook/Example"
import * as Policy from "@effect-tinker/cookbook/Policy"
import * as Rollout from "@effect-tinker/cookbook/Rollout"
import type * as RunEntry from "@effect-tinker/cookbook/RunEntry"
import * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import * as Chat from "@effect-tinker/tokenizer/Chat"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type * as Datum from "effect-tinker/Datum"
import * as ModelInput from "effect-tinker/ModelInput"
import * as SamplingClient from "effect-tinker/SamplingClient"
import * as TensorData from "effect-tinker/TensorData"
import * as TrainingClient from "effect-tinker/TrainingClient"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure } from "../internal/CliFailure.js"
import * as RunCheckpoint from "../internal/runCheckpoint.js"
import * as TrainModule from "../TrainModule.js"
import * as dataFile from "./dataFile.js"

/** Result of one example. @internal */
export interface Found {
  readonly row: number
  /** The number to compare by; `null` when there is none. */
  readonly value: number | null
  readonly [detail: string]: unknown
}

/** @internal */
export interface Measured {
  readonly metrics: RunEntry.Metrics
  readonly examples: ReadonlyArray<Found>
  readonly skipped: ReadonlyArray<Dataset.Skipped>
}

/** Examples in flight. */
const concurrency = 16

/**
 * A sampler of what a person names: a run directory, a checkpoint or a base model.
 *
 * @internal
 */
export const open = Effect.fnUntraced(function*(target: string) {
  const path = (yield* RunCheckpoint.isRun(target)) ? yield* RunCheckpoint.ofRun(target) : target
  if (!path.startsWith("tinker://")) return yield* SamplingClient.make({ baseModel: path })
  if (!path.includes("/weights/")) return yield* SamplingClient.make({ modelPath: path })
  const training = yield* TrainingClient.makeFromState({ path })
  return yield* training.saveWeightsAndGetSamplingClient()
})

/** A dataset's rows measured one by one. */
const each = <A, E, R, E2, R2>(
  data: Dataset.Dataset<A, E, R>,
  limit: Option.Option<number>,
  measure: (value: A, row: number) => Effect.Effect<Found, E2, R2>
) =>
  Effect.gen(function*() {
    const skipped: Array<Dataset.Skipped> = []
    const found = yield* Dataset.rows(Option.match(limit, { onNone: () => data, onSome: (n) => Dataset.take(data, n) }))
      .pipe(
        Stream.filterMap((row) => {
          if (row._tag === "Kept") return Option.some(row)
          skipped.push(row)
          return Option.none()
        }),
        Stream.mapEffect(({ origin, value }) => measure(value, origin.row), { concurrency }),
        Stream.runCollect
      )
    const [first] = skipped
    if (Chunk.isEmpty(found)) {
      return yield* new CliFailure({
        what: `There is nothing to evaluate on${first === undefined ? "" : `: ${Dataset.describeSkipped(first)}`}`,
        advice: "`tinker data check FILE` says what is wrong with a file."
      })
    }
    return { examples: Chunk.toReadonlyArray(found), skipped }
  })

const mean = (values: ReadonlyArray<number>): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** The logprobs of a datum's targets, as a forward pass gives them. */
const passOf = Effect.fnUntraced(function*(sampler: SamplingClient.Service, datum: Datum.Datum) {
  const inputs = yield* ModelInput.toInts(datum.modelInput)
  const targets = datum.lossFnInputs["target_tokens"]
  const last = targets === undefined ? [] : TensorData.toArray(targets).slice(-1)
  const logprobs = yield* sampler.computeLogprobs(ModelInput.fromInts(Int32Array.from([...inputs, ...last])))
  return { logprobs: yield* TensorData.fromArray(logprobs.slice(1)) }
})

/**
 * Negative log-likelihood per trained token, and bits per byte.
 *
 * @internal
 */
export const nll = Effect.fnUntraced(function*(sampler: SamplingClient.Service, options: {
  readonly file: string
  readonly kind: "chats" | "completions"
  readonly renderer: Renderer.Renderer
  readonly limit: Option.Option<number>
}) {
  const { renderer } = options
  const data = Example.toData({ renderer })(dataFile.examples(options.file, options.kind))
  const totals = { nll: 0, weight: 0, nats: 0, bytes: 0 }
  const { examples, skipped } = yield* each(
    data,
    options.limit,
    Effect.fnUntraced(function*(datum, row) {
      const part = Evaluator.likelihood([datum], [yield* passOf(sampler, datum)], renderer.tokenizer)
      totals.nll += part.nll
      totals.weight += part.weight
      totals.nats += part.nats
      totals.bytes += part.bytes
      const found: Found = { row, value: part.nll / part.weight, tokens: part.weight }
      return found
    })
  )
  const bpb = totals.bytes > 0 ? { bpb: totals.nats / (Math.LN2 * totals.bytes) } : {}
  const measured: Measured = { metrics: { nll: totals.nll / totals.weight, ...bpb }, examples, skipped }
  return measured
})

/**
 * How often the chosen answer is likelier than the rejected one, and by how many nats.
 *
 * @internal
 */
export const preferences = Effect.fnUntraced(function*(sampler: SamplingClient.Service, options: {
  readonly file: string
  readonly renderer: Renderer.Renderer
  readonly limit: Option.Option<number>
}) {
  const data = Dataset.mapEffect(dataFile.preferences(options.file), (pair) => Example.toPair(pair, options))
  const logprob = (datum: Datum.Datum) =>
    Effect.map(passOf(sampler, datum), (pass) => -Evaluator.likelihood([datum], [pass]).nll)
  const { examples, skipped } = yield* each(
    data,
    options.limit,
    Effect.fnUntraced(function*({ chosen, rejected }, row) {
      const found: Found = { row, value: (yield* logprob(chosen)) - (yield* logprob(rejected)) }
      return found
    })
  )
  const margins = examples.map(({ value }) => value ?? 0)
  const measured: Measured = {
    metrics: { accuracy: mean(margins.map((margin) => Number(margin > 0))), margin: mean(margins) },
    examples,
    skipped
  }
  return measured
})

/** How answers are drawn. @internal */
export interface Drawing {
  readonly maxTokens: number
  readonly temperature: number
  readonly seed: number
}

/**
 * The mean of what a scorer says of the answers.
 *
 * @internal
 */
export const scores = Effect.fnUntraced(function*(sampler: SamplingClient.Service, options: {
  readonly file: string
  readonly renderer: Renderer.Renderer
  readonly limit: Option.Option<number>
  readonly score: TrainModule.Scorer
  readonly drawing: Drawing
}) {
  const chat = yield* Chat.make(options.renderer)
  const { examples, skipped } = yield* each(
    dataFile.prompts(options.file),
    options.limit,
    Effect.fnUntraced(function*({ expected, messages }, row) {
      const { text } = yield* chat.ask(sampler, messages, options.drawing)
      const last = messages.at(-1)
      const example = {
        input: last === undefined ? "" : Message.text(last),
        output: text,
        expected: Option.getOrElse(expected, () => "")
      }
      const said = yield* Effect.tryPromise({
        try: async () => options.score(example),
        catch: (cause) =>
          new CliFailure({
            what: `The scorer failed on row ${row + 1}: ${String(cause)}`,
            advice: "Correct it.",
            cause
          })
      })
      const value = TrainModule.numberOf(said)
      if (value === undefined) {
        return yield* new CliFailure({
          what: `The scorer gave ${JSON.stringify(said)} for row ${row + 1}`,
          advice: "A score is a number from 0 to 1, or { score }; null when it cannot be judged."
        })
      }
      const found: Found = { row, value, ...example }
      return found
    })
  )
  const judged = examples.flatMap(({ value }) => value === null ? [] : [value])
  const measured: Measured = {
    metrics: { score: judged.length === 0 ? NaN : mean(judged), judged: judged.length },
    examples,
    skipped
  }
  return measured
})

/**
 * Rewards in an environment.
 *
 * @internal
 */
export const rollouts = Effect.fnUntraced(function*(sampler: SamplingClient.Service, options: {
  readonly environments: TrainModule.Loaded
  readonly renderer: Renderer.Renderer
  readonly limit: Option.Option<number>
  readonly groupSize: number
  readonly drawing: Drawing
}) {
  const { limits, problems, settings, test } = options.environments
  const policy = Policy.fromSampler(sampler, options.drawing)
  const groups: Array<Trajectory.Group> = []
  const { examples, skipped } = yield* each(
    test ?? problems,
    options.limit,
    Effect.fnUntraced(function*(problem, row) {
      const group = yield* Rollout.group(policy, problem, {
        size: options.groupSize,
        settings: { ...settings, renderer: options.renderer },
        limits,
        seed: options.drawing.seed + row
      })
      groups[row] = group
      const rewards = Trajectory.rewardsOf(group)
      const found: Found = { row, value: mean(rewards), rewards }
      return found
    })
  )
  const measured: Measured = { metrics: Trajectory.metricsOf(groups.filter(Boolean)), examples, skipped }
  return measured
})
