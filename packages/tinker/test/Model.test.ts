import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { LoraConfig, Optimizer } from "effect-tinker"
import { Id, Model } from "effect-tinker/wire"
import { toJson } from "./utils/json.js"

const base = { sessionId: Id.SessionId.make("s"), modelSeqId: 0, baseModel: "b" }

describe("Model", () => {
  it("names an optimizer only when asked to", () => {
    const json = { session_id: "s", model_seq_id: 0, base_model: "b", type: "create_model" }
    assert.deepStrictEqual(toJson(Model.CreateModelRequest, new Model.CreateModelRequest(base)), json)
    const request = new Model.CreateModelRequest({
      ...base,
      optimizerConfig: new Optimizer.DimuonOptimizerConfig(),
      loraConfig: new LoraConfig.LoraConfig({ rank: 8 })
    })
    assert.deepStrictEqual(toJson(Model.CreateModelRequest, request), {
      ...json,
      optimizer_config: { type: "dimuon", version: 1 },
      lora_config: { rank: 8, train_unembed: true, train_mlp: true, train_attn: true }
    })
  })

  it("takes AdamW for the optimizer of a server that names none", () => {
    const info = Schema.decodeUnknownSync(Model.GetInfoResponse)({ model_id: "m", model_data: { tokenizer_id: null } })
    assert.instanceOf(info.optimizerConfig, Optimizer.AdamOptimizerConfig)
    assert.isUndefined(info.modelData.tokenizerId)
  })
})
