/**
 * `--telemetry`: what the official SDK and ours report to the service about the same session, field by field.
 */
import { Console, Effect } from "effect"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs, PythonFailed } from "../Suite.js"
import { compareObjects, eventsOf, nameOf } from "../telemetry/compare.js"
import * as Deliberate from "../telemetry/deliberate.js"
import * as Ours from "../telemetry/ours.js"
import * as Server from "../telemetry/server.js"

const name = "telemetry"

type Json = Readonly<Record<string, unknown>>

/** What one side reported, by a server of its own. */
const reportsOf = <E, R>(run: (baseUrl: string) => Effect.Effect<unknown, E, R>) =>
  Effect.scoped(Effect.gen(function*() {
    const { baseUrl, reports } = yield* Server.start
    yield* run(baseUrl)
    return reports
  }))

/** Events one side may send where the other does not are compared apart. */
const inOrder = (reports: ReadonlyArray<Json>) =>
  eventsOf(reports).filter((event) => !(nameOf(event) in Deliberate.events))

const secrets = ["tml-parity", "x-api-key", "authorization"]

export const telemetry: Suite = {
  name,
  summary: "what both SDKs report to the service about the same failing session, field by field",
  run: () =>
    Effect.gen(function*() {
      const python = yield* Python.make
      const differences: Array<string> = []
      const deliberate = new Map<string, string>()
      let fields = 0
      const compare = (label: string, theirs: Json | undefined, ours: Json | undefined) => {
        if (theirs === undefined || ours === undefined) {
          differences.push(`${label}: only ${theirs === undefined ? "we send" : "the official SDK sends"} it`)
          return
        }
        const found = compareObjects(label, theirs, ours)
        differences.push(...found.differences)
        for (const [field, reason] of found.deliberate) deliberate.set(field, reason)
        fields += found.fields
      }
      for (const part of ["session", "rest"] as const) {
        const arguments_ = part === "rest" ? ["rest"] : []
        const theirs = yield* reportsOf((baseUrl) =>
          Effect.flatMap(
            python.runIn({ TINKER_TELEMETRY: "1" }, "telemetry", baseUrl, ...arguments_),
            (output) => Console.log(`official: ${output.trim().split("\n").join(", ")}`)
          )
        )
        const ours = yield* reportsOf((baseUrl) => Ours[part](baseUrl))
        compare(`payload of a ${part}`, theirs[0], ours[0])
        const [left, right] = [inOrder(theirs), inOrder(ours)]
        for (let i = 0; i < Math.max(left.length, right.length); i++) {
          const [a, b] = [left[i], right[i]]
          if (a !== undefined && b !== undefined && nameOf(a) !== nameOf(b)) {
            differences.push(`event ${i}: ${nameOf(a)} there, ${nameOf(b)} here`)
          } else compare(nameOf(a ?? b ?? {}), a, b)
        }
        const ends = (reports: ReadonlyArray<Json>) =>
          eventsOf(reports).filter((event) => nameOf(event) === "SESSION_END")
        if (part === "session") {
          compare("SESSION_END", ends(theirs)[0], ends(ours)[0])
          deliberate.set(
            `SESSION_END ${ends(theirs).length}× there, ${ends(ours).length}× here`,
            Deliberate.events["SESSION_END"] ?? ""
          )
          if (ends(ours).length !== 1) differences.push(`SESSION_END: ${ends(ours).length} here`)
        }
        const said = JSON.stringify(ours).toLowerCase()
        for (const secret of secrets) if (said.includes(secret)) differences.push(`payload: it holds ${secret}`)
        const leaked = secrets.filter((secret) => JSON.stringify(theirs).toLowerCase().includes(secret))
        yield* Console.log(
          `${part}: ${left.length} events, ${theirs.length} requests there and ${ours.length} here` +
            (leaked.length === 0 ? "" : `; the official reports hold ${leaked.join(", ")}, ours do not`)
        )
      }
      yield* Console.log(`${fields} fields compared; on purpose:`)
      for (const [field, reason] of deliberate) yield* Console.log(`  ${field}: ${reason}`)
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
    }).pipe(
      Effect.catchAll((error) =>
        error._tag === "Differs" || error._tag === "PythonFailed" || error._tag === "PythonMissing"
          ? Effect.fail(error)
          : new PythonFailed({ program: "our side", reason: error.message })
      )
    )
}
