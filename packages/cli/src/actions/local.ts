/**
 * @since 0.1.0
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import * as TinkerLocal from "@effect-tinker/local/TinkerLocal"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { availableParallelism } from "node:os"
import { CliFailure } from "../CliFailure.js"
import * as localBackend from "../internal/localBackend.js"
import { Output } from "../Output.js"

/** @internal */
export const local = Effect.fnUntraced(function*(options: {
  readonly port: number
  readonly host: string
  readonly directory: Option.Option<string>
  readonly models: ReadonlyArray<string>
  readonly threads: Option.Option<number>
  readonly memory: boolean
}) {
  const output = yield* Output
  const directory = options.memory
    ? undefined
    : Option.isSome(options.directory)
    ? options.directory.value
    : yield* localBackend.directory
  const running = yield* NodeTinkerLocal.serve({
    port: options.port,
    host: options.host,
    directory,
    threads: Option.getOrElse(options.threads, availableParallelism),
    modelDirectories: options.models
  }).pipe(
    Effect.catchTag("ModelUnavailable", (cause) =>
      new CliFailure({
        what: `The model cannot be served: ${cause.message}`,
        advice: "--model takes a directory with config.json, tokenizer.json and safetensors.",
        cause
      })),
    Effect.catchTag("ServeError", (cause) =>
      new CliFailure({
        what: `Port ${options.port} of ${options.host} cannot be opened`,
        advice: "Another program may hold it: choose another with --port, or 0 for any free one.",
        cause
      }))
  )
  const apiKey = Redacted.value(TinkerLocal.apiKey)
  yield* output.printRecord({
    json: { base_url: running.baseUrl, api_key: apiKey, directory: directory ?? null },
    properties: [
      ["Base URL", running.baseUrl],
      ["API Key", apiKey],
      ["Data", directory ?? "in memory"]
    ]
  })
  yield* output.note(`export TINKER_BASE_URL=${running.baseUrl} TINKER_API_KEY=${apiKey}`)
  yield* output.note("Ctrl-C ends it")
  return yield* Effect.never
}, Effect.scoped)
