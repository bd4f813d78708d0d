/**
 * `tinker local`: the embedded backend behind a port of this machine.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { CliFailure } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"

const local = Effect.fnUntraced(function*(options: {
  readonly port: number
  readonly host: string
  readonly directory: Option.Option<string>
  readonly memory: boolean
}) {
  const output = yield* Output
  const backend = yield* Effect.promise(() => import("../internal/localBackend.js"))
  const directory = options.memory
    ? undefined
    : Option.isSome(options.directory)
    ? options.directory.value
    : yield* backend.directory
  const running = yield* backend.serve({ port: options.port, host: options.host, directory }).pipe(
    Effect.catchTag("ServeError", (cause) =>
      new CliFailure({
        what: `Port ${options.port} of ${options.host} cannot be opened`,
        advice: "Another program may be using it: choose another with --port, or 0 for any free one.",
        cause
      }))
  )
  const apiKey = Redacted.value(backend.apiKey)
  yield* output.printRecord({
    json: { base_url: running.baseUrl, api_key: apiKey, directory: directory ?? null },
    properties: [
      ["Base URL", running.baseUrl],
      ["API Key", apiKey],
      ["Data", directory ?? "in memory"]
    ]
  })
  yield* output.note(`export TINKER_BASE_URL=${running.baseUrl} TINKER_API_KEY=${apiKey}`)
  yield* output.note("Ctrl-C stops it")
  return yield* Effect.never
}, Effect.scoped)

/** @internal */
export const command = Command.make("local", {
  port: Options.integer("port").pipe(
    Options.withDefault(8765),
    Options.withDescription("Port to listen on; 0 for any free one. Default: 8765.")
  ),
  host: Options.text("host").pipe(
    Options.withDefault("127.0.0.1"),
    Options.withDescription("Address to listen on. Default: 127.0.0.1, which other machines cannot reach.")
  ),
  directory: Options.text("dir").pipe(
    Options.withDescription("Where to keep checkpoints and records. Default: TINKER_LOCAL_DIR, then ~/.tinker/local."),
    Options.optional
  ),
  memory: Options.boolean("memory").pipe(Options.withDescription("Keep everything in memory."))
}, local).pipe(
  Command.withDescription("Start the embedded backend: training and sampling of small models on this machine.")
)
