/**
 * `tinker train rl` and `tinker train agent`: reinforcement learning in an environment, or by running an agent.
 */
import * as Evaluator from "@effect-tinker/cookbook/Evaluator"
import * as Loss from "@effect-tinker/cookbook/Loss"
import * as Reinforce from "@effect-tinker/cookbook/Reinforce"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { CliFailure, usage } from "../../internal/CliFailure.js"
import * as userModule from "../../internal/userModule.js"
import * as dataFile from "../../training/dataFile.js"
import * as modelSettings from "../../training/modelSettings.js"
import * as options from "../../training/options.js"
import { checkpoints, commonConfig, overridden, run } from "../../training/run.js"
import * as workerOptions from "../../training/workerOptions.js"

/** Options of what is sampled. @internal */
export const sampled = {
  ...options.answers({ groupSize: 8, temperature: 1 }),
  groupsPerBatch: options.optionalInteger(
    "groups-per-batch",
    "Problems of each step. Default: 16, or all if there are fewer."
  ),
  maxStepsOffPolicy: options.optionalInteger(
    "max-steps-off-policy",
    "Sample while training, from weights at most so many steps old. Default: sample, then train."
  )
}

/** @internal */
export type Sampled = options.Common & Command.Command.ParseConfig<typeof sampled>

const losses = {
  importance_sampling: Loss.importanceSampling,
  ppo: Loss.ppo(),
  cispo: Loss.cispo(),
  dapo: Loss.dapo,
  gspo: Loss.gspo(),
  dro: Loss.dro()
}

type LossName = keyof typeof losses

/** @internal */
export const reinforceConfig = Effect.fnUntraced(function*(
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
    readonly weight: number
  }
) {
  const remote = flags.workers ? yield* remoteRollouts(flags) : undefined
  yield* run({
    recipe,
    source: flags.module,
    flags,
    rollouts: remote?.layer,
    make: Effect.fnUntraced(function*(log) {
      const load = recipe === "rl" ? userModule.environments : userModule.agent
      const { limits, problems, settings, test } = yield* load(flags.module)
      const groups = yield* dataFile.sizeFor(problems, flags.groupsPerBatch, 16)
      const config = yield* reinforceConfig(flags, groups, {
        loss: Option.getOrUndefined(flags.loss),
        kl: Option.getOrUndefined(flags.kl),
        perRollout: recipe === "agent"
      })
      const renderer = yield* modelSettings.rendererFor(flags.model, flags)
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
        cost: yield* modelSettings.costOf(flags),
        log
      })
    })
  })
})

/** Where rollouts run with `--workers`, and problems that workers can find. */
const remoteRollouts = Effect.fnUntraced(function*({ database, label, slots, store, weight }: {
  readonly label: workerOptions.Label
  readonly database: Option.Option<Redacted.Redacted>
  readonly store: Option.Option<string>
  readonly slots: number
  readonly weight: number
}) {
  if (!(weight > 0 && Number.isFinite(weight))) {
    return yield* usage(
      `--weight is ${weight}`,
      "Give a number above zero: a run of weight 2 gets twice as much as one of 1."
    )
  }
  if (Option.isNone(database)) {
    return yield* usage("--workers needs a database", "Set DATABASE_URL, or give --database postgres://HOST/NAME.")
  }
  const durable = yield* Effect.promise(() => import("../../training/durable.js"))
  return {
    problems: durable.problems,
    layer: (directory: string) =>
      Layer.catchAll(
        durable.layerWorkers({ directory, database: database.value, label, slots, store, weight }),
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

const rewarded = {
  ...options.common,
  ...sampled,
  loss: Options.choiceWithValue(
    "loss",
    (Object.keys(losses) as Array<LossName>).map((name) => [name, name] as const)
  ).pipe(
    Options.withDescription("Default: importance_sampling; with --max-steps-off-policy ppo."),
    Options.optional
  ),
  kl: options.optionalFloat("kl", "What a nat of difference from the base model costs. Default: nothing."),
  workers: Options.boolean("workers").pipe(
    Options.withDescription("Run rollouts on `tinker worker` processes that share --database.")
  ),
  label: Options.choice("label", workerOptions.labels).pipe(
    Options.withDefault("cpu" as const),
    Options.withDescription("Labels a worker needs to run the rollouts. Default: cpu.")
  ),
  database: Options.optional(workerOptions.database),
  store: workerOptions.store,
  slots: workerOptions.slots,
  weight: workerOptions.weight
}

const moduleArgument = (exported: string) =>
  Args.text({ name: "module" }).pipe(
    Args.withDescription(`A TypeScript or JavaScript module whose default export is the ${exported}: see the guide.`)
  )

/** @internal */
export const rl = Command.make(
  "rl",
  { module: moduleArgument("environment"), ...rewarded },
  (flags) => reinforce("rl", flags)
).pipe(
  Command.withDescription("Train with reinforcement learning in an environment that a module exports.")
)

/** @internal */
export const agent = Command.make(
  "agent",
  { module: moduleArgument("agent"), ...rewarded },
  (flags) => reinforce("agent", flags)
).pipe(
  Command.withDescription(
    "Train the model behind an agent that a module exports, whatever framework it uses."
  )
)
