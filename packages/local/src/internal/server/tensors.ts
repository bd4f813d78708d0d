/**
 * Between the wire's values and the engine's.
 */
import * as ModelInput from "effect-tinker/ModelInput"
import * as TensorData from "effect-tinker/TensorData"
import type { InvalidInput } from "effect-tinker/TinkerError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as EngineError from "../../EngineError.js"
import type { FloatTensor, Tensor } from "../../LocalAdapter.js"

/** @internal */
export const toTokens = (input: ModelInput.ModelInput): Effect.Effect<Int32Array, EngineError.EngineError> =>
  Either.match(ModelInput.toInts(input), {
    onLeft: (error: InvalidInput) =>
      Effect.fail(
        new EngineError.Unsupported({ description: `the embedded backend reads text only: ${error.description}` })
      ),
    onRight: Effect.succeed
  })

/** @internal */
export const toTensor = (tensor: TensorData.TensorData, padValue?: number): Tensor => {
  const dense = TensorData.toDense(tensor, { padValue })
  return { data: dense.data, shape: dense.shape }
}

/** @internal */
export const fromFloats = ({ data, shape }: FloatTensor): TensorData.TensorData =>
  Either.getOrThrow(TensorData.fromArray(data, { shape }))
