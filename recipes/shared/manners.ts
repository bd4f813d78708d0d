/**
 * Polite and rude answers to the same questions, for the recipes whose rewards come from a model.
 */
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import type { Settings } from "./recipe.js"
import { say, trained } from "./recipe.js"

export const questions: ReadonlyArray<string> = ["hat", "map", "cup", "bag", "pen", "key"].map((thing) =>
  `Where is the ${thing}?`
)

export const polite: ReadonlyArray<string> = ["Of course, I will look for you.", "Please wait, I will find out."]

export const rude: ReadonlyArray<string> = ["Look for yourself, lazy one.", "Go away and stop asking."]

/** A policy that has no manners: it answers politely and rudely in turns. The path of its weights. */
export const begin = ({ model, renderer, seed }: Settings) =>
  Effect.zipRight(
    say("a policy without manners"),
    trained(Supervised.train({
      model: { baseModel: model, rank: 16, seed },
      data: Dataset.fromIterable(questions.flatMap((question) =>
        [...polite, ...rude].map((answer) => Example.conversation([Message.user(question), Message.assistant(answer)]))
      )),
      renderer,
      learningRate: 2e-3,
      batchSize: 12,
      epochs: 8,
      shuffle: seed
    }))
  )

/** A judge from examples of what it is asked and what it should say. The path of its sampler. */
export const train = (
  { model, renderer, seed }: Settings,
  lessons: ReadonlyArray<readonly [question: string, answer: string]>
) =>
  Effect.zipRight(
    say("a judge"),
    trained(Supervised.train({
      model: { baseModel: model, rank: 16, seed: seed + 2000 },
      data: Dataset.fromIterable(
        lessons.map(([question, answer]) => Example.conversation([Message.user(question), Message.assistant(answer)]))
      ),
      renderer,
      learningRate: 2e-3,
      batchSize: lessons.length,
      epochs: 20
    }))
  )
