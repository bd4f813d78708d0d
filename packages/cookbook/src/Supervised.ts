/**
 * Supervised fine-tuning: from a dataset to a better model.
 *
 * @since 0.1.0
 */
import * as Datum from "effect-tinker/Datum"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import * as TensorData from "effect-tinker/TensorData"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as CheckpointPolicy from "./CheckpointPolicy.js"
import * as Dataset from "./Dataset.js"
import type * as Evaluator from "./Evaluator.js"
import * as Example from "./Example.js"
import * as Loop from "./internal/loop.js"
import * as LearningRate from "./LearningRate.js"
import * as RunLog from "./RunLog.js"
import * as Trainer from "./Trainer.js"

/**
 * What decides the outcome of a run, and is recorded with it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Config extends Schema.Class<Config>("@effect-tinker/cookbook/Supervised/Config")({
  model: Trainer.Model,
  learningRate: LearningRate.LearningRate,
  adam: Schema.optionalWith(Trainer.Adam, { default: () => new Trainer.Adam({}) }),
  /** Examples of one step. Defaults to 32. */
  batchSize: Schema.optionalWith(Schema.Positive.pipe(Schema.int()), { default: () => 32 }),
  /** Times the data is read. Defaults to 1. */
  epochs: Schema.optionalWith(Schema.Positive.pipe(Schema.int()), { default: () => 1 }),
  /** Most steps to do. Defaults to all that the data has. */
  steps: Schema.optional(Schema.Positive.pipe(Schema.int())),
  /** What to do with fewer examples than a batch at the end of an epoch. Defaults to `drop`. */
  partial: Schema.optionalWith(Schema.Literal("drop", "keep"), { default: () => "drop" as const }),
  /** Most tokens of an example. Defaults to no limit. */
  maxLength: Schema.optional(Schema.Positive.pipe(Schema.int())),
  /** Skip examples that are too long, or cut their end off. Defaults to `skip`. */
  tooLong: Schema.optionalWith(Schema.Literal("skip", "truncate"), { default: () => "skip" as const }),
  /** Which messages are trained on. Defaults to those marked, else to all of the assistant's. */
  trainOn: Schema.optional(Schema.Literal(
    "last_assistant_message",
    "last_assistant_turn",
    "all_assistant_messages",
    "all_messages",
    "all_tokens",
    "all_user_and_system_messages",
    "customized"
  )),
  /** `mean` lets every example count the same, however long. Defaults to `none`. */
  reduction: Schema.optionalWith(Schema.Literal("none", "mean"), { default: () => "none" as const }),
  /** Shuffle the data by this seed and the epoch. Defaults to no shuffle. */
  shuffle: Schema.optional(Schema.Int)
}) {}

/**
 * The configuration as people write it.
 *
 * @since 0.1.0
 * @category models
 */
export type ConfigInput =
  & Omit<ConstructorParameters<typeof Config>[0], "model" | "learningRate" | "adam">
  & {
    readonly model: Trainer.ModelInput
    readonly learningRate: Trainer.LearningRateInput
    readonly adam?: Trainer.AdamInput | undefined
  }

/**
 * Data, and how to train on it.
 *
 * @since 0.1.0
 * @category models
 */
export type Options<E, R, EV, RV, ER, RR, RL> = ConfigInput & {
  /** Data, or examples that a renderer makes data of. */
  readonly data: Dataset.Dataset<Datum.Datum | Example.Example, E, R>
  /** Needed for examples. */
  readonly renderer?: Trainer.RendererInput<ER, RR> | undefined
  /** Steps kept in flight behind the one that is waited for. Defaults to 1. */
  readonly submitAhead?: number | undefined
  readonly evaluate?: ReadonlyArray<Evaluator.Evaluator<EV, RV>> | undefined
  /** Steps between evaluations, which see the weights before a step. Defaults to 10. */
  readonly evaluateEvery?: number | undefined
  readonly checkpoints?: CheckpointPolicy.CheckpointPolicy | undefined
  /** Where the run is recorded, and resumed from. Defaults to nowhere. */
  readonly log?: RunLog.Target<RL> | undefined
}

/**
 * The configuration with its defaults.
 *
 * @since 0.1.0
 * @category constructors
 */
export const config = (input: ConfigInput): Effect.Effect<Config, Trainer.InvalidRun> => {
  const { adam, learningRate, model, ...rest } = input
  return Trainer.validated("supervised", () =>
    new Config({
      ...rest,
      ...Trainer.common({ adam, learningRate, model })
    }))
}

/** The fields of the configuration among all options. */
const pick = <O extends ConfigInput>(options: O): ConfigInput => {
  const {
    model,
    learningRate,
    adam,
    batchSize,
    epochs,
    steps,
    partial,
    maxLength,
    tooLong,
    trainOn,
    reduction,
    shuffle
  } = options
  const given = { adam, batchSize, epochs, steps, partial, maxLength, tooLong, trainOn, reduction, shuffle }
  return {
    model,
    learningRate,
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  }
}

/** Tokens a datum holds, images and audio included where they say how many. */
const lengthOf = (datum: Datum.Datum): number =>
  datum.modelInput.chunks.reduce((sum, chunk) => sum + (chunk.length ?? 0), 0)

/**
 * The weight of data: what a summed loss is divided by.
 *
 * @since 0.1.0
 * @category combinators
 */
export const weightOf = (data: ReadonlyArray<Datum.Datum>): number => {
  let sum = 0
  for (const datum of data) {
    const weights = datum.lossFnInputs["weights"]
    if (weights !== undefined) { for (const weight of TensorData.toFloat32Array(weights)) sum += weight }
  }
  return sum
}

/**
 * Trains on a dataset: a stream of steps.
 *
 * @example
 * ```ts
 * import { Example, RunLog, Supervised } from "@effect-tinker/cookbook"
 * import type { Renderer } from "@effect-tinker/tokenizer"
 * import { Stream } from "effect"
 *
 * // runs; run again, it resumes
 * const run = (renderer: Renderer.Renderer) =>
 *   Supervised.train({
 *     model: { baseModel: "Qwen/Qwen3-8B", rank: 32 },
 *     data: Example.chats("chats.jsonl"),
 *     renderer,
 *     learningRate: { peak: 2e-4, decay: "cosine", warmUp: 10 },
 *     log: RunLog.directory("runs/support")
 *   }).pipe(Stream.runDrain)
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const train = <E, R, EV = never, RV = never, ER = never, RR = never, RL = never>(
  options: Options<E, R, EV, RV, ER, RR, RL>
): Stream.Stream<
  Trainer.StepReport,
  E | EV | ER | Trainer.TrainError,
  R | RV | RR | RL | ServiceClient.ServiceClient
> =>
  Stream.unwrapScoped(start(options)) as Stream.Stream<
    Trainer.StepReport,
    E | EV | ER | Trainer.TrainError,
    R | RV | RR | RL | ServiceClient.ServiceClient
  >

const start = Effect.fnUntraced(function*<E, R, EV, RV, ER, RR, RL>(options: Options<E, R, EV, RV, ER, RR, RL>) {
  const settings = yield* config(pick(options))
  const log = yield* (options.log ?? RunLog.none).open({
    trainer: "supervised",
    config: Schema.encodeSync(Config)(settings)
  })
  if (log.complete) return Stream.empty
  const checkpoint = Option.flatMap(log.resumed, (resumed) => resumed.checkpoint)
  const training = yield* Trainer.makeClient(settings.model, checkpoint)
  const renderer = options.renderer === undefined
    ? undefined
    : yield* Trainer.rendererOf(options.renderer, training)

  const source = settings.shuffle === undefined
    ? options.data
    : Dataset.shuffle(options.data, { seed: settings.shuffle })
  const data = Dataset.mapEffect(
    source,
    (row): Effect.Effect<Datum.Datum, Dataset.Skip | Trainer.InvalidRun> =>
      Datum.isDatum(row) ? Effect.succeed(row) : renderer === undefined
        ? new Trainer.InvalidRun({ trainer: "supervised", description: "examples need a renderer" })
        : Example.toDatum(row, { renderer, ...settings })
  )
  const reading = { size: settings.batchSize, epochs: settings.epochs, partial: settings.partial }

  // A decay has to know where it ends.
  const counted = settings.learningRate.decay === "constant"
    ? Option.none<number>()
    : Option.some(
      yield* Dataset.batches(data, reading).pipe(Stream.filter(({ items }) => items.length > 0), Stream.runCount)
    )
  const totalSteps = Option.match(counted, {
    onNone: () => Option.fromNullable(settings.steps),
    onSome: (count) => Option.some(Math.min(count, settings.steps ?? count))
  })

  return Loop.run({
    trainer: "supervised",
    log,
    training,
    checkpoints: options.checkpoints ?? {},
    evaluators: options.evaluate ?? [],
    evaluateEvery: Math.max(1, options.evaluateEvery ?? 10),
    submitAhead: Math.max(0, options.submitAhead ?? 1),
    totalSteps,
    learningRate: (step) => LearningRate.at(settings.learningRate, step, Option.getOrElse(totalSteps, () => step + 1)),
    batches: Dataset.batches(data, {
      ...reading,
      from: Option.getOrUndefined(Option.map(checkpoint, ({ position }) => position))
    }),
    submit: (batch, { commit, learningRate }) =>
      Effect.zipRight(commit, submit(training, batch, settings.adam, learningRate))
  })
})

const submit = Effect.fnUntraced(function*(
  training: TrainingClient.Service,
  batch: ReadonlyArray<Datum.Datum>,
  adam: Trainer.Adam,
  learningRate: number
) {
  const { beta1, beta2, clip, eps, weightDecay } = adam
  const future = yield* training.trainStep(batch, "cross_entropy", {
    learningRate,
    beta1,
    beta2,
    eps,
    weightDecay,
    gradClipNorm: clip
  })
  const weight = weightOf(batch)
  return {
    tokens: batch.reduce((sum, datum) => sum + lengthOf(datum), 0),
    result: Effect.map(
      future,
      ({ pass, step }): Loop.Outcome<undefined> => ({
        loss: (pass.metrics["loss:sum"] ?? NaN) / weight,
        metrics: { ...pass.metrics, ...step.metrics, weight },
        detail: undefined
      })
    )
  }
})
