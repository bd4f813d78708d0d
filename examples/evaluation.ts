/**
 * A model measured example by example: its score, and the chance that one of several attempts is right.
 */
import { Benchmark, Dataset, Environment, Policy } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Array, Console, Effect } from "effect"
import { SamplingClient } from "effect-tinker"

const model = "local/chat"

/** A sum of three digits each. */
const sum = (n: number) => {
  const [a, b] = [100 + 467 * n % 900, 100 + (613 * n + 211) % 900]
  const [question, target] = [`What is ${a} + ${b}?`, String(a + b)]
  return {
    id: `sum-${n}`,
    input: question,
    target,
    problem: Environment.problem({ question, check: (answer) => answer.trim() === target })
  }
}

const problems = Dataset.fromIterable(Array.range(1, 40).map(sum))

const program = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped()
  const { renderer } = yield* Chat.forModel(model)
  const sampler = yield* SamplingClient.make({ baseModel: model }) // or { modelPath: "tinker://…" }, a checkpoint

  const report = yield* Benchmark.run({
    name: "sums",
    model,
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

NodeRuntime.runMain(
  program.pipe(Effect.scoped, Effect.provide([NodeTinkerLocal.layerInProcess(), NodeContext.layer]))
)
