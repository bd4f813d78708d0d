/**
 * `--scenarios`: what users do, done through both SDKs against one recording server, and compared request by request.
 * A word after the flag chooses the scenarios whose names contain it.
 */
import { FileSystem, Path } from "@effect/platform"
import { Console, Duration, Effect, Logger, LogLevel } from "effect"
import * as Python from "../Python.js"
import { scenarios as all } from "../scenarios/all.js"
import { scenario } from "../scenarios/common.js"
import * as Compare from "../scenarios/Compare.js"
import * as Drive from "../scenarios/Drive.js"
import * as Intended from "../scenarios/Intended.js"
import * as Normal from "../scenarios/Normal.js"
import * as Recorder from "../scenarios/Recorder.js"
import type { Scenario } from "../scenarios/Scenario.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "scenarios"

const differs = (...differences: ReadonlyArray<string>) => new Differs({ suite: name, differences })

/** Our waits overlap; more at once would blur the delays. */
const concurrency = 8

/** How often a scenario is heard again. */
const repeats = 3

const homes = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const empty = yield* fs.makeTempDirectoryScoped()
  const stored = yield* fs.makeTempDirectoryScoped()
  yield* fs.makeDirectory(path.join(stored, ".tinker"), { mode: 0o700 })
  yield* fs.writeFileString(
    path.join(stored, ".tinker", "credentials.json"),
    JSON.stringify({ version: 1, default: "1", keys: { 1: { type: "manual", key: "tml-stored", name: "parity" } } }),
    { mode: 0o600 }
  )
  return { empty, stored }
})

/** A token any of the backends takes. */
const issued = (recorder: Recorder.Recorder) =>
  Effect.gen(function*() {
    const at = yield* recorder.open("ours", scenario("token", Effect.void))
    const answer = yield* Effect.promise(() =>
      fetch(`${at}/api/v1/auth/token`, { method: "POST", headers: { "x-api-key": "tml-parity" }, body: "{}" })
        .then((response) => response.json())
    )
    return String(Object(answer).jwt)
  })

interface Row {
  readonly scenario: Scenario
  readonly requests: number
  /** What nothing explains. */
  readonly differences: ReadonlyArray<Compare.Difference>
  readonly intended: ReadonlyArray<Intended.Intended>
}

const verdict = ({ differences, intended }: Row): string =>
  differences.length > 0
    ? `${differences.length} DIFFERENT`
    : intended.length > 0
    ? `equal but for ${intended.length} intended`
    : "equal"

const compared = (scenario: Scenario, recorder: Recorder.Recorder, theirs: Drive.Ended, ours: Drive.Ended): Row => {
  const [left, right] = [recorder.seen("theirs", scenario), recorder.seen("ours", scenario)]
  const text = ({ outcome, reason }: Drive.Ended) => reason === undefined ? outcome : `${outcome} (${reason})`
  const found = [
    ...(theirs.outcome === ours.outcome ? [] : [{ at: "outcome", theirs: text(theirs), ours: text(ours) }]),
    ...Compare.compare(Normal.steps(left, scenario), Normal.steps(right, scenario))
  ].map((difference) => ({ difference, entry: Intended.find(scenario.name, difference) }))
  return {
    scenario,
    requests: left.length,
    differences: found.flatMap(({ difference, entry }) => entry === undefined ? [difference] : []),
    intended: Array.from(new Set(found.flatMap(({ entry }) => entry === undefined ? [] : [entry])))
  }
}

const missing: Drive.Ended = { outcome: "not run" }

/** A busy machine answers late, and nothing else: whoever differs in delays alone is heard again, in small company. */
const blurred = ({ differences }: Row): boolean =>
  differences.length > 0 && differences.every(({ at }) => at.endsWith(".delay"))

const run = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
  // Numbers are for other suites.
  const words = args.filter((word) => Number.isNaN(Number(word)))
  const chosen = all.filter((one) => words.length === 0 || words.some((word) => one.name.includes(word)))
  if (chosen.length === 0) return yield* differs(`no scenario has ${words.join(" or ")} in its name`)
  const python = yield* Python.make
  const recorder = yield* Effect.mapError(Recorder.make, (error) => differs(`the server does not start: ${error}`))
  const [places, token, path] = [yield* homes, yield* issued(recorder), yield* Path.Path]

  const round = Effect.fnUntraced(function*(chosen: ReadonlyArray<Scenario>, concurrency: number) {
    const prepare = (side: Recorder.Side) =>
      Effect.forEach(
        chosen,
        (one) => Effect.map(recorder.open(side, one), (baseUrl) => Drive.prepare(one, baseUrl, places, token, path))
      )
    const theirs = yield* Drive.theirs(python, yield* prepare("theirs"), concurrency)
    const ours = yield* Effect.forEach(yield* prepare("ours"), Drive.ours, { concurrency }).pipe(
      Logger.withMinimumLogLevel(LogLevel.None)
    )
    const rows = chosen.map((one, index) =>
      compared(one, recorder, theirs.ended.get(one.name) ?? missing, ours[index] ?? missing)
    )
    return { known: theirs.known, rows }
  })

  const [time, { known, rows }] = yield* Effect.timed(Effect.gen(function*() {
    const first = yield* round(chosen, concurrency)
    const rows = new Map(first.rows.map((row) => [row.scenario, row]))
    for (let n = 0; n < repeats; n++) {
      const unclear = Array.from(rows.values()).filter(blurred)
      if (unclear.length === 0) break
      const again = yield* round(unclear.map(({ scenario }) => scenario), 2)
      for (const row of again.rows) rows.set(row.scenario, row)
    }
    return { known: first.known, rows: Array.from(rows.values()) }
  }))

  const width = Math.max(...rows.map((row) => row.scenario.name.length))
  for (const row of rows) {
    yield* Console.log(
      `${row.scenario.name.padEnd(width)}  ${String(row.requests).padStart(3)} requests  ${verdict(row)}`
    )
  }
  for (const entry of Intended.table) {
    const explained = rows.filter(({ intended }) => intended.includes(entry)).length
    if (explained > 0) yield* Console.log(`intended in ${explained}: ${entry.difference.source}\n  ${entry.why}`)
  }
  const differences = rows.flatMap(({ differences, scenario }) =>
    differences.map((difference) => `${scenario.name}: ${Compare.format(difference)}`)
  )
  if (words.length === 0) {
    const names = new Set(all.map((one) => one.name))
    const used = new Set(rows.flatMap((row) => row.intended))
    differences.push(
      ...known.filter((name) => !names.has(name)).map((name) => `${name}: has no twin here`),
      ...Intended.table.filter((entry) => entry.optional !== true && !used.has(entry)).map((entry) =>
        `intended: ${entry.difference} in ${entry.scenario} no longer occurs`
      )
    )
  }
  const count = (wanted: (row: Row) => boolean) => rows.filter(wanted).length
  yield* Console.log(JSON.stringify({
    suite: name,
    sdk: python.sdk,
    scenarios: rows.length,
    requests: rows.reduce((sum, row) => sum + row.requests, 0),
    equal: count((row) => row.differences.length + row.intended.length === 0),
    intended: count((row) => row.differences.length === 0 && row.intended.length > 0),
    different: count((row) => row.differences.length > 0),
    seconds: Math.round(Duration.toSeconds(time))
  }))
  if (differences.length > 0) return yield* differs(...differences)
})

export const scenarios: Suite = {
  name,
  summary: "what users do, through both SDKs against one recording server, compared request by request",
  run: (args) =>
    run(args).pipe(
      Effect.scoped,
      Effect.catchTags({
        BadArgument: (error) => differs(error.message),
        SystemError: (error) => differs(error.message)
      })
    )
}
