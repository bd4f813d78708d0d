/**
 * The embedded backend in its own process. A line on standard input is answered with its address and key.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Effect, Logger, Redacted } from "effect"
import { createInterface } from "node:readline"

const program = Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve()
  createInterface(process.stdin).on("line", () => process.stdout.write(`${baseUrl} ${Redacted.value(apiKey)}\n`))
  return yield* Effect.never
})

Effect.runFork(program.pipe(Effect.scoped, Effect.provide(Logger.remove(Logger.defaultLogger))))
