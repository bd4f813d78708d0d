/**
 * `tinker workers plan`: how many workers a rate of rollouts needs, and what is full first.
 *
 * @since 0.2.0
 */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { usage } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"

const units = { s: 1, min: 60, h: 3600 } as const

const isUnit = (unit: string): unit is keyof typeof units => unit in units

/** `500/s`, `30/min`, `1000/h` @internal */
export const parseRate = (rate: string): number | undefined => {
  const [, amount = "", unit = "s"] = /^(\d+(?:\.\d+)?)(?:\/(s|min|h))?$/.exec(rate.trim()) ?? []
  const perSecond = isUnit(unit) ? Number(amount) / units[unit] : NaN
  return perSecond > 0 && Number.isFinite(perSecond) ? perSecond : undefined
}

/** More workers than anybody has: the simulation of more takes long. */
const mostAtOnce = 100_000

const plan = Effect.fnUntraced(function*(flags: {
  readonly rolloutSeconds: number
  readonly target: string
  readonly concurrency: number
  readonly perMachine: number
  readonly samplingMillis: number
  readonly trainerMillis: number
  readonly databaseTransactions: number
  readonly databaseRows: number
  readonly idle: number
}) {
  const output = yield* Output
  const target = parseRate(flags.target)
  if (target === undefined) {
    return yield* usage(
      `${JSON.stringify(flags.target)} is no rate`,
      "Give rollouts per time, such as 500/s or 30/min."
    )
  }
  const numbers = [
    ["--rollout-seconds", flags.rolloutSeconds, 0.01],
    ["--concurrency", flags.concurrency, 1],
    ["--per-machine", flags.perMachine, 1],
    ["--sampling-ms", flags.samplingMillis, 0],
    ["--trainer-ms", flags.trainerMillis, 0],
    ["--database-transactions", flags.databaseTransactions, 1],
    ["--database-rows", flags.databaseRows, 1],
    ["--idle", flags.idle, 0]
  ] as const
  for (const [name, value, least] of numbers) {
    if (!(value >= least && Number.isFinite(value))) {
      return yield* usage(`${name} is ${value}`, `Give a number of at least ${least}.`)
    }
  }
  if (target * flags.rolloutSeconds > mostAtOnce) {
    return yield* usage(
      `${flags.target} of ${flags.rolloutSeconds} s are more than ${mostAtOnce} rollouts at once`,
      "Plan for a part of them: several databases share nothing."
    )
  }
  const WorkerPlan = yield* Effect.promise(() => import("@effect-tinker/cluster/WorkerPlan"))
  const wanted = {
    target,
    rolloutSeconds: flags.rolloutSeconds,
    concurrency: flags.concurrency,
    workersPerMachine: flags.perMachine,
    sampling: flags.samplingMillis / 1000,
    trainer: flags.trainerMillis / 1000,
    database: { transactions: flags.databaseTransactions, rows: flags.databaseRows, idle: flags.idle }
  }
  const found = WorkerPlan.plan(wanted)
  const advice = WorkerPlan.advice(wanted, found)
  yield* output.printRecord({
    title: `${flags.target} rollouts of ${flags.rolloutSeconds} s`,
    properties: [
      ["machines", String(found.machines)],
      ["workers", `${found.workers} of ${flags.concurrency}`],
      ["--slots", String(found.slots)],
      ["trainers", String(found.trainers)],
      ["rollouts/s", found.perSecond.toFixed(1)],
      ["database", `${found.transactions.toFixed(0)} transactions/s, ${found.connections} connections`],
      ...found.uses.map(({ name, share }) => [`${name} in use`, `${Math.round(100 * share)} %`] as const)
    ],
    json: { ...found, advice }
  })
  if (output.format === "table") yield* Effect.forEach(advice, output.note, { discard: true })
})

const number = (name: string, standard: number, description: string) =>
  Options.float(name).pipe(
    Options.withDefault(standard),
    Options.withDescription(`${description} Default: ${standard}.`)
  )

const planCommand = Command.make("plan", {
  rolloutSeconds: Options.float("rollout-seconds").pipe(
    Options.withDescription("Seconds that a rollout takes, with the time it waits for samples.")
  ),
  target: Options.text("target").pipe(Options.withDescription("Rollouts per time: 500/s, 30/min or 1000/h.")),
  concurrency: Options.integer("concurrency").pipe(
    Options.withDefault(8),
    Options.withDescription("Maximum number of concurrent rollouts of a worker. Default: 8.")
  ),
  perMachine: Options.integer("per-machine").pipe(
    Options.withDefault(1),
    Options.withDescription("Workers on one machine. Default: 1.")
  ),
  samplingMillis: number(
    "sampling-ms",
    0,
    "Milliseconds that the server works for one rollout, where it samples for one after the other."
  ),
  trainerMillis: number("trainer-ms", 3, "Milliseconds of the trainer's processor for one rollout."),
  databaseTransactions: number("database-transactions", 3000, "Transactions per second that the database can do."),
  databaseRows: number("database-rows", 100_000, "Trajectories per second that it stores, many in one transaction."),
  idle: number("idle", 0.8, "Transactions per second of a worker that has nothing to do.")
}, plan).pipe(Command.withDescription(
  "Show how many workers, slots and machines a rate of rollouts needs, and what is full first. The defaults are those of a " +
    "small machine: `npm run bench -- cluster` measures yours."
))

/** @internal */
export const command = Command.make("workers").pipe(
  Command.withDescription("Plan workers for `tinker train rl --workers`."),
  Command.withSubcommands([planCommand])
)
