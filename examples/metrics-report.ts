/**
 * Keeps the metrics of a run in a log and draws its curves as one HTML file, to look at in any browser.
 */
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import { Datum, MetricsLog, Progress, Report, TrainingClient } from "effect-tinker"
import { Backend, learningRate, model, tokenizerOf } from "./shared/backend.js"

const steps = 60

const program = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectory({ prefix: "tinker-" })
  const log = yield* MetricsLog.open(`${directory}/metrics.jsonl`)
  const progress = yield* Progress.make({ totalSteps: steps })

  const training = yield* TrainingClient.makeLora({ baseModel: yield* model, rank: 16, seed: 1 })
  const tokenizer = yield* tokenizerOf(training)
  const lessons = yield* Effect.forEach(
    ["one: uno\n", "two: dos\n", "three: tres\n", "four: cuatro\n"],
    (text) => Datum.fromTokens(tokenizer.encode(text))
  )
  for (let step = 0; step < steps; step++) {
    const batch = lessons.filter((_, i) => i % 2 === step % 2)
    const tokens = batch.reduce((sum, { lossFnInputs }) => sum + (lossFnInputs["target_tokens"]?.data.length ?? 0), 0)
    const future = yield* training.trainStep(batch, "cross_entropy", { learningRate: yield* learningRate })
    const { pass } = yield* progress.await(future)
    const loss = (pass.metrics["loss:sum"] ?? NaN) / tokens
    // A line on disk for each step: killed here, the run keeps what it has.
    yield* log.append(yield* progress.step({ loss, "reward/likelihood": Math.exp(-loss) }, { tokens }))
  }

  const output = `${directory}/report.html`
  yield* Report.write({ log: `${directory}/metrics.jsonl`, output, title: "Four numbers in Spanish" })
  yield* Console.log(Progress.describe(yield* progress.current))
  yield* Console.log(`the curves: ${output}`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(Backend), Effect.provide(NodeContext.layer)))
