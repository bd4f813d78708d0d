/**
 * Reinforcement learning from a reward that a program can check. The model first learns what an answer looks like, by
 * examples that are right half of the time; then it learns which answers are right, by trying.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Array, Console, Effect, Number } from "effect"
import { Datum, ModelInput, TinkerFuture, TrainingClient } from "effect-tinker"
import { type Sample } from "effect-tinker/wire"

const model = "local/small"
const learningRate = 4e-4

const numbers = Array.range(0, 9)
const question = (n: number) => `is it even? ${n}`

/** The verifier: 1 for a right answer, 0 for anything else. */
const reward = (n: number, answer: string) => answer.trim() === (n % 2 === 0 ? "yes" : "no") ? 1 : 0

/** How much better than its group each one was. A group that agrees teaches nothing. */
const advantages = (rewards: ReadonlyArray<number>) => {
  const mean = Number.sumAll(rewards) / rewards.length
  return rewards.map((value) => value - mean)
}

/** A sampled answer as training data: its tokens, their log probabilities when sampled, and what they earned. */
const experience = (prompt: Int32Array, { logprobs, tokens }: Sample.SampledSequence, advantage: number) => {
  const unscored = new Float32Array(prompt.length - 1)
  return Datum.make({
    modelInput: [...prompt, ...tokens.subarray(0, -1)],
    lossFnInputs: {
      target_tokens: [...prompt.subarray(1), ...tokens],
      logprobs: Float32Array.from([...unscored, ...(logprobs ?? [])]),
      advantages: Float32Array.from([...unscored, ...tokens.map(() => 1)]).map((counts) => counts * advantage)
    }
  })
}

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 32, seed: 3 })
  const { renderer: { tokenizer } } = yield* Chat.forModel(training)

  const shown = yield* Effect.forEach(
    numbers.flatMap((n) => [[n, "yes\n"], [n, "no\n"]] as const),
    ([n, answer]) => {
      const prompt = tokenizer.encode(question(n))
      const tokens = [...prompt, ...tokenizer.encode(answer)]
      return Datum.fromTokens(tokens, { weights: tokens.map((_, i) => i < prompt.length ? 0 : 1) })
    }
  )
  for (let n = 1; n <= 15; n++) {
    yield* training.trainStep(shown, "cross_entropy", { learningRate }).pipe(TinkerFuture.await)
  }

  for (let round = 1; round <= 16; round++) {
    const sampler = yield* training.saveWeightsAndGetSamplingClient() // waits for the steps before it
    const groups = yield* Effect.forEach(numbers, (n) => {
      const prompt = tokenizer.encode(question(n))
      return Effect.map(
        sampler.sample({
          prompt: ModelInput.fromInts(prompt),
          numSamples: 8,
          maxTokens: 6,
          stop: ["\n"],
          seed: 100 * round + n
        }),
        ({ sequences }) => ({ prompt, sequences, rewards: sequences.map((s) => reward(n, tokenizer.decode(s.tokens))) })
      )
    }, { concurrency: "unbounded" })

    const batch = yield* Effect.all(groups.flatMap(({ prompt, rewards, sequences }) => {
      const better = advantages(rewards)
      return sequences.map((sequence, i) => experience(prompt, sequence, better[i] ?? 0))
    }))
    yield* training.trainStep(batch, "importance_sampling", { learningRate: learningRate / 2 }).pipe(TinkerFuture.await)

    const mean = Number.sumAll(groups.flatMap(({ rewards }) => rewards)) / batch.length
    if (round === 1 || round % 4 === 0) yield* Console.log(`round ${round}: ${Math.round(100 * mean)}% right`)
  }
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))
