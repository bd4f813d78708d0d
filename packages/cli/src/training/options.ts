/**
 * The options that `train`, `eval` and `data check` share: the same name means the same everywhere.
 *
 * @since 0.1.0
 */
import type * as LearningRate from "@effect-tinker/cookbook/LearningRate"
import * as Args from "@effect/cli/Args"
import type * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import * as workerOptions from "./workerOptions.js"

/** @internal */
export const optionalInteger = (name: string, description: string) =>
  Options.integer(name).pipe(Options.withDescription(description), Options.optional)

/** @internal */
export const optionalFloat = (name: string, description: string) =>
  Options.float(name).pipe(Options.withDescription(description), Options.optional)

/** @internal */
export const optionalText = (name: string, description: string) =>
  Options.text(name).pipe(Options.withDescription(description), Options.optional)

const integer = (name: string, fallback: number, description: string) =>
  Options.integer(name).pipe(
    Options.withDefault(fallback),
    Options.withDescription(`${description} Default: ${fallback}.`)
  )

/** @internal */
export const dataArgument = (rows: string) =>
  Args.text({ name: "file" }).pipe(
    Args.withDescription(`${rows}: JSON lines, a JSON array, Parquet, or hub:NAME[@REVISION][:[CONFIG/]SPLIT].`)
  )

/** @internal */
export const model = (description: string) =>
  Options.text("model").pipe(
    Options.withAlias("m"),
    Options.withDescription(description),
    // a checkpoint finds its base model again from any directory
    Options.map((reference) => existsSync(reference) ? resolve(reference) : reference)
  )

/** How conversations are written. @internal */
export const rendering = {
  renderer: optionalText("renderer", "Renderer for conversations. Default: the model's own."),
  tokenizer: optionalText("tokenizer", "A directory or a repository of the hub. Default: that of the model.")
}

/** @internal */
export const epochs = integer("epochs", 1, "Number of passes over the data.")

/** @internal */
export const seed = (description: string) => integer("seed", 0, description)

/** @internal */
export const maxLength = optionalInteger("max-length", "Most tokens of a row; longer ones are skipped, and counted.")

/** @internal */
export const price = optionalText("price", "Prices of a million tokens: train=1.2,prefill=0.4,cached=0.1,sample=1.")

/** How answers are drawn. @internal */
export const answers = (defaults: { readonly groupSize: number; readonly temperature: number }) => ({
  groupSize: integer("group-size", defaults.groupSize, "Answers to each problem.").pipe(Options.withAlias("group")),
  maxTokens: integer("max-tokens", 256, "Maximum number of tokens to generate."),
  temperature: Options.float("temperature").pipe(
    Options.withDefault(defaults.temperature),
    Options.withDescription(`Sampling temperature; 0 is greedy. Default: ${defaults.temperature}.`)
  )
})

/** How matrices of real models are kept. @internal */
export const quantize = Options.choice("quantize", ["int8"]).pipe(
  Options.withDescription("Keep the frozen matrices of real models in eight bits: half of the memory of 16."),
  Options.optional
)

/** Options of every `train` command. @internal */
export const common = {
  model: model(
    "The base model to adapt; see `tinker models`. With --local also a name on the Hugging Face hub, a directory or a GGUF file."
  ),
  quantize,
  rank: integer("rank", 32, "Rank of the LoRA adapter."),
  from: optionalText("from", "Weights to begin with: tinker://RUN/weights/NAME."),
  learningRate: optionalFloat("learning-rate", "Default: what is advised for the model, where something is."),
  warmUp: integer("warm-up", 0, "Steps in which the learning rate rises to its peak."),
  steps: optionalInteger("steps", "Maximum number of steps. Default: all that the data has."),
  epochs,
  seed: seed("Seed for adapter initialization, shuffling and sampling."),
  runDir: Options.text("run-dir").pipe(
    Options.withAlias("out"),
    Options.withDescription(
      "Run directory, used to record and resume. Default: under runs/, named after recipe, file and model."
    ),
    Options.optional
  ),
  evalEvery: integer("eval-every", 10, "Steps between evaluations."),
  saveEvery: integer("save-every", 20, "Steps between checkpoints."),
  ...rendering,
  budget: optionalFloat(
    "budget",
    "Most to spend in this invocation, by --price. The run is saved before it is exceeded."
  ),
  price,
  currency: Options.text("currency").pipe(
    Options.withDefault("usd"),
    Options.withDescription("Currency of --price, in three letters. Default: usd.")
  ),
  tokenBudget: optionalInteger("token-budget", "Most tokens to train on and to sample in this invocation."),
  durable: Options.boolean("durable").pipe(
    Options.withDescription(
      "Run as a durable workflow that survives crashes and pauses: see `tinker runs pause`, `resume`, `cancel` and `grade`."
    )
  ),
  durableDatabase: Options.optional(workerOptions.durableDatabase),
  overrides: Args.text({ name: "field=value" }).pipe(
    Args.withDescription("Additional configuration fields, such as adam.clip=1 or learningRate.floor=0.1."),
    Args.repeated
  )
}

/** @internal */
export type Common = Command.Command.ParseConfig<typeof common>

/** @internal */
export const columns = optionalText(
  "columns",
  "Roles of the columns of a file whose shape is not recognized, such as user=question,assistant=answer."
)

/** @internal */
export const batchSize = optionalInteger("batch-size", "Examples per step. Default: 32, or all of a smaller file.")

/** @internal */
export const decay = (fallback: LearningRate.Decay) =>
  Options.choice("decay", ["constant", "linear", "cosine"]).pipe(
    Options.withDefault(fallback),
    Options.withDescription(`Learning-rate schedule. Default: ${fallback}.`)
  )
