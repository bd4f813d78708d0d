/**
 * Every bench by name.
 */
import { Effect } from "effect"
import type { Bench } from "./Bench.js"
import { BenchFailed } from "./Bench.js"

/** Add a bench here: its module exports `bench` and does the rest. */
const benches = new Map<string, () => Promise<{ readonly bench: Bench }>>([
  ["agents", () => import("./agents.js")],
  ["cluster", () => import("./cluster.js")],
  ["cookbook", () => import("./cookbook.js")],
  ["data", () => import("./data.js")],
  ["engine", () => import("./engine.js")],
  ["http2", () => import("./http2.js")],
  ["tokenizer", () => import("./tokenizer.js")],
  ["rendering", () => import("./rendering.js")],
  ["sampling", () => import("./sampling.js")],
  ["sandbox", () => import("./sandbox.js")],
  ["fairness", () => import("./fairness.js")],
  ["growth", () => import("./growth.js")],
  ["memory", () => import("./memory.js")],
  ["models", () => import("./models.js")],
  ["quantize", () => import("./quantize.js")],
  ["size", () => import("./size.js")],
  ["startup", () => import("./startup.js")],
  ["studio", () => import("./studio.js")],
  ["telemetry", () => import("./telemetry.js")],
  ["training", () => import("./training.js")],
  ["weights", () => import("./weights.js")],
  ["wire", () => import("./wire.js")]
])

/** @internal */
export const names: ReadonlyArray<string> = Array.from(benches.keys())

const usage = `usage: npm run bench -- NAME [--smoke], or --all [NAMES] [--smoke | --record], with NAME one of: ${
  names.join(", ")
}`

/** The bench that the arguments of the command name. */
export const find = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
  const [name, ...rest] = args.filter((arg) => arg !== "--smoke")
  if (name === undefined || rest.length > 0) return yield* new BenchFailed({ reason: usage })
  const load = benches.get(name)
  if (load === undefined) return yield* new BenchFailed({ reason: `There is no bench named "${name}" yet.\n${usage}` })
  const { bench } = yield* Effect.promise(load)
  return { name, bench }
})
