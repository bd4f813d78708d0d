/**
 * Check of an adapter's weights before they are saved or used.
 */
import * as Effect from "effect/Effect"
import * as EngineError from "../../EngineError.js"
import type { Snapshot } from "../../LocalAdapter.js"

/** Where the squares of weights overflow in 32 bits, nothing the model computes is finite any more. */
const largestWeight = 1e18

const checkTensor = ({ data, name }: Snapshot["weights"][number]): Effect.Effect<void, EngineError.NotFinite> => {
  for (let i = 0; i < data.length; i++) {
    // NaN compares false
    if (!(Math.abs(data[i] ?? 0) < largestWeight)) {
      return new EngineError.NotFinite({ description: `the weights have diverged: ${name} holds ${data[i]}` })
    }
  }
  return Effect.void
}

/** Fails when the weights are not finite, or so large that nothing computed from them is. @internal */
export const checkWeights = (
  snapshot: Pick<Snapshot, "weights">
): Effect.Effect<void, EngineError.NotFinite> => Effect.forEach(snapshot.weights, checkTensor, { discard: true })
