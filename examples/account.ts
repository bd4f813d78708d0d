/**
 * Which key do I use, what may I train, what have I trained: the questions to ask a service first.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Stream } from "effect"
import { RestClient } from "effect-tinker"
import { Backend } from "./shared/backend.js"

const program = Effect.gen(function*() {
  const rest = yield* RestClient.RestClient
  // A self-hosted server may offer less than the service: what it does not is a typed failure.
  const key = yield* rest.getApiKey.pipe(
    Effect.map(({ name }) => `using the key "${name}"`),
    Effect.catchTag("Unsupported", () => Effect.succeed("keys are not managed here"))
  )
  yield* Console.log(key)

  const { supportedModels } = yield* rest.getServerCapabilities
  for (const { maxContextLength, modelName } of supportedModels) {
    yield* Console.log(`${modelName}${maxContextLength === undefined ? "" : `, up to ${maxContextLength} tokens`}`)
  }

  const newest = yield* Stream.runHead(rest.streamTrainingRuns({ pageSize: 1 }))
  yield* Console.log(
    newest._tag === "Some" ? `the newest run trains ${newest.value.baseModel}` : "no training runs yet"
  )
})

NodeRuntime.runMain(program.pipe(Effect.provide(Backend)))
