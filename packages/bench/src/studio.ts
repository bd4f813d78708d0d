/**
 * `npm run bench -- studio`: two hundred runs with a million points, and fifty thousand rollouts.
 */
import { FileSystem } from "@effect/platform"
import { Effect, Schema } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Bench } from "./Bench.js"
import { BenchFailed, isSmoke, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"

const runs = sized(200, 4)
/** Half of all points are in one run, whose curves are panned over. */
const longest = sized(100_000, 1_000)
const steps = (run: number) => run === 0 ? longest : 502
const metrics = ["loss", "env/all/reward", "entropy", "kl_sample_train_v1", "grad_norm"]
const points = metrics.length * Array.from({ length: runs }, (_, run) => steps(run)).reduce((sum, n) => sum + n, 0)
const rollouts = sized(50_000, 200)
const rounds = sized(3, 1)

const First = Schema.parseJson(Schema.Struct({ ms: Schema.Number }))
const All = Schema.parseJson(
  Schema.Struct({
    ms: Schema.Number,
    rollouts: Schema.Number,
    steps: Schema.Number,
    held: Schema.Number,
    rss: Schema.Number
  })
)
const Pan = Schema.parseJson(Schema.Struct({ median: Schema.Number, p99: Schema.Number }))
const Frames = Schema.parseJson(Schema.Struct({ median: Schema.Number, p99: Schema.Number, heap: Schema.Number }))

const executable = isSmoke ? undefined : [
  process.env["CHROMIUM"],
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome"
].find((path) => path !== undefined && existsSync(path))

/** The page is bundled when packages are built, which a bench does not wait for. */
const bundle = Effect.sync(() => {
  const studio = createRequire(import.meta.url).resolve("@effect-tinker/studio/package.json")
  execFileSync(process.execPath, [join(dirname(studio), "page", "build.mjs")])
})

const journal = (seed: number): string => {
  const config = { model: { baseModel: "Qwen/Qwen3-8B" }, learningRate: seed * 1e-6 }
  const lines = [JSON.stringify({ _tag: "Started", time: 0, trainer: "reinforce", config, hash: "x" })]
  for (let step = 1; step <= steps(seed); step++) {
    const values = metrics.map((name, i) => [name, Math.sin(step * (i + 1) * 0.01 + seed) + step * 1e-4])
    lines.push(
      JSON.stringify({
        _tag: "Step",
        time: step * 2_000,
        step,
        metrics: Object.fromEntries(values),
        timings: {}
      })
    )
  }
  return `${lines.join("\n")}\n`
}

/** Rollouts of two turns, about 3 kB each. */
const sampled = (from: number, count: number): string => {
  const ids = Array.from({ length: 160 }, (_, i) => i * 37 % 50_000)
  const logprobs = ids.map((id) => -(id % 700) / 1000)
  const turn = { prompt: ids, tokens: ids, logprobs, policyVersion: 1, reward: 0, masked: false, metrics: {} }
  const message = { role: "assistant", content: "So the answer is 42, because six times seven is forty-two." }
  const lines = Array.from({ length: count }, (_, i) => {
    const n = from + i
    const rollout = { group: n % 64 >> 3, member: n % 8, tags: ["sums"], reward: n % 3, stop: "completed" }
    return JSON.stringify({
      step: 1 + Math.floor(n / 64),
      attempt: 0,
      rollout: { ...rollout, turns: [{ ...turn, message }, { ...turn, message }] }
    })
  })
  return `${lines.join("\n")}\n`
}

const prepare = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped()
  for (let run = 0; run < runs; run++) {
    yield* fs.makeDirectory(`${directory}/run-${run}`)
    yield* fs.writeFileString(`${directory}/run-${run}/journal.jsonl`, journal(run))
  }
  for (let n = 0; n < rollouts; n += 1_000) {
    yield* fs.writeFileString(`${directory}/run-0/rollouts.jsonl`, sampled(n, 1_000), { flag: "a" })
  }
  return directory
}).pipe(Effect.mapError((error) => new BenchFailed({ reason: error.message })))

const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(0)

export const bench: Bench = {
  summary: `${runs} runs with ${points} points, and ${rollouts} rollouts, in a server and a browser`,
  run: Effect.gen(function*() {
    const directory = yield* prepare
    const program = (module: string, ...more: ReadonlyArray<string>) =>
      Program.start(
        process.execPath,
        "--expose-gc",
        fileURLToPath(new URL(module, import.meta.url)),
        directory,
        ...more,
        ...(isSmoke ? ["--smoke"] : [])
      )
    const floors: Array<number> = []
    const firsts: Array<number> = []
    const alls: Array<typeof All.Type> = []
    const pans: Array<typeof Pan.Type> = []
    for (let turn = 0; turn < rounds; turn++) {
      yield* Effect.scoped(Effect.gen(function*() {
        const floor = yield* program("./studio/floor.js")
        floors.push((yield* Effect.flatMap(floor.ask("all"), Schema.decode(First))).ms)
      }))
      yield* Effect.scoped(Effect.gen(function*() {
        const ours = yield* program("./studio/ours.js")
        firsts.push((yield* Effect.flatMap(ours.ask("first"), Schema.decode(First))).ms)
        alls.push(yield* Effect.flatMap(ours.ask("all"), Schema.decode(All)))
        pans.push(yield* Effect.flatMap(ours.ask("pan"), Schema.decode(Pan)))
      }))
    }
    const page = executable === undefined ? undefined : yield* Effect.scoped(Effect.gen(function*() {
      yield* bundle
      const browser = yield* program("./studio/page.js", executable)
      const { ms } = yield* Effect.flatMap(browser.ask("first"), Schema.decode(First))
      return { first: ms, ...(yield* Effect.flatMap(browser.ask("pan"), Schema.decode(Frames))) }
    }))
    const of = (f: (figures: typeof All.Type) => number) => median(alls.map(f))
    const floor = median(floors)
    const all = of(({ ms }) => ms)
    const first = median(firsts)
    return {
      table: [
        ["", "ms"],
        ["first curve, of a run in the middle", first.toFixed(0)],
        ["all runs read", all.toFixed(0)],
        ["JSON.parse of the same lines, nothing kept (floor)", floor.toFixed(0)],
        ["50,000 rollouts indexed", of(({ rollouts }) => rollouts).toFixed(0)],
        ["a window while panning, median", median(pans.map((figures) => figures.median)).toFixed(2)],
        ["a window while panning, 99th of 100", median(pans.map(({ p99 }) => p99)).toFixed(2)],
        ...(page === undefined ? [] : [
          [`first curve of ${longest} steps in the browser, server just started`, page.first.toFixed(0)],
          ["a frame while panning, median", page.median.toFixed(1)],
          ["a frame while panning, 99th of 100", page.p99.toFixed(1)]
        ])
      ],
      ratios: {
        all_runs_vs_parse: round(floor / all),
        first_curve_vs_all: round(all / first),
        held_mib: round(of(({ held }) => held) / 1024 / 1024)
      },
      notes: [
        `Memory of the server with everything read: ${mib(of(({ held }) => held))} MiB held, ${
          mib(of(({ rss }) => rss))
        } MiB resident.`,
        page === undefined
          ? "No Chromium here: the page itself was not measured."
          : `Memory of the page: ${mib(page.heap)} MiB held by its scripts.`
      ]
    }
  }).pipe(Effect.catchTag("ParseError", (error) => new BenchFailed({ reason: error.message })))
}
