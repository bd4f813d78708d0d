/**
 * A sweep over learning rates: the same run with each of them, a few at a time, and the best one by held-out loss.
 */
import { Evaluator, Example, Supervised } from "@effect-tinker/cookbook"
import { Array, Effect, Order } from "effect"
import { fileURLToPath } from "node:url"
import { define, measured, say } from "../shared/recipe.js"

const file = (name: string) => fileURLToPath(new URL(`../chat-sl/${name}`, import.meta.url))

export default define({
  measure: "loss per token on held-out chats, best of four learning rates",
  model: "local/chat",
  learningRate: 3e-3,
  passes: ({ after, before }) => after <= 0.6 * before,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const rates = [1, 1 / 3, 1 / 10, 1 / 30].map((share) => learningRate * share)
      const outcomes = yield* Effect.forEach(rates, (rate) =>
        Supervised.train({
          model: { baseModel: model, rank: 8, seed },
          data: Example.chats(file("chats.jsonl")),
          renderer,
          learningRate: { peak: rate, decay: "linear" },
          batchSize: 8,
          epochs: 4,
          shuffle: seed,
          evaluate: [Evaluator.nll(Example.toData({ renderer })(Example.chats(file("held-out.jsonl"))))],
          evaluateEvery: 1000
        }).pipe(measured("test", "nll"), Effect.map((outcome) => ({ ...outcome, rate }))), { concurrency: 2 })
      for (const { after, rate } of outcomes) yield* say(`${rate.toExponential(1)}: ${after.toFixed(3)}`)
      return Array.min(
        outcomes as Array.NonEmptyArray<typeof outcomes[number]>,
        Order.mapInput(Order.number, ({ after }) => after)
      )
    })
})
