/**
 * Reinforcement learning with a verifier: a program checks the answers, and a trainer does the rest.
 */
import { Environment, Evaluator, Reinforce } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Array, Console, Effect, Option, Stream } from "effect"

/** Sums of three digits, some of which the model knows. */
const sums = (numbers: ReadonlyArray<number>) =>
  Environment.problems(numbers.map((n) => ({ a: 100 + 467 * n % 900, b: 100 + (613 * n + 211) % 900 })), {
    question: ({ a, b }) => `What is ${a} + ${b}?`,
    reward: ({ a, b }, answer) => answer.trim() === String(a + b)
  })

const percent = (share: number | undefined) => `${Math.round(100 * (share ?? NaN))}%`

const program = Effect.gen(function*() {
  const { renderer } = yield* Chat.forModel("local/chat")
  const steps = Reinforce.train({
    model: { baseModel: "local/chat", rank: 16, seed: 1 },
    problems: sums(Array.range(33, 128)),
    renderer,
    learningRate: 2e-4,
    adam: { clip: 1 },
    maxTokens: 8,
    groupSize: 8,
    groupsPerBatch: 16,
    epochs: 1,
    seed: 1,
    // on sums it is never rewarded for
    evaluate: [Evaluator.rollouts(sums(Array.range(1, 32)), { settings: { renderer }, maxTokens: 8, groupSize: 4 })],
    evaluateEvery: 1000
  })
  const last = yield* steps.pipe(
    Stream.tap(({ evaluations, metrics, step }) =>
      Effect.zipRight(
        step === 1 ? Console.log(`before: ${percent(evaluations["rollouts"]?.["env/all/reward"])} right`) : Effect.void,
        Console.log(`step ${step}: ${percent(metrics["env/all/reward"])} right`)
      )
    ),
    Stream.runLast
  )
  const { checkpoint, evaluations } = Option.getOrThrow(Option.flatMap(last, ({ final }) => final))
  yield* Console.log(`after: ${percent(evaluations["rollouts"]?.["env/all/reward"])} right`)
  yield* Console.log(`saved ${checkpoint.samplerPath}`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(NodeTinkerLocal.layerInProcess())))
