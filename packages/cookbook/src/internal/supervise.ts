/**
 * What trainers over a dataset have in common: how it is read in batches and epochs, and a step on data with targets.
 */
import type * as Datum from "effect-tinker/Datum"
import * as SamplingClient from "effect-tinker/SamplingClient"
import * as TensorData from "effect-tinker/TensorData"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Cost from "../Cost.js"
import * as Dataset from "../Dataset.js"
import * as LearningRate from "../LearningRate.js"
import type * as RunEntry from "../RunEntry.js"
import type * as Trainer from "../Trainer.js"
import type * as Loop from "./loop.js"

/** The fields of a configuration that say how a dataset is read. @internal */
export interface Reading {
  readonly learningRate: LearningRate.LearningRate
  readonly batchSize: number
  readonly epochs: number
  readonly steps?: number | undefined
  readonly partial: "drop" | "keep"
}

/** Shuffled by the seed of the configuration, where it has one. @internal */
export const shuffled = <A, E, R>(
  data: Dataset.Dataset<A, E, R>,
  seed: number | undefined
): Dataset.Dataset<A, E, R> => seed === undefined ? data : Dataset.shuffle(data, { seed })

/**
 * The part of the loop's options that follows from the data. `counted` has as many usable rows as the data, where those
 * are expensive to read.
 *
 * @internal
 */
export const read = Effect.fnUntraced(function*<A, E, R>(
  data: Dataset.Dataset<A, E, R>,
  config: Reading,
  checkpoint: Option.Option<RunEntry.Checkpoint>,
  counted: Dataset.Dataset<unknown, E, R> = data
) {
  const reading = { size: config.batchSize, epochs: config.epochs, partial: config.partial }
  // A decay has to know where it ends.
  const totalSteps = config.learningRate.decay === "constant"
    ? Option.fromNullable(config.steps)
    : Option.some(
      yield* Dataset.batches(counted, reading).pipe(
        Stream.filter(({ items }) => items.length > 0),
        Stream.take(config.steps ?? Number.MAX_SAFE_INTEGER),
        Stream.runCount
      )
    )
  return {
    totalSteps,
    learningRate: (step: number) =>
      LearningRate.at(config.learningRate, step, Option.getOrElse(totalSteps, () => step + 1)),
    batches: Dataset.batches(data, {
      ...reading,
      from: Option.getOrUndefined(Option.map(checkpoint, ({ position }) => position))
    })
  }
})

/** The part of the loop's options that every trainer has among its own. @internal */
export const loopOptions = <E, R>(options: Trainer.RunOptions<E, R>) => ({
  cost: options.cost,
  checkpoints: options.checkpoints ?? {},
  guard: options.guard ?? {},
  evaluators: options.evaluate ?? [],
  evaluateEvery: Math.max(1, options.evaluateEvery ?? 10)
})

/** The optimizer's settings for a step. @internal */
export const adamParams = ({ beta1, beta2, clip, eps, weightDecay }: Trainer.Adam, learningRate: number) => ({
  learningRate,
  beta1,
  beta2,
  eps,
  weightDecay,
  gradClipNorm: clip
})

/** Tokens data hold, images and audio included where they say how many. @internal */
export const lengthOf = (data: ReadonlyArray<Datum.Datum>): number =>
  data.reduce((sum, datum) => sum + datum.modelInput.chunks.reduce((of, chunk) => of + (chunk.length ?? 0), 0), 0)

/** The weight of data: what a summed loss is divided by. @internal */
export const weightOf = (data: ReadonlyArray<Datum.Datum>): number => {
  let sum = 0
  for (const datum of data) {
    const weights = datum.lossFnInputs["weights"]
    if (weights !== undefined) { for (const weight of TensorData.toFloat32Array(weights)) sum += weight }
  }
  return sum
}

/** A step of cross-entropy. @internal */
export const submit = Effect.fnUntraced(function*(
  training: TrainingClient.Service,
  batch: ReadonlyArray<Datum.Datum>,
  adam: Trainer.Adam,
  learningRate: number
) {
  const future = yield* training.trainStep(batch, "cross_entropy", adamParams(adam, learningRate))
  const weight = weightOf(batch)
  const tokens = lengthOf(batch)
  return {
    tokens,
    usage: { used: Cost.trained(tokens) },
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

/** The sampler of a `tinker://` path, or of a base model by its name. @internal */
export const samplerOf = (name: string) =>
  SamplingClient.make(name.startsWith("tinker://") ? { modelPath: name } : { baseModel: name })
