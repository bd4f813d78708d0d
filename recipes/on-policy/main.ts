/**
 * On-policy distillation: the student answers, and a teacher says of every token how likely it would have been.
 */
import { Dataset, Distill } from "@effect-tinker/cookbook"
import { Effect } from "effect"
import { define, trained } from "../shared/recipe.js"
import { questions, teach } from "../shared/teacher.js"

export default define({
  measure: "nats per token between the student's answers and the teacher",
  model: "local/chat",
  learningRate: 5e-4,
  passes: ({ after, before }) => after <= before / 3,
  run: (settings) =>
    Effect.gen(function*() {
      const { learningRate, model, renderer, seed } = settings
      const { first, last } = yield* trained(Distill.onPolicy({
        model: { baseModel: model, rank: 16, seed },
        prompts: Dataset.fromIterable(questions),
        teacher: yield* teach(settings),
        renderer,
        // Near the teacher gradients are small and noisy, and Adam makes full steps of them: the rate goes down.
        learningRate: { peak: learningRate, decay: "linear" },
        adam: { clip: 1 },
        maxTokens: 5,
        groupSize: 16,
        groupsPerBatch: questions.length,
        epochs: 15,
        seed
      }))
      return { before: first.metrics["kl_reference"] ?? NaN, after: last.metrics["kl_reference"] ?? NaN }
    }).pipe(Effect.scoped)
})
