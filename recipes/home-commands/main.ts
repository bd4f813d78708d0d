/**
 * Something useful from a real small model: sentences to a smart home become JSON commands, exact to the letter.
 */
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import { SamplingClient } from "effect-tinker"
import { answers, define, trained } from "../shared/recipe.js"
import type { Spoken } from "./commands.js"
import { commands, isRight } from "./commands.js"

const instruction = Message.system("Turn what is said into one JSON command.")

export default define({
  measure: "commands that are exactly right, of rooms it was not trained on",
  model: "HuggingFaceTB/SmolLM2-135M-Instruct",
  learningRate: 5e-4,
  passes: ({ after, before }) => before <= 0.1 && after >= 0.7,
  run: ({ learningRate, model, renderer, seed, short }) =>
    Effect.gen(function*() {
      const count = short === true ? { train: 64, heldOut: 16 } : { train: 200, heldOut: 100 }
      const { heldOut, train } = yield* commands(seed, count)
      /** The share of held-out sentences whose command is right. */
      const score = Effect.fnUntraced(function*(sampler: SamplingClient.Service) {
        const questions = heldOut.map(({ said }) => [instruction, Message.user(said)])
        const said = yield* answers(sampler, renderer, questions, { maxTokens: 48 })
        return heldOut.filter((spoken, i) => isRight(spoken, said[i] ?? "")).length / heldOut.length
      })
      const example = ({ command, said }: Spoken) =>
        Example.conversation([instruction, Message.user(said), Message.assistant(JSON.stringify(command))])
      const before = yield* score(yield* SamplingClient.make({ baseModel: model }))
      const { samplerPath } = yield* trained(Supervised.train({
        model: { baseModel: model, rank: 16, seed },
        data: Dataset.map(Dataset.fromIterable(train), example),
        renderer,
        learningRate: { peak: learningRate, decay: "linear", warmUp: 3 },
        batchSize: 8,
        epochs: 3,
        shuffle: seed
      }))
      return { before, after: yield* score(yield* SamplingClient.make({ modelPath: samplerPath })) }
    }).pipe(Effect.scoped)
})
