/**
 * `tinker train sft`: fine-tuning on chats, or on prompts with completions.
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Evaluator from "@effect-tinker/cookbook/Evaluator"
import * as Example from "@effect-tinker/cookbook/Example"
import type * as LearningRate from "@effect-tinker/cookbook/LearningRate"
import * as Supervised from "@effect-tinker/cookbook/Supervised"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { usage } from "../../internal/CliFailure.js"
import * as dataFile from "../../training/dataFile.js"
import * as modelSettings from "../../training/modelSettings.js"
import * as options from "../../training/options.js"
import { checkpoints, commonConfig, overridden, run } from "../../training/run.js"

const notNegative = (name: string, value: number) =>
  value >= 0 && value < 1
    ? Effect.void
    : usage(`--${name} must be at least 0 and less than 1, not ${value}`, "0.1 holds out a tenth.")

const supervised = Effect.fnUntraced(function*(
  flags: options.Common & {
    readonly file: string
    readonly batchSize: Option.Option<number>
    readonly columns: Option.Option<string>
    readonly decay: LearningRate.Decay
    readonly evalSplit: number
    readonly maxLength: Option.Option<number>
    readonly trainOn: Option.Option<NonNullable<Supervised.Config["trainOn"]>>
  }
) {
  yield* notNegative("eval-split", flags.evalSplit)
  const shared = yield* commonConfig(flags, flags.decay)
  yield* run({
    recipe: "sft",
    source: flags.file,
    flags,
    about: { eval_split: flags.evalSplit },
    make: Effect.fnUntraced(function*(log) {
      const columns = yield* dataFile.parseColumns(flags.columns)
      const source = yield* dataFile.locate(flags.file)
      const { kind } = yield* dataFile.recognize(source, columns)
      if (kind === "preferences") {
        return yield* usage(`${flags.file} has pairs of answers`, "Use `tinker train dpo` to learn from preferences.")
      }
      const all = dataFile.examples(source, kind, columns)
      const [data, held] = Dataset.split(all, { share: flags.evalSplit, seed: flags.seed })
      const size = yield* dataFile.sizeFor(data, flags.batchSize, 32)
      const config = yield* overridden(
        Supervised.Config,
        () =>
          new Supervised.Config({
            ...shared,
            batchSize: size,
            partial: "keep",
            ...(Option.isSome(flags.maxLength) ? { maxLength: flags.maxLength.value } : {}),
            ...(Option.isSome(flags.trainOn) ? { trainOn: flags.trainOn.value } : {})
          }),
        flags.overrides
      )
      const renderer = yield* modelSettings.rendererFor(flags.model, flags)
      const evaluated = Example.toData({ renderer, ...config })(held)
      return Supervised.train({
        ...config,
        data: flags.evalSplit > 0 ? data : all,
        renderer,
        evaluate: flags.evalSplit > 0
          ? [Evaluator.nll(evaluated, { name: "held_out", tokenizer: renderer.tokenizer, batchSize: size })]
          : [],
        evaluateEvery: flags.evalEvery,
        checkpoints: checkpoints(flags),
        cost: yield* modelSettings.costOf(flags),
        log
      })
    })
  })
})

/** @internal */
export const sft = Command.make("sft", {
  file: options.dataArgument("Chats (messages), or prompts with completions"),
  ...options.common,
  batchSize: options.batchSize,
  columns: options.columns,
  decay: options.decay("linear"),
  maxLength: options.maxLength,
  evalSplit: Options.float("eval-split").pipe(
    Options.withDefault(0),
    Options.withDescription("Fraction of rows held out for evaluation, such as 0.1. Default: 0.")
  ),
  trainOn: Options.choice("train-on", [
    "last_assistant_message",
    "last_assistant_turn",
    "all_assistant_messages",
    "all_messages",
    "all_tokens"
  ]).pipe(
    Options.withDescription(
      "Which messages to train on. Default: messages marked trainable, else all assistant messages."
    ),
    Options.optional
  )
}, supervised).pipe(
  Command.withDescription("Fine-tune a model on chats, or on prompts with completions.")
)
