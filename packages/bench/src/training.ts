/**
 * A training loop of small steps, each submitted before the last one's result is there: what the SDK costs.
 */
import { Effect, Schema } from "effect"
import type { Bench } from "./Bench.js"
import { BenchFailed, isSmoke, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"
import * as Python from "./Python.js"

const Figures = Schema.parseJson(Schema.Struct({ seconds: Schema.Number, cpu: Schema.Number }))

const steps = sized(200, 8)
const rounds = sized(7, 1)

export const bench: Bench = {
  summary:
    `${steps} pipelined steps (forward_backward + optim_step, four small examples), a server that answers at once`,
  run: Effect.gen(function*() {
    const server = yield* Program.startModule("./training/server.js")
    const base = yield* server.ask("where")
    const variants = [
      { name: "ours, Node entry", program: yield* Program.startModule("./training/ours.js", base) },
      ...(isSmoke ? [] : [{ name: "Python SDK", program: yield* Python.start("training.py", base) }])
    ]
    const results = variants.map((): Array<typeof Figures.Type> => [])
    for (let turn = -1; turn < rounds; turn++) {
      for (const [i, { program }] of variants.entries()) {
        const figures = yield* Effect.flatMap(program.ask(String(steps)), Schema.decode(Figures))
        // the first turn warms up
        if (turn >= 0) results[i]?.push(figures)
      }
    }
    const [ours = [], python = []] = results
    const to = (of: (figures: typeof Figures.Type) => number) =>
      median(ours.flatMap((figures, i) => python.slice(i, i + 1).map((other) => of(other) / of(figures))))
    return {
      table: [
        ["variant", "steps/s", "CPU ms/step"],
        ...variants.map(({ name }, i) => [
          name,
          (steps / median((results[i] ?? []).map(({ seconds }) => seconds))).toFixed(0),
          (median((results[i] ?? []).map(({ cpu }) => cpu)) * 1000 / steps).toFixed(2)
        ])
      ],
      ratios: { to_python: round(to(({ seconds }) => seconds)), cpu_to_python: round(to(({ cpu }) => cpu)) },
      notes: [`Medians of ${rounds} rounds in turns; a step is four requests: two submissions in order, two polls.`]
    }
  }).pipe(Effect.catchTag("ParseError", (error) => new BenchFailed({ reason: error.message })))
}
