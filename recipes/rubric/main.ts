/**
 * A rubric: part of the reward is a model's opinion of the answer, part of it a program's.
 */
import { Environment, Evaluator, Judge, Loss, Reinforce } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import { SamplingClient } from "effect-tinker"
import { begin, polite, questions, rude, train } from "../shared/manners.js"
import { define, measured } from "../shared/recipe.js"

const ask = (answer: string) => `Is this polite? ${answer}`

export default define({
  measure: "score by the rubric, at temperature 1",
  model: "local/chat",
  learningRate: 4e-4,
  passes: ({ after, before }) => after >= 0.85 && after >= before + 0.15,
  run: (settings) =>
    Effect.gen(function*() {
      const { learningRate, model, renderer, seed } = settings
      const { samplerPath } = yield* train(settings, [
        ...polite.map((answer) => [ask(answer), "Yes"] as const),
        ...rude.map((answer) => [ask(answer), "No"] as const)
      ])
      const judge = { renderer, sampler: yield* SamplingClient.make({ modelPath: samplerPath }) }
      const rubric = (answer: string) =>
        Effect.map(
          Judge.grade(judge, [Message.user(ask(answer))], { Yes: 1, No: 0 }),
          (manners) => 0.8 * manners + 0.2 * Number(answer.endsWith("."))
        )
      const problems = Environment.problems(questions, {
        question: (question) => question,
        reward: (_, answer) => rubric(answer)
      })
      return yield* Reinforce.train({
        model: { baseModel: model, from: (yield* begin(settings)).statePath },
        problems,
        renderer,
        learningRate: { peak: learningRate, decay: "linear" },
        adam: { clip: 1 },
        maxTokens: 16,
        groupSize: 8,
        groupsPerBatch: questions.length,
        epochs: 20,
        seed,
        loss: Loss.ppo(),
        evaluate: [Evaluator.rollouts(problems, { settings: { renderer }, maxTokens: 16, groupSize: 6, seed })],
        evaluateEvery: 1000
      }).pipe(measured("rollouts", "env/all/correct"))
    }).pipe(Effect.scoped)
})
