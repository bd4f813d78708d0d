/**
 * Parts that all trainers share: the model they train, the steps they report, and how they fail.
 *
 * A run is a `Stream` of {@link StepReport}s. `Stream.runDrain` runs it, `Stream.take` cuts it short, and interruption ends
 * it; in the latter cases a checkpoint is saved and running again goes on from there.
 *
 * @since 0.1.0
 */
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import type * as TinkerFuture from "effect-tinker/TinkerFuture"
import * as TrainingClient from "effect-tinker/TrainingClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as CheckpointPolicy from "./CheckpointPolicy.js"
import type * as Cost from "./Cost.js"
import type * as Dataset from "./Dataset.js"
import type * as Evaluator from "./Evaluator.js"
import type * as Guard from "./Guard.js"
import * as Waits from "./internal/waits.js"
import * as LearningRate from "./LearningRate.js"
import type * as RunEntry from "./RunEntry.js"
import type * as RunLog from "./RunLog.js"

/**
 * The model to train: a new adapter of a base model, or one that begins with the weights of a checkpoint.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Model extends Schema.Class<Model>("@effect-tinker/cookbook/Trainer/Model")({
  baseModel: Schema.String,
  /** Rank of the adapter. Defaults to 32. */
  rank: Schema.optionalWith(Schema.Positive.pipe(Schema.int()), { default: () => 32 }),
  /** Seed of the adapter's first weights. Defaults to 0, so that a run that begins again begins the same. */
  seed: Schema.optionalWith(Schema.Int, { default: () => 0 }),
  /** Weights to begin with, as a `tinker://` path; the optimizer begins fresh. */
  from: Schema.optional(Schema.String)
}) {}

/**
 * How the optimizer steps, beside the learning rate.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Adam extends Schema.Class<Adam>("@effect-tinker/cookbook/Trainer/Adam")({
  /** Defaults to 0.9. */
  beta1: Schema.optionalWith(Schema.Number, { default: () => 0.9 }),
  /** Defaults to 0.95. */
  beta2: Schema.optionalWith(Schema.Number, { default: () => 0.95 }),
  /** Defaults to 1e-8. */
  eps: Schema.optionalWith(Schema.Number, { default: () => 1e-8 }),
  /** Defaults to 0. */
  weightDecay: Schema.optionalWith(Schema.Number, { default: () => 0 }),
  /** Largest norm of the gradient; 0 does not clip. Defaults to 0. */
  clip: Schema.optionalWith(Schema.Number, { default: () => 0 })
}) {}

/**
 * The model as people write it: its name, or more.
 *
 * @since 0.1.0
 * @category models
 */
export type ModelInput = string | ConstructorParameters<typeof Model>[0]

/**
 * The optimizer as people write it.
 *
 * @since 0.1.0
 * @category models
 */
export type AdamInput = ConstructorParameters<typeof Adam>[0]

/**
 * A learning rate as people write it: a number, or one that changes.
 *
 * @since 0.1.0
 * @category models
 */
export type LearningRateInput = number | ConstructorParameters<typeof LearningRate.LearningRate>[0]

/**
 * How conversations become tokens: a renderer, or how to get that of the model.
 *
 * @since 0.1.0
 * @category models
 */
export type RendererInput<E = never, R = never> =
  | Renderer.Renderer
  | ((training: TrainingClient.Service) => Effect.Effect<Renderer.Renderer, E, R>)

/**
 * Options of every trainer beside its data and its configuration. `E` and `R` are those of all parts together.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunOptions<out E = never, out R = never> {
  readonly evaluate?: ReadonlyArray<Evaluator.Evaluator<E, R>> | undefined
  /** Steps between evaluations, which see the weights before a step. Defaults to 10, in reinforcement learning to 20. */
  readonly evaluateEvery?: number | undefined
  readonly checkpoints?: CheckpointPolicy.CheckpointPolicy | undefined
  /** Limits at which a run that diverges is stopped; `false` turns them off. */
  readonly guard?: Guard.Guard | false | undefined
  /** Prices of tokens, and a budget. Defaults to counting tokens alone. */
  readonly cost?: Cost.Options | undefined
  /** Where the run is recorded, and resumed from. Defaults to nowhere. */
  readonly log?: RunLog.Target<R> | undefined
}

const Count = Schema.Positive.pipe(Schema.int())

/**
 * The fields every trainer's configuration has.
 *
 * @internal
 */
export const fields = {
  model: Model,
  learningRate: LearningRate.LearningRate,
  adam: Schema.optionalWith(Adam, { default: () => new Adam({}) })
}

/**
 * The fields of a configuration that reads a dataset in batches.
 *
 * @internal
 */
export const dataFields = {
  ...fields,
  /** Examples per step. Defaults to 32. */
  batchSize: Schema.optionalWith(Count, { default: () => 32 }),
  /** Number of passes over the data. Defaults to 1. */
  epochs: Schema.optionalWith(Count, { default: () => 1 }),
  /** Maximum number of steps. Defaults to all that the data has. */
  steps: Schema.optional(Count),
  /** Treatment of fewer rows than a batch at the end of an epoch. Defaults to `drop`. */
  partial: Schema.optionalWith(Schema.Literal("drop", "keep"), { default: () => "drop" as const }),
  /** Most tokens of an example. Defaults to no limit. */
  maxLength: Schema.optional(Count),
  /** Shuffle the data by this seed and the epoch. Defaults to no shuffle. */
  shuffle: Schema.optional(Schema.Int)
}

/**
 * A trainer's configuration as people write it, from the arguments of its class.
 *
 * @since 0.1.0
 * @category models
 */
export type ConfigInput<Fields> = Omit<Fields, keyof typeof fields> & {
  readonly model: ModelInput
  readonly learningRate: LearningRateInput
  readonly adam?: AdamInput | undefined
}

/**
 * The fields every trainer's configuration has, from what people write.
 *
 * @internal
 */
export const common = (
  input: ConfigInput<unknown>
): { readonly model: Model; readonly learningRate: LearningRate.LearningRate; readonly adam: Adam } => ({
  model: new Model(typeof input.model === "string" ? { baseModel: input.model } : input.model),
  learningRate: new LearningRate.LearningRate(
    typeof input.learningRate === "number" ? { peak: input.learningRate } : input.learningRate
  ),
  adam: new Adam(input.adam ?? {})
})

/**
 * The configuration among all options of a trainer, or why it makes no sense.
 *
 * @internal
 */
export const configOf = <Fields, Config>(
  trainer: string,
  schema: { new(fields: Fields): Config; readonly fields: object },
  options: ConfigInput<Fields>
): Effect.Effect<Config, InvalidRun> =>
  validated(trainer, () => {
    const given = Object.entries(options).filter(([key, value]) => value !== undefined && key in schema.fields)
    return new schema({ ...Object.fromEntries(given), ...common(options) } as Fields)
  })

/**
 * A configuration, or why it makes no sense.
 *
 * @internal
 */
export const validated = <A>(trainer: string, make: () => A): Effect.Effect<A, InvalidRun> =>
  Effect.try({
    try: make,
    catch: (error) => new InvalidRun({ trainer, description: error instanceof Error ? error.message : String(error) })
  })

const isRenderer = (u: unknown): u is Renderer.Renderer => Predicate.hasProperty(u, "generationPrompt")

/**
 * The renderer of a run.
 *
 * @internal
 */
export const rendererOf = <E, R>(
  input: RendererInput<E, R>,
  training: TrainingClient.Service
): Effect.Effect<Renderer.Renderer, E, R> => isRenderer(input) ? Effect.succeed(input) : input(training)

/**
 * One optimizer step.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepReport<out Detail = unknown> {
  /** Optimizer steps the weights contain after it: the first step is 1. */
  readonly step: number
  /** Steps of the whole run, where that is known. */
  readonly totalSteps: Option.Option<number>
  readonly epoch: number
  readonly learningRate: number
  /** Loss per trained token. */
  readonly loss: number
  /** Tokens the model read. */
  readonly tokens: number
  readonly metrics: RunEntry.Metrics
  /** Details of the trainer's own. */
  readonly detail: Detail
  /** Rows that were passed over on the way to this step's batch. */
  readonly skipped: ReadonlyArray<Dataset.Skipped>
  /** Of the weights before this step, by evaluator. */
  readonly evaluations: Readonly<Record<string, RunEntry.Metrics>>
  /** With the last step of a run: the evaluation and the checkpoint of the final weights. */
  readonly final: Option.Option<{
    readonly evaluations: Readonly<Record<string, RunEntry.Metrics>>
    readonly checkpoint: RunEntry.Checkpoint
  }>
}

/**
 * The options of a trainer make no sense, or there is nothing to train on.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidRun extends Schema.TaggedError<InvalidRun>("@effect-tinker/cookbook/Trainer/InvalidRun")(
  "InvalidRun",
  { trainer: Schema.String, description: Schema.String }
) {
  override get message(): string {
    return `${this.trainer}: ${this.description}`
  }
}

/**
 * How a trainer may fail, beside what its data and evaluators fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export type TrainError = TinkerError.TinkerError | RunLog.OpenError | InvalidRun | Guard.Diverged

/**
 * Waits until an operation is accepted, and then for its result.
 *
 * @since 0.1.0
 * @category combinators
 */
export const result = <A, E, R>(
  operation: TrainingClient.Operation<A, E, R>
): Effect.Effect<A, TinkerError.TinkerError | E, R> =>
  Effect.flatMap(operation, (future: TinkerFuture.TinkerFuture<A>) => future)

/**
 * The model of a run: where its journal left it, or new.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeClient = (
  model: Model,
  checkpoint: Option.Option<RunEntry.Checkpoint>
): Effect.Effect<Waits.Watched, TinkerError.TinkerError, ServiceClient.ServiceClient | Scope.Scope> =>
  Option.match(checkpoint, {
    onSome: ({ statePath }) => TrainingClient.makeFromState({ path: statePath, withOptimizer: true }),
    onNone: () =>
      model.from === undefined
        ? TrainingClient.makeLora({ baseModel: model.baseModel, rank: model.rank, seed: model.seed })
        : TrainingClient.makeFromState({ path: model.from })
  }).pipe(Effect.flatMap(Waits.watch))
