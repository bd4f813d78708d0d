/**
 * Reinforcement learning as a flat loop, with the SDK only: sample groups, reward them, train on what was better than its
 * group.
 */
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect, Number } from "effect"
import { Datum, ModelInput, TinkerFuture, TrainingClient } from "effect-tinker"
import { define, say } from "../shared/recipe.js"

const tops = [3, 4, 5, 6, 7, 8, 9]

/** The verifier: an odd number of the range. */
const reward = (top: number, answer: string) => {
  const number = /^\d$/.test(answer) ? parseInt(answer) : 0
  return number % 2 === 1 && number <= top ? 1 : 0
}

export default define({
  measure: "answers that are an odd number of the range",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after, before }) => after >= 0.9 && after >= before,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 16, seed })
      const prompts = yield* Effect.forEach(tops, (top) =>
        renderer.generationPrompt([Message.user(`Pick a number from 1 to ${top}.`)]))

      const attempt = (step: number) =>
        Effect.gen(function*() {
          const sampler = yield* training.saveWeightsAndGetSamplingClient() // waits for the steps before it
          return yield* Effect.forEach(prompts, (prompt, i) =>
            Effect.gen(function*() {
              const { sequences } = yield* sampler.sample({
                prompt: ModelInput.fromInts(prompt),
                numSamples: 16,
                maxTokens: 6,
                stop: renderer.stop,
                seed: 10_000 * seed + 100 * step + i
              })
              const rewards = sequences.map(({ tokens }) =>
                reward(tops[i] ?? 0, Message.text(renderer.parse(tokens).message))
              )
              return { prompt, sequences, rewards, mean: Number.sumAll(rewards) / rewards.length }
            }), { concurrency: "unbounded" })
        })

      const means: globalThis.Array<number> = []
      for (let step = 0; step < 15; step++) {
        const groups = yield* attempt(step)
        means.push(
          Number.sumAll(groups.map(({ mean }) =>
            mean
          )) / groups.length
        )
        yield* say(`step ${step}: reward ${means[step]?.toFixed(3)}`)
        const data = yield* Effect.all(groups.flatMap(({ mean, prompt, rewards, sequences }) =>
          sequences.map(({ logprobs, tokens }, i) => {
            const blank = new Float32Array(prompt.length - 1)
            const advantage = (rewards[i] ?? 0) - mean
            return Datum.make({
              modelInput: [...prompt, ...tokens.subarray(0, -1)],
              lossFnInputs: {
                target_tokens: [...prompt.subarray(1), ...tokens],
                logprobs: Float32Array.from([...blank, ...(logprobs ?? [])]),
                advantages: Float32Array.from([...blank, ...Array.replicate(advantage, tokens.length)])
              }
            })
          })
        ))
        yield* training.trainStep(data, "importance_sampling", { learningRate, gradClipNorm: 1 }).pipe(
          TinkerFuture.await
        )
      }
      return { before: means[0] ?? 0, after: Number.sumAll(means.slice(-3)) / 3 }
    }).pipe(Effect.scoped)
})
