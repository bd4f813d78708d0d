import { Environment, Loss, Reinforce, RunLog } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"

const sums = Environment.problems([{ a: 1, b: 2 }, { a: 3, b: 4 }], {
  question: ({ a, b }) => `What is ${a}+${b}?`,
  reward: ({ a, b }, answer) => answer.trim() === String(a + b)
})

const run = (renderer: Renderer.Renderer) =>
  Reinforce.train({
    model: "Qwen/Qwen3-8B",
    problems: sums,
    renderer,
    learningRate: 2e-5,
    maxTokens: 64,
    groupSize: 16,
    groupsPerBatch: 2,
    epochs: 20,
    loss: Loss.ppo(),
    mode: Reinforce.async({ maxStepsOffPolicy: 2 }),
    log: RunLog.directory("runs/sums")
  })

export { run }
