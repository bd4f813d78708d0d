/**
 * Whether the hundred thousandth operation costs what the first ones did.
 */
import { Effect, Schema } from "effect"
import { fileURLToPath } from "node:url"
import type { Bench } from "./Bench.js"
import { BenchFailed, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"

const Figures = Schema.parseJson(Schema.Struct({ cpu: Schema.Number, heap: Schema.Number }))

const few = sized(1_000, 100)
const many = sized(100_000, 400)
/** Both are compiled by then: what is compared is age, not warmth. */
const warmup = sized(4_000, 100)
const rounds = sized(9, 1)

export const bench: Bench = {
  summary:
    `half samples, half training, in batches of ${few}: a young process beside one with ${many} operations behind it`,
  run: Effect.gen(function*() {
    const server = yield* Program.startModule("./training/server.js")
    const base = yield* server.ask("where")
    const path = fileURLToPath(new URL("./growth/ours.js", import.meta.url))
    const start = Program.start(process.execPath, "--expose-gc", path, base)
    const run = (program: Program.Program, ops: number) =>
      Effect.flatMap(program.ask(String(ops)), Schema.decode(Figures))

    const old = yield* start
    const part = Math.min(many, 10_000)
    for (let done = 0; done < many; done += part) yield* run(old, part)
    const young = yield* start
    yield* run(young, warmup)
    const results: Array<{ readonly young: typeof Figures.Type; readonly old: typeof Figures.Type }> = []
    for (let turn = 0; turn < rounds; turn++) {
      // in turns, and the order reversed every other time
      const first = yield* run(turn % 2 === 0 ? young : old, few)
      const second = yield* run(turn % 2 === 0 ? old : young, few)
      results.push(turn % 2 === 0 ? { young: first, old: second } : { young: second, old: first })
    }
    const row = (name: string, of: (pair: typeof results[number]) => typeof Figures.Type) => [
      name,
      (median(results.map((pair) => of(pair).cpu)) / few * 1e6).toFixed(0),
      (median(results.map((pair) => of(pair).heap)) / 1024 / 1024).toFixed(1)
    ]
    return {
      table: [
        ["operations before", "CPU us/op", "heap MiB"],
        row(`${warmup}`, (pair) => pair.young),
        row(`${many}`, (pair) => pair.old)
      ],
      ratios: {
        time: round(median(results.map(({ old, young }) => old.cpu / young.cpu))),
        memory: round(median(results.map(({ old, young }) => old.heap / young.heap)))
      },
      notes: ["Old to young, 1 is no growth. The heap is measured after collection, with nothing in flight."]
    }
  }).pipe(Effect.catchTag("ParseError", (error) => new BenchFailed({ reason: error.message })))
}
