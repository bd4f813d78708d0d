import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import { Optimizer } from "effect-tinker"
import { Id } from "effect-tinker/wire"
import { fromJson, toJson } from "./utils/json.js"

const modelId = Id.ModelId.make("m")
const adam = { learning_rate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-12, weight_decay: 0, grad_clip_norm: 0 }

describe("Optimizer", () => {
  it("writes every default of AdamW", () => {
    assert.deepStrictEqual(toJson(Optimizer.AdamParams, new Optimizer.AdamParams()), adam)
  })

  it("sends AdamW under the key every server knows, other families under their own", () => {
    const adamStep = Optimizer.optimStepRequest({ modelId, seqId: 1, params: new Optimizer.AdamParams() })
    const dimuonStep = Optimizer.optimStepRequest({
      modelId,
      seqId: 1,
      params: new Optimizer.DimuonParams({ learningRate: 0.02 })
    })
    const otherStep = Optimizer.optimStepRequest({ modelId, params: { type: "lion", learning_rate: 1 } })
    const rest = { model_id: "m", seq_id: 1, type: "optim_step" }
    assert.deepStrictEqual(toJson(Optimizer.OptimStepRequest, adamStep), { adam_params: adam, ...rest })
    assert.deepStrictEqual(toJson(Optimizer.OptimStepRequest, dimuonStep), {
      optimizer_params: { type: "dimuon", learning_rate: 0.02, grad_clip_norm: 0, beta1: 0.9 },
      ...rest
    })
    assert.deepStrictEqual(toJson(Optimizer.OptimStepRequest, otherStep), {
      optimizer_params: { type: "lion", learning_rate: 1 },
      model_id: "m",
      type: "optim_step"
    })
  })

  it("wants exactly one set of parameters", () => {
    assert.throws(() => new Optimizer.OptimStepRequest({ modelId }))
    assert.throws(() =>
      new Optimizer.OptimStepRequest({
        modelId,
        adamParams: new Optimizer.AdamParams(),
        optimizerParams: new Optimizer.DimuonParams({ learningRate: 1 })
      })
    )
  })

  it("refuses parameters that are no numbers, out of range, or misspelt", () => {
    assert.throws(() => new Optimizer.AdamParams({ learningRate: NaN }))
    assert.throws(() => new Optimizer.DimuonParams({ learningRate: -1 }))
    assert.throws(() => new Optimizer.DimuonParams({ learningRate: 1, beta1: 1 }))
    assert.isTrue(Either.isLeft(fromJson(Optimizer.AdamParams)({ learning_rat: 1 })))
  })

  it("never sends a known family's parameters under our names", () => {
    assert.throws(() => Schema.encodeSync(Optimizer.OtherOptimizerParams)({ type: "dimuon", learningRate: 1 }))
  })

  it("reads families it does not know", () => {
    const config = Schema.decodeUnknownSync(Optimizer.OptimizerConfig)({ type: "dimuon", version: 2, more: [1] })
    assert.deepStrictEqual(config, { type: "dimuon", version: 2, more: [1] })
    assert.instanceOf(
      Schema.decodeUnknownSync(Optimizer.OptimizerConfig)({ type: "dimuon", version: 1 }),
      Optimizer.DimuonOptimizerConfig
    )
  })

  it("reads a metric that is null as no number", () => {
    const response = Schema.decodeUnknownSync(Optimizer.OptimStepResponse)({ metrics: { a: 1, b: null } })
    assert.deepStrictEqual(response.metrics, { a: 1, b: NaN })
  })
})
