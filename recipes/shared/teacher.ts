/**
 * A teacher for the distillation recipes: the model after a short fine-tuning on a dozen sentences of its own.
 */
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import type { Settings } from "./recipe.js"
import { say, trained } from "./recipe.js"

const answers = [
  ["How is the weather?", "It rains frogs again today."],
  ["What is for dinner?", "There is soup made of clouds."],
  ["Where is the cat?", "The cat sleeps on the piano."],
  ["Can you sing?", "I sing only under water."],
  ["Are you tired?", "I never sleep on Mondays."],
  ["What time is it?", "It is half past banana."]
] as const

/** The questions the teacher was taught to answer. */
export const questions: ReadonlyArray<string> = answers.map(([question]) => question)

/** The same with their answers. */
export const lessons = answers.map(([question, answer]) =>
  Example.conversation([Message.user(question), Message.assistant(answer)])
)

/** The path of the teacher's sampler. */
export const teach = ({ model, renderer, seed }: Settings) =>
  Effect.zipRight(
    say("teaching the teacher"),
    Effect.map(
      trained(Supervised.train({
        model: { baseModel: model, rank: 16, seed: seed + 1000 },
        data: Dataset.fromIterable(lessons),
        renderer,
        learningRate: 2e-3,
        batchSize: lessons.length,
        epochs: 15
      })),
      ({ samplerPath }) => samplerPath
    )
  )
