/**
 * Reinforcement learning: from problems and a reward to a better model.
 *
 * - `sync`: each step samples from the weights it changes.
 * - `stream`: gradients are computed while the rest of the batch is still sampled.
 * - `async`: the next batches are sampled while the model is trained. A group is begun only when the weights are recent
 *   enough for the step that will use it, so staleness is bounded and nothing is thrown away. With `sampler: "inflight"`
 *   a rollout that runs goes on with the newest weights after every step, so its later tokens are less stale.
 *
 * Draws are seeded by step, group and member: in `sync` and `stream`, a run that resumes samples what it would have sampled,
 * and computes the same losses bit for bit. In `async`, which weights a group is sampled from depends on how long things
 * take, so no two runs are the same; a run that resumes still does every step once and in order, on the same problems and
 * at the same learning rates, within the bound on staleness.
 *
 * @since 0.1.0
 */
import type * as Datum from "effect-tinker/Datum"
import * as ServerLoss from "effect-tinker/Loss"
import * as ModelInput from "effect-tinker/ModelInput"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import * as TensorData from "effect-tinker/TensorData"
import type * as TinkerError from "effect-tinker/TinkerError"
import type * as TinkerFuture from "effect-tinker/TinkerFuture"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import type * as ForwardBackward from "effect-tinker/wire/ForwardBackward"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Iterable from "effect/Iterable"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import * as Cost from "./Cost.js"
import type * as Dataset from "./Dataset.js"
import type * as Environment from "./Environment.js"
import * as Loop from "./internal/loop.js"
import type * as StepPipeline from "./internal/loop/stepPipeline.js"
import * as Policies from "./internal/policies.js"
import * as random from "./internal/random.js"
import * as reading from "./internal/reading.js"
import * as scoped from "./internal/scoped.js"
import * as steps from "./internal/steps.js"
import * as Loss from "./Loss.js"
import * as Rollout from "./Rollout.js"
import * as RolloutRecord from "./RolloutRecord.js"
import * as RunLog from "./RunLog.js"
import * as Trainer from "./Trainer.js"
import * as Trajectory from "./Trajectory.js"

// =============================================================================
// configuration
// =============================================================================

const Count = Schema.Positive.pipe(Schema.int())

/**
 * How sampling and training take turns.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Mode = Schema.Union(
  Schema.TaggedStruct("Sync", {}),
  Schema.TaggedStruct("Stream", {
    /** Parts of a batch, each trained on as soon as it is sampled. */
    minibatches: Count
  }),
  Schema.TaggedStruct("Async", {
    /** Most steps between the weights a group is sampled from and those it changes. */
    maxStepsOffPolicy: Schema.NonNegativeInt,
    /**
     * Weights that rollouts sample from. `snapshot`: the weights they began with. `inflight`: weights that move on under them with
     * every step, where the server has that. Defaults to `snapshot`.
     */
    sampler: Schema.optional(Schema.Literal("snapshot", "inflight"))
  })
)

/**
 * How sampling and training take turns.
 *
 * @since 0.1.0
 * @category models
 */
export type Mode = typeof Mode.Type

/**
 * Each step samples from the weights it changes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const sync: Mode = { _tag: "Sync" }

/**
 * Gradients are computed while the rest of the batch is still sampled.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stream = (options: { readonly minibatches: number }): Mode => ({ _tag: "Stream", ...options })

/**
 * The next batches are sampled while the model is trained.
 *
 * @since 0.1.0
 * @category constructors
 */
export const async = (options: {
  readonly maxStepsOffPolicy: number
  /** Weights that rollouts sample from. Defaults to `snapshot`. */
  readonly sampler?: "snapshot" | "inflight" | undefined
}): Mode => ({ _tag: "Async", ...options })

/**
 * Settings that decide the outcome of a run, recorded with it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Config extends Schema.Class<Config>("@effect-tinker/cookbook/Reinforce/Config")({
  ...Trainer.fields,
  mode: Schema.optionalWith(Mode, { default: (): Mode => sync }),
  /** Defaults to importance sampling, and to PPO in `async` mode. */
  loss: Loss.Loss,
  /** Rollouts of each problem. Defaults to 8. */
  groupSize: Schema.optionalWith(Count, { default: () => 8 }),
  /**
   * Problems of each step. Those left over at the end of an epoch are a smaller step in `async` mode, and left out in the
   * others. Defaults to 16.
   */
  groupsPerBatch: Schema.optionalWith(Count, { default: () => 16 }),
  /** Times the problems are read. Defaults to 1. */
  epochs: Schema.optionalWith(Count, { default: () => 1 }),
  /** Maximum number of steps. Defaults to as many as there are problems for. */
  steps: Schema.optional(Count),
  /** Most tokens of an answer. */
  maxTokens: Count,
  /** Defaults to 1. */
  temperature: Schema.optionalWith(Schema.Number, { default: () => 1 }),
  /** Tokens a prompt and its answer may have together. Defaults to no limit of ours. */
  contextWindow: Schema.optional(Count),
  /** Defaults to `center`. */
  advantage: Schema.optionalWith(Schema.Literal("center", "standardize", "leave_one_out", "custom"), {
    default: () => "center" as const
  }),
  /** Train on groups whose rewards are all the same. Defaults to false. */
  keepConstant: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  /** Stay near a reference: the base model, or a checkpoint of a sampler. */
  kl: Schema.optional(Schema.Struct({
    coefficient: Schema.Number,
    /** Defaults to 0. */
    discount: Schema.optionalWith(Schema.Number, { default: () => 0 }),
    /** Take the mean difference of a batch as the baseline. Defaults to true. */
    center: Schema.optionalWith(Schema.Boolean, { default: () => true }),
    /** The `tinker://` path of a sampler, or the name of a model. Defaults to the base model. */
    reference: Schema.optional(Schema.String)
  })),
  /** Of all draws. Defaults to 0. */
  seed: Schema.optionalWith(Schema.Int, { default: () => 0 }),
  /** Shuffle the problems by this seed and the epoch. Defaults to no shuffle. */
  shuffle: Schema.optional(Schema.Int)
}) {}

type ConfigFields = ConstructorParameters<typeof Config>[0]

/**
 * The configuration as people write it.
 *
 * @since 0.1.0
 * @category models
 */
export type ConfigInput =
  & Omit<Trainer.ConfigInput<ConfigFields>, "loss" | "advantage" | "kl">
  & {
    readonly loss?: Loss.Loss | undefined
    readonly kl?: {
      readonly coefficient: number
      readonly discount?: number | undefined
      readonly center?: boolean | undefined
      readonly reference?: string | undefined
    } | undefined
    readonly advantage?: "center" | "standardize" | "leave_one_out" | Trajectory.Advantage | undefined
  }

/**
 * Problems, and how to learn from them.
 *
 * @since 0.1.0
 * @category models
 */
export type Options<E = never, R = never> = ConfigInput & Trainer.RunOptions<E, R> & {
  readonly problems: Dataset.Dataset<Environment.Group<E, R>, E, R>
  readonly renderer: Trainer.RendererInput<E, R>
  /** Settings of environments, beside the context window. */
  readonly settings?: Omit<Environment.Settings, "renderer" | "contextWindow"> | undefined
  readonly limits?: Rollout.Limits | undefined
  /** Treatment of a group when one of its rollouts fails. Defaults to `Rollout.failFast`. */
  readonly strategy?: Rollout.Strategy<R> | undefined
  /** Groups sampled at once. Defaults to as many as can be used. */
  readonly concurrency?: number | undefined
  /** Also measure how far each step goes, by a pass over its data after it: `kl_update_v1`, `kl_update_v2`. Defaults to false. */
  readonly measureUpdate?: boolean | undefined
  /** How many rollouts are recorded, and how much of each. */
  readonly record?: Recording | undefined
}

/**
 * Types of {@link Options} whose parts fail and need different things.
 *
 * @since 0.1.0
 * @category models
 */
export declare namespace Options {
  /** The errors of all parts that options of type `O` have. */
  type Error<O> = O extends Options<infer E, unknown> ? E : never
  /** The services that they need. */
  type Context<O> = O extends Options<unknown, infer R> ? R : never
}

/**
 * Limits of recorded rollouts: the first groups of each step, and so much of each rollout.
 *
 * @since 0.1.0
 * @category models
 */
export interface Recording extends RolloutRecord.Limits {
  /** Groups of each step. Defaults to 4. */
  readonly groups?: number | undefined
}

/**
 * Groups that a step was trained on.
 *
 * @since 0.1.0
 * @category models
 */
export interface Detail {
  readonly groups: ReadonlyArray<Trajectory.Group>
  /** Steps between the weights each group was sampled from and those it changed. */
  readonly staleness: ReadonlyArray<number>
  readonly reward: number
}

const advantages: Readonly<Record<"center" | "standardize" | "leave_one_out", Trajectory.Advantage>> = {
  center: Trajectory.center,
  standardize: Trajectory.standardize,
  leave_one_out: Trajectory.leaveOneOut
}

const configOf = (options: ConfigInput): Effect.Effect<Config, Trainer.InvalidRun> => {
  const { advantage, kl, loss, mode } = options
  return Trainer.configOf("reinforce", Config, {
    ...options,
    // Unclipped, samples of older weights destabilise training.
    loss: loss ?? (mode?._tag === "Async" ? Loss.ppo() : Loss.importanceSampling),
    advantage: typeof advantage === "function" ? "custom" : advantage ?? "center",
    kl: kl === undefined ? undefined : { ...kl, discount: kl.discount ?? 0, center: kl.center ?? true }
  })
}

// =============================================================================
// training
// =============================================================================

/**
 * How reinforcement learning fails, beside what its problems and other parts add.
 *
 * @since 0.1.0
 * @category errors
 */
export type TrainError = Rollout.ActionTimedOut | Rollout.GroupFailed | Trainer.TrainError

/**
 * Trains on problems: a stream of steps.
 *
 * @example
 * ```ts
 * import { Environment, Reinforce, RunLog } from "@effect-tinker/cookbook"
 * import type { Renderer } from "@effect-tinker/tokenizer"
 * import { Stream } from "effect"
 *
 * const sums = Environment.problems([{ a: 1, b: 2 }, { a: 3, b: 4 }], {
 *   question: ({ a, b }) => `What is ${a}+${b}?`,
 *   reward: ({ a, b }, answer) => answer.trim() === String(a + b)
 * })
 *
 * const run = (renderer: Renderer.Renderer) =>
 *   Reinforce.train({
 *     model: "Qwen/Qwen3-8B",
 *     problems: sums,
 *     renderer,
 *     learningRate: 2e-5,
 *     maxTokens: 64,
 *     mode: Reinforce.async({ maxStepsOffPolicy: 2 }),
 *     log: RunLog.directory("runs/sums")
 *   }).pipe(Stream.runDrain)
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export function train<E, R>(
  options: Options<E, R>
): Stream.Stream<Trainer.StepReport<Detail>, E | TrainError, R | ServiceClient.ServiceClient>
export function train<O extends Types.NoExcessProperties<Options<unknown, unknown>, O>>(
  options: O
): Stream.Stream<
  Trainer.StepReport<Detail>,
  Options.Error<O> | TrainError,
  Options.Context<O> | ServiceClient.ServiceClient
>
export function train<E, R>(options: Options<E, R>) {
  return scoped.stream(start(options))
}

/** A group that has been sampled, and from which weights. */
interface Sampled {
  readonly group: Trajectory.Group
  readonly version: number
  readonly millis: number
}

const start = Effect.fnUntraced(function*<E, R>(options: Options<E, R>) {
  const config = yield* configOf(options)
  const log = yield* (options.log ?? RunLog.none).open({
    trainer: "reinforce",
    config: Schema.encodeSync(Config)(config)
  })
  if (log.complete) return Stream.empty
  const checkpoint = Option.flatMap(log.resumed, (resumed) => resumed.checkpoint)
  const training = yield* Trainer.makeClient(config.model, checkpoint)
  const renderer = yield* Trainer.rendererOf(options.renderer, training)
  const settings: Environment.Settings = { ...options.settings, renderer, contextWindow: config.contextWindow }
  const first = Option.match(checkpoint, { onNone: () => 0, onSome: ({ step }) => step })
  const reference = config.kl === undefined
    ? Option.none<SamplingClient.Service>()
    : Option.some(yield* steps.samplerOf(config.kl.reference ?? config.model.baseModel))

  const { contextWindow, maxTokens, temperature } = config
  const policies = yield* Policies.make(training, {
    sampling: { contextWindow, maxTokens, temperature },
    first,
    ...(config.mode._tag === "Async"
      ? { bound: config.mode.maxStepsOffPolicy, sampler: config.mode.sampler ?? "snapshot" }
      : { bound: 0, sampler: "snapshot" })
  })
  if (config.mode._tag === "Async") yield* policies.publish(first)
  const sampleGroup = (problem: Environment.Group<E, R>, step: number, index: number) =>
    Effect.gen(function*() {
      const started = yield* Clock.currentTimeMillis
      const { policy, version } = yield* policies.current
      const group = yield* Rollout.group(policy, problem, {
        size: config.groupSize,
        settings,
        limits: options.limits,
        strategy: options.strategy,
        seed: random.seedOf(config.seed, step, index),
        at: { step, index }
      })
      const sampled: Sampled = { group, version, millis: (yield* Clock.currentTimeMillis) - started }
      return sampled
    })

  const { batches, ...plan } = yield* reading.read(
    reading.shuffled(options.problems, config.shuffle),
    // Asynchronous training discards nothing: groups left over at the end of an epoch are a smaller step.
    { ...config, batchSize: config.groupsPerBatch, partial: config.mode._tag === "Async" ? "keep" : "drop" },
    checkpoint
  )
  const advantage = typeof options.advantage === "function"
    ? options.advantage
    : advantages[config.advantage === "custom" ? "center" : config.advantage]
  const learn = makeLearner({
    training,
    config,
    advantage,
    reference,
    record: options.record,
    measureUpdate: options.measureUpdate ?? false
  })

  const common = {
    trainer: "reinforce",
    log,
    training,
    ...reading.loopOptions({
      ...options,
      evaluateEvery: options.evaluateEvery ?? 20,
      // The loss of a policy gradient is no distance: it may have any size.
      guard: options.guard === false ? false : { ...options.guard, loss: options.guard?.loss ?? Infinity }
    }),
    ...plan,
    submitAhead: 0
  }
  if (config.mode._tag === "Async") {
    const { maxStepsOffPolicy } = config.mode
    const limit = options.concurrency ?? config.groupsPerBatch * (maxStepsOffPolicy + 1)
    const sampled = Policies.inOrder(
      Option.isSome(common.totalSteps) ? Stream.take(batches, common.totalSteps.value - first) : batches,
      first,
      limit,
      (problem, step, index) =>
        Effect.zipRight(policies.atLeast(step - maxStepsOffPolicy), sampleGroup(problem, step, index))
    )
    return Loop.run<Sampled, Detail, E | TrainError, R>({
      ...common,
      batches: sampled,
      prepare: (groups, at) =>
        Effect.map(learn.whole(Effect.succeed(groups), at), Effect.tap(() => policies.publish(at.step + 1)))
    })
  }

  const minibatches = config.mode._tag === "Stream" ? Math.min(config.mode.minibatches, config.groupsPerBatch) : 1
  return Loop.run<Environment.Group<E, R>, Detail, E | TrainError, R>({
    ...common,
    batches,
    prepare: (problems, at) =>
      Effect.gen(function*() {
        yield* policies.publish(at.step)
        const concurrency = { concurrency: options.concurrency ?? problems.length }
        if (minibatches === 1) {
          return yield* learn.whole(
            Effect.forEach(problems, (problem, index) => sampleGroup(problem, at.step, index), concurrency),
            at
          )
        }
        const groups = Stream.fromIterable(problems).pipe(
          Stream.zipWithIndex,
          Stream.mapEffect(([problem, index]) => sampleGroup(problem, at.step, index), concurrency)
        )
        return yield* learn.parts(groups, Math.ceil(problems.length / minibatches), at)
      })
  })
})

// =============================================================================
// learning
// =============================================================================

interface Part {
  readonly sampled: ReadonlyArray<Sampled>
  /** The groups that are trained on. */
  readonly used: ReadonlyArray<Trajectory.Group>
  readonly rows: ReadonlyArray<Trajectory.Assembled>
  readonly data: ReadonlyArray<Datum.Datum>
  readonly kl: Option.Option<number>
  readonly pass: Option.Option<TinkerFuture.TinkerFuture<ForwardBackward.Output>>
}

/** The logprobs of the targets of each row. */
const logprobsOf = ({ lossFnOutputs }: ForwardBackward.Output): ReadonlyArray<Float32Array> =>
  lossFnOutputs.map(({ logprobs }) =>
    logprobs === undefined ? new Float32Array(0) : TensorData.toFloat32Array(logprobs)
  )

/**
 * How old the weights were that drew the sampled tokens, in steps, on average: by the oldest that may have drawn each, and
 * by the newest. They differ where weights changed while a sequence was drawn: nobody but the server knows at which token.
 */
const tokenStaleness = (groups: ReadonlyArray<Trajectory.Group>, step: number) => {
  const actions = groups.flatMap(({ trajectories }) =>
    trajectories.flatMap(({ turns }) => turns.map(({ action }) => action))
  )
  const tokens = actions.reduce((sum, action) => sum + action.tokens.length, 0)
  if (tokens === 0) return {}
  const mean = (version: (action: Trajectory.Action) => number) =>
    actions.reduce((sum, action) => sum + action.tokens.length * (step - version(action)), 0) / tokens
  return {
    staleness_tokens: mean(({ policyVersion }) => policyVersion),
    // A sample may be drawn from weights that its own step has yet to wait for.
    staleness_tokens_least: Math.max(
      0,
      mean(({ policyVersion, policyVersionAtMost }) => policyVersionAtMost ?? policyVersion)
    )
  }
}

/** From sampled groups to a step of the optimizer. */
const makeLearner = (options: {
  readonly training: TrainingClient.Service
  readonly config: Config
  readonly advantage: Trajectory.Advantage
  readonly reference: Option.Option<SamplingClient.Service>
  readonly record: Recording | undefined
  readonly measureUpdate: boolean
}) => {
  const { advantage, config, reference, training } = options
  const serverLoss = ServerLoss.other(config.loss.name, config.loss.config)

  const penalized = Effect.fnUntraced(function*(rows: ReadonlyArray<Trajectory.Assembled>) {
    if (Option.isNone(reference) || config.kl === undefined) return { rows, kl: Option.none<number>() }
    const scores = yield* Effect.forEach(rows, ({ row }) =>
      Effect.map(
        reference.value.computeLogprobs(ModelInput.fromInts(Trajectory.tokensOf(row))),
        (logprobs) => logprobs.subarray(1)
      ), { concurrency: 64 })
    const { kl, rows: adjusted } = Trajectory.penalize(rows.map(({ row }) => row), scores, config.kl)
    return { rows: rows.map((row, i) => ({ ...row, row: adjusted[i] ?? row.row })), kl: Option.some(kl) }
  })

  /** Submits the gradients of some groups. */
  const part = Effect.fnUntraced(function*(sampled: ReadonlyArray<Sampled>, step: number) {
    const groups = sampled.map(({ group }) => group)
    const used = config.keepConstant ? groups : Trajectory.withoutConstant(groups)
    const { normalize, staleness: decay } = config.loss
    const staleness = decay === undefined ? undefined : { decay, step }
    const { kl, rows } = yield* penalized(Trajectory.assemble(used, { advantage, normalize, staleness }))
    const data = yield* Effect.forEach(rows, ({ row }) => Trajectory.toDatum(row, config.loss))
    const submitted: Part = {
      sampled,
      used,
      rows,
      data,
      kl,
      pass: data.length === 0
        ? Option.none()
        : Option.some(yield* training.forwardBackward(data, serverLoss))
    }
    return submitted
  })

  const finish = Effect.fnUntraced(function*(
    parts: ReadonlyArray<Part>,
    { learningRate, step }: StepPipeline.At,
    started: number
  ) {
    const sampled = parts.flatMap((part) => part.sampled)
    const groups = sampled.map(({ group }) => group)
    if (parts.every(({ pass }) => Option.isNone(pass))) {
      return yield* new Trainer.InvalidRun({
        trainer: "reinforce",
        description: `no rollout of step ${step + 1} has a token to train on`
      })
    }
    const send: StepPipeline.Send<Detail, TinkerError.TinkerError, never> = Effect.gen(function*() {
      const update = yield* training.optimStep(steps.adamParams(config.adam, learningRate))
      const after = options.measureUpdate
        ? Option.some(yield* training.forward(parts.flatMap(({ data }) => data), serverLoss))
        : Option.none()
      const accepted = yield* Clock.currentTimeMillis
      const staleness = sampled.map(({ version }) => step - version)
      const rows = parts.flatMap((part) => part.rows)
      const used = new Set(parts.flatMap((part) => part.used))
      const metrics = Trajectory.metricsOf(groups)
      const tokens = rows.reduce((sum, { row }) => sum + row.inputs.length, 0)
      const submitted: StepPipeline.Submitted<Detail, TinkerError.TinkerError, never> = {
        tokens,
        usage: {
          used: Cost.sum([
            Cost.ofGroups(used),
            // The pass that measures an update is paid for like the one before it.
            Cost.trained(options.measureUpdate ? 2 * tokens : tokens),
            ...(Option.isSome(reference) && config.kl !== undefined
              ? rows.map(({ row }) => Cost.scored(row.inputs.length + 1))
              : [])
          ]),
          discarded: Cost.ofGroups(groups.filter((group) => !used.has(group)))
        },
        result: Effect.gen(function*() {
          const outputs = yield* Effect.forEach(
            parts,
            ({ pass }) => Option.match(pass, { onNone: () => Effect.succeedNone, onSome: Effect.asSome })
          )
          const found = outputs.flatMap(Option.toArray)
          const { metrics: measured } = yield* update
          const trained = rows.map(({ row }) => row)
          const divergence = Trajectory.divergence(trained, found.flatMap(logprobsOf))
          const updated = Option.isNone(after)
            ? undefined
            : Trajectory.divergence(trained, logprobsOf(yield* after.value))
          const kls = parts.flatMap(({ kl }) => Option.toArray(kl))
          const outcome: StepPipeline.Outcome<Detail> = {
            loss: found.reduce((sum, { metrics }) => sum + (metrics["loss:sum"] ?? NaN), 0) /
              Math.max(1, divergence.tokens),
            metrics: {
              ...metrics,
              ...measured,
              kl_sample_train_v1: divergence.v1,
              kl_sample_train_v2: divergence.v2,
              entropy: divergence.entropy,
              ...(updated === undefined ? {} : { kl_update_v1: updated.v1, kl_update_v2: updated.v2 }),
              staleness_max: Math.max(...staleness),
              ...tokenStaleness(groups, step),
              groups: groups.length,
              groups_constant: groups.length - used.size,
              ...(kls.length === 0 ? {} : { kl_reference: kls.reduce((sum, kl) => sum + kl, 0) / kls.length })
            },
            timings: { sample: Math.max(...sampled.map(({ millis }) => millis)), rollouts: accepted - started },
            detail: { groups, staleness, reward: metrics["env/all/reward"] ?? NaN },
            rollouts: Iterable.flatMap(
              groups.slice(0, options.record?.groups ?? 4),
              (group, index) =>
                RolloutRecord.fromGroup(group, { index, advantage, trained: used.has(group), limits: options.record })
            )
          }
          return outcome
        })
      }
      return submitted
    })
    return send
  })

  return {
    /** All gradients at once. */
    whole: <E, R>(sampled: Effect.Effect<ReadonlyArray<Sampled>, E, R>, at: StepPipeline.At) =>
      Effect.gen(function*() {
        const started = yield* Clock.currentTimeMillis
        return yield* finish([yield* part(yield* sampled, at.step)], at, started)
      }),
    /** Gradients of so many groups as soon as they are there. */
    parts: <E, R>(sampled: Stream.Stream<Sampled, E, R>, size: number, at: StepPipeline.At) =>
      Effect.gen(function*() {
        const started = yield* Clock.currentTimeMillis
        const submitted = yield* sampled.pipe(
          Stream.grouped(size),
          Stream.mapEffect((groups) => part(Chunk.toReadonlyArray(groups), at.step)),
          Stream.runCollect
        )
        return yield* finish(Chunk.toReadonlyArray(submitted), at, started)
      })
  }
}
