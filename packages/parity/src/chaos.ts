/**
 * `npm run chaos`: training, sampling, REST and telemetry at once, through a server and a network that misbehave. One
 * JSON report as the last line; the exit code says whether every promise was kept.
 */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import { parseArgs } from "node:util"
import * as Load from "./chaos/load.js"
import * as Chaos from "./chaos/run.js"
import { exitCode } from "./Suite.js"

const usage = [
  "usage: npm run chaos [-- --ops N] [--seed S]",
  "       npm run chaos -- --load [--samples N] [--concurrency N] [--seed S]",
  "",
  "  --ops N           how many operations (20000)",
  "  --seed S          everything that happens by chance follows from it (1)",
  "  --load            thousands of samples at once instead, while a model trains",
  "  --samples N       how many (20000)",
  "  --concurrency N   how many at once (2000)"
].join("\n")

const exit = (code: number) =>
  Effect.sync(() => {
    process.exitCode = code
  })

const positive = (text: string): number | undefined => {
  const number = Number(text)
  return Number.isSafeInteger(number) && number > 0 ? number : undefined
}

const numbers = ["ops", "seed", "samples", "concurrency"] as const

const readArguments = () => {
  try {
    const { values } = parseArgs({
      options: {
        load: { type: "boolean", default: false },
        ops: { type: "string", default: "20000" },
        seed: { type: "string", default: "1" },
        samples: { type: "string", default: "20000" },
        concurrency: { type: "string", default: "2000" }
      }
    })
    const [ops, seed, samples, concurrency] = numbers.map((name) => positive(values[name]))
    if (ops === undefined || seed === undefined || samples === undefined || concurrency === undefined) return undefined
    return { load: values.load, ops, seed, samples, concurrency }
  } catch {
    return undefined
  }
}

const main = Effect.gen(function*() {
  const options = readArguments()
  if (options === undefined) return yield* Effect.zipRight(Console.error(usage), exit(exitCode.usage))
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
  Effect.catchTag("ChaosFailed", (error) => Effect.zipRight(Console.error(error.message), exit(exitCode.differs)))
)

NodeRuntime.runMain(main.pipe(Effect.provide(NodeContext.layer)))
