/**
 * Ten thousand accepted operations whose results are awaited: what each of them holds.
 */
import { Effect, Schema } from "effect"
import { fileURLToPath } from "node:url"
import type { Bench } from "./Bench.js"
import { BenchFailed, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"

const Figures = Schema.parseJson(Schema.Struct({ retained: Schema.Number, rss: Schema.Number }))
const Ended = Schema.parseJson(Schema.Struct({ ended: Schema.Number }))

const futures = sized(10_000, 200)
const rounds = sized(3, 1)

const kib = (bytes: number) => bytes / futures / 1024

const once = (server: Program.Program, base: string, module: string) =>
  Effect.scoped(Effect.gen(function*() {
    const path = fileURLToPath(new URL(module, import.meta.url))
    const program = yield* Program.start(process.execPath, "--expose-gc", path, base)
    // opened before, so that what is counted is the futures and not the first use of everything
    yield* program.ask("open 100")
    yield* program.ask("close")
    yield* server.ask("hold")
    const figures = yield* Effect.flatMap(program.ask(`open ${futures}`), Schema.decode(Figures))
    yield* server.ask("release")
    const { ended } = yield* Effect.flatMap(program.ask("close"), Schema.decode(Ended))
    if (ended !== futures) return yield* new BenchFailed({ reason: `${ended} of ${futures} futures ended` })
    return figures
  }))

export const bench: Bench = {
  summary: `${futures} futures in flight, the server answering none: memory of each, in a fresh process every time`,
  run: Effect.gen(function*() {
    const server = yield* Program.startModule("./training/server.js")
    const base = yield* server.ask("where")
    const variants = [["raw undici (floor)", "./memory/floor.js"], ["ours, Node entry", "./memory/ours.js"]] as const
    const results = variants.map((): Array<typeof Figures.Type> => [])
    for (let turn = 0; turn < rounds; turn++) {
      for (const [i, [, module]] of variants.entries()) results[i]?.push(yield* once(server, base, module))
    }
    const [floor = [], ours = []] = results
    const beyond = (of: (figures: typeof Figures.Type) => number) => kib(median(ours.map(of)) - median(floor.map(of)))
    return {
      table: [
        ["KiB per future", "resident, at the peak", "held, after collection"],
        ...variants.map(([name], i) => [
          name,
          kib(median((results[i] ?? []).map(({ rss }) => rss))).toFixed(1),
          kib(median((results[i] ?? []).map(({ retained }) => retained))).toFixed(1)
        ])
      ],
      ratios: {
        kib_per_future: round(beyond(({ rss }) => rss)),
        kib_per_future_held: round(beyond(({ retained }) => retained))
      },
      notes: ["Beyond the floor: the same requests pending on undici alone, with as many sockets. Lower is better."]
    }
  }).pipe(Effect.catchTag("ParseError", (error) => new BenchFailed({ reason: error.message })))
}
