/**
 * A teacher for the distillation recipes: the model after a short fine-tuning, which left it a liking for odd numbers.
 */
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import type { Settings } from "./recipe.js"
import { say, trained } from "./recipe.js"

const tops = [3, 4, 5, 6, 7, 8, 9]
const question = (top: number) => `Pick a number from 1 to ${top}.`

/** The questions the teacher was taught to answer. */
export const questions: ReadonlyArray<string> = tops.map(question)

/** The same with their answers. */
export const lessons = tops.flatMap((top) =>
  [1, 3, 5, 7, 9].filter((odd) => odd <= top).map((odd) =>
    Example.conversation([Message.user(question(top)), Message.assistant(String(odd))])
  )
)

/** The path of the sampler of a teacher, by default of odd numbers. */
export const teach = (
  { model, renderer, seed }: Settings,
  taught: ReadonlyArray<Example.Conversation> = lessons
) =>
  Effect.zipRight(
    say("the teacher"),
    Effect.map(
      trained(Supervised.train({
        model: { baseModel: model, rank: 16, seed: seed + 1000 },
        data: Dataset.fromIterable(taught),
        renderer,
        learningRate: 1e-3,
        batchSize: taught.length,
        epochs: 12
      })),
      ({ samplerPath }) => samplerPath
    )
  )
