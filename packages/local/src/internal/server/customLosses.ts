/**
 * Uploaded losses, and the passes that run them: forward, the loss of each example, and backward with its gradient.
 */
import type { Datum as WireDatum } from "effect-tinker/Datum"
import type { TensorData } from "effect-tinker/TensorData"
import type { CreateCustomLossRequest } from "effect-tinker/wire/CustomLossGraph"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as EngineError from "../../EngineError.js"
import type { Adapter, Datum, PassResult } from "../../LocalAdapter.js"
import type { Loss, LossValue } from "./lossGraph.js"
import { compile } from "./lossGraph.js"
import type { HttpFailure } from "./message.js"
import { badRequest } from "./message.js"
import { fromFloats } from "./wire.js"

/** @internal */
export interface CustomLossesShape {
  /** Keeps a loss for the models of its session. Repeating the request gives the same id. */
  readonly create: (request: CreateCustomLossRequest) => Effect.Effect<string, HttpFailure>
  readonly find: (sessionId: string, lossId: unknown) => Loss | undefined
}

/** @internal */
export class CustomLosses extends Context.Tag("@effect-tinker/local/CustomLosses")<CustomLosses, CustomLossesShape>() {}

/** @internal */
export const layer: Layer.Layer<CustomLosses> = Layer.sync(CustomLosses, () => {
  const losses = new Map<string, Loss>()
  return CustomLosses.of({
    create: (request) =>
      Effect.suspend(() => {
        const id = `${request.sessionId}:loss:${request.customLossSeqId}`
        return Either.match(compile(id, request), {
          onLeft: (problem) => Effect.fail(badRequest(`Custom loss ${request.name}: ${problem}`)),
          onRight: (loss) => Effect.sync(() => losses.set(id, loss)).pipe(Effect.as(id))
        })
      }),
    find: (sessionId, lossId) =>
      typeof lossId === "string" && lossId.startsWith(`${sessionId}:`) ? losses.get(lossId) : undefined
  })
})

const invalid = (description: string) => new EngineError.InvalidRequest({ description })

const inputsOf = (loss: Loss, datum: WireDatum, index: number) =>
  Effect.forEach(loss.inputs, (name): Effect.Effect<TensorData, EngineError.EngineError> => {
    const tensor = datum.lossFnInputs[name]
    return tensor === undefined
      ? invalid(`datum ${index} has no loss_fn_inputs[${JSON.stringify(name)}], which the loss reads`)
      : Effect.succeed(tensor)
  })

/** Sums or means, as the name of a metric says. */
const reduced = (values: ReadonlyArray<LossValue>): Record<string, number> => {
  const totals: Record<string, number> = {}
  for (const { metrics } of values) {
    for (const [key, value] of Object.entries(metrics)) totals[key] = (totals[key] ?? 0) + value
  }
  return Object.fromEntries(
    Object.entries(totals).map(([key, total]) => [key, key.endsWith(":mean") ? total / values.length : total])
  )
}

/** A pass with an uploaded loss. @internal */
export const customPass = Effect.fnUntraced(function*(
  adapter: Adapter,
  loss: Loss,
  wire: ReadonlyArray<WireDatum>,
  data: ReadonlyArray<Datum>,
  forwardOnly: boolean
): Effect.fn.Return<PassResult, EngineError.EngineError> {
  const targets: Array<{ readonly tokens: Datum["tokens"]; readonly target: Datum["lossInputs"][string] }> = []
  for (const [index, { lossInputs, tokens }] of data.entries()) {
    const target = lossInputs["target_tokens"]
    if (target === undefined) return yield* invalid(`datum ${index} has no target_tokens`)
    targets.push({ tokens, target })
  }
  const forward = yield* adapter.forwardBackward({
    data: targets.map(({ target, tokens }) => ({ tokens, lossInputs: { target_tokens: target } })),
    loss: "cross_entropy",
    forwardOnly: true
  })
  const values: Array<LossValue> = []
  for (const [index, datum] of wire.entries()) {
    const logprobs = forward.outputs[index]?.["logprobs"]
    if (logprobs === undefined) return yield* invalid(`datum ${index} has no log probabilities`)
    const inputs = yield* inputsOf(loss, datum, index)
    values.push(yield* Effect.mapError(loss.evaluate(fromFloats(logprobs), inputs), invalid))
  }
  if (!forwardOnly) {
    // the gradient of a weighted cross entropy is minus its weights
    yield* adapter.forwardBackward({
      data: targets.map(({ target, tokens }, index) => ({
        tokens,
        lossInputs: {
          target_tokens: target,
          weights: { data: Float32Array.from(values[index]?.gradient ?? [], (g) => -g), shape: target.shape }
        }
      })),
      loss: "cross_entropy"
    })
  }
  return {
    outputs: forward.outputs.map(({ logprobs }) => logprobs === undefined ? {} : { logprobs }),
    metrics: { "loss:sum": values.reduce((sum, { loss }) => sum + loss, 0), ...reduced(values) },
    tokens: forward.tokens
  }
})
