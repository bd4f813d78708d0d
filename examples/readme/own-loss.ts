import { Effect } from "effect"
import { Autodiff, CustomLoss, type Datum, Objectives, TrainingClient } from "effect-tinker"

const step = (batch: ReadonlyArray<Datum.Datum>, reference: ReadonlyArray<ReadonlyArray<number>>) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.TrainingClient
    // cross entropy, kept near a reference model
    const loss = CustomLoss.perDatum((logprobs, datum, i) => {
      const weights = CustomLoss.input(datum, "weights")
      const nll = Autodiff.neg(Autodiff.sum(Autodiff.mul(logprobs, weights)))
      const shift = Objectives.l2Shift(logprobs, reference[i] ?? logprobs)
      return Autodiff.add(nll, Autodiff.mul(Autodiff.sum(shift), 0.05))
    })
    const pass = yield* training.forwardBackwardCustom(batch, loss)
    const update = yield* training.optimStep({ learningRate: 1e-4 })
    const { metrics } = yield* pass // loss:sum is yours, surrogate_loss:sum the server's
    yield* update
    return metrics
  })

export { step }
