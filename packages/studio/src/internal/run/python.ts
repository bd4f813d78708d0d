/**
 * Log directories of the Python cookbook, and of `MetricsLog`: metrics, checkpoints and a configuration.
 */
import * as Effect from "effect/Effect"
import * as Rollouts from "../../Rollouts.js"
import * as Json from "../json.js"
import { withCost } from "./figures.js"
import type { Format, Reader } from "./format.js"
import { readJson } from "./readJson.js"
import type { State } from "./state.js"
import { modelOf, nothing, tell } from "./state.js"

const notMetrics = new Set(["step", "time", "total_steps", "event"])

const applyMetrics = ({ price, state, table }: Reader, line: unknown): void => {
  if (!Json.isObject(line)) {
    state.unreadable++
    return
  }
  const seconds = Json.numberOf(line["time"])
  // Some count seconds, which as milliseconds would be in the early seventies.
  const time = seconds !== undefined && seconds >= 1e8 && seconds < 1e11 ? seconds * 1000 : seconds
  tell(state, time)
  if (line["event"] === "end") {
    const outcome = Json.textOf(line["outcome"])
    state.ended = {
      status: outcome === "failure" ? "failed" : outcome === "interrupted" ? "interrupted" : "complete",
      message: null
    }
    return
  }
  if (line["event"] !== undefined) return
  state.ended = undefined
  state.totalSteps = Json.numberOf(line["total_steps"]) ?? state.totalSteps
  const step = Json.numberOf(line["step"]) ?? Json.numberOf(line["progress/batch"]) ?? (table.lastStep() ?? -1) + 1
  const before = table.lastStep()
  table.record(step, time, withCost(Json.numbersOf(line).filter(([name]) => !notMetrics.has(name)), price))
  if (before !== undefined && (table.lastStep() ?? 0) < before) state.resumes++
  const done = Json.numberOf(line["progress/done_frac"]) ?? Json.numberOf(line["progress"])
  if (done !== undefined && done > 0 && done <= 1) state.totalSteps = Math.round((step + 1) / done)
}

const applyCheckpoint = (state: State, line: unknown): void => {
  const raw = Json.objectOf(line)
  const name = Json.textOf(raw["name"])
  if (name === undefined) {
    state.unreadable++
    return
  }
  const step = Json.numberOf(raw["batch"]) ?? Json.numberOf(raw["step"]) ?? Number(/\d+$/.exec(name)?.[0] ?? 0)
  state.checkpoints = [...state.checkpoints.filter((other) => other.name !== name), {
    name,
    kind: raw["final"] === true || name === "final" ? "final" : raw["rolling"] === true ? "rolling" : "periodic",
    step,
    statePath: Json.textOf(raw["state_path"]) ?? null,
    samplerPath: Json.textOf(raw["sampler_path"]) ?? null,
    expiresAt: null,
    time: null
  }]
}

/** @internal */
export const python: Format = {
  name: "python",
  firstStep: 0,
  follow: (reader) => [{
    file: "metrics.jsonl",
    restarted: () => {
      const { config, model } = reader.state
      reader.table.clear()
      Object.assign(reader.state, nothing(), { config, model })
    },
    apply: (line) => applyMetrics(reader, line)
  }, {
    file: "checkpoints.jsonl",
    restarted: () => {
      reader.state.checkpoints = []
    },
    apply: (line) => applyCheckpoint(reader.state, line)
  }],
  beside: Effect.fnUntraced(function*({ join, path, state }, changed) {
    if (state.config !== undefined && !changed) return
    const config = yield* readJson(join(path, "config.json"))
    if (config === undefined) return
    state.config = config
    state.model = modelOf(config)
    state.trainer = Json.textOf(Json.objectOf(config)["recipe_name"]) ?? "python cookbook"
  }),
  isGone: () => Effect.succeed(false),
  // No end is recorded.
  isComplete: ({ state, table }) => {
    const step = table.lastStep()
    const isLast = state.totalSteps !== null && step !== undefined && step + 1 >= state.totalSteps
    return isLast || state.checkpoints.some(({ kind }) => kind === "final")
  },
  rollouts: ({ path }) => Rollouts.python(path)
}
