import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Id, Weights } from "effect-tinker/wire"
import { toJson } from "./utils/json.js"

const modelId = Id.ModelId.make("m")

describe("Weights", () => {
  it("leaves out an expiry that is not asked for", () => {
    assert.deepStrictEqual(toJson(Weights.SaveWeightsRequest, new Weights.SaveWeightsRequest({ modelId, path: "x" })), {
      model_id: "m",
      path: "x",
      overwrite: false,
      type: "save_weights"
    })
  })

  it("reads a named and an unnamed save for sampling", () => {
    const decode = Schema.decodeUnknownSync(Weights.SaveWeightsForSamplerResult)
    assert.strictEqual(decode({ path: "tinker://m/sampler_weights/x" }).path, "tinker://m/sampler_weights/x")
    assert.strictEqual(decode({ path: null, sampling_session_id: "s:sample:0" }).samplingSessionId, "s:sample:0")
  })

  it("shows nothing but the path of a save for sampling", () => {
    const response = Schema.decodeUnknownSync(Weights.SaveWeightsForSamplerResponse)({
      path: "p",
      sampling_session_id: "s",
      type: "save_weights_for_sampler"
    })
    assert.deepStrictEqual(Object.keys(response), ["path"])
  })

  it("always says whether the optimizer is loaded", () => {
    const request = new Weights.LoadWeightsRequest({
      modelId,
      seqId: 1,
      path: "tinker://m/weights/x",
      optimizer: false
    })
    assert.deepStrictEqual(toJson(Weights.LoadWeightsRequest, request), {
      model_id: "m",
      seq_id: 1,
      path: "tinker://m/weights/x",
      optimizer: false,
      type: "load_weights"
    })
  })
})
