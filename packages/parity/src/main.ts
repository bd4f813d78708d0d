/**
 * `npm run parity`: the official Python SDK beside ours. Without flags every suite runs; a suite's flag runs it alone.
 */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import type { Outcome, Suite } from "./Suite.js"
import { exitCode, exitCodeOf, outcome, summarize } from "./Suite.js"
import { agents } from "./suites/agents.js"
import { bridges } from "./suites/bridges.js"
import { cli } from "./suites/cli.js"
import { cookbook } from "./suites/cookbook.js"
import { drift } from "./suites/drift.js"
import { engine } from "./suites/engine.js"
import { evals } from "./suites/evals.js"
import { inspect } from "./suites/inspect.js"
import { killed } from "./suites/killed.js"
import { llama } from "./suites/llama.js"
import { local } from "./suites/local.js"
import { renderers } from "./suites/renderers.js"
import { resume } from "./suites/resume.js"
import { runtimes } from "./suites/runtimes.js"
import { scenarios } from "./suites/scenarios.js"
import { skyrl } from "./suites/skyrl.js"
import { studio } from "./suites/studio.js"
import { telemetry } from "./suites/telemetry.js"
import { templates } from "./suites/templates.js"
import { vectors } from "./suites/vectors.js"
import { weights } from "./suites/weights.js"

/** Add a suite here: its module does the rest. */
const suites: ReadonlyArray<Suite> = [
  vectors,
  scenarios,
  local,
  engine,
  cli,
  telemetry,
  renderers,
  templates,
  cookbook,
  agents,
  bridges,
  weights,
  llama,
  studio,
  runtimes,
  skyrl,
  drift,
  evals,
  inspect,
  killed,
  resume
]

const usage = [
  "usage: npm run parity [-- FLAGS]",
  "",
  ...suites.map((suite) => `  --${suite.name.padEnd(12)} ${suite.summary}`),
  `  --help       this text`,
  "",
  "Without a suite's flag every suite runs. Exit codes: 0 the same, 1 different, 2 usage, 3 no Python or no package index."
].join("\n")

const exit = (code: number) =>
  Effect.sync(() => {
    process.exitCode = code
  })

const main = Effect.gen(function*() {
  const args = process.argv.slice(2)
  if (args.includes("--help")) return yield* Console.log(usage)
  const known = new Set(suites.map((suite) => `--${suite.name}`))
  const chosen = suites.filter((suite) => args.includes(`--${suite.name}`))
  const rest = args.filter((arg) => !known.has(arg))
  if (chosen.length === 0 && rest.length > 0) {
    yield* Console.error(`unknown: ${rest.join(" ")}\n\n${usage}`)
    return yield* exit(exitCode.usage)
  }
  const outcomes: Array<Outcome> = []
  for (const suite of chosen.length === 0 ? suites : chosen) {
    yield* Console.log(`# ${suite.name}: ${suite.summary}`)
    const ended = yield* outcome(suite, rest)
    if (ended.error !== undefined) yield* Console.error(ended.error.message)
    outcomes.push(ended)
  }
  yield* Console.log(`\n${summarize(outcomes)}`)
  yield* exit(exitCodeOf(outcomes))
})

NodeRuntime.runMain(main.pipe(Effect.provide(NodeContext.layer)))
