/**
 * A long instruction becomes part of the weights: answers sampled with it are trained on without it.
 */
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect } from "effect"
import { SamplingClient } from "effect-tinker"
import { answers, define, say, trained } from "../shared/recipe.js"

const persona = "Your name is Mira. You are a baker from Oslo."
const questions = ["Who are you?", "What is your name?", "What do you do?", "What is your job?", "Where are you from?"]
const held = ["Your name?", "Where do you come from?"]
const isMira = (answer: string) => /Mira|baker|Oslo/.test(answer)

export default define({
  measure: "answers in character without the instruction, to other questions",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after }) => after >= 0.75,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const teacher = yield* SamplingClient.make({ baseModel: model })
      const share = (sampler: SamplingClient.Service) =>
        Effect.map(
          answers(sampler, renderer, Array.flatMap(Array.range(1, 8), () => held.map((text) => [Message.user(text)])), {
            temperature: 1,
            seed: 100 * seed
          }),
          (given) => given.filter(isMira).length / given.length
        )
      const asked = Array.flatMap(Array.range(1, 8), () => questions)
      const given = yield* answers(
        teacher,
        renderer,
        asked.map((text) => [Message.system(persona), Message.user(text)]),
        { temperature: 1, seed: 1000 * seed }
      )
      yield* say(`with the instruction: ${given.slice(0, 5).join(" ")}`)
      const lessons = asked.map((text, i) =>
        Example.conversation([Message.user(text), Message.assistant(given[i] ?? "")])
      )
      const before = yield* share(teacher)
      const { samplerPath } = yield* trained(Supervised.train({
        model: { baseModel: model, rank: 16, seed },
        data: Dataset.fromIterable(lessons),
        renderer,
        learningRate,
        batchSize: 10,
        epochs: 5,
        shuffle: seed
      }))
      const student = yield* SamplingClient.make({ modelPath: samplerPath })
      return { before, after: yield* share(student) }
    }).pipe(Effect.scoped)
})
