/**
 * HTTP/1.1 against HTTP/2 over TLS: which transport of Node's costs least, and what ours costs over each.
 */
import { Effect, Schema } from "effect"
import type { Bench, Variant } from "./Bench.js"
import { BenchFailed, interleaved, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"
import type { Figures } from "./sampling/measure.js"

const Figures = Schema.parseJson(Schema.Struct({
  seconds: Schema.Number,
  cpu: Schema.Number,
  p50: Schema.Number,
  p99: Schema.Number,
  rss: Schema.Number
}))

const concurrency = sized(400, 20)

/** Answered at once the work shows; held for half a second, as long polls are, the sockets do. */
const levels = [
  { name: "at once", path: "", calls: sized(2_000, 40), rounds: sized(5, 1) },
  { name: "held", path: "/hold", calls: sized(800, 40), rounds: sized(3, 1) }
]

const ways: ReadonlyArray<readonly [name: string, module: string, setting: string]> = [
  ["undici HTTP/1.1 (floor)", "./http2/undici.js", "1"],
  ["undici HTTP/2, 8 sessions", "./http2/undici.js", "2"],
  ["node:http2, 4 sessions", "./http2/sessions.js", "4"],
  ["node:http2, 8 sessions", "./http2/sessions.js", "8"],
  ["ours, HTTP/1.1", "./http2/ours.js", "1"],
  ["ours, HTTP/2", "./http2/ours.js", "2"]
]

export const bench: Bench = {
  summary: "one sample = two requests over TLS, 400 at once; each way in a process of its own, in turns",
  run: Effect.gen(function*() {
    const table: Array<ReadonlyArray<string>> = [
      ["answers, way", "calls/s", "CPU us/call", "CPU to floor", "p50 ms", "p99 ms", "sockets"]
    ]
    const ratios: Record<string, number> = {}
    for (const { calls, name, path, rounds } of levels.slice(0, sized(levels.length, 1))) {
      const results = ways.map((): Array<Figures & { readonly sockets: number }> => [])
      yield* Effect.scoped(Effect.gen(function*() {
        // A server for each way: sockets that another way leaves open would be counted with its own.
        const programs = yield* Effect.forEach(ways, ([, module, setting]) =>
          Effect.gen(function*() {
            const server = yield* Program.startModule("./http2/server.js")
            const base = yield* server.ask("where")
            return { server, program: yield* Program.startModule(module, `${base}${path}`, setting) }
          }))
        for (let turn = -1; turn < rounds; turn++) {
          const order = programs.map((program, i) => [program, i] as const)
          for (const [{ program, server }, i] of turn % 2 === 0 ? order : order.reverse()) {
            const figures = yield* Effect.flatMap(program.ask(`${calls} ${concurrency}`), Schema.decode(Figures))
            const sockets = Number(yield* server.ask("sockets"))
            // the first turn warms up
            if (turn >= 0) results[i]?.push({ ...figures, sockets })
          }
        }
      }))
      const cost = (a: number, b: number) =>
        median((results[a] ?? []).map(({ cpu }, turn) => cpu / (results[b]?.[turn]?.cpu ?? NaN)))
      for (const [i, [way]] of ways.entries()) {
        const own = results[i] ?? []
        const column = (of: (figures: typeof own[number]) => number) => median(own.map(of))
        table.push([
          `${name}, ${way}`,
          (calls / column((f) => f.seconds)).toFixed(0),
          (column((f) => f.cpu) / calls * 1e6).toFixed(0),
          cost(i, 0).toFixed(2),
          column((f) => f.p50).toFixed(0),
          column((f) => f.p99).toFixed(0),
          column((f) => f.sockets).toFixed(0)
        ])
      }
      const suffix = path === "" ? "" : "_held"
      ratios[`to_floor${suffix}`] = round(cost(0, 5))
      ratios[`to_own_http1${suffix}`] = round(cost(4, 5))
      ratios[`undici_http2_to_sessions${suffix}`] = round(cost(1, 2))
    }
    const uploads = yield* Effect.scoped(Effect.gen(function*() {
      const base = yield* Effect.flatMap(Program.startModule("./http2/server.js"), (server) => server.ask("where"))
      const variants = yield* Effect.forEach(
        ["1", "2"],
        (version) =>
          Effect.map(Program.startModule("./http2/upload.js", base, version), (program): Variant<BenchFailed> => ({
            name: version,
            once: Effect.map(program.ask("go"), Number)
          }))
      )
      return yield* interleaved(variants, { rounds: 3, warmup: 1 })
    }))
    const [first, second] = [uploads.get("1"), uploads.get("2")]
    ratios["upload_http2_to_http1"] = round(second?.relative ?? NaN)
    return {
      table,
      ratios,
      notes: [
        `A body of 8 MiB to a host 20 ms away takes ${first?.ms.toFixed(0)} ms over HTTP/1.1 and ${
          second?.ms.toFixed(0)
        } ms over HTTP/2 with the usual window of 64 KiB, which is why large bodies stay with HTTP/1.1.`,
        "Ratios compare CPU time of the client process; more is better for ours over HTTP/2.",
        "Sockets are the most that were open at once; on loopback a round trip costs nothing, so they cost little here."
      ]
    }
  }).pipe(Effect.catchTag("ParseError", (error) => new BenchFailed({ reason: error.message })))
}
