/**
 * Your chats in a file: fine-tuning on conversations, measured on others of the same kind.
 */
import { Evaluator, Example, Supervised } from "@effect-tinker/cookbook"
import { fileURLToPath } from "node:url"
import { define, measured } from "../shared/recipe.js"

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

export default define({
  measure: "loss per token on held-out chats",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after, before }) => after <= 0.5 * before,
  run: ({ learningRate, model, renderer, seed }) =>
    Supervised.train({
      model: { baseModel: model, rank: 16, seed },
      data: Example.chats(file("chats.jsonl")),
      renderer,
      learningRate: { peak: learningRate, decay: "cosine", warmUp: 2 },
      batchSize: 8,
      epochs: 8,
      shuffle: seed,
      evaluate: [Evaluator.nll(Example.toData({ renderer })(Example.chats(file("held-out.jsonl"))))],
      evaluateEvery: 1000
    }).pipe(measured("test", "nll"))
})
