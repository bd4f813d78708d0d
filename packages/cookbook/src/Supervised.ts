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
import type * as CheckpointPolicy from "./CheckpointPolicy.js"
import type * as Cost from "./Cost.js"
import * as Dataset from "./Dataset.js"
import type * as Evaluator from "./Evaluator.js"
import * as Example from "./Example.js"
import type * as Guard from "./Guard.js"
import * as Loop from "./internal/loop.js"
import * as scoped from "./internal/scoped.js"
import * as supervise from "./internal/supervise.js"
import * as RunLog from "./RunLog.js"
import * as Trainer from "./Trainer.js"

/**
 * What decides the outcome of a run, and is recorded with it.
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
  reduction: Schema.optionalWith(Schema.Literal("none", "mean"), { default: () => "none" as const })
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
  /** When the run is stopped because its model breaks; `false` turns it off. */
  readonly guard?: Guard.Guard | false | undefined
  /** Prices of its tokens, and what it may cost. Defaults to counting tokens alone. */
  readonly cost?: Cost.Options | undefined
  /** Where the run is recorded, and resumed from. Defaults to nowhere. */
  readonly log?: RunLog.Target<RL> | undefined
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
export const weightOf: (data: ReadonlyArray<Datum.Datum>) => number = supervise.weightOf

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
> => scoped.stream(start(options))

const start = Effect.fnUntraced(function*<E, R, EV, RV, ER, RR, RL>(options: Options<E, R, EV, RV, ER, RR, RL>) {
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
    supervise.shuffled(options.data, settings.shuffle),
    (row): Effect.Effect<Datum.Datum, Dataset.Skip | Trainer.InvalidRun> =>
      Datum.isDatum(row) ? Effect.succeed(row) : renderer === undefined
        ? new Trainer.InvalidRun({ trainer: "supervised", description: "examples need a renderer" })
        : Example.toDatum(row, { renderer, ...settings })
  )
  return Loop.run({
    trainer: "supervised",
    log,
    training,
    ...supervise.loopOptions(options),
    ...yield* supervise.read(data, settings, checkpoint),
    submitAhead: Math.max(0, options.submitAhead ?? 1),
    submit: (batch, { commit, learningRate }) =>
      Effect.zipRight(commit, supervise.submit(training, batch, settings.adam, learningRate))
  })
})
