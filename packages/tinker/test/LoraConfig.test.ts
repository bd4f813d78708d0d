import { assert, describe, it } from "@effect/vitest"
import { LoraConfig } from "effect-tinker"
import { toJson } from "./utils/json.js"

describe("LoraConfig", () => {
  it("covers every layer unless told otherwise", () => {
    const config = new LoraConfig.LoraConfig({ rank: 32, trainMlp: false, seed: 0 })
    assert.deepStrictEqual(toJson(LoraConfig.LoraConfig, config), {
      rank: 32,
      seed: 0,
      train_unembed: true,
      train_mlp: false,
      train_attn: true
    })
  })

  it("wants a rank", () => {
    assert.throws(() => new LoraConfig.LoraConfig({ rank: 0 }))
    assert.throws(() => new LoraConfig.LoraConfig({ rank: 1.5 }))
  })
})
