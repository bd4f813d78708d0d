/**
 * A loop to test: trains until the loss is low enough, and saves when it has been a while.
 */
import { Clock, Duration, Effect } from "effect"
import { type Datum, TinkerFuture, type TrainingClient } from "effect-tinker"

export const trainUntil = Effect.fnUntraced(function*(
  training: TrainingClient.Service,
  batch: ReadonlyArray<Datum.Datum>,
  options: { readonly loss: number; readonly saveEvery: Duration.DurationInput }
) {
  const saved: Array<string> = []
  let savedAt = yield* Clock.currentTimeMillis
  for (let step = 1;; step++) {
    const { pass } = yield* training.trainStep(batch, "cross_entropy", { learningRate: 5e-4 }).pipe(TinkerFuture.await)
    const now = yield* Clock.currentTimeMillis
    if (now - savedAt >= Duration.toMillis(options.saveEvery)) {
      saved.push((yield* training.saveState(`step-${step}`).pipe(TinkerFuture.await)).path)
      savedAt = now
    }
    if ((pass.metrics["loss:sum"] ?? NaN) < options.loss) return { steps: step, saved }
  }
})
