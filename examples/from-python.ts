/**
 * A program of the Python SDK written here: two steps sent ahead of their results, a loss of one's own, weights in flight.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Console, Effect } from "effect"
import { Autodiff, CustomLoss, Datum, TinkerFuture, TrainingClient } from "effect-tinker"

const squares = CustomLoss.perDatum((logprobs) => Autodiff.sum(Autodiff.square(logprobs)))

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
  const data = [yield* Datum.fromTokens([3, 1, 4, 1, 5, 9, 2, 6])]

  const pass = yield* training.forwardBackward(data, "cross_entropy") // accepted
  const step = yield* training.optimStep({ learningRate: 1e-2 }) // queued right behind it
  const { metrics } = yield* pass // the result
  yield* step
  yield* Console.log(`loss ${metrics["loss:sum"]?.toFixed(2)}`)

  const sampler = yield* training.saveWeightsAndGetSamplingClient({ kind: "inflight" })

  const own = yield* training.forwardBackwardCustom(data, squares)
  yield* training.optimStep({ learningRate: 1e-2 })
  yield* Console.log(`own loss ${(yield* own).metrics["loss:sum"]?.toFixed(2)}`)

  yield* training.saveWeightsAndGetSamplingClient({ kind: "inflight" }) // moves the first sampler too
  const { sequences } = yield* sampler.sample({ prompt: [3, 1, 4], maxTokens: 4, temperature: 0 })
  yield* Console.log(`sampled ${sequences[0]?.tokens.length} tokens`)

  const { path } = yield* training.saveState("two-steps").pipe(TinkerFuture.await)
  yield* Console.log(path.replace(/^tinker:\/\/[^/]*/, "tinker://RUN"))
})

Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(NodeTinkerLocal.layerInProcess())))
