/**
 * The embedded backend in its own process. A line on standard input is answered with its address and key.
 */
import { LocalModel } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Effect, Logger, Redacted } from "effect"
import { createInterface } from "node:readline"
import { baseModel } from "./rollouts.js"

const nano = LocalModel.random({ name: baseModel, contextLength: 1024, width: 16, layers: 1, heads: 1, hidden: 16 })

const program = Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve({ engine: { models: [nano] } })
  createInterface(process.stdin).on("line", () => process.stdout.write(`${baseUrl} ${Redacted.value(apiKey)}\n`))
  return yield* Effect.never
})

Effect.runFork(program.pipe(Effect.scoped, Effect.provide(Logger.remove(Logger.defaultLogger))))
