import { Effect } from "effect"
import { Datum, ModelInput, TensorData } from "effect-tinker"

const program = Effect.gen(function*() {
  // next-token prediction: reads all but the last token, is scored on all but the first, here on the last two
  const datum = yield* Datum.fromTokens([1, 15, 27, 2], { weights: [0, 0, 1, 1] })

  // any loss: plain lists take their dtype from the key, typed arrays have their own
  const policy = yield* Datum.make({
    modelInput: ModelInput.fromInts([1, 15, 27]),
    lossFnInputs: {
      target_tokens: [15, 27, 2],
      logprobs: new Float32Array([0, -0.2, -1.3]),
      advantages: [0, 0.5, 0.5]
    }
  })
  const soft = yield* TensorData.fromArray([[0.75, 0.25], [0.5, 0.5]], { key: "weights" })
  return [datum, policy, TensorData.toNested(soft)]
})

export { program }
