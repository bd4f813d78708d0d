/**
 * Preferences in a file: of two answers the chosen one becomes likelier, measured on pairs it has not seen.
 */
import { Evaluator, Example, Preference } from "@effect-tinker/cookbook"
import { fileURLToPath } from "node:url"
import { define, measured } from "../shared/recipe.js"

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

export default define({
  measure: "held-out pairs whose chosen answer is the likelier one",
  model: "local/chat",
  learningRate: 5e-4,
  passes: ({ after, before }) => after >= 0.9 && after > before,
  run: ({ learningRate, model, renderer, seed }) =>
    Preference.train({
      model: { baseModel: model, rank: 16, seed },
      data: Example.preferences(file("pairs.jsonl")),
      renderer,
      learningRate,
      beta: 0.1,
      batchSize: 8,
      epochs: 4,
      shuffle: seed,
      evaluate: [Evaluator.preferences(Example.preferences(file("held-out.jsonl")), { renderer })],
      evaluateEvery: 1000
    }).pipe(measured("preferences", "accuracy"))
})
