/**
 * A preference for shorter answers: the answers of a group are compared in pairs, and the shorter one wins.
 */
import { Dataset, Example, Judge, Loss, Reinforce, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect, Number } from "effect"
import { SamplingClient } from "effect-tinker"
import { answers, define, say, trained } from "../shared/recipe.js"

const questions = ["hat", "map", "cup", "bag", "pen", "key"].map((thing) => `Where is the ${thing}?`)
const known = [
  "Here.",
  "On the table.",
  "I think it is on the table.",
  "I am not sure, but I think it is still on the table next to the door."
]

/** An answer that was cut off has no text: nothing is longer. */
const size = (text: string) => text === "" ? 1000 : text.length

/** How much shorter `a` is, as a share of the longer one's length: a word more is not a page more. */
const shorter: Judge.Judge = ({ a, b }) => Effect.succeed((size(b) - size(a)) / Math.max(size(a), size(b)))

export default define({
  measure: "characters of an answer, at temperature 1",
  model: "local/chat",
  learningRate: 1e-4,
  passes: ({ after, before }) => after <= before / 2 && after > 2,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const length = (modelPath: string) =>
        Effect.gen(function*() {
          const asked = Array.flatMap(Array.range(1, 6), () => questions.map((question) => [Message.user(question)]))
          const sampler = yield* SamplingClient.make({ modelPath })
          const given = yield* answers(sampler, renderer, asked, { temperature: 1, seed: 100 * seed, maxTokens: 40 })
          yield* say(given.slice(0, 6).join(" | "))
          return Number.sumAll(given.map((answer) => answer.length)) / given.length
        })
      const policy = yield* trained(Supervised.train({
        model: { baseModel: model, rank: 16, seed },
        data: Dataset.fromIterable(questions.flatMap((question) =>
          known.map((answer) => Example.conversation([Message.user(question), Message.assistant(answer)]))
        )),
        renderer,
        learningRate: 2e-3,
        batchSize: 12,
        epochs: 8,
        shuffle: seed
      }))
      const { samplerPath } = yield* trained(Reinforce.train({
        model: { baseModel: model, from: policy.statePath },
        problems: Dataset.map(Dataset.fromIterable(questions), (question) =>
          Judge.problem({ question, judge: shorter })),
        renderer,
        learningRate: { peak: learningRate, decay: "linear" },
        adam: { clip: 1 },
        maxTokens: 40,
        groupSize: 8,
        groupsPerBatch: questions.length,
        epochs: 12,
        seed,
        // shorter than any answer is none: the policy stays near the one that answers
        kl: { coefficient: 0.05, reference: policy.samplerPath },
        loss: Loss.ppo()
      }))
      return { before: yield* length(policy.samplerPath), after: yield* length(samplerPath) }
    }).pipe(Effect.scoped)
})
