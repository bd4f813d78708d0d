/**
 * Three stages: a policy by examples, a judge of pairs by comparisons, and the policy again by a tournament of its answers.
 */
import { Dataset, Judge, Loss, Reinforce } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect } from "effect"
import { SamplingClient } from "effect-tinker"
import { begin, polite, questions, rude, train } from "../shared/manners.js"
import { answers, define, trained } from "../shared/recipe.js"

const ask = ({ a, b }: Pick<Judge.Comparison, "a" | "b">) => `Which is better? A: ${a} B: ${b}`

/** What people preferred: politeness, wherever it stands. */
const comparisons = polite.flatMap((kind) =>
  rude.flatMap((harsh) => [
    [ask({ a: kind, b: harsh }), "A"] as const,
    [ask({ a: harsh, b: kind }), "B"] as const
  ])
)

export default define({
  measure: "polite answers, at temperature 1",
  model: "local/chat",
  learningRate: 1e-4,
  passes: ({ after, before }) => after >= 0.85 && after >= before + 0.15,
  run: (settings) =>
    Effect.gen(function*() {
      const { learningRate, model, renderer, seed } = settings
      const share = (modelPath: string) =>
        Effect.gen(function*() {
          const asked = Array.flatMap(Array.range(1, 6), () => questions.map((question) => [Message.user(question)]))
          const given = yield* answers(yield* SamplingClient.make({ modelPath }), renderer, asked, {
            temperature: 1,
            seed: 100 * seed
          })
          return given.filter((answer) => polite.includes(answer)).length / given.length
        })
      const policy = yield* begin(settings)
      const { samplerPath: judging } = yield* train(settings, comparisons)
      const judge = Judge.symmetric(Judge.fromModel(
        { renderer, sampler: yield* SamplingClient.make({ modelPath: judging }) },
        { ask: (comparison) => [Message.user(ask(comparison))] }
      ))
      const { samplerPath } = yield* trained(Reinforce.train({
        model: { baseModel: model, from: policy.statePath },
        problems: Dataset.map(Dataset.fromIterable(questions), (question) => Judge.problem({ question, judge })),
        renderer,
        learningRate: { peak: learningRate, decay: "linear" },
        adam: { clip: 1 },
        maxTokens: 16,
        groupSize: 6,
        groupsPerBatch: questions.length,
        epochs: 22,
        seed,
        // A judge is right about answers like those it has seen: the policy stays near the one that gave them.
        kl: { coefficient: 0.05, reference: policy.samplerPath },
        loss: Loss.ppo()
      }))
      return { before: yield* share(policy.samplerPath), after: yield* share(samplerPath) }
    }).pipe(Effect.scoped)
})
