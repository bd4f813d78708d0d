/**
 * `tinker train dpo`: learning from preferences.
 */
import type * as LearningRate from "@effect-tinker/cookbook/LearningRate"
import * as Preference from "@effect-tinker/cookbook/Preference"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { usage } from "../../internal/CliFailure.js"
import * as dataFile from "../../training/dataFile.js"
import * as modelSettings from "../../training/modelSettings.js"
import * as options from "../../training/options.js"
import { checkpoints, commonConfig, overridden, run } from "../../training/run.js"

const preference = Effect.fnUntraced(function*(
  flags: options.Common & {
    readonly file: string
    readonly batchSize: Option.Option<number>
    readonly columns: Option.Option<string>
    readonly decay: LearningRate.Decay
    readonly maxLength: Option.Option<number>
    readonly beta: number
    readonly reference: Option.Option<string>
  }
) {
  const shared = yield* commonConfig(flags, flags.decay)
  yield* run({
    recipe: "dpo",
    source: flags.file,
    flags,
    make: Effect.fnUntraced(function*(log) {
      const columns = yield* dataFile.parseColumns(flags.columns)
      const source = yield* dataFile.locate(flags.file)
      const { kind } = yield* dataFile.recognize(source, columns)
      if (kind !== "preferences") {
        return yield* usage(
          `${flags.file} has ${kind}, not preferences`,
          "A preference has chosen and rejected, and a prompt unless both begin with it."
        )
      }
      const data = dataFile.preferences(source, columns)
      const config = yield* overridden(
        Preference.Config,
        yield* Effect.map(dataFile.sizeFor(data, flags.batchSize, 32), (size) => () =>
          new Preference.Config({
            ...shared,
            batchSize: size,
            beta: flags.beta,
            ...(Option.isSome(flags.reference) ? { reference: flags.reference.value } : {}),
            ...(Option.isSome(flags.maxLength) ? { maxLength: flags.maxLength.value } : {})
          })),
        flags.overrides
      )
      return Preference.train({
        ...config,
        data,
        renderer: yield* modelSettings.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        cost: yield* modelSettings.costOf(flags),
        log
      })
    })
  })
})

/** @internal */
export const dpo = Command.make("dpo", {
  file: options.dataArgument("Preferences (prompt, chosen, rejected)"),
  ...options.common,
  batchSize: options.batchSize,
  columns: options.columns,
  decay: options.decay("linear"),
  maxLength: options.maxLength,
  beta: Options.float("beta").pipe(
    Options.withDefault(0.1),
    Options.withDescription("DPO beta: strength of the KL constraint to the reference. Default: 0.1.")
  ),
  reference: options.optionalText(
    "reference",
    "Sampler checkpoint to use as the reference. Default: the model before training."
  )
}, preference).pipe(
  Command.withDescription("Train on preference pairs with DPO.")
)
