/**
 * Runs of `RunLog`: a journal, rollouts, and the command that started it.
 */
import * as RunEntry from "@effect-tinker/cookbook/RunEntry"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Rollouts from "../../Rollouts.js"
import * as Json from "../json.js"
import { withCost } from "./figures.js"
import type { Format, Reader } from "./format.js"
import { readJson } from "./readJson.js"
import { modelOf, nothing, tell } from "./state.js"

const decodeEntry = Schema.decodeUnknownEither(RunEntry.RunEntry)

/** A word as a shell takes it. */
const quoted = (word: string): string => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`

/** The command line that `tinker train` leaves in the directory of its run. */
const readCommand = (path: string) =>
  Effect.map(readJson(path), (found) => {
    const { cwd, words } = Json.objectOf(found)
    const line = Json.arrayOf(words).flatMap((word) => typeof word === "string" ? [quoted(word)] : [])
    if (line.length === 0) return null
    return `${typeof cwd === "string" ? `cd ${quoted(cwd)} && ` : ""}tinker ${line.join(" ")}`
  })

const applyEntry = ({ price, state, table }: Reader, line: unknown): void => {
  const raw = Json.objectOf(line)
  const time = Json.numberOf(raw["time"])
  tell(state, time)
  // Nearly all lines are steps: they are read without a Schema, which would take most of the time of a large journal.
  if (raw["_tag"] === "Step") {
    const step = Json.numberOf(raw["step"])
    if (step === undefined) state.unreadable++
    else {
      const timings = Json.numbersOf(raw["timings"]).map(([name, value]) => [`time/${name}`, value / 1000] as const)
      table.record(step, time, withCost([...Json.numbersOf(raw["metrics"]), ...timings], price))
    }
    return
  }
  const decoded = decodeEntry(line)
  if (Either.isLeft(decoded)) {
    state.unreadable++
    return
  }
  const entry = decoded.right
  switch (entry._tag) {
    case "Started":
    case "Resumed": {
      state.config = entry.config
      state.model = modelOf(entry.config)
      state.totalSteps = Json.numberOf(Json.objectOf(entry.config)["steps"]) ?? state.totalSteps
      state.ended = undefined
      if (entry._tag === "Started") state.trainer = entry.trainer
      else {
        state.resumes++
        table.truncate(entry.step)
        state.checkpoints = state.checkpoints.filter(({ step }) => step <= entry.step)
        state.notes = state.notes.filter(({ step }) => step < entry.step)
      }
      return
    }
    case "Checkpoint": {
      const { expiresAt, kind, name, samplerPath, statePath, step } = entry
      state.checkpoints = [
        ...state.checkpoints.filter((other) => other.name !== name),
        {
          name,
          kind,
          step,
          statePath,
          samplerPath: samplerPath ?? null,
          expiresAt: expiresAt ?? null,
          time: entry.time
        }
      ]
      return
    }
    case "Evaluation":
      table.record(
        entry.step,
        undefined,
        Object.entries(entry.metrics).map(([name, value]) => [`eval/${entry.name}/${name}`, value] as const)
      )
      return
    case "Note":
      state.notes.push({ step: entry.step, level: entry.level, message: entry.message, time: entry.time })
      return
    case "Ended": {
      const status = entry.complete ? "complete" : entry.outcome === "failure" ? "failed" : "interrupted"
      state.ended = { status, message: entry.message ?? null }
      return
    }
  }
}

/** @internal */
export const journal: Format = {
  name: "journal",
  firstStep: 1,
  follow: (reader) => [{
    file: "journal.jsonl",
    restarted: () => {
      const { config, model } = reader.state
      reader.table.clear()
      Object.assign(reader.state, nothing(), { config, model })
    },
    apply: (line) => applyEntry(reader, line)
  }],
  beside: ({ join, path, state }, changed) =>
    changed
      ? Effect.map(readCommand(join(path, "command.json")), (command) => {
        state.command = command
      })
      : Effect.void,
  isGone: ({ path, state }) =>
    state.ended === undefined
      ? Effect.map(RunLog.writer(path), Option.exists(({ isRunning }) => !isRunning))
      : Effect.succeed(false),
  isComplete: () => false,
  rollouts: ({ join, path, state }) =>
    Rollouts.journal(join(path, "rollouts.jsonl"), () => ({ config: state.config, model: state.model }))
}
