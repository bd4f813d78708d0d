/**
 * A run of `tinker train`: its directory, its configuration, and the layers it is trained with.
 */
import * as LearningRate from "@effect-tinker/cookbook/LearningRate"
import * as RunConfig from "@effect-tinker/cookbook/RunConfig"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as Trainer from "@effect-tinker/cookbook/Trainer"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as CostLedger from "effect-tinker/CostLedger"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { CliFailure } from "../internal/CliFailure.js"
import { usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import * as LocalModels from "../internal/LocalModels.js"
import * as modelSettings from "./modelSettings.js"
import type { Common } from "./options.js"
import { drive } from "./progress.js"

/** A name of files: `Qwen/Qwen3-8B` is `qwen3-8b`. */
const slug = (value: string): string =>
  (value.split("/").at(-1) ?? value).toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "")

const directoryOf = Effect.fnUntraced(function*(recipe: string, source: string, flags: Common) {
  const path = yield* Path.Path
  const name = path.parse(source).name
  return Option.getOrElse(flags.runDir, () => path.join("runs", [recipe, name, flags.model].map(slug).join("-")))
})

/** Data are part of a run's configuration: another file is another run. */
const recorded = (
  directory: string,
  source: Readonly<Record<string, unknown>>
): RunLog.Target<FileSystem.FileSystem> => {
  const target = RunLog.directory(directory)
  return {
    open: ({ config, trainer }) =>
      target.open({ trainer, config: typeof config === "object" ? { ...config, source } : { config, source } })
  }
}

/** Configuration of every trainer. @internal */
export const commonConfig = Effect.fnUntraced(function*(flags: Common, decay: LearningRate.Decay) {
  const peak = yield* modelSettings.learningRateFor(flags.learningRate, flags.model)
  return yield* checked(() => ({
    model: new Trainer.Model({
      baseModel: flags.model,
      rank: flags.rank,
      seed: flags.seed,
      ...(Option.isSome(flags.from) ? { from: flags.from.value } : {})
    }),
    learningRate: new LearningRate.LearningRate({ peak, decay, warmUp: flags.warmUp }),
    epochs: flags.epochs,
    shuffle: flags.seed,
    ...(Option.isSome(flags.steps) ? { steps: flags.steps.value } : {})
  }))
})

const checked = <A>(make: () => A): Effect.Effect<A, CliFailure> =>
  Effect.try({ try: make, catch: (error) => usage(RunConfig.describe(error), "Check the options against `--help`.") })

/** A configuration with the overrides of the command line. @internal */
export const overridden = <A, I>(
  schema: Schema.Schema<A, I>,
  make: () => A,
  overrides: ReadonlyArray<string>
): Effect.Effect<A, CliFailure> =>
  Effect.flatMap(
    checked(make),
    (config) =>
      Either.mapLeft(RunConfig.override(schema, config, overrides), (error) =>
        usage(
          `${error.override} does not fit: ${error.description}`,
          `The fields are: ${Object.keys(Schema.encodeSync(schema)(config) as object).join(", ")}.`
        ))
  )

/** Everything a run is made with; the environment of the clients is that of the command. */
const layerFor = (ledger: Option.Option<CostLedger.Service>, model: string) =>
  Layer.mergeAll(
    Layer.provideMerge(modelSettings.layerBudget(ledger, model), live.training),
    modelSettings.tokenizers,
    FetchHttpClient.layer
  )

/** Trains: `make` is given the journal to record in. @internal */
export const run = Effect.fnUntraced(
  function*<E, R, E2, R2>(options: {
    readonly recipe: string
    /** The file or module it is about. */
    readonly source: string
    readonly flags: Common
    /** Further settings that decide the outcome. */
    readonly about?: Readonly<Record<string, unknown>> | undefined
    /** Where rollouts run, if not here. */
    readonly rollouts?:
      | ((directory: string) => Layer.Layer<never, CliFailure, FileSystem.FileSystem>)
      | undefined
    readonly make: (log: RunLog.Target<FileSystem.FileSystem>) => Effect.Effect<
      Stream.Stream<Trainer.StepReport, E, R>,
      E2,
      R2
    >
  }) {
    const { flags } = options
    const directory = yield* directoryOf(options.recipe, options.source, flags)
    const ledger = yield* modelSettings.ledgerFor(flags.model, flags)
    const log = recorded(directory, { file: options.source, ...options.about })
    const inTokens = Option.isSome(flags.tokenBudget)
    const rollouts = options.rollouts?.(directory) ?? Layer.empty
    if (flags.durable || Option.isSome(flags.durableDatabase)) {
      const { train } = yield* Effect.promise(() => import("./durable.js"))
      const run = train({
        directory,
        database: flags.durableDatabase,
        log,
        train: (log) => Stream.unwrap(options.make(log))
      })
      return yield* drive({ directory, run, ledger, inTokens }).pipe(
        Effect.provide(Layer.provideMerge(rollouts, layerFor(ledger, flags.model)))
      )
    }
    yield* options.make(log).pipe(
      Effect.flatMap((run) => drive({ directory, run, ledger, inTokens })),
      Effect.provide(Layer.provideMerge(rollouts, layerFor(ledger, flags.model)))
    )
  },
  (effect, { flags: { model, quantize } }) =>
    effect.pipe(
      Effect.provideService(LocalModels.Requested, model.startsWith("local/") ? [] : [model]),
      Effect.provideService(LocalModels.Quantize, Option.getOrUndefined(quantize))
    )
)

/** When a run saves. @internal */
export const checkpoints = (flags: Common) => ({ periodic: { steps: Math.max(1, flags.saveEvery) } })
