/**
 * A decision: the model does not write, it is read. How likely it finds each of two answers is the forecast.
 */
import { Dataset, Evaluator, Example, Judge, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect, Number } from "effect"
import { auc, brier, markets, seen } from "../shared/markets.js"
import type { Market } from "../shared/markets.js"
import { define, measured, say } from "../shared/recipe.js"

const question = (market: Market) => [Message.user(`${seen(market)} Will it rain?`)]

export default define({
  measure: "Brier score of other towns: 1 is clairvoyance, 0.75 a coin, 0.85 the true chances",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after, before }) => after >= 0.79 && after >= before + 0.05,
  run: ({ learningRate, model, renderer, seed }) => {
    const { known, unknown } = markets(seed)
    return Supervised.train({
      model: { baseModel: model, rank: 16, seed },
      data: Dataset.fromIterable(
        known.map((market) =>
          Example.conversation([...question(market), Message.assistant(market.outcome ? "Yes" : "No")])
        )
      ),
      renderer,
      learningRate: { peak: learningRate, decay: "linear" },
      batchSize: 16,
      epochs: 3,
      shuffle: seed,
      evaluate: [
        Evaluator.make("unknown", (weights) =>
          Effect.gen(function*() {
            const judge = { renderer, sampler: yield* weights.sampler }
            // days that look alike are decided alike
            const decided = yield* Effect.forEach(Object.values(Array.groupBy(unknown, seen)), (alike) =>
              Effect.map(
                Judge.probabilities(judge, question(alike[0]), ["Yes", "No"]),
                ([yes = NaN]) => alike.map((market) => [yes, market] as const)
              ), { concurrency: 16 })
            const forecasts = decided.flat()
            const metrics = {
              brier: Number.sumAll(forecasts.map(([p, market]) => brier(p, market))) / unknown.length,
              accuracy: forecasts.filter(([p, { outcome }]) => (p > 0.5) === outcome).length / unknown.length,
              auc: auc(forecasts)
            }
            yield* say(JSON.stringify(metrics))
            return metrics
          }))
      ],
      evaluateEvery: 1000
    }).pipe(measured("unknown", "brier"))
  }
})
