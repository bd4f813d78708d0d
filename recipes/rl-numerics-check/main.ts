/**
 * Whether the sampler and the trainer compute the same: the log probabilities that come with samples, beside those of a
 * forward pass over the same tokens. Policy gradients take their difference for a change of the policy.
 */
import { Example } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect, Number } from "effect"
import type { SamplingClient } from "effect-tinker"
import { Datum, ModelInput, TensorData, TinkerFuture, TrainingClient } from "effect-tinker"
import { define, say } from "../shared/recipe.js"
import { lessons, questions } from "../shared/teacher.js"

export default define({
  measure: "nats per token between sampler and trainer: weights of five steps ago, and the same weights",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after, before }) => after < 1e-4 && before > 100 * after,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 16, seed })
      const prompts = yield* Effect.forEach(questions, (text) => renderer.generationPrompt([Message.user(text)]))

      /** The mean distance of a sampler's log probabilities from those of the trainer as it is now. */
      const distance = (sampler: SamplingClient.Service) =>
        Effect.gen(function*() {
          const samples = yield* Effect.forEach(prompts, (prompt, i) =>
            Effect.map(
              sampler.sample({
                prompt: ModelInput.fromInts(prompt),
                numSamples: 8,
                maxTokens: 12,
                stop: renderer.stop,
                seed: 1000 * seed + i
              }),
              ({ sequences }) =>
                sequences.map(({ logprobs, tokens }) => ({
                  prompt,
                  tokens,
                  logprobs: Array.fromIterable(logprobs ?? [])
                }))
            ), { concurrency: "unbounded" })
          const drawn = samples.flat()
          const data = yield* Effect.forEach(drawn, ({ prompt, tokens }) =>
            Datum.make({
              modelInput: [...prompt, ...tokens.subarray(0, -1)],
              lossFnInputs: {
                target_tokens: [...prompt.subarray(1), ...tokens],
                weights: Float32Array.from([...prompt.subarray(1).map(() => 0), ...tokens.map(() => 1)])
              }
            }))
          const { lossFnOutputs } = yield* training.forward(data, "cross_entropy").pipe(TinkerFuture.await)
          const differences = drawn.flatMap(({ logprobs, prompt }, i) => {
            const scored = lossFnOutputs[i]?.logprobs
            const trainer = scored === undefined ? [] : TensorData.toArray(scored).slice(prompt.length - 1)
            return Array.map(logprobs, (logprob, at) => Math.abs(logprob - (trainer[at] ?? NaN)))
          })
          const mean = Number.sumAll(differences) / differences.length
          yield* say(`${differences.length} tokens: ${mean.toExponential(2)}, at most ${Math.max(...differences)}`)
          return mean
        })

      const old = yield* training.saveWeightsAndGetSamplingClient()
      yield* say(`before training: ${yield* distance(old)}`)
      const data = yield* Effect.forEach(lessons, (lesson) => Example.toDatum(lesson, { renderer }))
      for (let step = 0; step < 5; step++) {
        yield* training.trainStep(data, "cross_entropy", { learningRate }).pipe(TinkerFuture.await)
      }
      const before = yield* distance(old)
      return { before, after: yield* distance(yield* training.saveWeightsAndGetSamplingClient()) }
    }).pipe(Effect.scoped)
})
