import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import { measure, ModelConfig } from "../../src/internal/checkpoint/config.js"

/** The configuration of Phi-4-mini. */
const phi4 = {
  model_type: "phi3",
  vocab_size: 200_064,
  hidden_size: 3072,
  intermediate_size: 8192,
  num_hidden_layers: 32,
  num_attention_heads: 24,
  num_key_value_heads: 8,
  max_position_embeddings: 131_072,
  original_max_position_embeddings: 4096,
  rms_norm_eps: 1e-5,
  hidden_act: "silu",
  tie_word_embeddings: true,
  partial_rotary_factor: 0.75,
  rope_theta: 10_000,
  rope_scaling: {
    type: "longrope",
    short_factor: Array.from({ length: 48 }, () => 1),
    long_factor: Array.from({ length: 48 }, () => 40)
  }
}

const measured = (change: Readonly<Record<string, unknown>>, contextLength?: number) =>
  measure(Schema.decodeUnknownSync(ModelConfig)({ ...phi4, ...change }), contextLength)

const refusal = (change: Readonly<Record<string, unknown>>, contextLength?: number) =>
  Either.getOrThrow(Either.flip(measured(change, contextLength)))

describe("the configuration of Phi-4-mini", () => {
  it("rotates three quarters of each head, and scales them for its longer contexts", () => {
    const { contextLength, headSize, rotation } = Either.getOrThrow(measured({}))
    assert.strictEqual(headSize, 128)
    assert.strictEqual(rotation.dimensions, 96)
    assert.deepStrictEqual(rotation.divisors, phi4.rope_scaling.short_factor)
    // sqrt(1 + ln 32 / ln 4096)
    assert.closeTo(rotation.scale ?? 0, 1.19024, 1e-5)
    assert.isAtMost(contextLength, 4096)
  })

  it("is refused where other factors would count", () => {
    assert.include(refusal({}, 8192), "contexts beyond 4096 tokens")
    assert.include(refusal({ partial_rotary_factor: 0.55 }), "70 of 128 dimensions")
    assert.include(refusal({ partial_rotary_factor: 0.5 }), "short_factor of 32 numbers")
    assert.include(refusal({ original_max_position_embeddings: null }), "original_max_position_embeddings")
  })
})
