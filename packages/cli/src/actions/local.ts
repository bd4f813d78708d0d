/**
 * @since 0.1.0
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { CliFailure } from "../CliFailure.js"
import { Connection } from "../Connection.js"
import { readSecret } from "../internal/live.js"
import * as localBackend from "../internal/localBackend.js"
import { Output } from "../Output.js"

/** Lines such as `tml-KEY ada@example.org`; without an e-mail all keys belong to one user. */
const parseKeys = (text: string) => {
  const keys = text.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"))
  return keys.length > 0 && keys.every((line) => /^tml-\S+( \S+@\S+)?$/.test(line))
    ? Effect.succeed(keys.map((line) => {
      const [key = "", email] = line.split(" ")
      return { key: Redacted.make(key), email }
    }))
    : new CliFailure({
      what: "The keys for the server cannot be read",
      advice: "Write one key per line, which starts with `tml-` and may be followed by a space and an e-mail address."
    })
}

/** @internal */
export const local = Effect.fnUntraced(function*(options: {
  readonly port: number
  readonly host: string
  readonly directory: Option.Option<string>
  readonly memory: boolean
  readonly jwt: boolean
  readonly allowHost: ReadonlyArray<string>
  readonly allowOrigin: Option.Option<string>
  readonly open: boolean
}) {
  const output = yield* Output
  const connection = yield* Connection
  const directory = options.memory
    ? undefined
    : Option.isSome(options.directory)
    ? options.directory.value
    : yield* localBackend.directory
  const apiKeys = Option.isNone(connection.apiKey)
    ? undefined
    : yield* Effect.flatMap(readSecret("--api-key", connection.apiKey.value), parseKeys)
  const running = yield* NodeTinkerLocal.serve({
    port: options.port,
    host: options.host,
    directory,
    apiKeys,
    open: options.open,
    allowHosts: options.allowHost,
    allowOrigin: Option.getOrUndefined(options.allowOrigin),
    clientConfig: options.jwt ? { pjwtAuthEnabled: true } : undefined
  }).pipe(
    Effect.catchTags({
      ServeError: (cause) =>
        new CliFailure({
          what: `Port ${options.port} of ${options.host} cannot be opened`,
          advice: "Another program may hold it: choose another with --port, or 0 for any free one.",
          cause
        }),
      StorageFailed: (cause) =>
        new CliFailure({
          what: `The data directory ${directory} cannot be used: ${cause.message}`,
          advice: "Choose another with --dir, or keep nothing with --memory.",
          cause
        })
    })
  )
  const apiKey = Redacted.value(running.apiKey)
  yield* output.printRecord({
    json: { base_url: running.baseUrl, api_key: apiKey, directory: directory ?? null },
    properties: [
      ["Base URL", running.baseUrl],
      ["API Key", apiKey],
      ["Data", directory ?? "in memory"]
    ]
  })
  yield* output.note(`export TINKER_BASE_URL=${running.baseUrl} TINKER_API_KEY=${apiKey}`)
  if (options.open) {
    yield* output.note("Warning: with --open whoever reaches this port, web pages included, can do everything")
  }
  yield* output.note("Ctrl-C ends it")
  return yield* Effect.never
}, Effect.scoped)
