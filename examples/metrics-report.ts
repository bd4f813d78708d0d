/**
 * Keeps the metrics of a run in a log, from which `tinker report` draws its curves and `tinker watch` follows it.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { Chat } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import { Datum, MetricsLog, Progress, TrainingClient } from "effect-tinker"

const model = "local/small"
const learningRate = 4e-4

const steps = 60

const program = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = `${yield* fs.makeTempDirectory({ prefix: "tinker-" })}/metrics.jsonl`
  const log = yield* MetricsLog.open(path)
  const progress = yield* Progress.make({ totalSteps: steps })

  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 16, seed: 1 })
  const { renderer: { tokenizer } } = yield* Chat.forModel(training)
  const lessons = yield* Effect.forEach(
    ["one: uno\n", "two: dos\n", "three: tres\n", "four: cuatro\n"],
    (text) => Datum.fromTokens(tokenizer.encode(text))
  )
  for (let step = 0; step < steps; step++) {
    const batch = lessons.filter((_, i) => i % 2 === step % 2)
    const tokens = batch.reduce((sum, { lossFnInputs }) => sum + (lossFnInputs["target_tokens"]?.data.length ?? 0), 0)
    const future = yield* training.trainStep(batch, "cross_entropy", { learningRate })
    const { pass } = yield* progress.await(future)
    const loss = (pass.metrics["loss:sum"] ?? NaN) / tokens
    // A line on disk for each step: killed here, the run keeps what it has.
    yield* log.append(yield* progress.step({ loss, "reward/likelihood": Math.exp(-loss) }, { tokens }))
  }

  yield* Console.log(Progress.describe(yield* progress.current))
  yield* Console.log(`for the curves: tinker report ${path}`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer()), Effect.provide(NodeContext.layer)))
