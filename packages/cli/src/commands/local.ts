/**
 * `tinker local`: the embedded backend behind a port of this machine.
 *
 * @since 0.1.0
 */
import type * as LocalServer from "@effect-tinker/local/LocalServer"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { availableParallelism } from "node:os"
import { CliFailure } from "../internal/CliFailure.js"
import { Connection, readSecret } from "../internal/connection.js"
import { texts } from "../internal/options.js"
import { Output } from "../terminal/Output.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"
import { quantize } from "../training/options.js"

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

const interval = 1000

/**
 * Activity of the server, for a person who watches.
 *
 * @internal
 */
export const describeActivity = (now: LocalServer.Activity, before: LocalServer.Activity, millis: number): string => {
  const rate = Math.round((now.tokens - before.tokens) / (millis / 1000))
  return [
    text.count(now.requests, "request"),
    `${text.count(now.models, "model")} in memory`,
    ...(rate > 0 ? [`${rate.toLocaleString("en-US")} tokens/s`] : ["idle"])
  ].join(", ")
}

/** One quiet line at a terminal, which is written again when something has changed; elsewhere nothing. */
const watch = Effect.fnUntraced(function*(activity: Effect.Effect<LocalServer.Activity>) {
  const { stderr } = yield* Stdio
  if (!stderr.isTTY) return yield* Effect.never
  let before = yield* activity
  let shown = ""
  yield* Effect.addFinalizer(() => shown === "" ? Effect.void : stderr.write("\r\u001b[K"))
  const dim = (line: string) => stderr.colour ? `\u001b[2m${line}\u001b[0m` : line
  return yield* Effect.forever(Effect.gen(function*() {
    yield* Effect.sleep(interval)
    const now = yield* activity
    const line = text.truncate(describeActivity(now, before, interval), stderr.columns - 1)
    before = now
    if (line === shown) return
    shown = line
    yield* stderr.write(`\r${dim(line)}\u001b[K`)
  }))
})

const local = Effect.fnUntraced(function*(options: {
  readonly port: number
  readonly host: string
  readonly directory: Option.Option<string>
  readonly models: ReadonlyArray<string>
  readonly quantize: Option.Option<"int8">
  readonly threads: Option.Option<number>
  readonly memory: boolean
  readonly jwt: boolean
  readonly allowHost: ReadonlyArray<string>
  readonly allowOrigin: Option.Option<string>
  readonly open: boolean
}) {
  const output = yield* Output
  const connection = yield* Connection
  const backend = yield* Effect.promise(() => import("../internal/localBackend.js"))
  const directory = options.memory
    ? undefined
    : Option.isSome(options.directory)
    ? options.directory.value
    : yield* backend.directory
  const apiKeys = Option.isNone(connection.apiKey)
    ? undefined
    : yield* Effect.flatMap(readSecret("--api-key", connection.apiKey.value), parseKeys)
  const running = yield* backend.serve({
    port: options.port,
    host: options.host,
    directory,
    threads: Option.getOrElse(options.threads, () => backend.hasThreads ? availableParallelism() : undefined),
    models: options.models,
    quantize: Option.getOrUndefined(options.quantize),
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
          advice: "Another program may be using it: choose another with --port, or 0 for any free one.",
          cause
        }),
      StorageFailed: (cause) =>
        new CliFailure({
          what: `The data directory ${directory} cannot be used: ${cause.message}`,
          advice: "Choose another with --dir, or keep everything in memory with --memory.",
          cause
        }),
      ModelUnavailable: (cause) =>
        new CliFailure({
          what: `The model cannot be served: ${cause.message}`,
          advice: "--model takes a directory with config.json, tokenizer.json and safetensors.",
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
    yield* output.note("Warning: with --open, anyone who reaches this port, web pages included, can do everything")
  }
  yield* output.note("Ctrl-C stops it")
  return yield* watch(running.server.activity)
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
    Options.withDescription("Directory for checkpoints and records. Default: TINKER_LOCAL_DIR, then ~/.tinker/local."),
    Options.optional
  ),
  models: texts(
    "model",
    "Model to serve too: a name on the Hugging Face hub (org/name), a directory, a GGUF file, or ollama:NAME"
  ),
  quantize,
  threads: Options.integer("threads").pipe(
    Options.withDescription("Number of threads for training and sampling. Default: one per core."),
    Options.optional
  ),
  memory: Options.boolean("memory").pipe(Options.withDescription("Keep everything in memory.")),
  jwt: Options.boolean("jwt").pipe(
    Options.withDescription("Have clients exchange their API key for a token, as the hosted service does.")
  ),
  allowHost: texts("allow-host", "Additional host name under which clients reach the server"),
  allowOrigin: Options.text("allow-origin").pipe(
    Options.withDescription(
      "Origins of web pages that may call the server, such as https://example.org, or *. Default: none."
    ),
    Options.optional
  ),
  open: Options.boolean("open").pipe(
    Options.withDescription(
      "Accept any key, host name and web page. Anyone who can reach the port has full access."
    )
  )
}, local).pipe(
  Command.withDescription(
    "Start the embedded backend: training and sampling of small models on this machine. It accepts the key it prints, " +
      "which is kept in its directory; with --api-key @FILE the keys in that file, one per line, each with the e-mail " +
      "of its user if there are several users."
  )
)
