/**
 * A training run that watches its budget: it stops by itself before it would overspend.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import { CostLedger, Datum, ModelInput, Progress, TrainingClient } from "effect-tinker"

const baseModel = "local/small"
const learningRate = 4e-4

const program = Effect.gen(function*() {
  const ledger = yield* CostLedger.make({
    prices: { [baseModel]: { train: 0.4, prefill: 0.13, sample: 0.4 } }, // for a million tokens, yours to look up
    budget: 0.00004
  })
  const training = ledger.training(yield* TrainingClient.makeLora({ baseModel, rank: 16, seed: 1 }), baseModel)
  const { renderer: { tokenizer } } = yield* Chat.forModel(training)
  const tokens = tokenizer.encode("Tinker trains models.")
  const lesson = yield* Datum.fromTokens(tokens)

  const progress = yield* Progress.make({ render: (snapshot) => Console.log(Progress.describe(snapshot)) })
  const step = Effect.gen(function*() {
    const future = yield* training.trainStep([lesson], "cross_entropy", { learningRate })
    const { pass } = yield* progress.await(future)
    const { spent } = yield* ledger.totals
    yield* progress.step({ loss: pass.metrics["loss:sum"] ?? NaN, spent }, { tokens: tokens.length })
  })
  yield* Effect.forever(step).pipe(
    Effect.ensuring(progress.end),
    Effect.catchTag("BudgetExceeded", (error) => Console.log(`stopped: ${error.message}`))
  )

  // A sample reserves the most it may cost and pays what it used. Here there is no room left for it.
  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  const sample = sampler.sample({ prompt: ModelInput.fromInts(tokens.subarray(0, 6)), maxTokens: 16 })
  yield* Effect.catchTag(sample, "BudgetExceeded", (error) => Console.log(`no sample: ${error.message}`))
  for (const entry of (yield* ledger.totals).entries) yield* Console.log(entry)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))
