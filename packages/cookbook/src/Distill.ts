/**
 * Learning from a teacher.
 *
 * - {@link onPolicy}: the student answers, and the teacher says how likely it finds each token.
 * - {@link offPolicy}: on given answers, the student learns the teacher's distribution over the likeliest tokens.
 * - {@link self}: the teacher is the model itself, shown what the student is not: an example, or a long instruction.
 *
 * @since 0.1.0
 */
import type * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as Datum from "effect-tinker/Datum"
import * as ModelInput from "effect-tinker/ModelInput"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import * as TensorData from "effect-tinker/TensorData"
import * as TinkerError from "effect-tinker/TinkerError"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import type * as TopkLogprobs from "effect-tinker/wire/TopkLogprobs"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import * as Cost from "./Cost.js"
import * as Dataset from "./Dataset.js"
import * as Environment from "./Environment.js"
import * as Example from "./Example.js"
import * as Loop from "./internal/loop.js"
import type * as StepPipeline from "./internal/loop/stepPipeline.js"
import * as random from "./internal/random.js"
import * as reading from "./internal/reading.js"
import * as scoped from "./internal/scoped.js"
import * as steps from "./internal/steps.js"
import * as Policy from "./Policy.js"
import * as Reinforce from "./Reinforce.js"
import * as RunLog from "./RunLog.js"
import * as Trainer from "./Trainer.js"

const Count = Schema.Positive.pipe(Schema.int())

// =============================================================================
// on policy
// =============================================================================

type Problem = Environment.Group<RenderFailed | ChatTemplateFailed>

/**
 * Prompts, and a teacher to answer them like.
 *
 * @since 0.1.0
 * @category models
 */
export type OnPolicyOptions<E = never, R = never> =
  & Omit<Reinforce.Options<E, R>, "problems" | "kl" | "advantage" | "keepConstant">
  & {
    readonly prompts: Dataset.Dataset<string | ReadonlyArray<Message.Message>, E, R>
    /** The teacher: the `tinker://` path of a sampler, or the name of a model. It must have the student's tokenizer. */
    readonly teacher: string
    /** Cost of a nat of difference. Defaults to 1. */
    readonly coefficient?: number | undefined
    /** How much a token answers for those after it. Defaults to 0. */
    readonly discount?: number | undefined
  }

/**
 * Types of {@link OnPolicyOptions} whose parts fail and need different things.
 *
 * @since 0.1.0
 * @category models
 */
export declare namespace OnPolicyOptions {
  /** The errors of all parts that options of type `O` have. */
  type Error<O> = O extends OnPolicyOptions<infer E, unknown> ? E : never
  /** The services that they need. */
  type Context<O> = O extends OnPolicyOptions<unknown, infer R> ? R : never
}

/**
 * On-policy distillation: the student answers, and every token is rewarded by how much likelier the teacher finds it than
 * the student did. `metrics.kl_reference` is how far they are apart.
 *
 * @since 0.1.0
 * @category constructors
 */
export function onPolicy<E, R>(
  options: OnPolicyOptions<E, R>
): Stream.Stream<
  Trainer.StepReport<Reinforce.Detail>,
  E | RenderFailed | ChatTemplateFailed | Reinforce.TrainError,
  R | ServiceClient.ServiceClient
>
export function onPolicy<O extends Types.NoExcessProperties<OnPolicyOptions<unknown, unknown>, O>>(
  options: O
): Stream.Stream<
  Trainer.StepReport<Reinforce.Detail>,
  OnPolicyOptions.Error<O> | RenderFailed | ChatTemplateFailed | Reinforce.TrainError,
  OnPolicyOptions.Context<O> | ServiceClient.ServiceClient
>
export function onPolicy<E, R>(options: OnPolicyOptions<E, R>) {
  const { coefficient, discount, prompts, teacher, ...rest } = options
  const problems: Dataset.Dataset<Problem, E, R> = Environment.problems(prompts, {
    question: (prompt) => prompt,
    reward: () => 0
  })
  return Reinforce.train<E | RenderFailed | ChatTemplateFailed, R>({
    ...rest,
    // An answer that is cut off, or cannot be read, is as good to learn from as any.
    settings: { ...rest.settings, overflowReward: 0, parseErrors: { ...rest.settings?.parseErrors, reward: 0 } },
    problems,
    keepConstant: true,
    kl: { coefficient: coefficient ?? 1, discount, center: false, reference: teacher }
  })
}

// =============================================================================
// soft targets
// =============================================================================

/**
 * A teacher's distribution over the tokens it finds likeliest, as data: the target of a position is `k` tokens, each
 * weighted by its probability among them.
 *
 * @since 0.1.0
 * @category models
 */
export interface SoftTargets {
  readonly datum: Datum.Datum
  /** The weighted entropy of the teacher's distributions: the least the loss can be. */
  readonly entropy: number
}

/**
 * Tokens with the distributions a teacher has of them. Row `offset + i` of the candidates is what the teacher expects in
 * place of `tokens[i]`; positions it has no candidates for are not trained on.
 *
 * @since 0.1.0
 * @category combinators
 */
export const softTargets = (options: {
  readonly tokens: Int32Array
  /** How much each token counts. */
  readonly weights: ArrayLike<number>
  readonly candidates: TopkLogprobs.TopkLogprobs
  /** Defaults to 0. */
  readonly offset?: number | undefined
}): Effect.Effect<SoftTargets, TinkerError.InvalidInput> => {
  const { candidates: { k, length: rows, logprobs, tokenIds }, tokens } = options
  const length = tokens.length - 1
  const targets = new Int32Array(length * k)
  const weights = new Float32Array(length * k)
  let entropy = 0
  for (let i = 0; i < length; i++) {
    const row = (options.offset ?? 0) + i + 1
    const weight = options.weights[i + 1] ?? 0
    if (weight === 0 || row < 0 || row >= rows) continue
    const first = row * k
    let total = 0
    for (let n = 0; n < k; n++) total += Math.exp(logprobs[first + n] ?? -Infinity)
    if (total === 0) continue
    for (let n = 0; n < k; n++) {
      const share = Math.exp(logprobs[first + n] ?? -Infinity) / total
      targets[i * k + n] = tokenIds[first + n] ?? 0
      weights[i * k + n] = weight * share
      if (share > 0) entropy -= weight * share * Math.log(share)
    }
  }
  const shape = [length, k]
  return Effect.gen(function*() {
    const datum = yield* Datum.make({
      modelInput: tokens.subarray(0, -1),
      lossFnInputs: {
        target_tokens: yield* TensorData.fromArray(targets, { dtype: "int64", shape }),
        weights: yield* TensorData.fromArray(weights, { dtype: "float32", shape })
      }
    })
    return { datum, entropy }
  })
}

/** The `k` tokens a teacher finds likeliest at each position of a sequence. */
const candidatesOf = (teacher: SamplingClient.Service, tokens: Int32Array, k: number) =>
  Effect.flatMap(
    teacher.sample({ prompt: ModelInput.fromInts(tokens), maxTokens: 1, topkPromptLogprobs: k }),
    ({ topkPromptLogprobs }) =>
      topkPromptLogprobs === undefined
        ? new TinkerError.MalformedResponse({
          module: "Distill",
          method: "candidatesOf",
          description: "the server gave no candidates for the prompt"
        })
        : Effect.succeed(topkPromptLogprobs)
  )

/** Soft targets, and what it took to get them. */
interface Lesson extends SoftTargets {
  readonly usage: Cost.Usage
}

/** A step on soft targets: its loss is the cross-entropy, of which the teacher's entropy cannot be learned away. */
const submitSoft = Effect.fnUntraced(function*(
  training: TrainingClient.Service,
  batch: ReadonlyArray<Lesson>,
  adam: Trainer.Adam,
  learningRate: number
) {
  const data = batch.map(({ datum }) => datum)
  const { result, tokens, usage } = yield* steps.supervised(training, data, adam, learningRate)
  const entropy = batch.reduce((sum, one) => sum + one.entropy, 0) / steps.weightOf(data)
  return {
    tokens,
    usage: { used: Cost.sum([usage.used, ...batch.map((lesson) => lesson.usage)]) },
    result: Effect.map(result, (outcome): StepPipeline.Outcome<undefined> => ({
      ...outcome,
      metrics: { ...outcome.metrics, teacher_entropy: entropy, teacher_kl: outcome.loss - entropy }
    }))
  }
})

// =============================================================================
// off policy
// =============================================================================

/**
 * Settings that decide the outcome of a run of {@link offPolicy}, recorded with it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class OffPolicyConfig extends Schema.Class<OffPolicyConfig>("@effect-tinker/cookbook/Distill/OffPolicyConfig")({
  ...Trainer.dataFields,
  /** The teacher: the `tinker://` path of a sampler, or the name of a model. It must have the student's tokenizer. */
  teacher: Schema.String,
  /** Tokens of the teacher's distribution that are learned. Defaults to 20. */
  topK: Schema.optionalWith(Count, { default: () => 20 })
}) {}

/**
 * Answers, and the teacher whose distribution over them is learned.
 *
 * @since 0.1.0
 * @category models
 */
export type OffPolicyOptions<E = never, R = never> =
  & Trainer.ConfigInput<ConstructorParameters<typeof OffPolicyConfig>[0]>
  & Trainer.RunOptions<E, R>
  & {
    readonly data: Dataset.Dataset<Example.Example, E, R>
    readonly renderer: Trainer.RendererInput<E, R>
    /** Steps kept in flight behind the one that is waited for. Defaults to 1. */
    readonly submitAhead?: number | undefined
  }

/**
 * Types of {@link OffPolicyOptions} whose parts fail and need different things.
 *
 * @since 0.1.0
 * @category models
 */
export declare namespace OffPolicyOptions {
  /** The errors of all parts that options of type `O` have. */
  type Error<O> = O extends OffPolicyOptions<infer E, unknown> ? E : never
  /** The services that they need. */
  type Context<O> = O extends OffPolicyOptions<unknown, infer R> ? R : never
}

/**
 * Off-policy distillation: on given answers, the student learns the teacher's distribution over its likeliest tokens.
 * `metrics.teacher_kl` is how far it is from them.
 *
 * @since 0.1.0
 * @category constructors
 */
export function offPolicy<E, R>(
  options: OffPolicyOptions<E, R>
): Stream.Stream<Trainer.StepReport, E | Trainer.TrainError, R | ServiceClient.ServiceClient>
export function offPolicy<O extends Types.NoExcessProperties<OffPolicyOptions<unknown, unknown>, O>>(
  options: O
): Stream.Stream<
  Trainer.StepReport,
  OffPolicyOptions.Error<O> | Trainer.TrainError,
  OffPolicyOptions.Context<O> | ServiceClient.ServiceClient
>
export function offPolicy<E, R>(options: OffPolicyOptions<E, R>) {
  return scoped.stream(startOffPolicy(options))
}

const startOffPolicy = Effect.fnUntraced(function*<E, R>(options: OffPolicyOptions<E, R>) {
  const trainer = "distill-off-policy"
  const config = yield* Trainer.configOf(trainer, OffPolicyConfig, options)
  const log = yield* (options.log ?? RunLog.none).open({ trainer, config: Schema.encodeSync(OffPolicyConfig)(config) })
  if (log.complete) return Stream.empty
  const { checkpoint, renderer, training } = yield* connect(log, config.model, options.renderer)
  const teacher = yield* steps.samplerOf(config.teacher)
  const rendered = Dataset.mapEffect(
    reading.shuffled(options.data, config.shuffle),
    (example) =>
      Effect.gen(function*() {
        const { tokens, weights } = yield* Example.render(example, { renderer })
        // The same reasons to leave a row out as in supervised training.
        yield* Example.fromSupervised({ tokens, weights }, { maxLength: config.maxLength })
        return { tokens, weights }
      })
  )
  const data = Dataset.mapEffect(
    rendered,
    ({ tokens, weights }) =>
      Effect.flatMap(
        candidatesOf(teacher, tokens, config.topK),
        (candidates) =>
          Effect.map(
            softTargets({ tokens, weights, candidates }),
            (targets): Lesson => ({ ...targets, usage: Cost.scored(tokens.length) })
          )
      ),
    { lookAhead: 2 * config.batchSize }
  )
  return Loop.run({
    trainer,
    log,
    training,
    ...reading.loopOptions(options),
    ...yield* reading.read(data, config, checkpoint, rendered),
    submitAhead: Math.max(0, options.submitAhead ?? 1),
    prepare: (batch, { learningRate }) => Effect.succeed(submitSoft(training, batch, config.adam, learningRate))
  })
})

const connect = Effect.fnUntraced(function*<E, R>(
  log: RunLog.RunLog,
  model: Trainer.Model,
  renderer: Trainer.RendererInput<E, R>
) {
  const checkpoint = Option.flatMap(log.resumed, (resumed) => resumed.checkpoint)
  const training = yield* Trainer.makeClient(model, checkpoint)
  return { checkpoint, training, renderer: yield* Trainer.rendererOf(renderer, training) }
})

// =============================================================================
// self
// =============================================================================

/**
 * Settings that decide the outcome of a run of {@link self}, recorded with it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SelfConfig extends Schema.Class<SelfConfig>("@effect-tinker/cookbook/Distill/SelfConfig")({
  ...Trainer.dataFields,
  /** The teacher: the `tinker://` path of a sampler, or the name of a model. Defaults to the base model. */
  teacher: Schema.optional(Schema.String),
  /** Tokens of the teacher's distribution that are learned. Defaults to 20. */
  topK: Schema.optionalWith(Count, { default: () => 20 }),
  /** Most tokens of an answer. */
  maxTokens: Count,
  /** Answers to each prompt. Defaults to 1. */
  groupSize: Schema.optionalWith(Count, { default: () => 1 }),
  /** Defaults to 1. */
  temperature: Schema.optionalWith(Schema.Number, { default: () => 1 }),
  /** Tokens at the beginning of an answer that are not trained on: the teacher's are about what it was shown. Defaults to 0. */
  skipFirst: Schema.optionalWith(Schema.NonNegativeInt, { default: () => 0 }),
  /** Of all draws. Defaults to 0. */
  seed: Schema.optionalWith(Schema.Int, { default: () => 0 })
}) {}

/**
 * Prompts, and what the teacher is shown in their place.
 *
 * @since 0.1.0
 * @category models
 */
export type SelfOptions<A, E = never, R = never> =
  & Trainer.ConfigInput<ConstructorParameters<typeof SelfConfig>[0]>
  & Trainer.RunOptions<E, R>
  & {
    readonly data: Dataset.Dataset<A, E, R>
    /** Messages the student answers. */
    readonly prompt: (row: A) => ReadonlyArray<Message.Message>
    /** The same with what the student is not shown: an example to go by, or an instruction. */
    readonly teacherPrompt: (row: A) => ReadonlyArray<Message.Message>
    readonly renderer: Trainer.RendererInput<E, R>
  }

/**
 * Types of {@link SelfOptions} whose parts fail and need different things.
 *
 * @since 0.1.0
 * @category models
 */
export declare namespace SelfOptions {
  /** The errors of all parts that options of type `O` have. */
  type Error<O> = O extends SelfOptions<infer _A, infer E, unknown> ? E : never
  /** The services that they need. */
  type Context<O> = O extends SelfOptions<infer _A, unknown, infer R> ? R : never
}

/**
 * Self-distillation: the student answers, and learns the distribution of a teacher that reads the same answer after a better
 * prompt. The teacher is the base model unless another one is named.
 *
 * @since 0.1.0
 * @category constructors
 */
export function self<A, E, R>(
  options: SelfOptions<A, E, R>
): Stream.Stream<
  Trainer.StepReport,
  E | RenderFailed | ChatTemplateFailed | Trainer.TrainError,
  R | ServiceClient.ServiceClient
>
export function self<A, O extends Types.NoExcessProperties<SelfOptions<A, unknown, unknown>, O>>(
  options: O & { readonly data: Dataset.Dataset<A, unknown, unknown> }
): Stream.Stream<
  Trainer.StepReport,
  SelfOptions.Error<O> | RenderFailed | ChatTemplateFailed | Trainer.TrainError,
  SelfOptions.Context<O> | ServiceClient.ServiceClient
>
export function self<A, E, R>(options: SelfOptions<A, E, R>) {
  return scoped.stream(startSelf(options))
}

const startSelf = Effect.fnUntraced(function*<A, E, R>(options: SelfOptions<A, E, R>) {
  const trainer = "distill-self"
  const config = yield* Trainer.configOf(trainer, SelfConfig, options)
  const log = yield* (options.log ?? RunLog.none).open({ trainer, config: Schema.encodeSync(SelfConfig)(config) })
  if (log.complete) return Stream.empty
  const { checkpoint, renderer, training } = yield* connect(log, config.model, options.renderer)
  const teacher = yield* steps.samplerOf(config.teacher ?? config.model.baseModel)

  /** An answer of the student with the teacher's view of it. */
  const lesson = Effect.fnUntraced(function*(student: Policy.Policy<TinkerError.TinkerError>, row: A, seed: number) {
    const prompt = yield* renderer.generationPrompt(options.prompt(row))
    const context = yield* renderer.generationPrompt(options.teacherPrompt(row))
    const action = yield* student.act({ prompt, stop: renderer.stop, seed })
    const { tokens: answer } = action
    const candidates = yield* candidatesOf(teacher, Int32Array.from([...context, ...answer]), config.topK)
    const tokens = Int32Array.from([...prompt, ...answer])
    const weights = Float32Array.from(tokens, (_, i) => i < prompt.length + config.skipFirst ? 0 : 1)
    const targets = yield* softTargets({ tokens, weights, candidates, offset: context.length - prompt.length })
    const usage = Cost.sum([Cost.sampled(action, prompt.length), Cost.scored(context.length + answer.length)])
    const made: Lesson = { ...targets, usage }
    return made
  })

  const data = reading.shuffled(options.data, config.shuffle)
  return Loop.run<A, undefined, E | RenderFailed | ChatTemplateFailed, R>({
    trainer,
    log,
    training,
    ...reading.loopOptions(options),
    ...yield* reading.read(data, config, checkpoint),
    submitAhead: 0,
    prepare: (rows, { learningRate, step }) =>
      Effect.gen(function*() {
        const { maxTokens, temperature } = config
        const members = rows.flatMap((row, index) =>
          Array.from(
            { length: config.groupSize },
            (_, n) => ({ row, seed: random.seedOf(config.seed, step, index, n) })
          )
        )
        const lessons = yield* Effect.gen(function*() {
          const sampler = yield* training.saveWeightsAndGetSamplingClient()
          const student = Policy.fromSampler(sampler, { maxTokens, temperature, version: step })
          return yield* Effect.forEach(members, ({ row, seed }) => lesson(student, row, seed), { concurrency: 64 })
        }).pipe(Effect.scoped)
        const usable = lessons.filter(({ datum }) => steps.weightOf([datum]) > 0)
        if (usable.length === 0) {
          return yield* new Trainer.InvalidRun({
            trainer,
            description: `no answer of step ${step + 1} has a token to train on`
          })
        }
        const unusable = lessons.filter((lesson) => !usable.includes(lesson))
        const discarded = Cost.sum(unusable.map(({ usage }) => usage))
        return Effect.map(
          submitSoft(training, usable, config.adam, learningRate),
          (submitted) => ({ ...submitted, usage: { ...submitted.usage, discarded } })
        )
      })
  })
})
