/**
 * Off-policy distillation: on given answers, the student learns how likely the teacher finds the likeliest tokens.
 */
import { Dataset, Distill } from "@effect-tinker/cookbook"
import { Effect } from "effect"
import { define, trained } from "../shared/recipe.js"
import { lessons, teach } from "../shared/teacher.js"

export default define({
  measure: "nats per token between the student and the teacher's top 10",
  model: "local/chat",
  learningRate: 2e-3,
  passes: ({ after, before }) => after <= before / 4,
  run: (settings) =>
    Effect.gen(function*() {
      const { learningRate, model, renderer, seed } = settings
      const { first, last } = yield* trained(Distill.offPolicy({
        model: { baseModel: model, rank: 16, seed },
        data: Dataset.fromIterable(lessons),
        teacher: yield* teach(settings),
        topK: 10,
        renderer,
        learningRate: { peak: learningRate, decay: "linear" },
        batchSize: lessons.length,
        epochs: 20
      }))
      return { before: first.metrics["teacher_kl"] ?? NaN, after: last.metrics["teacher_kl"] ?? NaN }
    }).pipe(Effect.scoped)
})
