import { Console, Effect } from "effect"
import { type Datum, Progress, TrainingClient } from "effect-tinker"

const train = (batches: ReadonlyArray<ReadonlyArray<Datum.Datum>>) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.TrainingClient
    const progress = yield* Progress.make({
      totalSteps: batches.length,
      render: (snapshot) => Console.log(Progress.describe(snapshot)) // step 12/100: loss 1.81, 250 tokens/s, 2m 18s left
    })
    for (const batch of batches) {
      const pass = yield* training.forwardBackward(batch, "cross_entropy")
      const update = yield* training.optimStep({ learningRate: 1e-4 })
      const { metrics } = yield* progress.await(pass) // shows the queue's reasons while it waits
      yield* update
      yield* progress.step({ loss: metrics["loss:sum"] ?? NaN }, { tokens: 4096 })
    }
  }).pipe(Effect.scoped)

export { train }
