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
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "scenarios"

const differs = (...differences: ReadonlyArray<string>) => new Differs({ suite: name, differences })

/** Our waits overlap; more at once would blur the delays. */
const concurrency = 8

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
  readonly name: string
  readonly requests: number
  readonly differences: ReadonlyArray<string>
  readonly intended: ReadonlyArray<Intended.Intended>
}

const print = (rows: ReadonlyArray<Row>) =>
  Effect.gen(function*() {
    const width = Math.max(...rows.map((row) => row.name.length))
    for (const row of rows) {
      const verdict = row.differences.length > 0
        ? `${row.differences.length} DIFFERENT`
        : row.intended.length > 0
        ? `intended: ${row.intended.length}`
        : "equal"
      yield* Console.log(`${row.name.padEnd(width)}  ${String(row.requests).padStart(4)} requests  ${verdict}`)
    }
  })

const run = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
  const chosen = all.filter((one) => args.length === 0 || args.some((word) => one.name.includes(word)))
  if (chosen.length === 0) return yield* differs(`no scenario has ${args.join(" or ")} in its name`)
  const python = yield* Python.make
  const recorder = yield* Effect.mapError(Recorder.make, (error) => differs(`the server does not start: ${error}`))
  const [places, token, path] = [yield* homes, yield* issued(recorder), yield* Path.Path]
  const prepare = (side: Recorder.Side) =>
    Effect.forEach(
      chosen,
      (one) => Effect.map(recorder.open(side, one), (baseUrl) => Drive.prepare(one, baseUrl, places, token, path))
    )

  const [theirTime, theirs] = yield* Effect.timed(Drive.theirs(python, yield* prepare("theirs")))
  const [ourTime, ours] = yield* Effect.forEach(yield* prepare("ours"), Drive.ours, { concurrency }).pipe(
    Logger.withMinimumLogLevel(LogLevel.None),
    Effect.timed
  )

  const used = new Set<Intended.Intended>()
  const rows = chosen.map((one, index): Row => {
    const [left, right] = [recorder.seen("theirs", one), recorder.seen("ours", one)]
    const [them, us] = [theirs.ended.get(one.name), ours[index]]
    const found: ReadonlyArray<Compare.Difference> = [
      ...(them?.outcome === us?.outcome
        ? []
        : [{ at: "outcome", theirs: `${them?.outcome} (${them?.reason})`, ours: `${us?.outcome} (${us?.reason})` }]),
      ...Compare.compare(Normal.steps(left, one), Normal.steps(right, one))
    ]
    const explained = found.map((difference) => Intended.find(one.name, difference))
    const intended = new Set(explained.filter((entry) => entry !== undefined))
    for (const entry of intended) used.add(entry)
    return {
      name: one.name,
      requests: left.length,
      differences: found.filter((_, i) => explained[i] === undefined).map(Compare.format),
      intended: Array.from(intended)
    }
  })
  yield* print(rows)

  const differences = rows.flatMap((row) => row.differences.map((text) => `${row.name}: ${text}`))
  if (args.length === 0) {
    const names = new Set(all.map((one) => one.name))
    differences.push(
      ...theirs.known.filter((known) => !names.has(known)).map((known) => `${known}: has no twin here`),
      ...Intended.table.filter((entry) => !used.has(entry)).map((entry) =>
        `intended: ${entry.scenario} ${entry.difference} no longer occurs`
      )
    )
  }
  yield* Console.log(JSON.stringify({
    suite: name,
    sdk: python.sdk,
    scenarios: rows.length,
    requests: rows.reduce((sum, row) => sum + row.requests, 0),
    equal: rows.filter((row) => row.differences.length === 0 && row.intended.length === 0).length,
    intended: rows.filter((row) => row.differences.length === 0 && row.intended.length > 0).length,
    different: rows.filter((row) => row.differences.length > 0).length,
    seconds: { theirs: Math.round(Duration.toSeconds(theirTime)), ours: Math.round(Duration.toSeconds(ourTime)) }
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
