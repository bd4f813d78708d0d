/**
 * Many samples at once: what a call costs the process that makes it.
 */
import { Effect, Schema } from "effect"
import type { Bench } from "./Bench.js"
import { BenchFailed, isSmoke, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"
import * as Python from "./Python.js"
import type { Figures } from "./sampling/measure.js"

const Figures = Schema.parseJson(Schema.Struct({
  seconds: Schema.Number,
  cpu: Schema.Number,
  p50: Schema.Number,
  p99: Schema.Number,
  rss: Schema.Number
}))

const rounds = sized(9, 1)

/** What lives for hours is measured once it is compiled: turns that are not counted, of every way alike. */
const warmUps = sized(5, 0)
const levels = sized([{ concurrency: 400, calls: 4_000 }, { concurrency: 2_000, calls: 6_000 }], [
  { concurrency: 20, calls: 100 }
])

/** The Python SDK takes its time: a tenth of the calls shows it as well. */
const share = (name: string, calls: number) => name === "Python SDK" ? Math.max(400, calls / 10) : calls

const column = (figures: ReadonlyArray<Figures>, of: (figures: Figures) => number) => median(figures.map(of))

export const bench: Bench = {
  summary: "one sample = two requests to a server that answers at once; each way in a process of its own, in turns",
  run: Effect.gen(function*() {
    const server = yield* Program.startModule("./sampling/server.js")
    const base = yield* server.ask("where")
    const variants = [
      { name: "raw undici (floor)", program: yield* Program.startModule("./sampling/floor.js", base) },
      { name: "ours, Node entry", program: yield* Program.startModule("./sampling/ours.js", base) },
      ...(isSmoke ? [] : [{ name: "Python SDK", program: yield* Python.start("sampling.py", base) }])
    ]
    const table: Array<ReadonlyArray<string>> = [
      ["concurrency, variant", "calls/s", "CPU us/call", "calls/CPU-s to ours", "p50 ms", "p99 ms", "peak MiB"]
    ]
    const ratios: Record<string, number> = {}
    for (const { calls, concurrency } of levels) {
      const results = variants.map((): Array<Figures & { readonly perCall: number }> => [])
      for (let turn = -warmUps; turn < rounds; turn++) {
        for (const [i, { name, program }] of variants.entries()) {
          const count = share(name, calls)
          const figures = yield* Effect.flatMap(
            program.ask(`${count} ${Math.min(concurrency, count)}`),
            Schema.decode(Figures)
          )
          if (turn >= 0) results[i]?.push({ ...figures, perCall: figures.cpu / count })
        }
      }
      const [floor = [], ours = [], python = []] = results
      const to = (other: typeof floor) => median(ours.map(({ perCall }, i) => (other[i]?.perCall ?? NaN) / perCall))
      for (const [i, { name }] of variants.entries()) {
        const own = results[i] ?? []
        const count = share(name, calls)
        table.push([
          `${concurrency}, ${name}`,
          (count / column(own, (f) => f.seconds)).toFixed(0),
          (median(own.map(({ perCall }) => perCall)) * 1e6).toFixed(0),
          (1 / to(own)).toFixed(2),
          column(own, (f) => f.p50).toFixed(0),
          column(own, (f) => f.p99).toFixed(0),
          column(own, (f) => f.rss).toFixed(0)
        ])
      }
      const suffix = concurrency === 400 ? "" : `_${concurrency}`
      ratios[`to_floor${suffix}`] = round(to(floor))
      ratios[`to_python${suffix}`] = round(to(python))
    }
    return {
      table,
      ratios,
      notes: [
        "Ratios compare calls per CPU-second of the client process; wall-clock figures depend on what else runs.",
        "Peak memory is that of the process's whole life."
      ]
    }
  }).pipe(Effect.catchTag("ParseError", (error) => new BenchFailed({ reason: error.message })))
}
