/**
 * `npm run chaos`: training, sampling, REST and telemetry at once, through a server and a network that misbehave. One
 * JSON report as the last line; the exit code says whether every promise was kept.
 */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import { parseArgs } from "node:util"
import { run } from "./chaos/run.js"
import { exitCode } from "./Suite.js"

const usage = [
  "usage: npm run chaos [-- --ops N] [--seed S]",
  "",
  "  --ops N    how many operations (20000)",
  "  --seed S   everything that happens by chance follows from it (1)"
].join("\n")

const exit = (code: number) =>
  Effect.sync(() => {
    process.exitCode = code
  })

const positive = (text: string | undefined, or: number): number | undefined => {
  if (text === undefined) return or
  const number = Number(text)
  return Number.isSafeInteger(number) && number > 0 ? number : undefined
}

const readArguments = (): { readonly ops: number; readonly seed: number } | undefined => {
  try {
    const { values } = parseArgs({ options: { ops: { type: "string" }, seed: { type: "string" } } })
    const [ops, seed] = [positive(values.ops, 20_000), positive(values.seed, 1)]
    return ops === undefined || seed === undefined ? undefined : { ops, seed }
  } catch {
    return undefined
  }
}

const main = Effect.gen(function*() {
  const options = readArguments()
  if (options === undefined) return yield* Effect.zipRight(Console.error(usage), exit(exitCode.usage))
  yield* Console.log(`# chaos: ${options.ops} operations, seed ${options.seed}`)
  const report = yield* run(options)
  for (const broken of report.broken) yield* Console.log(`broken: ${broken}`)
  yield* Console.log(JSON.stringify(report))
  if (!report.passed) yield* exit(exitCode.differs)
}).pipe(
  Effect.catchTag("ChaosFailed", (error) => Effect.zipRight(Console.error(error.message), exit(exitCode.differs)))
)

NodeRuntime.runMain(main.pipe(Effect.provide(NodeContext.layer)))
