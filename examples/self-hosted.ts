/**
 * A server of one's own, by its URL: here the embedded backend behind a port, as it could be a SkyRL server on a
 * cluster.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeRuntime } from "@effect/platform-node"
import { Config, Console, Effect, Layer } from "effect"
import { Datum, ServiceClient, TinkerFuture, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

/** The server: yours, or one that is started for this program. */
const server = Effect.gen(function*() {
  const baseUrl = yield* Config.withDefault(Config.string("TINKER_BASE_URL"), "")
  if (baseUrl === "") return yield* NodeTinkerLocal.serve()
  return { baseUrl, apiKey: yield* Config.redacted("TINKER_API_KEY") }
})

const train = Effect.gen(function*() {
  const service = yield* ServiceClient.ServiceClient
  const { supportedModels } = yield* service.serverCapabilities
  const names = supportedModels.flatMap(({ modelName }) => modelName ?? [])
  yield* Console.log(`it offers ${names.join(", ")}`)

  const training = yield* TrainingClient.makeLora({ baseModel: names[0] ?? "", rank: 8, seed: 1 })
  const batch = [yield* Datum.fromTokens([3, 1, 4, 1, 5, 9])]
  const { pass } = yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 }).pipe(TinkerFuture.await)
  yield* Console.log(`one step over HTTP: loss ${pass.metrics["loss:sum"]?.toFixed(2)}`)
}).pipe(Effect.scoped)

const program = Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* server
  const Service = ServiceClient.layer({
    baseUrl,
    apiKey,
    allowInsecure: false // true for plain http within a network you trust; localhost needs no permission
  }).pipe(Layer.provide(NodeTinker.layerFromEnv()))
  yield* Effect.provide(train, Service)
}).pipe(Effect.scoped)

NodeRuntime.runMain(program)
