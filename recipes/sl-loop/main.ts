/**
 * Supervised learning as a flat loop, with the SDK only: examples in, steps in flight, answers out.
 */
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import { Datum, Loss, TrainingClient } from "effect-tinker"
import { answers, define, say } from "../shared/recipe.js"
import { facts } from "./facts.js"

export default define({
  measure: "questions answered as taught",
  model: "local/chat",
  learningRate: 2e-3,
  passes: ({ after }) => after >= 0.9,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 16, seed })
      const data = yield* Effect.forEach(facts, ([question, answer]) =>
        Effect.flatMap(
          renderer.supervised([Message.user(question), Message.assistant(answer)]),
          ({ tokens, weights }) => Datum.fromTokens(tokens, { weights })
        ))
      const right = Effect.gen(function*() {
        const sampler = yield* training.saveWeightsAndGetSamplingClient()
        const given = yield* answers(sampler, renderer, facts.map(([question]) => [Message.user(question)]))
        return given.filter((answer, i) => answer === facts[i]?.[1]).length / facts.length
      })

      const before = yield* right
      const steps = 24
      for (let step = 0; step < steps; step++) {
        // accepted in order; the results are read while the next ones are on their way
        const pass = yield* training.forwardBackward(data, "cross_entropy")
        const update = yield* training.optimStep({ learningRate: learningRate * (1 - step / steps) })
        const { perToken } = Loss.summarize(yield* pass, data)
        yield* update
        yield* say(`step ${step + 1}: loss ${perToken.toFixed(3)}`)
      }
      return { before, after: yield* right }
    }).pipe(Effect.scoped)
})
