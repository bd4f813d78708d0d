import * as Gguf from "@effect-tinker/weights/Gguf"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Engine from "../src/Engine.js"
import { makeArchitecture } from "../src/internal/engine/architecture.js"
import * as LocalCheckpoint from "../src/LocalCheckpoint.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as Safetensors from "../src/Safetensors.js"

const config = {
  model_type: "qwen3",
  vocab_size: 264,
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 8,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: true,
  eos_token_id: 258
}

/** A directory with random weights. */
const directory = Effect.fnUntraced(function*(change: Record<string, unknown> = {}, left = "") {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* fs.makeTempDirectoryScoped()
  const shapes: Array<readonly [string, ReadonlyArray<number>]> = [
    ["model.embed_tokens.weight", [264, 32]],
    ["model.norm.weight", [32]]
  ]
  for (const layer of [0, 1]) {
    const at = `model.layers.${layer}`
    shapes.push(
      [`${at}.input_layernorm.weight`, [32]],
      [`${at}.post_attention_layernorm.weight`, [32]],
      [`${at}.self_attn.q_norm.weight`, [8]],
      [`${at}.self_attn.k_norm.weight`, [8]],
      [`${at}.self_attn.q_proj.weight`, [32, 32]],
      [`${at}.self_attn.k_proj.weight`, [16, 32]],
      [`${at}.self_attn.v_proj.weight`, [16, 32]],
      [`${at}.self_attn.o_proj.weight`, [32, 32]],
      [`${at}.mlp.gate_proj.weight`, [48, 32]],
      [`${at}.mlp.up_proj.weight`, [48, 32]],
      [`${at}.mlp.down_proj.weight`, [32, 48]]
    )
  }
  const tensors = shapes.filter(([name]) => name !== left).map(([name, shape], index) => ({
    name,
    shape,
    data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => 0.3 * Math.sin(index + i * 7.3))
  }))
  yield* fs.writeFile(path.join(root, "model.safetensors"), Safetensors.encode({ tensors, dtype: "BF16" }))
  yield* fs.writeFileString(path.join(root, "config.json"), JSON.stringify({ ...config, ...change }))
  const { tokenizerConfig, tokenizerJson } = LocalTokenizer.huggingFaceFiles
  yield* fs.writeFileString(path.join(root, "tokenizer.json"), JSON.stringify(tokenizerJson))
  yield* fs.writeFileString(path.join(root, "tokenizer_config.json"), JSON.stringify(tokenizerConfig))
  return root
})

const prompt = Array.from({ length: 40 }, (_, i) => (i * 29) % 256)

describe("LocalCheckpoint", () => {
  it.scoped("a directory becomes a model that samples, and learns", () =>
    Effect.gen(function*() {
      const model = yield* LocalCheckpoint.fromDirectory(yield* directory(), { name: "mine" })
      assert.strictEqual(model.name, "mine")
      assert.deepStrictEqual(model.endTokens, [258])
      assert.strictEqual(makeArchitecture(model).embedding, undefined)
      const engine = yield* Engine.make({ models: [model] })
      const adapter = yield* engine.createAdapter({ baseModel: "mine", rank: 8, seed: 1 })
      const lossInputs = { target_tokens: { data: prompt.slice(1), shape: [39] } }
      const losses: Array<number> = []
      for (let step = 0; step < 10; step++) {
        const pass = yield* adapter.forwardBackward({
          data: [{ tokens: prompt.slice(0, -1), lossInputs }],
          loss: "cross_entropy"
        })
        losses.push(pass.metrics["loss:sum"] ?? NaN)
        yield* adapter.optimStep({ learningRate: 1e-3 })
      }
      assert.isBelow(losses[9] ?? NaN, 0.7 * (losses[0] ?? NaN))
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("what a prompt shares with an earlier one is not computed again, and nothing changes by a bit", () =>
    Effect.gen(function*() {
      const model = yield* LocalCheckpoint.fromDirectory(yield* directory(), { name: "mine" })
      const engine = yield* Engine.make({ models: [model] })
      const fresh = yield* Effect.flatMap(Engine.make({ models: [model] }), ({ sampler }) => sampler("mine"))
      const sampler = yield* engine.sampler("mine")
      const params = { maxTokens: 9, seed: 5, stop: [] }
      const first = yield* sampler.sample({ prompt, params })
      assert.strictEqual(yield* engine.reusedTokens("mine"), 0)
      // the next turn of the conversation, for a group
      const longer = [...prompt, ...(first.sequences[0]?.tokens ?? []), 1, 2, 3]
      const second = yield* sampler.sample({ prompt: longer, numSamples: 3, params })
      // all that was read: the last token drawn was not
      assert.strictEqual(yield* engine.reusedTokens("mine"), prompt.length + 8)
      assert.deepStrictEqual(second, yield* fresh.sample({ prompt: longer, numSamples: 3, params }))
      // drawn one by one or read with a prompt: the same logprobs
      const scored = yield* fresh.sample({ prompt: longer, promptLogprobs: true, params: { maxTokens: 0 } })
      assert.deepStrictEqual(scored.promptLogprobs?.slice(40, 49), first.sequences[0]?.logprobs)
    }).pipe(Effect.provide(NodeContext.layer)))

  for (const family of ["llama", "qwen3"]) {
    it.scoped(`a GGUF file of ${family} gives the log probabilities of the directory it was made from`, () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const path = yield* Path.Path
        const root = yield* directory({ model_type: family })
        const output = path.join(yield* fs.makeTempDirectoryScoped(), "model.gguf")
        yield* Gguf.writeModel({ base: root, output, format: "f32", preTokenizer: "gpt-2" })
        const models = [
          yield* LocalCheckpoint.fromDirectory(root, { name: "directory" }),
          yield* LocalCheckpoint.fromGguf(output, { name: "gguf" })
        ]
        const engine = yield* Engine.make({ models })
        const [expected, found] = yield* Effect.forEach(
          models,
          ({ name }) =>
            Effect.flatMap(
              engine.sampler(name),
              (sampler) => sampler.sample({ prompt, promptLogprobs: true, params: { maxTokens: 8, temperature: 0 } })
            )
        )
        assert.deepStrictEqual(found, expected)
        assert.deepStrictEqual(
          models[1]?.tokenizer?.encode("The cat, 123 dogs"),
          models[0]?.tokenizer?.encode("The cat, 123 dogs")
        )
      }).pipe(Effect.provide(NodeContext.layer)))
  }

  it.scoped("a directory may not name weights outside of it, nor claim the same bytes twice", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const root = yield* directory()
      const inside = path.join(root, "model.safetensors")
      yield* fs.copyFile(inside, path.join(root, "..", "outside.safetensors"))
      yield* fs.writeFileString(
        path.join(root, "model.safetensors.index.json"),
        JSON.stringify({ weight_map: { "model.norm.weight": "../outside.safetensors" } })
      )
      const outside = yield* Effect.flip(LocalCheckpoint.fromDirectory(root))
      assert.include(outside.message, "outside the directory")
      yield* fs.remove(path.join(root, "model.safetensors.index.json"))
      yield* fs.remove(path.join(root, "..", "outside.safetensors"))
      const header = JSON.stringify({
        a: { dtype: "F32", shape: [4], data_offsets: [0, 16] },
        b: { dtype: "F32", shape: [4], data_offsets: [0, 16] }
      })
      const file = new Uint8Array(8 + header.length + 16)
      new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true)
      file.set(new TextEncoder().encode(header), 8)
      yield* fs.writeFile(inside, file)
      assert.include((yield* Effect.flip(LocalCheckpoint.fromDirectory(root))).message, "b overlaps another tensor")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("refuses, in words, what is missing, unknown or too large", () =>
    Effect.gen(function*() {
      const refusal = (change: Record<string, unknown>, left?: string) =>
        Effect.flatMap(directory(change, left), (root) => Effect.flip(LocalCheckpoint.fromDirectory(root)))
      assert.include((yield* Effect.flip(LocalCheckpoint.fromDirectory("/nowhere"))).message, "config.json")
      assert.include((yield* refusal({ model_type: "mamba" })).message, "supported are llama, mistral, qwen2")
      assert.include((yield* refusal({ attention_bias: true })).message, "attention_bias")
      assert.include((yield* refusal({ head_dim: 12 })).message, "head_dim is 12")
      assert.include((yield* refusal({ intermediate_size: 56 })).message, "has shape [48, 32], expected [56, 32]")
      assert.include((yield* refusal({}, "model.norm.weight")).message, "the tensor model.norm.weight is missing")
      const model = yield* LocalCheckpoint.fromDirectory(yield* directory())
      const engine = yield* Engine.make({ models: [model], memoryBytes: 1e6 })
      const tooLarge = yield* Effect.flip(engine.load(model.name))
      assert.strictEqual(tooLarge._tag, "ModelUnavailable")
      assert.match(tooLarge.message, /needs 0\.\d+ GiB of memory/)
    }).pipe(Effect.provide(NodeContext.layer)))
})
