/**
 * `npm run recipe -- NAME`: runs a recipe on the embedded backend, or on the service with `--model`.
 */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Cause, Clock, Console, Effect, Layer, Logger } from "effect"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import type { Recipe } from "./recipe.js"
import { layerClients, Narrator, rendererOf } from "./recipe.js"

/** Add a recipe here: its module does the rest. */
const recipes = new Map<string, () => Promise<{ readonly default: Recipe }>>([
  ["agent-ai-sdk", () => import("../agent-ai-sdk/main.js")],
  ["agent-effect-ai", () => import("../agent-effect-ai/main.js")],
  ["chat-sl", () => import("../chat-sl/main.js")],
  ["code-rl", () => import("../code-rl/main.js")],
  ["decisions", () => import("../decisions/main.js")],
  ["dpo", () => import("../dpo/main.js")],
  ["forecasting", () => import("../forecasting/main.js")],
  ["guess-number", () => import("../guess-number/main.js")],
  ["home-commands", () => import("../home-commands/main.js")],
  ["math-rl", () => import("../math-rl/main.js")],
  ["multi-teacher", () => import("../multi-teacher/main.js")],
  ["off-policy", () => import("../off-policy/main.js")],
  ["on-policy", () => import("../on-policy/main.js")],
  ["prompt-distillation", () => import("../prompt-distillation/main.js")],
  ["rl-loop", () => import("../rl-loop/main.js")],
  ["rl-numerics-check", () => import("../rl-numerics-check/main.js")],
  ["rlhf", () => import("../rlhf/main.js")],
  ["rubric", () => import("../rubric/main.js")],
  ["self-distillation", () => import("../self-distillation/main.js")],
  ["search-tool", () => import("../search-tool/main.js")],
  ["shorter", () => import("../shorter/main.js")],
  ["sl-loop", () => import("../sl-loop/main.js")],
  ["sweep", () => import("../sweep/main.js")],
  ["tic-tac-toe", () => import("../tic-tac-toe/main.js")],
  ["tool-use", () => import("../tool-use/main.js")],
  ["true-thinking", () => import("../true-thinking/main.js")],
  ["twenty-questions", () => import("../twenty-questions/main.js")]
])

/** The recipes by name. */
export const names: ReadonlyArray<string> = Array.from(recipes.keys())

/** Recipes whose model has to be downloaded: they run when they are named. */
const downloading: ReadonlySet<string> = new Set(["home-commands"])

/** A recipe by its name. */
export const find = (name: string): Effect.Effect<Recipe> => {
  const load = recipes.get(name)
  return load === undefined
    ? Effect.dieMessage(`there is no recipe ${name}`)
    : Effect.map(Effect.promise(load), (module) => module.default)
}

const usage = [
  "usage: npm run recipe -- NAME... [--seed N] [--json] [--model MODEL] [--learning-rate RATE]",
  "       npm run recipe -- --all [--seeds 0,1,2,3,4] [--json]   (those on the bundled model)",
  "",
  `  NAME              ${names.join(", ")}`,
  "  --seed N          everything that is drawn follows from it (1)",
  "  --seeds N,N,...   each recipe with each of them, and a table of all of them in the end",
  "  --json            only the last line of each",
  "  --model MODEL     another model than the recipe's: of the service if TINKER_API_KEY is set, else one that is or can be\n" +
  "                    had on this machine (a name on the Hugging Face hub, a directory, a GGUF file)",
  "  --learning-rate R another rate than the recipe's, which is one for small local models"
].join("\n")

/** The line a recipe ends with. */
export interface Report {
  readonly recipe: string
  readonly seed: number
  readonly before: number
  readonly after: number
  readonly passed: boolean
}

const round = (value: number) => Math.round(value * 1e4) / 1e4

/** Runs a recipe. */
export const run = Effect.fnUntraced(function*(name: string, options: {
  readonly seed: number
  readonly model?: string | undefined
  readonly learningRate?: number | undefined
  readonly short?: boolean | undefined
}) {
  const recipe = yield* find(name)
  const model = options.model ?? recipe.model
  const { after, before } = yield* recipe.run({
    seed: options.seed,
    model,
    learningRate: options.learningRate ?? recipe.learningRate,
    renderer: yield* rendererOf(model),
    short: options.short
  }).pipe(Effect.provide(Layer.merge(layerClients(model), NodeContext.layer)))
  const report: Report = {
    recipe: name,
    seed: options.seed,
    before: round(before),
    after: round(after),
    passed: recipe.passes({ before, after })
  }
  return { report, measure: recipe.measure }
})

const readArguments = () => {
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: {
        all: { type: "boolean", default: false },
        json: { type: "boolean", default: false },
        seed: { type: "string", default: "1" },
        seeds: { type: "string" },
        model: { type: "string" },
        "learning-rate": { type: "string" }
      }
    })
    const chosen = values.all ? names.filter((name) => !downloading.has(name)) : positionals
    const seeds = (values.seeds ?? values.seed).split(",").map((text) => text.trim() === "" ? NaN : Number(text))
    const learningRate = values["learning-rate"] === undefined ? undefined : Number(values["learning-rate"])
    const sensible = chosen.length > 0 && chosen.every((name) => names.includes(name)) &&
      seeds.every(Number.isSafeInteger) && (learningRate === undefined || learningRate > 0)
    return sensible ? { chosen, json: values.json, seeds, model: values.model, learningRate } : undefined
  } catch {
    return undefined
  }
}

/** A run, and how long it took. */
interface Timed {
  readonly report: Report
  readonly seconds: number
}

/** The figures of a recipe with each of its seeds. */
export const beforeAndAfter = (reports: ReadonlyArray<Pick<Report, "before" | "after">>): string => {
  const figure = (value: number) => String(Number(value.toPrecision(3)))
  return reports.map(({ after, before }) => `${figure(before)} → ${figure(after)}`).join(", ")
}

/** The recipes with all their seeds, as Markdown. */
const table = (runs: ReadonlyArray<Timed>): string => {
  const rows = Array.from(new Set(runs.map(({ report }) => report.recipe)), (name) => {
    const own = runs.filter(({ report }) => report.recipe === name)
    const passed = own.filter(({ report }) => report.passed).length
    const values = beforeAndAfter(own.map(({ report }) => report))
    const longest = Math.max(...own.map(({ seconds }) => seconds)).toFixed(0)
    return `| ${name} | ${values} | ${passed} of ${own.length} | ${longest} s |`
  })
  const seeds = Array.from(new Set(runs.map(({ report }) => report.seed))).join(", ")
  return [
    `| recipe | before → after with seeds ${seeds} | passed | slowest |`,
    "| --- | --- | --- | --- |",
    ...rows
  ].join("\n")
}

const main = Effect.gen(function*() {
  const options = readArguments()
  if (options === undefined) {
    yield* Console.error(usage)
    return yield* Effect.sync(() => process.exitCode = 2)
  }
  const runs: Array<Timed> = []
  for (const name of options.chosen) {
    for (const seed of options.seeds) {
      const started = yield* Clock.currentTimeMillis
      // One that fails has not passed; the others are still run.
      const { measure, report } = yield* run(name, { ...options, seed }).pipe(
        Effect.catchAllCause((cause) =>
          Cause.isInterruptedOnly(cause)
            ? Effect.interrupt
            : Effect.as(Effect.logError(`${name} failed with seed ${seed}`, cause), {
              measure: "failed",
              report: { recipe: name, seed, before: NaN, after: NaN, passed: false } satisfies Report
            })
        )
      )
      const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
      runs.push({ report, seconds })
      if (!options.json) {
        yield* Console.log(`${measure}: ${report.before} before, ${report.after} after, in ${seconds.toFixed(0)} s`)
      }
      yield* Console.log(JSON.stringify(report))
      if (!report.passed) process.exitCode = 1
    }
  }
  if (runs.length > 1 && !options.json) yield* Console.log(`\n${table(runs)}`)
}).pipe(
  Effect.provideService(Narrator, { say: process.argv.includes("--json") ? () => Effect.void : Console.log }),
  Effect.provide(Logger.replace(Logger.defaultLogger, Logger.prettyLogger({ stderr: true })))
)

if (process.argv[1] === fileURLToPath(import.meta.url)) NodeRuntime.runMain(main, { disablePrettyLogger: true })
