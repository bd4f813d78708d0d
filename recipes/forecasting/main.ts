/**
 * Forecasts: the model says a probability, and the reward is how good it was once the outcome is known. Nobody says what the
 * right probability would have been.
 */
import { Dataset, Environment, Evaluator, Example, Loss, Reinforce, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect } from "effect"
import { brier, markets, seen } from "../shared/markets.js"
import type { Market } from "../shared/markets.js"
import { define, measured, say, trained } from "../shared/recipe.js"

const question = (market: Pick<Market, "barometer" | "town">) => `${seen(market)} Say the chance of rain, from 0 to 1.`

/** A probability alone, as a number or in percent; anything else is no forecast. */
export const forecast = (answer: string): number | undefined => {
  const [, number, percent] = /^\s*(\d*\.?\d+)\s*(%?)\.?\s*$/.exec(answer) ?? []
  const p = number === undefined ? NaN : Number(number) / (percent === "%" ? 100 : 1)
  return p >= 0 && p <= 1 ? p : undefined
}

export default define({
  measure: "Brier score of other towns: 1 is clairvoyance, 0.75 a coin, 0.85 the true chances",
  model: "local/chat",
  learningRate: 2e-4,
  passes: ({ after, before }) => after >= 0.76 && after >= before + 0.08,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const { known, unknown } = markets(seed)
      yield* say("a model that reads the barometer, but does not know what it means")
      const said = yield* trained(Supervised.train({
        model: { baseModel: model, rank: 16, seed },
        data: Dataset.fromIterable(["Lyon", "Cork"].flatMap((town) =>
          Array.makeBy(9, (n) => n + 1).flatMap((barometer) =>
            [barometer, 10 - barometer].map((said) =>
              Example.conversation([Message.user(question({ barometer, town })), Message.assistant(`0.${said}`)])
            )
          )
        )),
        renderer,
        learningRate: 2e-3,
        batchSize: 12,
        epochs: 8,
        shuffle: seed
      }))
      const problems = (of: ReadonlyArray<Market>) =>
        Environment.problems(of, {
          question,
          reward: (market, answer) => {
            const p = forecast(answer)
            return p === undefined ? 0 : brier(p, market)
          }
        })
      const settings = { renderer, overflowReward: 0, parseErrors: { reward: 0 } }
      return yield* Reinforce.train({
        model: { baseModel: model, from: said.statePath },
        problems: problems(known),
        renderer,
        learningRate: { peak: learningRate, decay: "linear" },
        adam: { clip: 1 },
        maxTokens: 8,
        groupSize: 8,
        groupsPerBatch: 32,
        epochs: 8,
        seed,
        loss: Loss.ppo(),
        settings,
        evaluate: [Evaluator.rollouts(problems(unknown), { settings, maxTokens: 8, seed })],
        evaluateEvery: 1000
      }).pipe(measured("rollouts", "env/all/reward"))
    }).pipe(Effect.scoped)
})
