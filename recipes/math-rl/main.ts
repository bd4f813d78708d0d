/**
 * Arithmetic by trial: a program checks the answers, and attempts at one problem are compared with each other.
 */
import { Environment, Evaluator, Loss, Reinforce } from "@effect-tinker/cookbook"
import { Array } from "effect"
import { define, measured } from "../shared/recipe.js"

const pairs = Array.range(1, 4).flatMap((a) => Array.range(a, 4).map((b) => ({ a, b })))

const sums = Environment.problems(pairs, {
  question: ({ a, b }) => `What is ${a} + ${b}?`,
  reward: ({ a, b }, answer) => answer.trim() === String(a + b)
})

export default define({
  measure: "right sums, at temperature 1",
  model: "local/chat",
  learningRate: 1e-3,
  passes: ({ after, before }) => after >= 0.75 && after >= before + 0.1,
  run: ({ learningRate, model, renderer, seed }) =>
    Reinforce.train({
      model: { baseModel: model, rank: 16, seed },
      problems: sums,
      renderer,
      learningRate,
      adam: { clip: 1 },
      maxTokens: 6,
      groupSize: 16,
      groupsPerBatch: pairs.length,
      epochs: 12,
      seed,
      loss: Loss.ppo(),
      evaluate: [Evaluator.rollouts(sums, { settings: { renderer }, maxTokens: 6, groupSize: 8, seed })],
      evaluateEvery: 1000
    }).pipe(measured("rollouts", "env/all/reward"))
})
