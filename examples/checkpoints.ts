/**
 * Saves a run halfway, goes on, then resumes from the checkpoint and arrives at the same losses.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Stream } from "effect"
import { Datum, RestClient, SamplingClient, TinkerFuture, TrainingClient } from "effect-tinker"

const model = "local/small"
const learningRate = 4e-4

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 16, seed: 1 })
  const { renderer: { tokenizer } } = yield* Chat.forModel(training)
  const batch = [yield* Datum.fromTokens(tokenizer.encode("A checkpoint is a promise to come back."))]
  const adam = { learningRate }

  const steps = (client: TrainingClient.Service, count: number) =>
    Effect.gen(function*() {
      const losses: Array<string> = []
      for (let n = 0; n < count; n++) {
        const { pass } = yield* client.trainStep(batch, "cross_entropy", adam).pipe(TinkerFuture.await)
        losses.push(pass.metrics["loss:sum"]?.toFixed(4) ?? "?")
      }
      return losses.join(" ")
    })

  yield* Console.log(`first half:  ${yield* steps(training, 5)}`)
  const saved = yield* training.saveState("halfway", { userMetadata: { step: "5" } }).pipe(TinkerFuture.await)
  yield* Console.log(`went on:     ${yield* steps(training, 5)}`)

  // With the optimizer's moments the run goes on as if nothing had happened; without, AdamW starts afresh.
  const resumed = yield* TrainingClient.makeFromState({ path: saved.path, withOptimizer: true })
  yield* Console.log(`resumed:     ${yield* steps(resumed, 5)}`)
  const restarted = yield* TrainingClient.makeFromState({ path: saved.path })
  yield* Console.log(`new moments: ${yield* steps(restarted, 5)}`)

  // To sample from later, weights are enough; they can be set to expire.
  const weights = yield* resumed.saveWeightsForSampler("final", { ttlSeconds: 24 * 3600 }).pipe(TinkerFuture.await)
  yield* SamplingClient.make({ modelPath: weights.path })

  const rest = yield* RestClient.RestClient
  yield* Stream.runForEach(
    Stream.take(rest.streamUserCheckpoints(), 2),
    ({ checkpointType, expiresAt, sizeBytes, tinkerPath }) =>
      Console.log(
        `${checkpointType}: ${tinkerPath}, ${sizeBytes} bytes, ${expiresAt === undefined ? "kept" : "expires"}`
      )
  )
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))
