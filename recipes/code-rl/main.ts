/**
 * Programs that are tested: the model writes an expression, a sandbox runs it, and the tests that pass are its reward.
 */
import { Dataset, Environment, Evaluator, Example, Loss, Reinforce, Sandbox, Supervised } from "@effect-tinker/cookbook"
import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect } from "effect"
import { define, measured, trained } from "../shared/recipe.js"

const operations = { plus: "+", minus: "-", times: "*" } as const
const words = ["plus", "minus", "times"] as const
const tasks = words.flatMap((word) => Array.range(2, 6).map((n) => ({ word, n })))
const question = ({ n, word }: typeof tasks[number]) => `Write code: x ${word} ${n}`
const inputs = [[1], [5], [10]]

/**
 * The share of the tests an expression passes; one that does not run passes none. The expected values stay here: the program
 * never sees them.
 */
const test = ({ n, word }: typeof tasks[number], expression: string) =>
  Effect.gen(function*() {
    const sandbox = yield* Sandbox.Sandbox
    const results = yield* sandbox.call(`(x) => (${expression})`, inputs)
    const wanted = inputs.map(([x = 0]) => word === "plus" ? x + n : word === "minus" ? x - n : x * n)
    return results.filter((result, i) => result === wanted[i]).length / wanted.length
  }).pipe(Effect.catchTag("SandboxFailed", () => Effect.succeed(0)))

const problems = Environment.problems(tasks, { question, reward: test })

export default define({
  measure: "tests passed, at temperature 1",
  model: "local/chat",
  learningRate: 1e-4,
  passes: ({ after, before }) => after >= 0.85 && after >= before + 0.2,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      // what a program looks like, whatever was asked for
      const shown = tasks.flatMap((task) =>
        Object.values(operations).map((sign) =>
          Example.conversation([Message.user(question(task)), Message.assistant(`x ${sign} ${task.n}`)])
        )
      )
      const { statePath } = yield* trained(Supervised.train({
        model: { baseModel: model, rank: 16, seed },
        data: Dataset.fromIterable(shown),
        renderer,
        learningRate: 1e-3,
        batchSize: 15,
        epochs: 5,
        shuffle: seed
      }))
      return yield* Reinforce.train({
        model: { baseModel: model, from: statePath },
        problems,
        renderer,
        learningRate,
        adam: { clip: 1 },
        maxTokens: 10,
        groupSize: 16,
        groupsPerBatch: tasks.length,
        epochs: 20,
        seed,
        loss: Loss.ppo(),
        evaluate: [Evaluator.rollouts(problems, { settings: { renderer }, maxTokens: 10, groupSize: 4, seed })],
        evaluateEvery: 1000
      }).pipe(measured("rollouts", "env/all/reward"))
    }).pipe(Effect.provide(NodeSandbox.layerQuickJs()))
})
