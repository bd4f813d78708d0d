/**
 * The same training as a flat loop, with the SDK only: the least that a client can do.
 */
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import { Datum, ModelInput, TinkerFuture, TrainingClient } from "effect-tinker"
import { measure } from "./client.js"
import { baseModel, learningRate, problems, question, rank, reward, shown } from "./rollouts.js"

measure(({ group, maxTokens, renderer, steps }) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.makeLora({ baseModel, rank, seed: 1 })
    let sampled = 0
    for (let step = 0; step < steps; step++) {
      const sampler = yield* training.saveWeightsAndGetSamplingClient()
      const groups = yield* Effect.forEach(Array.from({ length: problems }), (_, i) =>
        Effect.gen(function*() {
          const prompt = yield* renderer.generationPrompt([...shown, Message.user(question(step * problems + i))])
          const { sequences } = yield* sampler.sample({
            prompt: ModelInput.fromInts(prompt),
            numSamples: group,
            maxTokens,
            stop: renderer.stop
          })
          const rewards = sequences.map(({ tokens }) => reward(Message.text(renderer.parse(tokens).message)))
          const mean = rewards.reduce((sum, one) => sum + one, 0) / rewards.length
          sampled += sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
          return rewards.every((one) => one === mean) ? [] : yield* Effect.forEach(
            sequences,
            ({ logprobs = new Float32Array(0), tokens }, n) => {
              const length = prompt.length + tokens.length
              const row = {
                tokens: new Int32Array(length),
                logprobs: new Float32Array(length),
                advantages: new Float32Array(length)
              }
              row.tokens.set(prompt)
              row.tokens.set(tokens, prompt.length)
              row.logprobs.set(logprobs, prompt.length)
              row.advantages.fill((rewards[n] ?? 0) - mean, prompt.length)
              return Datum.make({
                modelInput: row.tokens.subarray(0, -1),
                lossFnInputs: {
                  target_tokens: row.tokens.subarray(1),
                  logprobs: row.logprobs.subarray(1),
                  advantages: row.advantages.subarray(1)
                }
              })
            }
          )
        }), { concurrency: "unbounded" })
      const data = groups.flat()
      if (data.length === 0) continue
      yield* training.trainStep(data, "importance_sampling", { learningRate }).pipe(TinkerFuture.await)
    }
    yield* training.saveState("final").pipe(TinkerFuture.await)
    yield* training.saveWeightsForSampler("final").pipe(TinkerFuture.await)
    return sampled
  }).pipe(Effect.scoped)
)
