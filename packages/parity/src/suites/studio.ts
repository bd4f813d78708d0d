/**
 * `--studio`: a log directory of the official cookbook opened by the studio, the studio's event files read by TensorBoard,
 * and its runs on a tracking server of MLflow read by MLflow's client.
 */
import { MLflow, RunDirectory, TensorBoard } from "@effect-tinker/studio"
import { FileSystem } from "@effect/platform"
import { NodeHttpClient } from "@effect/platform-node"
import { Console, Effect, Option, Schedule, Schema } from "effect"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs, PythonFailed } from "../Suite.js"

const name = "studio"
const program = "studio_logs"

const Value = Schema.NullOr(Schema.Number)

const Written = Schema.parseJson(Schema.Struct({
  values: Schema.Record({ key: Schema.String, value: Schema.Array(Schema.Tuple(Schema.Number, Value)) }),
  checkpoints: Schema.Array(Schema.String),
  iterations: Schema.Array(Schema.Number),
  rewards: Schema.Array(Schema.Number)
}))

const Events = Schema.parseJson(
  Schema.Record({ key: Schema.String, value: Schema.Array(Schema.Tuple(Schema.Number, Value, Schema.Number)) })
)

const Runs = Schema.parseJson(Schema.Array(Schema.Struct({
  name: Schema.String,
  status: Schema.String,
  params: Schema.Record({ key: Schema.String, value: Schema.String }),
  metrics: Schema.Record({ key: Schema.String, value: Schema.Array(Schema.Tuple(Schema.Number, Value)) })
})))

/** The address of a tracking server that runs until the scope closes. */
const tracking = Effect.fnUntraced(function*(python: Python.Python, directory: string) {
  const fs = yield* FileSystem.FileSystem
  yield* Effect.orDie(fs.makeDirectory(directory))
  const server = yield* Effect.forkScoped(python.run(program, "serve", directory))
  const port = fs.readFileString(`${directory}/port`).pipe(
    Effect.retry(Schedule.intersect(Schedule.spaced("500 millis"), Schedule.recurs(600))),
    Effect.orDie
  )
  const ended = Effect.zipRight(server, new PythonFailed({ program, reason: "the tracking server ended" }))
  return `http://127.0.0.1:${yield* Effect.raceFirst(port, ended)}`
})

const differences = (what: string, ours: unknown, theirs: unknown): ReadonlyArray<string> => {
  const [a, b] = [JSON.stringify(ours), JSON.stringify(theirs)]
  return a === b ? [] : [`${what}: ${a.slice(0, 300)} is not ${b.slice(0, 300)}`]
}

/** The values of a table, NaN as null. */
const valuesOf = (table: RunDirectory.Run["table"], metric: string, round: (value: number) => number) => {
  const found: Array<readonly [number, number | null]> = []
  table.each(metric, (step, value) => found.push([step, Number.isFinite(value) ? round(value) : null]))
  return found
}

export const studio: Suite = {
  name,
  summary: "logs of the official cookbook in the studio, its event files in TensorBoard",
  run: Effect.fnUntraced(
    function*() {
      const python = yield* Python.makeStudio
      const fs = yield* FileSystem.FileSystem
      const directory = yield* Effect.orDie(fs.makeTempDirectoryScoped())
      const decode = <A, I>(schema: Schema.Schema<A, I>, text: I) =>
        Effect.mapError(Schema.decode(schema)(text), (error) => new PythonFailed({ program, reason: error.message }))
      const theirs = yield* decode(Written, yield* python.run(program, "write", `${directory}/math`))

      const opened = yield* RunDirectory.open(`${directory}/math`, "math")
      if (Option.isNone(opened)) {
        return yield* new Differs({ suite: name, differences: ["open: it is not seen as a run"] })
      }
      const run = opened.value
      yield* run.refresh
      yield* Effect.orDie(run.rollouts.refresh)
      const detail = run.detail(0)
      const heads = yield* Effect.orDie(run.rollouts.list(5, "train"))
      const rollout = yield* Effect.orDie(run.rollouts.read(5, "train", 6, Option.none()))
      const found = [
        ...Object.entries(theirs.values).flatMap(([metric, values]) =>
          differences(metric, valuesOf(run.table, metric, (value) => value), values)
        ),
        ...differences("model", detail.model, "Qwen/Qwen3-8B"),
        ...differences("status", detail.status, "complete"),
        ...differences("resumes", detail.resumes, 1),
        ...differences("unreadable", detail.unreadable, 0),
        ...differences("checkpoints", detail.checkpoints.map((checkpoint) => checkpoint.name), theirs.checkpoints),
        ...differences("iterations", run.rollouts.steps().map(({ step }) => step), theirs.iterations),
        ...differences("rewards", heads.map(({ reward }) => reward), theirs.rewards),
        ...differences(
          "conversation",
          rollout.turns.map(({ before, message }) => [before[0]?.text, message?.text]),
          [["question 1", "answer 1.2 <b>"]]
        )
      ]
      if (found.length > 0) return yield* new Differs({ suite: name, differences: found })
      const metrics = run.table.names()
      yield* Console.log(
        `the cookbook's log directory: ${metrics.length} metrics of ${run.table.size()} steps, resumed once, ` +
          `${heads.length} rollouts a step, 2 checkpoints: the same as its own reader says`
      )

      yield* Effect.orDie(TensorBoard.write({ from: directory, to: `${directory}/out` }))
      const events = yield* decode(Events, yield* python.run(program, "events", `${directory}/out/math`))
      const read = metrics.flatMap((metric) =>
        differences(
          metric,
          (events[metric] ?? []).map(([step, value]) => [step, value === null ? null : Math.fround(value)]),
          valuesOf(run.table, metric, Math.fround)
        )
      )
      if (read.length > 0) return yield* new Differs({ suite: name, differences: read })
      yield* Console.log(`TensorBoard reads ${Object.keys(events).length} curves from our event files: the same values`)

      const url = yield* tracking(python, `${directory}/mlflow`)
      const send = MLflow.write({ from: `${directory}/math`, url, experiment: "parity" }).pipe(
        Effect.provide(NodeHttpClient.layerUndici),
        Effect.mapError((error) => new Differs({ suite: name, differences: [error.message] }))
      )
      const [sent] = yield* send
      const [again] = yield* send
      const [taken, ...more] = yield* decode(Runs, yield* python.run(program, "runs", url))
      const kept = [
        ...differences("runs", [taken?.name, taken?.status, more.length], ["math", "FINISHED", 0]),
        ...differences("learning_rate", taken?.params["learning_rate"], "0.00004"),
        ...differences("sent again", again?.values, 0),
        ...metrics.flatMap((metric) =>
          differences(metric, taken?.metrics[metric], valuesOf(run.table, metric, (value) => value))
        )
      ]
      if (kept.length > 0) return yield* new Differs({ suite: name, differences: kept })
      yield* Console.log(`MLflow has ${metrics.length} curves with ${sent?.values} values after two exports: the same`)
    },
    Effect.scoped
  )
}
