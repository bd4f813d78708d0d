/**
 * `--cli`: the official command line and ours ask the same server the same questions, and get the same data.
 */
import { Cli } from "@effect-tinker/cli"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeContext } from "@effect/platform-node"
import { ConfigProvider, Console, Effect, Redacted, Schema } from "effect"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "cli"

const Answers = Schema.parseJson(Schema.Array(Schema.Struct({
  command: Schema.Array(Schema.String),
  code: Schema.Number,
  /** Of a signal, after its answer. */
  died: Schema.Boolean,
  data: Schema.NullOr(Schema.Unknown)
})))

/** What ours says beyond theirs: totals, and where a list goes on. */
const additions = new Set(["total", "shown", "next_offset"])

const instant = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}/

/** Null and absent mean the same, times are instants, and the order of keys means nothing. */
const normal = (value: unknown, top = true): unknown => {
  if (typeof value === "string") {
    return instant.test(value) ? Date.parse(value.replace(" ", "T").replace(/(\.\d{3})\d+/, "$1")) : value
  }
  if (Array.isArray(value)) return value.map((item) => normal(item, false))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, inner]) => inner !== null && inner !== undefined && !(top && additions.has(key)))
      .map(([key, inner]) => [key, normal(inner, false)] as const)
      .sort(([a], [b]) => a < b ? -1 : 1)
  )
}

const tinker = Effect.fnUntraced(function*(baseUrl: string, command: ReadonlyArray<string>) {
  let stdout = ""
  const code = yield* Cli.run(["node", "tinker", ...command, "--format", "json"], {
    stdin: "",
    stdout: (text) =>
      Effect.sync(() => {
        stdout += text
      }),
    stderr: () => Effect.void
  }).pipe(
    Effect.provide(NodeContext.layer),
    Effect.withConfigProvider(
      ConfigProvider.fromMap(new Map([["TINKER_BASE_URL", baseUrl], ["TINKER_API_KEY", "tml-parity"]]))
    )
  )
  const data: unknown = code === 0 && stdout !== "" ? JSON.parse(stdout) : null
  return { code, data }
})

export const cli: Suite = {
  name,
  summary: "the official command line and ours give the same data",
  run: () =>
    Effect.scoped(Effect.gen(function*() {
      const python = yield* Python.make
      const { baseUrl } = yield* NodeTinkerLocal.serve({
        apiKeys: [{ key: Redacted.make("tml-parity") }],
        clientConfig: { pjwtAuthEnabled: true }
      }).pipe(
        Effect.mapError((error) => new Differs({ suite: name, differences: [`the server does not start: ${error}`] }))
      )
      const answers = yield* python.run("command_line", baseUrl).pipe(
        Effect.flatMap(Schema.decode(Answers)),
        Effect.catchTag("ParseError", (error) =>
          new Differs({ suite: name, differences: [`their answers: ${error.message}`] }))
      )
      const differences: Array<string> = []
      let deaths = 0
      for (const { code, command, data, died } of answers) {
        if (died) {
          deaths++
        }
        const ours = yield* tinker(baseUrl, command)
        const line = command.join(" ")
        if ((ours.code === 0) !== (code === 0)) {
          differences.push(`${line}: they end with ${code}, we with ${ours.code}`)
        } else if (data !== null) {
          const [left, right] = [JSON.stringify(normal(data)), JSON.stringify(normal(ours.data))]
          if (left !== right) {
            differences.push(`${line}:\n    theirs ${left}\n    ours   ${right}`)
          }
        }
      }
      if (differences.length > 0) {
        return yield* new Differs({ suite: name, differences })
      }
      yield* Console.log(`${answers.length} commands, the same data`)
      if (deaths > 0) {
        yield* Console.log(`the official command died of a signal while it ended, ${deaths} time(s)`)
      }
      yield* Console.log(JSON.stringify({ suite: name, sdk: python.sdk, commands: answers.length, different: 0 }))
    }))
}
