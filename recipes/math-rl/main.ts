/**
 * Arithmetic by trial: a program checks the answers, and groups of attempts at one problem are compared.
 */
import { Environment, Evaluator, Loss, Reinforce } from "@effect-tinker/cookbook"
import { Array } from "effect"
import { define, measured } from "../shared/recipe.js"

const problems = (numbers: ReadonlyArray<number>) =>
  Environment.problems(numbers, {
    question: (n) => `Is ${n} even?`,
    reward: (n, answer) => answer.trim().toLowerCase().startsWith(n % 2 === 0 ? "yes" : "no")
  })

export default define({
  measure: "right answers to held-out numbers",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after, before }) => after >= 0.9 && after >= before,
  run: ({ learningRate, model, renderer, seed }) =>
    Reinforce.train({
      model: { baseModel: model, rank: 16, seed },
      problems: problems(Array.range(10, 49)),
      renderer,
      learningRate,
      maxTokens: 8,
      groupSize: 8,
      groupsPerBatch: 10,
      epochs: 5,
      shuffle: seed,
      seed,
      loss: Loss.ppo(),
      evaluate: [
        Evaluator.rollouts(problems(Array.range(50, 89)), { settings: { renderer }, maxTokens: 8, temperature: 0 })
      ],
      evaluateEvery: 1000
    }).pipe(measured("rollouts", "env/all/reward"))
})
