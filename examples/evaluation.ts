/**
 * A model measured example by example: scores, chances of success, and what changed after training.
 */
import { Benchmark, Dataset, Environment, Example, Policy, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Array, Console, Effect, Option, Stream } from "effect"
import { TrainingClient } from "effect-tinker"
import { Backend, learningRate, model, rendererOf } from "./shared/backend.js"

const question = (n: number) => `${n}+1?`

const problems = Dataset.fromIterable(
  Array.range(0, 7).map((n) => ({
    id: `sum-${n}`,
    input: question(n),
    target: String(n + 1),
    problem: Environment.problem({ question: question(n), check: (answer) => answer.trim() === String(n + 1) })
  }))
)

const program = Effect.gen(function*() {
  const baseModel = yield* model
  const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
  const last = yield* Supervised.train({
    model: { baseModel, rank: 32, seed: 1 },
    data: Dataset.fromIterable(
      Array.range(0, 7).map((n) => Example.conversation([Message.user(question(n)), Message.assistant(String(n + 1))]))
    ),
    renderer: rendererOf,
    learningRate: yield* learningRate,
    batchSize: 8,
    epochs: 60
  }).pipe(Stream.runLast)
  const { checkpoint } = Option.getOrThrow(Option.flatMap(last, ({ final }) => final))
  const training = yield* TrainingClient.makeFromState({ path: checkpoint.statePath })
  const renderer = yield* rendererOf(training)
  const sampler = yield* training.saveWeightsAndGetSamplingClient()

  const report = yield* Benchmark.run({
    name: "sums",
    model: baseModel,
    policy: Policy.fromSampler(sampler, { maxTokens: 8 }),
    problems,
    settings: { renderer },
    samples: 4,
    passAt: [1, 4],
    file: `${directory}/sums.jsonl` // cut short, the same program goes on with what is missing
  })
  yield* Console.log(`${report.examples} examples, score ${report.score.toFixed(2)}`)
  yield* Console.log(`pass@1 ${report.passAt[1]?.toFixed(2)}, pass@4 ${report.passAt[4]?.toFixed(2)}`)
  yield* Console.log(`${report.truncated} cut off, ${report.failed} failed`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide([Backend, NodeContext.layer])))
