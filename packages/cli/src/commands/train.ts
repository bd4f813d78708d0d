/**
 * `tinker train`: from a file, or an environment, to a tuned model. A run is kept in a directory, and the same command
 * resumes it.
 *
 * @since 0.1.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Distill from "@effect-tinker/cookbook/Distill"
import * as Evaluator from "@effect-tinker/cookbook/Evaluator"
import * as Example from "@effect-tinker/cookbook/Example"
import * as LearningRate from "@effect-tinker/cookbook/LearningRate"
import * as Loss from "@effect-tinker/cookbook/Loss"
import * as Preference from "@effect-tinker/cookbook/Preference"
import * as Reinforce from "@effect-tinker/cookbook/Reinforce"
import * as RunConfig from "@effect-tinker/cookbook/RunConfig"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as Supervised from "@effect-tinker/cookbook/Supervised"
import * as Trainer from "@effect-tinker/cookbook/Trainer"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as CostLedger from "effect-tinker/CostLedger"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import { CliFailure, usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import * as userModule from "../internal/userModule.js"
import * as dataFile from "../training/dataFile.js"
import { drive } from "../training/drive.js"
import * as setup from "../training/setup.js"
import * as TrainModule from "../TrainModule.js"

// =============================================================================
// options
// =============================================================================

const optionalInteger = (name: string, description: string) =>
  Options.integer(name).pipe(Options.withDescription(description), Options.optional)

const optionalFloat = (name: string, description: string) =>
  Options.float(name).pipe(Options.withDescription(description), Options.optional)

const optionalText = (name: string, description: string) =>
  Options.text(name).pipe(Options.withDescription(description), Options.optional)

const common = {
  model: Options.text("model").pipe(
    Options.withAlias("m"),
    Options.withDescription("The base model to adapt; see `tinker models`.")
  ),
  rank: Options.integer("rank").pipe(
    Options.withDefault(32),
    Options.withDescription("Rank of the LoRA adapter. Default: 32.")
  ),
  from: optionalText("from", "Weights to begin with: tinker://RUN/weights/NAME."),
  learningRate: optionalFloat("learning-rate", "Default: what is advised for the model, where something is."),
  warmUp: Options.integer("warm-up").pipe(
    Options.withDefault(0),
    Options.withDescription("Steps in which the learning rate rises to its peak. Default: 0.")
  ),
  steps: optionalInteger("steps", "Most steps to do. Default: all that the data has."),
  epochs: Options.integer("epochs").pipe(
    Options.withDefault(1),
    Options.withDescription("Times the data is read. Default: 1.")
  ),
  seed: Options.integer("seed").pipe(
    Options.withDefault(0),
    Options.withDescription("Of the adapter's first weights, the order of the data, and draws. Default: 0.")
  ),
  runDir: Options.text("run-dir").pipe(
    Options.withAlias("out"),
    Options.withDescription(
      "Where the run is recorded, and resumed from. Default: below runs/, named after recipe, file and model."
    ),
    Options.optional
  ),
  evalEvery: Options.integer("eval-every").pipe(
    Options.withDefault(10),
    Options.withDescription("Steps between evaluations. Default: 10.")
  ),
  saveEvery: Options.integer("save-every").pipe(
    Options.withDefault(20),
    Options.withDescription("Steps between checkpoints. Default: 20.")
  ),
  renderer: optionalText("renderer", "How conversations are written. Default: as the model wants it."),
  tokenizer: optionalText("tokenizer", "A directory or a repository of the hub. Default: that of the model."),
  budget: optionalFloat(
    "budget",
    "Most to spend in this invocation, by --price. The run is saved before it is exceeded."
  ),
  price: optionalText("price", "Prices of a million tokens: train=1.2,prefill=0.4,sample=1."),
  tokenBudget: optionalInteger("token-budget", "Most tokens to train on and to sample in this invocation."),
  overrides: Args.text({ name: "field=value" }).pipe(
    Args.withDescription("Further fields of the configuration: adam.clip=1, learningRate.floor=0.1."),
    Args.repeated
  )
}

type Common = Command.Command.ParseConfig<typeof common>

const batchSize = optionalInteger("batch-size", "Rows of one step. Default: 32, or all of a smaller file.")

const decay = (fallback: LearningRate.Decay) =>
  Options.choice("decay", ["constant", "linear", "cosine"]).pipe(
    Options.withDefault(fallback),
    Options.withDescription(`How the learning rate goes down. Default: ${fallback}.`)
  )

const maxLength = optionalInteger("max-length", "Most tokens of a row; longer ones are skipped, and counted.")

const dataArgument = (description: string) =>
  Args.text({ name: "file" }).pipe(Args.withDescription(`${description} JSON lines, a JSON array, or Parquet.`))

// =============================================================================
// runs
// =============================================================================

/** A name of files: `Qwen/Qwen3-8B` is `qwen3-8b`. */
const slug = (value: string): string =>
  (value.split("/").at(-1) ?? value).toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "")

const directoryOf = Effect.fnUntraced(function*(recipe: string, source: string, flags: Common) {
  const path = yield* Path.Path
  const name = path.parse(source).name
  return Option.getOrElse(flags.runDir, () => path.join("runs", [recipe, name, flags.model].map(slug).join("-")))
})

/** What a run began with is part of its configuration: another file is another run. */
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

const commonConfig = Effect.fnUntraced(function*(flags: Common, decay: LearningRate.Decay) {
  const peak = yield* setup.learningRateFor(flags.learningRate, flags.model)
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

/** The innermost problem of a schema's report, with the fields that lead to it, in one line. */
const firstProblem = (error: unknown): string => {
  const lines = (error instanceof Error ? error.message : String(error)).split("\n").map((line) => {
    const text = line.replace(/^[\s│├└─]+/, "")
    return { depth: line.length - text.length, text }
  })
  const deepest = lines.reduce((best, line, at) => line.depth > (lines[best]?.depth ?? 0) ? at : best, 0)
  const fields: Array<string> = []
  let depth = Infinity
  for (const line of lines.slice(0, deepest + 1).reverse()) {
    if (line.depth >= depth) continue
    depth = line.depth
    const field = /^\["(.*)"\]$/.exec(line.text)?.[1]
    if (field !== undefined) fields.unshift(field)
  }
  const problem = lines[deepest]?.text ?? ""
  return fields.length === 0 ? problem : `${fields.join(".")}: ${problem}`
}

const checked = <A>(make: () => A): Effect.Effect<A, CliFailure> =>
  Effect.try({ try: make, catch: (error) => usage(firstProblem(error), "Check the options against `--help`.") })

const overridden = <A, I>(
  schema: Schema.Schema<A, I>,
  make: () => A,
  overrides: ReadonlyArray<string>
): Effect.Effect<A, CliFailure> =>
  Effect.flatMap(
    checked(make),
    (config) =>
      Either.mapLeft(RunConfig.override(schema, config, overrides), (error) =>
        usage(
          `${error.override} does not fit: ${firstProblem(new Error(error.description))}`,
          `The fields are: ${Object.keys(Schema.encodeSync(schema)(config) as object).join(", ")}.`
        ))
  )

/** Everything a run is made with; the environment of the clients is that of the command. */
const layerFor = (ledger: Option.Option<CostLedger.Service>, model: string) =>
  Layer.mergeAll(
    Layer.provideMerge(setup.layerBudget(ledger, model), live.training),
    setup.tokenizers,
    FetchHttpClient.layer
  )

/** Trains: `make` is given the journal to record in. */
const run = Effect.fnUntraced(function*<E, R, E2, R2>(options: {
  readonly recipe: string
  /** The file or module it is about. */
  readonly source: string
  readonly flags: Common
  /** What else decides the outcome. */
  readonly about?: Readonly<Record<string, unknown>> | undefined
  readonly make: (log: RunLog.Target<FileSystem.FileSystem>) => Effect.Effect<
    Stream.Stream<Trainer.StepReport, E, R>,
    E2,
    R2
  >
}) {
  const { flags } = options
  const directory = yield* directoryOf(options.recipe, options.source, flags)
  const ledger = yield* setup.ledgerFor(flags.model, flags)
  yield* options.make(recorded(directory, { file: options.source, ...options.about })).pipe(
    Effect.flatMap((run) => drive({ directory, run, ledger, inTokens: Option.isSome(flags.tokenBudget) })),
    Effect.provide(layerFor(ledger, flags.model))
  )
})

const checkpoints = (flags: Common) => ({ periodic: { steps: Math.max(1, flags.saveEvery) } })

const notNegative = (name: string, value: number) =>
  value >= 0 && value < 1
    ? Effect.void
    : usage(`--${name} must be at least 0 and less than 1, not ${value}`, "0.1 holds out a tenth.")

// =============================================================================
// sft
// =============================================================================

const supervised = Effect.fnUntraced(function*(
  flags: Common & {
    readonly file: string
    readonly batchSize: Option.Option<number>
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
      const kind = yield* dataFile.detect(flags.file)
      if (kind === "preferences") {
        return yield* usage(`${flags.file} has pairs of answers`, "Use `tinker train dpo` to learn from preferences.")
      }
      const all = dataFile.examples(flags.file, kind)
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
      const renderer = yield* setup.rendererFor(flags.model, flags)
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
        log
      })
    })
  })
})

const sft = Command.make("sft", {
  file: dataArgument("Chats (messages), or prompts with completions:"),
  ...common,
  batchSize,
  decay: decay("linear"),
  maxLength,
  evalSplit: Options.float("eval-split").pipe(
    Options.withDefault(0),
    Options.withDescription("Share of the rows that is held out and evaluated on, e.g. 0.1. Default: 0.")
  ),
  trainOn: Options.choice("train-on", [
    "last_assistant_message",
    "last_assistant_turn",
    "all_assistant_messages",
    "all_messages",
    "all_tokens"
  ]).pipe(
    Options.withDescription("What of a conversation is learned. Default: messages marked trainable, else all answers."),
    Options.optional
  )
}, supervised).pipe(
  Command.withDescription("Fine-tune a model on chats, or on prompts with completions.")
)

// =============================================================================
// dpo
// =============================================================================

const preference = Effect.fnUntraced(function*(
  flags: Common & {
    readonly file: string
    readonly batchSize: Option.Option<number>
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
      const kind = yield* dataFile.detect(flags.file)
      if (kind !== "preferences") {
        return yield* usage(
          `${flags.file} has ${kind}, not preferences`,
          "A preference has chosen and rejected, and a prompt unless both begin with it."
        )
      }
      const data = dataFile.preferences(flags.file)
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
        renderer: yield* setup.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        log
      })
    })
  })
})

const dpo = Command.make("dpo", {
  file: dataArgument("Preferences (prompt, chosen, rejected):"),
  ...common,
  batchSize,
  decay: decay("linear"),
  maxLength,
  beta: Options.float("beta").pipe(
    Options.withDefault(0.1),
    Options.withDescription("How strongly the reference holds the model. Default: 0.1.")
  ),
  reference: optionalText("reference", "A sampler checkpoint as reference. Default: the model as it begins.")
}, preference).pipe(
  Command.withDescription("Learn from preferences: of two answers, the chosen one becomes likelier.")
)

// =============================================================================
// rl and distill
// =============================================================================

const sampled = {
  groupSize: Options.integer("group-size").pipe(
    Options.withAlias("group"),
    Options.withDefault(8),
    Options.withDescription("Answers to each problem. Default: 8.")
  ),
  groupsPerBatch: optionalInteger("groups-per-batch", "Problems of each step. Default: 16, or all if there are fewer."),
  maxTokens: Options.integer("max-tokens").pipe(
    Options.withDefault(256),
    Options.withDescription("Longest answer, in tokens. Default: 256.")
  ),
  temperature: Options.float("temperature").pipe(
    Options.withDefault(1),
    Options.withDescription("Of the answers. Default: 1.")
  ),
  maxStepsOffPolicy: optionalInteger(
    "max-steps-off-policy",
    "Sample while training, from weights at most so many steps old. Default: sample, then train."
  )
}

type Sampled = Common & Command.Command.ParseConfig<typeof sampled>

const losses = {
  importance_sampling: Loss.importanceSampling,
  ppo: Loss.ppo(),
  cispo: Loss.cispo(),
  dapo: Loss.dapo,
  gspo: Loss.gspo(),
  dro: Loss.dro()
}

type LossName = keyof typeof losses

const reinforceConfig = Effect.fnUntraced(function*(
  flags: Sampled,
  groupsPerBatch: number,
  more: {
    readonly loss?: LossName | undefined
    readonly kl?: number | undefined
    /** Let every rollout count the same, however long. */
    readonly perRollout?: boolean | undefined
  }
) {
  const shared = yield* commonConfig(flags, "constant")
  const isAsync = Option.isSome(flags.maxStepsOffPolicy)
  const loss = losses[more.loss ?? (isAsync ? "ppo" : "importance_sampling")]
  return yield* overridden(
    Reinforce.Config,
    () =>
      new Reinforce.Config({
        ...shared,
        seed: flags.seed,
        groupSize: flags.groupSize,
        groupsPerBatch,
        maxTokens: flags.maxTokens,
        temperature: flags.temperature,
        loss: more.perRollout === true ? Loss.perRollout(loss) : loss,
        mode: Option.match(flags.maxStepsOffPolicy, {
          onNone: () => Reinforce.sync,
          onSome: (maxStepsOffPolicy) => Reinforce.async({ maxStepsOffPolicy })
        }),
        ...(more.kl === undefined ? {} : { kl: { coefficient: more.kl, discount: 0, center: true } })
      }),
    flags.overrides
  )
})

/** `custom` stands for a function, which a command line cannot give. */
const advantageOf = ({ advantage }: Reinforce.Config) => advantage === "custom" ? undefined : advantage

const reinforce = Effect.fnUntraced(function*(
  recipe: "rl" | "agent",
  flags: Sampled & {
    readonly module: string
    readonly loss: Option.Option<LossName>
    readonly kl: Option.Option<number>
  }
) {
  yield* run({
    recipe,
    source: flags.module,
    flags,
    make: Effect.fnUntraced(function*(log) {
      const load = recipe === "rl" ? environments : agents
      const { limits, problems, settings, test } = yield* load(flags.module)
      const groups = yield* dataFile.sizeFor(problems, flags.groupsPerBatch, 16)
      const config = yield* reinforceConfig(flags, groups, {
        loss: Option.getOrUndefined(flags.loss),
        kl: Option.getOrUndefined(flags.kl),
        perRollout: recipe === "agent"
      })
      const renderer = yield* setup.rendererFor(flags.model, flags)
      return Reinforce.train({
        ...config,
        advantage: advantageOf(config),
        problems,
        renderer,
        settings,
        limits,
        evaluate: test === undefined ? [] : [
          Evaluator.rollouts(test, {
            name: "test",
            settings: { ...settings, renderer },
            limits,
            maxTokens: config.maxTokens,
            temperature: 0
          })
        ],
        evaluateEvery: flags.evalEvery,
        checkpoints: checkpoints(flags),
        log
      })
    })
  })
})

/** The environments that a module exports. @internal */
export const environments = Effect.fnUntraced(function*(path: string) {
  const loaded = TrainModule.environmentsOf(yield* userModule.defaultExport(path))
  return typeof loaded === "string"
    ? yield* new CliFailure({
      what: `The default export of ${path} is no environment: ${loaded}`,
      advice: "Export what Environment.problems gives, a list of Environment.problem, or { problems, test }."
    })
    : loaded
})

const agents = Effect.fnUntraced(function*(path: string) {
  const loaded = TrainModule.agentOf(yield* userModule.defaultExport(path))
  return typeof loaded === "string"
    ? yield* new CliFailure({
      what: `The default export of ${path} is no agent: ${loaded}`,
      advice: "Export AiSdk.agent({ tasks, run, score }): see docs/agents.md."
    })
    : loaded
})

const rewarded = {
  ...common,
  ...sampled,
  loss: Options.choiceWithValue(
    "loss",
    (Object.keys(losses) as Array<LossName>).map((name) => [name, name] as const)
  ).pipe(
    Options.withDescription("Default: importance_sampling; with --max-steps-off-policy ppo."),
    Options.optional
  ),
  kl: optionalFloat("kl", "What a nat of difference from the base model costs. Default: nothing.")
}

const moduleArgument = (exported: string) =>
  Args.text({ name: "module" }).pipe(
    Args.withDescription(`A TypeScript or JavaScript module whose default export is the ${exported}: see the guide.`)
  )

const rl = Command.make(
  "rl",
  { module: moduleArgument("environment"), ...rewarded },
  (flags) => reinforce("rl", flags)
).pipe(
  Command.withDescription("Reinforcement learning in an environment that a module exports.")
)

const agent = Command.make(
  "agent",
  { module: moduleArgument("agent"), ...rewarded },
  (flags) => reinforce("agent", flags)
).pipe(
  Command.withDescription(
    "Train the model of an agent that a module exports: written with the AI SDK, or any other way."
  )
)

const distillation = Effect.fnUntraced(function*(flags: Sampled & { readonly file: string; readonly teacher: string }) {
  if (!flags.teacher.startsWith("tinker://")) {
    return yield* usage(
      `--teacher must be a sampler checkpoint, not ${JSON.stringify(flags.teacher)}`,
      "Give tinker://RUN/sampler_weights/NAME."
    )
  }
  yield* run({
    recipe: "distill",
    source: flags.file,
    flags,
    about: { teacher: flags.teacher },
    make: Effect.fnUntraced(function*(log) {
      yield* dataFile.requireFile(flags.file)
      const prompts = Dataset.map(dataFile.prompts(flags.file), ({ messages }) => messages)
      const groups = yield* dataFile.sizeFor(prompts, flags.groupsPerBatch, 16)
      const config = yield* reinforceConfig(flags, groups, {})
      const { advantage: _, keepConstant: __, kl: ___, ...rest } = config
      return Distill.onPolicy({
        ...rest,
        prompts,
        teacher: flags.teacher,
        renderer: yield* setup.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        log
      })
    })
  })
})

const distill = Command.make("distill", {
  file: dataArgument("Prompts (prompt, or chats up to their last answer):"),
  ...common,
  ...sampled,
  teacher: Options.text("teacher").pipe(
    Options.withDescription("The model to answer like: tinker://RUN/sampler_weights/NAME, with the same tokenizer.")
  )
}, distillation).pipe(
  Command.withDescription("On-policy distillation: the model answers, and a teacher rewards every token.")
)

/** @internal */
export const command = Command.make("train").pipe(
  Command.withSubcommands([sft, dpo, rl, agent, distill]),
  Command.withDescription("Train a model; the same command resumes a run that was interrupted.")
)
