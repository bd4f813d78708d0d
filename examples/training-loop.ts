/**
 * A pipelined training loop: step n + 1 is on its way before the result of step n is awaited.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Stream } from "effect"
import { Datum, QueueState, TinkerFuture, TrainingClient } from "effect-tinker"

const steps = 20

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/small", rank: 8, seed: 1 })
  const batch = yield* Effect.all([
    Datum.fromTokens([3, 1, 4, 1, 5, 9, 2, 6]),
    Datum.fromTokens([2, 7, 1, 8, 2, 8, 1, 8])
  ])
  const adam = { learningRate: 4e-4 }

  let pending = yield* training.trainStep(batch, "cross_entropy", adam)
  // Why we wait, if we wait: early, and without asking for it in the loop.
  yield* Effect.forkScoped(
    Stream.runForEach(pending.events, (event) => Effect.logDebug(QueueState.describe(event)))
  )
  for (let step = 1; step <= steps; step++) {
    const next = yield* training.trainStep(batch, "cross_entropy", adam)
    const { pass } = yield* pending
    if (step % 5 === 0) yield* Console.log(`step ${step}: loss ${pass.metrics["loss:sum"]?.toFixed(2)}`)
    pending = next
  }
  yield* pending
  const saved = yield* training.saveState("final", { overwrite: true }).pipe(TinkerFuture.await)
  yield* Console.log(`saved ${saved.path}`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(NodeTinkerLocal.layerInProcess())))
