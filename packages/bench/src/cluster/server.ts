/**
 * The embedded backend in its own process. A line on standard input is answered with the server's address and key.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Effect, Logger, Redacted } from "effect"
import { createInterface } from "node:readline"

const apiKey = Redacted.make("tml-bench")

const program = Effect.gen(function*() {
  const { baseUrl } = yield* NodeTinkerLocal.LocalServerAddress
  createInterface(process.stdin).on("line", () => process.stdout.write(`${baseUrl} ${Redacted.value(apiKey)}\n`))
  return yield* Effect.never
})

Effect.runFork(program.pipe(
  Effect.provide(NodeTinkerLocal.layerServer({ port: 0, apiKeys: [{ key: apiKey }] })),
  Effect.provide(Logger.remove(Logger.defaultLogger))
))
