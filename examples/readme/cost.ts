import { Console, Effect } from "effect"
import { CostLedger, type Datum, TinkerFuture, TrainingClient } from "effect-tinker"

const step = (batch: ReadonlyArray<Datum.Datum>) =>
  Effect.gen(function*() {
    const ledger = yield* CostLedger.make({
      prices: { "Qwen/Qwen3-8B": { train: 0.4, prefill: 0.13, sample: 0.4 } }, // yours, for a million tokens
      budget: 5
    })
    const training = ledger.training(yield* TrainingClient.TrainingClient, "Qwen/Qwen3-8B") // the same interface
    yield* training.trainStep(batch, "cross_entropy").pipe(TinkerFuture.await)
    const { entries, spent } = yield* ledger.totals
    yield* Console.log(`spent ${spent}`, entries)
  }).pipe(Effect.catchTag("BudgetExceeded", (error) => Console.log(error.message)))

export { step }
