/**
 * Models, their operations and their checkpoints.
 *
 * @since 0.1.0
 */
import * as Api from "effect-tinker/Api"
import type { ModelId } from "effect-tinker/Id"
import * as Model from "effect-tinker/Model"
import * as Weights from "effect-tinker/Weights"
import * as Effect from "effect/Effect"
import type { Probe } from "./probe.js"
import type { Check, Known } from "./support.js"
import {
  check,
  createModel,
  datum,
  decoders,
  how,
  named,
  need,
  next,
  no,
  option,
  pass,
  result,
  scored,
  step
} from "./support.js"

/** @internal */
export const training: ReadonlyArray<Check> = [
  check("create model", (probe, known) =>
    Effect.gen(function*() {
      known.modelId = yield* createModel(probe, known, yield* need(known, "model"))
      return known.modelId
    })),
  check("model info", (probe, known) =>
    Effect.gen(function*() {
      const modelId = yield* need(known, "modelId")
      const info = yield* probe.call(Api.getInfo, new Model.GetInfoRequest({ modelId }))
      if (info.modelId !== modelId) return yield* no(`it is said to be ${info.modelId}`)
    })),
  check("forward", (probe, known) =>
    Effect.gen(function*() {
      const output = yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      known.loss = yield* scored(output.value)
      return `loss ${known.loss.toFixed(3)}, result in ${how(output.protobuf)}`
    })),
  check("forward backward", (probe, known) =>
    Effect.gen(function*() {
      const output = yield* result(probe, yield* pass(probe, known), decoders.pass)
      const loss = yield* scored(output.value)
      if (known.loss !== undefined && Math.abs(loss - known.loss) > 0.05 * Math.abs(known.loss) + 0.01) {
        return yield* no(`the same pass gave a loss of ${known.loss} forward and ${loss} with gradients`)
      }
    })),
  check("optimizer step", (probe, known) =>
    Effect.gen(function*() {
      const future = yield* next(known, (modelId, seqId) => probe.call(Api.optimStep, step(modelId, seqId)))
      yield* result(probe, future, decoders.optimStep)
    })),
  check("operations keep their order", (probe, known) =>
    Effect.gen(function*() {
      const modelId = yield* need(known, "modelId")
      // Clients send the first piece of a batch last.
      const later = yield* probe.call(Api.optimStep, step(modelId, known.seqId + 2))
      const early = yield* probe.settle(later.requestId, decoders.optimStep, "1500 millis")
      yield* result(probe, yield* pass(probe, known), decoders.pass)
      known.seqId++
      if (early._tag !== "Waiting") {
        return yield* no(`operation ${known.seqId} ran before the one it follows was sent`)
      }
      yield* result(probe, later, decoders.optimStep)
    })),
  check("a resend is recognised", (probe, known) =>
    Effect.gen(function*() {
      const send = (modelId: ModelId, seqId: number) => probe.call(Api.optimStep, step(modelId, seqId))
      const once = yield* next(known, send)
      const twice = yield* send(yield* need(known, "modelId"), known.seqId)
      yield* result(probe, once, decoders.optimStep)
      yield* result(probe, twice, decoders.optimStep)
      // The next number is still the next.
      yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      return once.requestId === twice.requestId ? "by its number" : "with an id of its own"
    })),
  option("a failed operation", (probe, known) =>
    Effect.gen(function*() {
      const future = yield* pass(probe, known, { data: [datum([2_000_000_000, 1, 2])] })
      const settled = yield* probe.settle(future.requestId, decoders.pass)
      if (settled._tag !== "Failed") return yield* no("a token beyond any vocabulary was taken")
      yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      return settled.category.toLowerCase() === "user"
        ? undefined
        : yield* no(`the category is ${settled.category}, not user: ${settled.error}`)
    }))
]

const saveForSampler = Effect.fnUntraced(function*(
  probe: Probe,
  known: Known,
  as: { readonly path: string } | { readonly samplingSessionSeqId: number }
) {
  const future = yield* next(
    known,
    (modelId, seqId) =>
      probe.call(Api.saveWeightsForSampler, new Weights.SaveWeightsForSamplerRequest({ modelId, seqId, ...as }))
  )
  return yield* result(probe, future, decoders.saveForSampler)
})

/** @internal */
export const checkpoints: ReadonlyArray<Check> = [
  check("save state", (probe, known) =>
    Effect.gen(function*() {
      const future = yield* next(known, (modelId, seqId) =>
        probe.call(Api.saveWeights, new Weights.SaveWeightsRequest({ modelId, seqId, path: "conformance" })))
      const saved = yield* result(probe, future, decoders.save)
      known.statePath = yield* named(saved.value.path, "weights")
      return known.statePath
    })),
  check("load state", (probe, known) =>
    Effect.gen(function*() {
      const path = yield* need(known, "statePath")
      const before = yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      const modelId = yield* createModel(probe, known, yield* need(known, "model"))
      const other: Known = { ...known, modelId, seqId: 1 }
      const request = new Weights.LoadWeightsRequest({ modelId, seqId: 1, path, optimizer: true })
      yield* result(probe, yield* probe.call(Api.loadWeights, request), decoders.load)
      const after = yield* result(probe, yield* pass(probe, other, { forwardOnly: true }), decoders.pass)
      const [saved, loaded] = [yield* scored(before.value), yield* scored(after.value)]
      if (Math.abs(saved - loaded) > 0.05 * Math.abs(saved) + 0.01) {
        return yield* no(`the loss was ${saved} before, and is ${loaded} after loading`)
      }
    })),
  check("save for sampling", (probe, known) =>
    Effect.gen(function*() {
      const saved = yield* saveForSampler(probe, known, { path: "conformance" })
      known.samplerPath = yield* named(saved.value.path, "sampler_weights")
      return known.samplerPath
    })),
  option("hand weights to a sampler", (probe, known) =>
    Effect.gen(function*() {
      const saved = yield* saveForSampler(probe, known, { samplingSessionSeqId: known.samplers++ })
      if (saved.value.samplingSessionId === undefined) return yield* no("the result names no sampling session")
    }))
]
