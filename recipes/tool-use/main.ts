/**
 * A tool from a Schema: the model learns to call it with the right arguments, and to say what it answered.
 */
import { Dataset, Environment, Evaluator, Loss, Reinforce, Tool } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect, Schema } from "effect"
import { define, measured } from "../shared/recipe.js"

const calculator = Tool.make("calculator", {
  description: "Compute an expression.",
  input: Schema.Struct({ expression: Schema.String }),
  run: ({ expression }) => {
    const [, a, sign, b] = /^(\d+) ([+*-]) (\d+)$/.exec(expression) ?? []
    if (a === undefined || b === undefined) return Effect.fail(new Error(`cannot compute ${expression}`))
    const [x, y] = [parseInt(a), parseInt(b)]
    return Effect.succeed(String(sign === "+" ? x + y : sign === "-" ? x - y : x * y))
  }
})

/** Questions in words, while the calculator reads signs. */
const tasks = (from: number, to: number) =>
  Dataset.fromIterable(Array.range(from, to)).pipe(Dataset.map((n) => {
    const [a, b] = [100 + 37 * n % 900, 10 + 53 * n % 90]
    const [word = "", right = 0] = ([["plus", a + b], ["times", a * b], ["minus", a - b]] as const)[n % 3] ?? []
    return Environment.group((settings) =>
      Effect.succeed(Environment.messages({
        start: [Message.user(`How much is ${a} ${word} ${b}?`)],
        tools: [calculator],
        onMessage: (message) =>
          Effect.succeed(
            Environment.done(Message.text(message).match(/\d+/g)?.includes(String(right)) === true ? 1 : 0)
          )
      }, settings)), { samePrompt: true })
  }))

export default define({
  measure: "right answers to new questions",
  model: "local/chat",
  learningRate: 5e-4,
  passes: ({ after, before }) => after >= 0.8 && after >= before + 0.1,
  run: ({ learningRate, model, renderer, seed }) =>
    Reinforce.train({
      model: { baseModel: model, rank: 16, seed },
      problems: tasks(1, 24),
      renderer,
      learningRate: { peak: learningRate, decay: "linear" },
      adam: { clip: 1 },
      maxTokens: 40,
      groupSize: 16,
      groupsPerBatch: 6,
      epochs: 4,
      seed,
      loss: Loss.ppo(),
      limits: { maxTurns: 3 },
      settings: { maxToolCalls: 2, overflowReward: 0, parseErrors: { maxConsecutive: 0, reward: 0 } },
      evaluate: [
        Evaluator.rollouts(tasks(101, 124), {
          settings: { renderer, maxToolCalls: 2, overflowReward: 0, parseErrors: { maxConsecutive: 0, reward: 0 } },
          maxTokens: 40,
          groupSize: 2,
          limits: { maxTurns: 3 },
          seed
        })
      ],
      evaluateEvery: 1000
    }).pipe(measured("rollouts", "env/all/reward"))
})
