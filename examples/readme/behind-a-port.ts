import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Console, Effect, Redacted } from "effect"

const program = Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve({ directory: "./tinker-data", port: 8080 })
  yield* Console.log(`TINKER_BASE_URL=${baseUrl} TINKER_API_KEY=${Redacted.value(apiKey)}`)
  return yield* Effect.never
})

Effect.runFork(Effect.scoped(program))
