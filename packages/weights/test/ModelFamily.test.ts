import { ModelFamily } from "@effect-tinker/weights"
import { assert, describe, it } from "@effect/vitest"

/** Names of an adapter's weights, in the model and for a PEFT adapter; those of experts renamed as the model has them. */
const names = (config: Readonly<Record<string, unknown>>, weights: ReadonlyArray<string>) => {
  const family = ModelFamily.detect(config, new Set(weights))
  return {
    family,
    in: (name: string) => family.rename(`base_model.model.${name}`),
    peft: (name: string) => family.renameForPeft(`base_model.model.${name}`),
    expert: (name: string) => family.renameExpert(family.rename(`base_model.model.${name}`))
  }
}

const query = "model.layers.3.self_attn.q_proj.weight"
const head = "model.unembed_tokens.weight"
const expert = (n: 1 | 2 | 3) => `model.layers.3.mlp.experts.w${n}.weight`

describe("ModelFamily", () => {
  it("most models: names as they are, the head where there is one", () => {
    const plain = names({ model_type: "qwen3" }, ["lm_head.weight", query])
    assert.deepInclude(plain.family, { name: "default", modelType: "qwen3", experts: "separate" })
    assert.deepStrictEqual([plain.in(query), plain.in(head)], [query, "lm_head.weight"])
    assert.strictEqual(plain.peft(head), "lm_head.weight")
    assert.deepStrictEqual(([1, 3, 2] as const).map((n) => plain.expert(expert(n))), [
      "model.layers.3.mlp.experts.gate_proj.weight",
      "model.layers.3.mlp.experts.up_proj.weight",
      "model.layers.3.mlp.experts.down_proj.weight"
    ])
    const tied = names({ model_type: "qwen3" }, [query])
    assert.strictEqual(tied.in(head), "model.embed_tokens.weight")
    const nested = names({}, ["language_model.lm_head.weight"])
    assert.deepStrictEqual([nested.in(head), nested.family.modelType], ["lm_head.weight", ""])
  })

  it("stacked experts are one tensor", () => {
    const stacked = names({ model_type: "qwen3_moe" }, ["model.layers.0.mlp.experts.gate_up_proj"])
    assert.strictEqual(stacked.family.experts, "concatenated")
    const interleaved = names(
      { model_type: "gpt_oss", architectures: ["GptOssForCausalLM"] },
      ["model.layers.0.mlp.experts.gate_up_proj", "lm_head.weight"]
    )
    assert.deepInclude(interleaved.family, { name: "gpt-oss", experts: "interleaved" })
    assert.strictEqual(interleaved.in("model.layers.0.attn.q_proj.weight"), "model.layers.0.self_attn.q_proj.weight")
    assert.strictEqual(interleaved.in(head), "lm_head.weight")
    const separate = names({ architectures: ["GptOssForCausalLM"] }, [])
    assert.strictEqual(separate.family.experts, "separate")
    const deepseek = names({ model_type: "deepseek_v3" }, ["model.layers.0.mlp.experts.gate_up_proj"])
    assert.deepInclude(deepseek.family, { name: "deepseek", experts: "separate" })
  })

  it("models with vision keep the language model in a part of theirs", () => {
    const vision = names({ model_type: "qwen3_vl" }, ["model.language_model.embed_tokens.weight", "lm_head.weight"])
    assert.strictEqual(vision.in(query), `model.language_model.${query.slice("model.".length)}`)
    assert.strictEqual(vision.in(head), "lm_head.weight")
  })

  it("Nemotron has a backbone, two projections of experts and one of two in its mixers", () => {
    const nemotron = names({ architectures: ["NemotronHForCausalLM"] }, [
      "backbone.layers.0.norm.weight",
      "lm_head.weight"
    ])
    assert.deepInclude(nemotron.family, { name: "nemotron", experts: "separate" })
    assert.deepStrictEqual(nemotron.family.fused, { in_proj: ["gate_proj", "x_proj"] })
    assert.strictEqual(nemotron.in(query), "backbone.layers.3.self_attn.q_proj.weight")
    assert.strictEqual(nemotron.peft(query), query)
    assert.strictEqual(nemotron.in(head), "lm_head.weight")
    assert.deepStrictEqual(([1, 2] as const).map((n) => nemotron.expert(expert(n))), [
      "backbone.layers.3.mlp.experts.up_proj.weight",
      "backbone.layers.3.mlp.experts.down_proj.weight"
    ])
  })

  it("Qwen 3.5, with vision and without, with a head and without", () => {
    for (const model_type of ["qwen3_5", "qwen3_5_moe"]) {
      const language = "model.language_model.embed_tokens.weight"
      const text = names({ model_type }, ["model.embed_tokens.weight"])
      assert.strictEqual(text.family.name, "qwen3.5")
      assert.deepStrictEqual(text.family.fused, { in_proj_qkv: ["in_proj_q", "in_proj_k", "in_proj_v"] })
      assert.deepStrictEqual([text.in(query), text.in(head), text.peft(head)], [
        query,
        "lm_head.weight",
        "lm_head.weight"
      ])
      const tied = names({ model_type }, [language])
      assert.strictEqual(tied.in(query), `model.language_model.${query.slice("model.".length)}`)
      assert.strictEqual(tied.in(head), language)
      assert.strictEqual(names({ model_type }, [language, "lm_head.weight"]).in(head), "lm_head.weight")
    }
  })

  it("Kimi K2.5 wraps the whole language model", () => {
    const kimi = names({ model_type: "kimi_k25" }, ["language_model.lm_head.weight"])
    assert.strictEqual(kimi.family.name, "kimi-k2.5")
    assert.strictEqual(kimi.in(query), `language_model.${query}`)
    assert.strictEqual(kimi.in(head), "language_model.lm_head.weight")
    assert.strictEqual(kimi.in("lm_head.weight"), "language_model.lm_head.weight")
    // Servers take the adapter of the language model alone.
    assert.strictEqual(kimi.peft(query), query)
  })

  it("quantized weights are known wherever the configuration says so", () => {
    assert.isTrue(ModelFamily.isQuantized({ quantization_config: {} }))
    assert.isTrue(ModelFamily.isQuantized({ text_config: { quantization_config: { bits: 4 } } }))
    for (
      const config of [{}, { quantization_config: null }, { text_config: null }, { text_config: {} }, {
        text_config: 1
      }]
    ) {
      assert.isFalse(ModelFamily.isQuantized(config), JSON.stringify(config))
    }
    const blocks = (quantization_config: unknown) => ModelFamily.float8Blocks({ quantization_config })
    assert.deepStrictEqual(blocks({ quant_method: "fp8", weight_block_size: [64, 32] }), [64, 32])
    assert.deepStrictEqual(blocks({ quant_method: "fp8" }), [128, 128])
    for (const other of [undefined, null, {}, { quant_method: "mxfp4", weight_block_size: [1, 1] }]) {
      assert.isUndefined(blocks(other))
    }
  })
})
