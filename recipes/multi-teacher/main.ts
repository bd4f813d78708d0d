/**
 * On-policy distillation from two teachers, each of which knows its own questions: the student answers, and the teacher of a
 * question says of every token how likely it would have been.
 */
import { Example } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect, Number } from "effect"
import { Datum, ModelInput, SamplingClient, TinkerFuture, TrainingClient } from "effect-tinker"
import { define, say } from "../shared/recipe.js"
import { questions, teach } from "../shared/teacher.js"

/** What the second teacher is taught: even numbers, where it is asked for one above 0. */
const tops = [4, 5, 6, 7, 8, 9]
const other = (top: number) => `Pick a number above 0 and up to ${top}.`
const even = tops.flatMap((top) =>
  [2, 4, 6, 8].filter((n) => n <= top).map((n) =>
    Example.conversation([Message.user(other(top)), Message.assistant(String(n))])
  )
)

export default define({
  measure: "nats per token between the student's answers and the teacher of the question",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after, before }) => after <= before / 3,
  run: (settings) =>
    Effect.gen(function*() {
      const { learningRate, model, renderer, seed } = settings
      const odd = yield* SamplingClient.make({ modelPath: yield* teach(settings) })
      const evens = yield* SamplingClient.make({ modelPath: yield* teach({ ...settings, seed: seed + 1 }, even) })
      const asked = [
        ...questions.map((question) => ({ question, teacher: odd })),
        ...tops.map((top) => ({ question: other(top), teacher: evens }))
      ]
      const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 16, seed })

      const distances: globalThis.Array<number> = []
      for (let step = 0; step < 15; step++) {
        const sampler = yield* training.saveWeightsAndGetSamplingClient()
        const answers = yield* Effect.forEach(asked, ({ question, teacher }, i) =>
          Effect.gen(function*() {
            const prompt = yield* renderer.generationPrompt([Message.user(question)])
            const { sequences } = yield* sampler.sample({
              prompt: ModelInput.fromInts(prompt),
              numSamples: 16,
              maxTokens: 5,
              stop: renderer.stop,
              seed: 10_000 * seed + 100 * step + i
            })
            return yield* Effect.forEach(sequences, ({ logprobs, tokens }) =>
              Effect.gen(function*() {
                const scored = yield* teacher.computeLogprobs([...prompt, ...tokens])
                // how much likelier the teacher finds each token: its mean over samples is the divergence, negated
                const gains = Array.fromIterable(logprobs ?? []).map((own, at) =>
                  (scored[prompt.length + at] ?? NaN) - own
                )
                const blank = new Float32Array(prompt.length - 1)
                const datum = yield* Datum.make({
                  modelInput: [...prompt, ...tokens.subarray(0, -1)],
                  lossFnInputs: {
                    target_tokens: [...prompt.subarray(1), ...tokens],
                    logprobs: Float32Array.from([...blank, ...(logprobs ?? [])]),
                    advantages: Float32Array.from([...blank, ...gains])
                  }
                })
                return { datum, gains }
              }), { concurrency: "unbounded" })
          }), { concurrency: "unbounded" })
        const gains = answers.flat().flatMap((answer) => answer.gains)
        distances.push(-Number.sumAll(gains) / gains.length)
        yield* say(`step ${step}: ${distances[step]?.toFixed(3)} nats`)
        const data = answers.flat().map(({ datum }) => datum)
        const rate = learningRate * (1 - step / 15)
        yield* training.trainStep(data, "importance_sampling", { learningRate: rate, gradClipNorm: 1 }).pipe(
          TinkerFuture.await
        )
      }
      return { before: distances[0] ?? NaN, after: Number.sumAll(distances.slice(-3)) / 3 }
    }).pipe(Effect.scoped)
})
