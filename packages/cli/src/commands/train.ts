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
import * as Message from "@effect-tinker/tokenizer/Message"
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
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { CliFailure, usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import * as userModule from "../internal/userModule.js"
import * as dataFile from "../training/dataFile.js"
import { drive } from "../training/drive.js"
import * as options from "../training/options.js"
import * as setup from "../training/setup.js"
import * as workerOptions from "../training/workerOptions.js"
import * as TrainModule from "../TrainModule.js"

const { batchSize, common, maxLength, optionalFloat, optionalInteger, optionalText } = options

type Common = options.Common

const decay = (fallback: LearningRate.Decay) =>
  Options.choice("decay", ["constant", "linear", "cosine"]).pipe(
    Options.withDefault(fallback),
    Options.withDescription(`How the learning rate goes down. Default: ${fallback}.`)
  )

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

const checked = <A>(make: () => A): Effect.Effect<A, CliFailure> =>
  Effect.try({ try: make, catch: (error) => usage(RunConfig.describe(error), "Check the options against `--help`.") })

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
          `${error.override} does not fit: ${error.description}`,
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
  const ledger = yield* setup.ledgerFor(flags.model, flags)
  const log = recorded(directory, { file: options.source, ...options.about })
  const inTokens = Option.isSome(flags.tokenBudget)
  const rollouts = options.rollouts?.(directory) ?? Layer.empty
  if (flags.durable || Option.isSome(flags.durableDatabase)) {
    const { train } = yield* Effect.promise(() => import("../training/durable.js"))
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
  file: options.dataArgument("Chats (messages), or prompts with completions"),
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
  file: options.dataArgument("Preferences (prompt, chosen, rejected)"),
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
  ...options.answers({ groupSize: 8, temperature: 1 }),
  groupsPerBatch: optionalInteger("groups-per-batch", "Problems of each step. Default: 16, or all if there are fewer."),
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
    readonly workers: boolean
    readonly label: workerOptions.Label
    readonly database: Option.Option<Redacted.Redacted>
    readonly store: Option.Option<string>
    readonly slots: number
  }
) {
  const remote = flags.workers ? yield* remoteRollouts(flags) : undefined
  yield* run({
    recipe,
    source: flags.module,
    flags,
    rollouts: remote?.layer,
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
        problems: remote?.problems(problems) ?? problems,
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

/** Where rollouts run with `--workers`, and problems that workers can find. */
const remoteRollouts = Effect.fnUntraced(function*({ database, label, slots, store }: {
  readonly label: workerOptions.Label
  readonly database: Option.Option<Redacted.Redacted>
  readonly store: Option.Option<string>
  readonly slots: number
}) {
  if (Option.isNone(database)) {
    return yield* usage("--workers needs a database", "Set DATABASE_URL, or give --database postgres://HOST/NAME.")
  }
  const durable = yield* Effect.promise(() => import("../training/durable.js"))
  return {
    problems: durable.problems,
    layer: (directory: string) =>
      Layer.catchAll(
        durable.layerWorkers({ directory, database: database.value, label, slots, store }),
        (error) =>
          Layer.fail(
            new CliFailure({
              what: `The database of the workers cannot be used: ${error.message}`,
              advice: "Check DATABASE_URL, and that Postgres accepts connections from here.",
              cause: error
            })
          )
      )
  }
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
  kl: optionalFloat("kl", "What a nat of difference from the base model costs. Default: nothing."),
  workers: Options.boolean("workers").pipe(
    Options.withDescription("Leave rollouts to the processes of `tinker worker` on the same --database.")
  ),
  label: Options.choice("label", workerOptions.labels).pipe(
    Options.withDefault("cpu" as const),
    Options.withDescription("Which workers can run the rollouts. Default: cpu.")
  ),
  database: Options.optional(workerOptions.database),
  store: workerOptions.store,
  slots: workerOptions.slots
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

const modes = ["on-policy", "off-policy", "self"] as const

type Distilled = Sampled & {
  readonly file: string
  readonly mode: typeof modes[number]
  readonly teacher: Option.Option<string>
  readonly instruction: Option.Option<string>
  readonly topK: number
  readonly batchSize: Option.Option<number>
  readonly maxLength: Option.Option<number>
}

const isModel = (name: string) => name.startsWith("tinker://") || /^[^/\s]+\/\S+$/.test(name)

/** Flags that say nothing in a mode are refused, so that none is thought to have had an effect. */
const checkMode = Effect.fnUntraced(function*({ instruction, mode, teacher, ...flags }: Distilled) {
  const { batchSize, groupsPerBatch, maxLength, maxStepsOffPolicy } = flags
  const grouped = { "groups-per-batch": groupsPerBatch, "max-steps-off-policy": maxStepsOffPolicy }
  const unused: Readonly<Record<string, Option.Option<unknown>>> = {
    "on-policy": { instruction, "batch-size": batchSize, "max-length": maxLength },
    "off-policy": { instruction, ...grouped },
    self: { "max-length": maxLength, ...grouped }
  }[mode]
  const [name] = Object.keys(unused).filter((flag) => Option.isSome(unused[flag] ?? Option.none()))
  if (name !== undefined) {
    return yield* usage(`--${name} has no meaning with --mode ${mode}`, "See `tinker train distill --help`.")
  }
  if (mode === "self" && Option.isNone(instruction)) {
    return yield* usage(
      "--mode self needs --instruction",
      "Only the teacher sees the instruction; the student learns to answer without it."
    )
  }
  if (mode !== "self" && Option.isNone(teacher)) {
    return yield* usage(`--mode ${mode} needs --teacher`, "Give tinker://RUN/sampler_weights/NAME, or a base model.")
  }
  if (Option.isSome(teacher) && !isModel(teacher.value)) {
    return yield* usage(
      `--teacher must be a sampler checkpoint or a base model, not ${JSON.stringify(teacher.value)}`,
      "Give tinker://RUN/sampler_weights/NAME, or ORGANISATION/MODEL."
    )
  }
})

/** A prompt with an instruction in front, in its system message, or in a new one. */
const instructed = (
  instruction: string,
  messages: ReadonlyArray<Message.Message>
): ReadonlyArray<Message.Message> => {
  const [first, ...rest] = messages
  return first?.role === "system"
    ? [Message.system(`${instruction}\n\n${Message.text(first)}`), ...rest]
    : [Message.system(instruction), ...messages]
}

const promptsOf = (file: string) =>
  Effect.as(dataFile.requireFile(file), Dataset.map(dataFile.prompts(file), ({ messages }) => messages))

const onPolicy = (flags: Distilled, teacher: string) =>
  run({
    recipe: "distill",
    source: flags.file,
    flags,
    about: { teacher },
    make: Effect.fnUntraced(function*(log) {
      const prompts = yield* promptsOf(flags.file)
      const groups = yield* dataFile.sizeFor(prompts, flags.groupsPerBatch, 16)
      const { advantage: _, keepConstant: __, kl: ___, ...config } = yield* reinforceConfig(flags, groups, {})
      return Distill.onPolicy({
        ...config,
        prompts,
        teacher,
        renderer: yield* setup.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        log
      })
    })
  })

const offPolicy = (flags: Distilled, teacher: string) =>
  run({
    recipe: "distill-off-policy",
    source: flags.file,
    flags,
    make: Effect.fnUntraced(function*(log) {
      const kind = yield* dataFile.detect(flags.file)
      if (kind === "preferences") {
        return yield* usage(
          `${flags.file} has pairs of answers, not answers to learn from`,
          "Use --mode on-policy: only the prompts are read."
        )
      }
      const data = dataFile.examples(flags.file, kind)
      const shared = yield* commonConfig(flags, "linear")
      const batchSize = yield* dataFile.sizeFor(data, flags.batchSize, 32)
      const config = yield* overridden(
        Distill.OffPolicyConfig,
        () =>
          new Distill.OffPolicyConfig({
            ...shared,
            batchSize,
            partial: "keep",
            teacher,
            topK: flags.topK,
            ...(Option.isSome(flags.maxLength) ? { maxLength: flags.maxLength.value } : {})
          }),
        flags.overrides
      )
      return Distill.offPolicy({
        ...config,
        data,
        renderer: yield* setup.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        log
      })
    })
  })

const self = (flags: Distilled, teacher: string, instruction: string) =>
  run({
    recipe: "distill-self",
    source: flags.file,
    flags,
    about: { instruction },
    make: Effect.fnUntraced(function*(log) {
      const data = yield* promptsOf(flags.file)
      const shared = yield* commonConfig(flags, "constant")
      const batchSize = yield* dataFile.sizeFor(data, flags.batchSize, 32)
      const config = yield* overridden(
        Distill.SelfConfig,
        () =>
          new Distill.SelfConfig({
            ...shared,
            batchSize,
            partial: "keep",
            teacher,
            topK: flags.topK,
            maxTokens: flags.maxTokens,
            groupSize: flags.groupSize,
            temperature: flags.temperature,
            seed: flags.seed
          }),
        flags.overrides
      )
      return Distill.self({
        ...config,
        data,
        prompt: (messages) => messages,
        teacherPrompt: (messages) => instructed(instruction, messages),
        renderer: yield* setup.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        log
      })
    })
  })

const distillation = Effect.fnUntraced(function*(flags: Distilled) {
  yield* checkMode(flags)
  const teacher = Option.getOrElse(flags.teacher, () => flags.model)
  if (flags.mode === "self") return yield* self(flags, teacher, Option.getOrElse(flags.instruction, () => ""))
  return yield* flags.mode === "off-policy" ? offPolicy(flags, teacher) : onPolicy(flags, teacher)
})

const distill = Command.make("distill", {
  file: options.dataArgument(
    "Prompts or chats up to their last answer; with --mode off-policy, chats with their answers"
  ),
  ...common,
  ...sampled,
  mode: Options.choice("mode", modes).pipe(
    Options.withDefault("on-policy" as const),
    Options.withDescription(
      "on-policy: the model answers, and the teacher rewards every token. off-policy: it learns the teacher's likeliest " +
        "tokens in given answers. self: it answers, and learns what the teacher, who has an instruction, expects. " +
        "Default: on-policy."
    )
  ),
  teacher: optionalText(
    "teacher",
    "The model to learn from, with the same tokenizer: tinker://RUN/sampler_weights/NAME, or a base model. Default: with " +
      "--mode self, the base model."
  ),
  instruction: optionalText("instruction", "With --mode self: an instruction that only the teacher sees."),
  topK: Options.integer("top-k").pipe(
    Options.withDefault(20),
    Options.withDescription("Off-policy and self: tokens of the teacher's distribution that are learned. Default: 20.")
  ),
  batchSize,
  maxLength
}, distillation).pipe(
  Command.withDescription("Learn from a teacher: from its view of the model's answers, or of given ones.")
)

/** @internal */
export const command = Command.make("train").pipe(
  Command.withSubcommands([sft, dpo, rl, agent, distill]),
  Command.withDescription("Train a model; the same command resumes a run that was interrupted.")
)
