/**
 * Arithmetic by trial: a program checks the answers, and attempts at one problem are compared with each other.
 */
import { Environment, Evaluator, Loss, Reinforce } from "@effect-tinker/cookbook"
import { Array } from "effect"
import { define, measured } from "../shared/recipe.js"

/** Whether something is carried in every column. */
const carries = (a: number, b: number) => [10, 100, 1000].every((place) => a % place + b % place >= place)

/** Sums of three digits each, no two of them the same: the first ones to measure by, the others to learn from. */
const pairs = Array.range(0, 899).map((n) => ({ a: 100 + (467 * n) % 900, b: 100 + (613 * n + 211) % 900 })).filter(
  ({ a, b }) => carries(a, b)
)

const sums = (list: typeof pairs) =>
  Environment.problems(list, {
    question: ({ a, b }) => `What is ${a} + ${b}?`,
    reward: ({ a, b }, answer) => answer.trim() === String(a + b)
  })

export default define({
  measure: "right answers to other sums, at temperature 1",
  model: "local/chat",
  learningRate: 2e-4,
  // at least half of the mistakes are gone
  passes: ({ after, before }) => 1 - after <= 0.5 * (1 - before),
  run: ({ learningRate, model, renderer, seed }) =>
    Reinforce.train({
      model: { baseModel: model, rank: 16, seed },
      problems: sums(pairs.slice(32)),
      renderer,
      learningRate: { peak: learningRate, decay: "linear" },
      adam: { clip: 1 },
      maxTokens: 8,
      groupSize: 8,
      groupsPerBatch: 16,
      epochs: 2,
      shuffle: seed,
      seed,
      loss: Loss.ppo(),
      evaluate: [
        Evaluator.rollouts(sums(pairs.slice(0, 32)), { settings: { renderer }, maxTokens: 8, groupSize: 4, seed })
      ],
      evaluateEvery: 1000
    }).pipe(measured("rollouts", "env/all/reward"))
})
