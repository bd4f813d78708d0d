/**
 * A training run whose telemetry is off, on, or sent to an endpoint that is broken in each of four ways: what that
 * costs a step, the heap, and the end of the process.
 */
import { Effect, Schema } from "effect"
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import type { Bench } from "./Bench.js"
import { BenchFailed, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"

const Figures = Schema.parseJson(Schema.Struct({
  seconds: Schema.Number,
  cpu: Schema.Number,
  heap: Schema.Number,
  reported: Schema.Number,
  dropped: Schema.Number
}))

const modes = ["off", "on", "down", "slow", "failing", "lying"] as const

const steps = sized(120, 8)
const rounds = sized(9, 1)

const module = fileURLToPath(new URL("./telemetry/ours.js", import.meta.url))

/** A run in a process of its own. */
interface Run {
  readonly ask: (line: string) => Effect.Effect<string, BenchFailed>
  /** Ends it: the milliseconds from the program's last word to the end of its process. */
  readonly end: Effect.Effect<number, BenchFailed>
}

const start = (base: string, mode: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, ["--expose-gc", module, `${base}/${mode}`, mode === "off" ? "off" : "on"], {
          stdio: ["pipe", "pipe", "inherit"]
        })
      ),
      (child) => Effect.sync(() => child.kill())
    ),
    (child): Run => {
      const lines = createInterface(child.stdout)
      const failed = (code: number | null) =>
        new BenchFailed({ reason: `the run with telemetry ${mode} ended with ${code}` })
      return {
        ask: (line) =>
          Effect.async((resume) => {
            const broken = (code: number | null) => resume(failed(code))
            child.once("close", broken)
            lines.once("line", (answer) => {
              child.off("close", broken)
              resume(Effect.succeed(answer))
            })
            child.stdin.write(`${line}\n`)
          }),
        end: Effect.async((resume) => {
          let over: number | undefined
          lines.once("line", () => over = performance.now())
          child.once("close", (code) =>
            resume(over === undefined || code !== 0 ? failed(code) : Effect.succeed(performance.now() - over)))
          child.stdin.write("end\n")
        })
      }
    }
  )

export const bench: Bench = {
  summary:
    `${steps} training steps a round, every fourth submission refused once; the telemetry endpoint on, off and broken`,
  run: Effect.gen(function*() {
    const server = yield* Program.startModule("./training/server.js")
    const proxy = yield* Program.startModule("./telemetry/proxy.js", yield* server.ask("where"))
    const base = yield* proxy.ask("where")
    const runs = yield* Effect.forEach(modes, (mode) => start(base, mode))
    const results = modes.map((): Array<typeof Figures.Type> => [])
    for (let turn = -sized(2, 0); turn < rounds; turn++) {
      // Back and forth, so that nobody always runs after the same one.
      const order = modes.map((_, i) => i)
      for (const i of turn % 2 === 0 ? order : order.reverse()) {
        const run = runs[i]
        if (run === undefined) continue
        const figures = yield* Effect.flatMap(run.ask(String(steps)), Schema.decode(Figures))
        // the first turns warm up
        if (turn >= 0) results[i]?.push(figures)
      }
    }
    const exits = yield* Effect.forEach(runs, (run) => run.end)
    const off = results[0] ?? []
    const relative = (own: ReadonlyArray<typeof Figures.Type>, of: (figures: typeof Figures.Type) => number) =>
      median(own.flatMap((figures, i) => off.slice(i, i + 1).map((other) => of(figures) / of(other))))
    const rows = modes.map((mode, i) => {
      const own = results[i] ?? []
      const third = Math.floor(own.length / 3)
      const heap = (part: ReadonlyArray<typeof Figures.Type>) => median(part.map((figures) => figures.heap))
      return {
        mode,
        step: median(own.map(({ seconds }) => seconds)) / steps * 1000,
        wall: relative(own, ({ seconds }) => seconds),
        cpu: relative(own, ({ cpu }) => cpu),
        growth: heap(own.slice(-third)) / heap(own.slice(0, third)),
        reported: own.at(-1)?.reported ?? 0,
        dropped: own.at(-1)?.dropped ?? 0,
        exit: exits[i] ?? NaN
      }
    })
    const worst = (of: (row: (typeof rows)[number]) => number) => Math.max(...rows.slice(1).map(of))
    return {
      table: [
        ["telemetry", "ms/step", "wall to off", "CPU to off", "heap, end to begin", "reported", "dropped", "exit ms"],
        ...rows.map((row) => [
          row.mode,
          row.step.toFixed(2),
          row.wall.toFixed(2),
          row.cpu.toFixed(2),
          row.growth.toFixed(2),
          String(row.reported),
          String(row.dropped),
          row.exit.toFixed(0)
        ])
      ],
      ratios: {
        ...Object.fromEntries(rows.slice(1).map((row) => [`${row.mode}_to_off`, round(row.wall)])),
        ...Object.fromEntries(rows.slice(1).map((row) => [`cpu_${row.mode}_to_off`, round(row.cpu)])),
        worst_heap_growth: round(worst(({ growth }) => growth)),
        worst_exit_seconds: round(worst(({ exit }) => exit) / 1000)
      },
      notes: [
        "Medians of rounds in turns, each relative to the round without telemetry: 1 is no difference, less is better.",
        "Exit: from the program's last word to the end of its process, after all rounds."
      ]
    }
  }).pipe(Effect.catchTag("ParseError", (error) => new BenchFailed({ reason: error.message })))
}
