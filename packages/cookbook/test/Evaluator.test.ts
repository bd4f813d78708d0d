import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import { Datum, TensorData, TrainingClient } from "effect-tinker"
import * as Dataset from "../src/Dataset.js"
import * as Evaluator from "../src/Evaluator.js"
import { Local } from "./utils/local.js"

const datum = (tokens: ReadonlyArray<number>, weights: ReadonlyArray<number>) =>
  Either.getOrThrow(Datum.make({
    modelInput: Int32Array.from(tokens.slice(0, -1)),
    lossFnInputs: { target_tokens: Int32Array.from(tokens.slice(1)), weights: Float32Array.from(weights) }
  }))

describe("Evaluator", () => {
  it("the likelihood is that of the weighted tokens, and its weight their sum", () => {
    const data = [datum([1, 2, 3, 4], [0, 1, 0.5]), datum([5, 6], [2])]
    const outputs = [[-9, -1, -3], [-0.25]].map((logprobs) => ({
      logprobs: Either.getOrThrow(TensorData.fromArray(Float32Array.from(logprobs)))
    }))
    // 1 · 1 + 0.5 · 3 + 2 · 0.25
    const { nats, nll, weight } = Evaluator.likelihood(data, outputs)
    assert.deepStrictEqual([nll, weight, nats], [3, 3.5, 4.25])
  })

  it.scoped("is the same however the data are cut into passes", () =>
    Effect.gen(function*() {
      const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4, seed: 1 })
      const sampler = training.saveWeightsAndGetSamplingClient()
      // The last pass of two has less weight than all others.
      const data = Dataset.fromIterable([
        datum([65, 66, 67, 68, 69], [1, 1, 1, 1]),
        datum([70, 71, 72, 73], [1, 1, 1]),
        datum([74, 75], [0.5])
      ])
      const found = (batchSize: number) =>
        Effect.map(
          Evaluator.nll(data, { batchSize }).evaluate({ step: 0, training, sampler }),
          (metrics) => metrics["nll"] ?? NaN
        )
      const whole = yield* found(3)
      assert.isAbove(whole, 1)
      for (const size of [1, 2]) assert.closeTo(yield* found(size), whole, 1e-5)
    }).pipe(Effect.provide(Local)))
})
