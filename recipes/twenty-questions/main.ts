/**
 * Model against model: one knows where things are and answers, the other finds one by asking. Only the one who asks learns.
 */
import { Dataset, Environment, Evaluator, Loss, Reinforce, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import { SamplingClient } from "effect-tinker"
import { answers, define, measured, trained } from "../shared/recipe.js"
import { find, games, shown } from "./games.js"

export default define({
  measure: "things found, at temperature 1",
  model: "local/chat",
  learningRate: 1e-4,
  passes: ({ after, before }) => after >= 0.75 && after >= before + 0.2,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const other = yield* SamplingClient.make({ baseModel: model })
      const { statePath } = yield* trained(Supervised.train({
        model: { baseModel: model, rank: 16, seed },
        data: Dataset.fromIterable(shown),
        renderer,
        // It ends slowly, so that what the last batches happened to ask about does not weigh more than the rest.
        learningRate: { peak: 2e-3, decay: "linear" },
        batchSize: 12,
        epochs: 10,
        shuffle: seed
      }))
      // It answers greedily, so the same question has the same answer.
      const respond = yield* Effect.cachedFunction((question: string) =>
        answers(other, renderer, [[Message.user(question)]])
      )
      const problems = Dataset.map(Dataset.fromIterable(games), ({ facts, room, wanted }) =>
        Environment.group((settings) =>
          Effect.succeed(Environment.messages({
            start: [find(wanted)],
            onMessage: (message, history) =>
              Effect.gen(function*() {
                const said = Message.text(message)
                if (history.length > 1) {
                  return Environment.done(said.includes(room) ? 1 : 0)
                }
                const [answer = ""] = yield* respond(`${facts} ${said}`)
                return Environment.reply(answer)
              })
          }, settings)), { samePrompt: true }))
      const sampling = { maxTokens: 12, seed }
      return yield* Reinforce.train({
        model: { baseModel: model, from: statePath },
        problems,
        renderer,
        // After too large a first step all rollouts of a game ask the same, and nothing is left to learn from.
        learningRate: { peak: learningRate, warmUp: 2 },
        adam: { clip: 1 },
        groupSize: 12,
        groupsPerBatch: games.length,
        epochs: 16,
        loss: Loss.ppo(),
        evaluate: [Evaluator.rollouts(problems, { ...sampling, settings: { renderer }, groupSize: 6 })],
        evaluateEvery: 1000,
        ...sampling
      }).pipe(measured("rollouts", "env/all/reward"))
    }).pipe(Effect.scoped)
})
