import { Effect, Layer } from "effect"
import { type Datum, ServiceClient, TinkerFuture, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

const train = (batches: ReadonlyArray<ReadonlyArray<Datum.Datum>>) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.TrainingClient
    for (const batch of batches) {
      const pass = yield* training.forwardBackward(batch, "cross_entropy") // accepted, in order
      const step = yield* training.optimStep({ learningRate: 1e-4 }) // already queued behind it
      const { metrics } = yield* pass // wait only where a result is needed
      yield* Effect.log(`loss ${metrics["loss:sum"]}`)
      yield* step
    }
    return yield* training.saveState("final").pipe(TinkerFuture.await)
  })

const Live = TrainingClient.layerLora({ baseModel: "Qwen/Qwen3-8B", rank: 32 }).pipe(
  Layer.provide(ServiceClient.layerFromEnv()), // TINKER_API_KEY, TINKER_BASE_URL
  Layer.provide(NodeTinker.layerFromEnv())
)

export const program = (batches: ReadonlyArray<ReadonlyArray<Datum.Datum>>) => train(batches).pipe(Effect.provide(Live))
