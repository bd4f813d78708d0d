/**
 * Models, passes and optimizers; its twin is `python/scenarios/training.py`.
 */
import { Effect } from "effect"
import { both, datum, scenario, training as client } from "./common.js"

export const training = [
  scenario(
    "train_steps",
    Effect.gen(function*() {
      const training = yield* client
      const data = [datum("cat: meow"), datum("dog: woof")]
      const step = both(training.forwardBackward(data, "cross_entropy"), training.optimStep({ learningRate: 1e-4 }))
      yield* step
      yield* step
    })
  )
]
