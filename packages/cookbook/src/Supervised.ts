/**
 * Supervised fine-tuning: from a dataset to a better model.
 *
 * @since 0.1.0
 */
import * as Datum from "effect-tinker/Datum"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import * as Dataset from "./Dataset.js"
import * as Example from "./Example.js"
import * as Loop from "./internal/loop.js"
import * as reading from "./internal/reading.js"
import * as scoped from "./internal/scoped.js"
import * as steps from "./internal/steps.js"
import * as RunLog from "./RunLog.js"
import * as Trainer from "./Trainer.js"

/**
 * Settings that decide the outcome of a run, recorded with it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Config extends Schema.Class<Config>("@effect-tinker/cookbook/Supervised/Config")({
  ...Trainer.dataFields,
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
  /**
   * `importance_sampling` for data with `advantages`, and the `logprobs` their tokens were sampled with: offline learning from
   * recorded samples. Defaults to `cross_entropy`.
   */
  loss: Schema.optional(Schema.Literal("cross_entropy", "importance_sampling"))
}) {}

/**
 * The configuration as people write it.
 *
 * @since 0.1.0
 * @category models
 */
export type ConfigInput = Trainer.ConfigInput<ConstructorParameters<typeof Config>[0]>

/**
 * Data, and how to train on it.
 *
 * @since 0.1.0
 * @category models
 */
export type Options<E = never, R = never> = ConfigInput & Trainer.RunOptions<E, R> & {
  /** Data, or examples that a renderer makes data of. */
  readonly data: Dataset.Dataset<Datum.Datum | Example.Example, E, R>
  /** Needed for examples. */
  readonly renderer?: Trainer.RendererInput<E, R> | undefined
  /** Steps kept in flight behind the one that is waited for. Defaults to 1. */
  readonly submitAhead?: number | undefined
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
 * The configuration with its defaults.
 *
 * @since 0.1.0
 * @category constructors
 */
export const config = (input: ConfigInput): Effect.Effect<Config, Trainer.InvalidRun> =>
  Trainer.configOf("supervised", Config, input)

/**
 * The weight of data: what a summed loss is divided by.
 *
 * @since 0.1.0
 * @category combinators
 */
export const weightOf: (data: ReadonlyArray<Datum.Datum>) => number = steps.weightOf

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

const start = Effect.fnUntraced(function*<E, R>(options: Options<E, R>) {
  const settings = yield* config(options)
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

  const data = Dataset.mapEffect(
    reading.shuffled(options.data, settings.shuffle),
    (row): Effect.Effect<Datum.Datum, Dataset.Skip | Trainer.InvalidRun> =>
      Datum.isDatum(row) ? Effect.succeed(row) : renderer === undefined
        ? new Trainer.InvalidRun({ trainer: "supervised", description: "examples need a renderer" })
        : Example.toDatum(row, { renderer, ...settings })
  )
  return Loop.run({
    trainer: "supervised",
    log,
    training,
    ...reading.loopOptions(options),
    ...yield* reading.read(data, settings, checkpoint),
    submitAhead: Math.max(0, options.submitAhead ?? 1),
    prepare: (batch, { learningRate }) =>
      Effect.succeed(steps.supervised(training, batch, settings.adam, learningRate, settings.loss))
  })
})
