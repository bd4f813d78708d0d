/**
 * The embedded backend in a process of its own, to be killed. Arguments: port, data directory, key.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Logger, LogLevel, Redacted } from "effect"

const [port = "", directory = "", apiKey = ""] = process.argv.slice(2)

const main = Effect.gen(function*() {
  yield* NodeTinkerLocal.LocalServerAddress
  process.stdout.write("listening\n")
  return yield* Effect.never
})

NodeRuntime.runMain(
  main.pipe(
    Effect.provide(
      NodeTinkerLocal.layerServer({ port: Number(port), directory, apiKeys: [{ key: Redacted.make(apiKey) }] })
    ),
    Logger.withMinimumLogLevel(LogLevel.Error)
  )
)
