/**
 * A pipelined training loop: step n + 1 is on its way before the result of step n is awaited.
 *
 * Configured by the environment: TINKER_API_KEY, TINKER_BASE_URL (the hosted service, or a server of your own), and
 * BASE_MODEL.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Config, Console, Effect, Layer, Stream } from "effect"
import { Datum, QueueState, ServiceClient, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

const steps = 20

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.TrainingClient
  const batch = yield* Effect.all([
    Datum.fromTokens([3, 1, 4, 1, 5, 9, 2, 6]),
    Datum.fromTokens([2, 7, 1, 8, 2, 8, 1, 8])
  ])

  let pending = yield* training.trainStep(batch, "cross_entropy", { learningRate: 5e-4 })
  // Why we wait, if we wait: early, and without asking for it in the loop.
  yield* Effect.forkScoped(Stream.runForEach(pending.events, (event) => Console.log(QueueState.describe(event))))
  for (let step = 1; step <= steps; step++) {
    const next = yield* training.trainStep(batch, "cross_entropy", { learningRate: 5e-4 })
    const { pass } = yield* pending
    yield* Console.log(`step ${step}: loss ${pass.metrics["loss:sum"]}`)
    pending = next
  }
  yield* pending
  const saved = yield* yield* training.saveState("final", { overwrite: true })
  yield* Console.log(`saved ${saved.path}`)
})

const Training = Layer.unwrapEffect(
  Effect.map(
    Config.withDefault(Config.string("BASE_MODEL"), "local/tiny"),
    (baseModel) => TrainingClient.layerLora({ baseModel, rank: 8 })
  )
)

const Live = Training.pipe(Layer.provide(ServiceClient.layerEnv()), Layer.provide(NodeTinker.layer))

NodeRuntime.runMain(Effect.scoped(program).pipe(Effect.provide(Live)))
