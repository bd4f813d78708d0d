/**
 * How trainers read a dataset: in batches and epochs, up to the end of a decay, from where a checkpoint stands.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Dataset from "../Dataset.js"
import * as LearningRate from "../LearningRate.js"
import type * as RunEntry from "../RunEntry.js"
import type * as Trainer from "../Trainer.js"

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
