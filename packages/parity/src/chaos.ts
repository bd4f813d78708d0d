/**
 * `npm run chaos`: training, sampling, REST and telemetry at once, through a server and a network that misbehave. One
 * JSON report as the last line; the exit code says whether every promise was kept.
 */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Option } from "effect"
import { parseArgs } from "node:util"
import * as Load from "./chaos/load.js"
import * as Chaos from "./chaos/run.js"
import { rounds } from "./durable/rounds.js"
import * as Workers from "./durable/workers.js"
import { exitCode } from "./Suite.js"

const usage = [
  "usage: npm run chaos [-- --ops N] [--seed S]",
  "       npm run chaos -- --load [--samples N] [--concurrency N] [--seed S]",
  "       npm run chaos -- --durable [--kills N] [--seed S]",
  "",
  "  --ops N           how many operations (20000)",
  "  --seed S          everything that happens by chance follows from it (1)",
  "  --load            thousands of samples at once instead, while a model trains",
  "  --samples N       how many (20000)",
  "  --concurrency N   how many at once (2000)",
  "  --durable         kill -9 during durable runs instead: the trainer, the server, workers over Postgres",
  "  --kills N         at how many moments (100)"
].join("\n")

const exit = (code: number) =>
  Effect.sync(() => {
    process.exitCode = code
  })

const positive = (text: string): number | undefined => {
  const number = Number(text)
  return Number.isSafeInteger(number) && number > 0 ? number : undefined
}

const numbers = ["ops", "seed", "samples", "concurrency", "kills"] as const

const readArguments = () => {
  try {
    const { values } = parseArgs({
      options: {
        load: { type: "boolean", default: false },
        durable: { type: "boolean", default: false },
        kills: { type: "string", default: "100" },
        ops: { type: "string", default: "20000" },
        seed: { type: "string", default: "1" },
        samples: { type: "string", default: "20000" },
        concurrency: { type: "string", default: "2000" }
      }
    })
    const [ops, seed, samples, concurrency, kills] = numbers.map((name) => positive(values[name]))
    if (ops === undefined || seed === undefined || samples === undefined) return undefined
    if (concurrency === undefined || kills === undefined) return undefined
    return { load: values.load, durable: values.durable, ops, seed, samples, concurrency, kills }
  } catch {
    return undefined
  }
}

/** Durable runs under `kill -9`, and rollouts by workers where there is a Postgres. */
const durable = Effect.fnUntraced(function*(kills: number, seed: number) {
  yield* Console.log(`# durable: kills at ${kills} moments, seed ${seed}`)
  const killed = yield* rounds(kills, seed)
  yield* Console.log(`# ${JSON.stringify(killed)}`)
  const reports: Array<Workers.Report> = []
  for (const store of ["database", "bucket"] as const) {
    const report = yield* Workers.run(store)
    if (Option.isSome(report)) {
      yield* Console.log(`# ${JSON.stringify(report.value)}`)
      reports.push(report.value)
    } else {
      yield* Console.log(
        `# workers with trajectories in a ${store} are left out: no Postgres on this machine${
          store === "bucket" ? ", or no versitygw" : ""
        }`
      )
    }
  }
  const broken = [
    ...killed.differences,
    ...reports.flatMap(({ differences, rollouts, store, stored, twice }) => [
      ...differences.map((difference) => `${store}: ${difference}`),
      ...(stored === rollouts && twice === 0
        ? []
        : [`${store}: ${rollouts} rollouts, ${stored} stored, ${twice} twice`])
    ])
  ]
  for (const line of broken) yield* Console.log(`broken: ${line}`)
  yield* Console.log(JSON.stringify({ passed: broken.length === 0, killed, workers: reports }))
  if (broken.length > 0) yield* exit(exitCode.differs)
})

const main = Effect.gen(function*() {
  const options = readArguments()
  if (options === undefined) return yield* Effect.zipRight(Console.error(usage), exit(exitCode.usage))
  if (options.durable) return yield* durable(options.kills, options.seed)
  const { concurrency, load, ops, samples, seed } = options
  yield* Console.log(
    load
      ? `# load: ${samples} samples, ${concurrency} at once, seed ${seed}`
      : `# chaos: ${ops} operations, seed ${seed}`
  )
  const report = yield* load ? Load.run({ samples, concurrency, seed }) : Chaos.run({ ops, seed })
  for (const broken of report.broken) yield* Console.log(`broken: ${broken}`)
  yield* Console.log(JSON.stringify(report))
  if (!report.passed) yield* exit(exitCode.differs)
}).pipe(
  Effect.catchTags({
    ChaosFailed: (error) => Effect.zipRight(Console.error(error.message), exit(exitCode.differs)),
    DurableFailed: (error) => Effect.zipRight(Console.error(error.message), exit(exitCode.differs))
  })
)

NodeRuntime.runMain(main.pipe(Effect.provide(NodeContext.layer)))
