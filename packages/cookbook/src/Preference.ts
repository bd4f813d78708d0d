/**
 * Learning from preferences: of two answers, the chosen one becomes likelier than the rejected one, relative to a reference
 * (direct preference optimisation). What the reference thinks of an answer is computed once, and kept with the run.
 *
 * @since 0.1.0
 */
import * as Autodiff from "effect-tinker/Autodiff"
import * as CustomLoss from "effect-tinker/CustomLoss"
import type * as Datum from "effect-tinker/Datum"
import * as ModelInput from "effect-tinker/ModelInput"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import * as TensorData from "effect-tinker/TensorData"
import * as TrainingClient from "effect-tinker/TrainingClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import * as Cost from "./Cost.js"
import * as Dataset from "./Dataset.js"
import * as Example from "./Example.js"
import * as Loop from "./internal/loop.js"
import type * as StepPipeline from "./internal/loop/stepPipeline.js"
import * as reading from "./internal/reading.js"
import * as scoped from "./internal/scoped.js"
import * as steps from "./internal/steps.js"
import * as RunConfig from "./RunConfig.js"
import * as RunLog from "./RunLog.js"
import * as Trainer from "./Trainer.js"

/**
 * Settings that decide the outcome of a run, recorded with it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Config extends Schema.Class<Config>("@effect-tinker/cookbook/Preference/Config")({
  ...Trainer.dataFields,
  /** DPO beta: strength of the KL constraint to the reference. Defaults to 0.1. */
  beta: Schema.optionalWith(Schema.Number, { default: () => 0.1 }),
  /** The reference: the `tinker://` path of a sampler, or the name of a model. Defaults to the model as it begins. */
  reference: Schema.optional(Schema.String)
}) {}

/**
 * The configuration as people write it.
 *
 * @since 0.1.0
 * @category models
 */
export type ConfigInput = Trainer.ConfigInput<ConstructorParameters<typeof Config>[0]>

/**
 * Preferences, and how to learn from them.
 *
 * @since 0.1.0
 * @category models
 */
export type Options<E = never, R = never> = ConfigInput & Trainer.RunOptions<E, R> & {
  readonly data: Dataset.Dataset<Example.Preference, E, R>
  readonly renderer: Trainer.RendererInput<E, R>
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
 * Direct preference optimisation over data in which each chosen answer is followed by its rejected one. The reference is
 * the summed logprob of each answer.
 *
 * @since 0.1.0
 * @category constructors
 */
export const loss = (reference: ReadonlyArray<number>, beta: number): CustomLoss.CustomLoss => (data, logprobs) => {
  const reward = (i: number) => {
    const datum = data[i]
    const of = logprobs[i]
    return datum === undefined || of === undefined
      ? Autodiff.constant(0)
      : Autodiff.mul(of, CustomLoss.input(datum, "weights")).pipe(
        Autodiff.sum,
        Autodiff.sub(reference[i] ?? 0),
        Autodiff.mul(beta)
      )
  }
  const pairs = Array.from({ length: data.length / 2 }, (_, n) => {
    const [chosen, rejected] = [reward(2 * n), reward(2 * n + 1)]
    return { chosen, rejected, margin: Autodiff.sub(chosen, rejected) }
  })
  const mean = (pick: (pair: typeof pairs[number]) => Autodiff.Value) => Autodiff.mean(Autodiff.stack(pairs.map(pick)))
  const value = mean(({ margin }) => Autodiff.neg(Autodiff.logSigmoid(margin)))
  const number = (pick: (pair: typeof pairs[number]) => Autodiff.Value) => Autodiff.toNumber(mean(pick))
  return {
    loss: value,
    metrics: {
      accuracy: number(({ margin }) => Autodiff.gt(margin, 0)),
      margin: number(({ margin }) => margin),
      chosen_reward: number(({ chosen }) => chosen),
      rejected_reward: number(({ rejected }) => rejected)
    }
  }
}

/**
 * Trains on preferences: a stream of steps.
 *
 * @since 0.1.0
 * @category constructors
 */
export function train<E, R>(
  options: Options<E, R>
): Stream.Stream<Trainer.StepReport, E | Trainer.TrainError, R | ServiceClient.ServiceClient>
export function train<O extends Types.NoExcessProperties<Options<unknown, unknown>, O>>(
  options: O
): Stream.Stream<
  Trainer.StepReport,
  Options.Error<O> | Trainer.TrainError,
  Options.Context<O> | ServiceClient.ServiceClient
>
export function train<E, R>(options: Options<E, R>) {
  return scoped.stream(start(options))
}

/** The model as it begins: an adapter that has learned nothing is its base model. */
const makeReference = Effect.fnUntraced(function*(config: Config) {
  if (config.reference !== undefined) return yield* steps.samplerOf(config.reference)
  if (config.model.from === undefined) return yield* steps.samplerOf(config.model.baseModel)
  const start = yield* TrainingClient.makeFromState({ path: config.model.from })
  return yield* start.saveWeightsAndGetSamplingClient()
})

/** The tokens of a datum as one sequence, and the weight of each after the first. */
const sequenceOf = (datum: Datum.Datum) =>
  Effect.map(ModelInput.toInts(datum.modelInput), (inputs) => {
    const targets = datum.lossFnInputs["target_tokens"]
    const weights = datum.lossFnInputs["weights"]
    const last = targets === undefined ? [] : TensorData.toArray(targets).slice(-1)
    return {
      tokens: Int32Array.from([...inputs, ...last]),
      weights: weights === undefined ? new Float32Array(0) : TensorData.toFloat32Array(weights)
    }
  })

const start = Effect.fnUntraced(function*<E, R>(options: Options<E, R>) {
  const config = yield* Trainer.configOf("preference", Config, options)
  const log = yield* (options.log ?? RunLog.none).open({
    trainer: "preference",
    config: Schema.encodeSync(Config)(config)
  })
  if (log.complete) return Stream.empty
  const checkpoint = Option.flatMap(log.resumed, (resumed) => resumed.checkpoint)
  const training = yield* Trainer.makeClient(config.model, checkpoint)
  const renderer = yield* Trainer.rendererOf(options.renderer, training)
  const reference = yield* makeReference(config)

  const scoreOf = Effect.fnUntraced(function*(datum: Datum.Datum) {
    const { tokens, weights } = yield* sequenceOf(datum)
    const key = yield* RunConfig.hash([Array.from(tokens), Array.from(weights)])
    const [score] = yield* log.cached(
      key,
      Effect.map(reference.computeLogprobs(ModelInput.fromInts(tokens)), (logprobs) => {
        let sum = 0
        for (let i = 0; i < weights.length; i++) {
          const weight = weights[i] ?? 0
          if (weight !== 0) sum += weight * (logprobs[i + 1] ?? 0)
        }
        return [sum]
      })
    )
    return score ?? 0
  })

  const data = Dataset.mapEffect(
    reading.shuffled(options.data, config.shuffle),
    (preference) => Example.toPair(preference, { renderer, maxLength: config.maxLength })
  )

  return Loop.run({
    trainer: "preference",
    log,
    training,
    ...reading.loopOptions(options),
    ...yield* reading.read(data, config, checkpoint),
    // A custom loss needs the logprobs of the weights it changes.
    submitAhead: 0,
    prepare: (pairs, { epoch, learningRate }) =>
      Effect.gen(function*() {
        const batch = pairs.flatMap(({ chosen, rejected }) => [chosen, rejected])
        const scores = yield* Effect.forEach(batch, scoreOf, { concurrency: 32 })
        const pass = yield* training.forwardBackwardCustom(batch, loss(scores, config.beta))
        const tokens = steps.lengthOf(batch)
        const used = Cost.sum([
          // A custom loss takes two passes.
          Cost.trained(2 * tokens),
          // The reference scores each text once, in the first epoch, also in a run that was resumed since.
          ...(epoch === 0 ? batch.map((datum) => Cost.scored(steps.lengthOf([datum]) + 1)) : [])
        ])
        return Effect.map(training.optimStep(steps.adamParams(config.adam, learningRate)), (update) => ({
          tokens,
          usage: { used },
          result: Effect.gen(function*() {
            const { metrics } = yield* pass
            const { metrics: measured } = yield* update
            const outcome: StepPipeline.Outcome<undefined> = {
              loss: metrics["loss:sum"] ?? NaN,
              metrics: { ...metrics, ...measured },
              detail: undefined
            }
            return outcome
          })
        }))
      })
  })
})
