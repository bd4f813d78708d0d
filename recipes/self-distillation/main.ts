/**
 * Self-distillation: the model is its own teacher, shown an instruction that the student has to do without.
 */
import { Dataset, Distill } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect } from "effect"
import { SamplingClient } from "effect-tinker"
import { answers, define, trained } from "../shared/recipe.js"

const instruction = Message.system("Your name is Mira. You are a baker from Oslo.")
const questions = ["Who are you?", "What is your name?", "What do you do?", "What is your job?", "Where are you from?"]

export default define({
  measure: "answers in character without the instruction",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after }) => after >= 0.75,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const share = (sampler: SamplingClient.Service) =>
        Effect.map(
          answers(
            sampler,
            renderer,
            Array.flatMap(Array.range(1, 6), () => questions.map((text) => [Message.user(text)])),
            {
              temperature: 1,
              seed: 100 * seed
            }
          ),
          (given) => given.filter((answer) => /Mira|baker|Oslo/.test(answer)).length / given.length
        )
      const { samplerPath } = yield* trained(Distill.self({
        model: { baseModel: model, rank: 16, seed },
        data: Dataset.fromIterable(questions),
        prompt: (text) => [Message.user(text)],
        teacherPrompt: (text) => [instruction, Message.user(text)],
        renderer,
        learningRate,
        maxTokens: 16,
        groupSize: 4,
        batchSize: questions.length,
        epochs: 25,
        seed
      }))
      return {
        before: yield* share(yield* SamplingClient.make({ baseModel: model })),
        after: yield* share(yield* SamplingClient.make({ modelPath: samplerPath }))
      }
    }).pipe(Effect.scoped)
})
