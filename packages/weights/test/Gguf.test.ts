import { Gguf } from "@effect-tinker/weights"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { GGMLQuantizationType, gguf } from "@huggingface/gguf"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import * as ggufTokenizer from "../src/internal/ggufTokenizer.js"
import * as fixtures from "./fixtures.js"

/** The file as a reader that is not ours sees it. */
const inspect = (path: string) =>
  Effect.map(Effect.promise(() => gguf(path, { allowLocalFile: true })), ({ metadata, ...rest }) => ({
    ...rest,
    metadata: new Map<string, unknown>(Object.entries(metadata))
  }))

const floats = (path: string, from: bigint, count: number): Float32Array => {
  const bytes = new Uint8Array(readFileSync(path))
  return new Float32Array(bytes.slice(Number(from), Number(from) + count * 4).buffer)
}

describe("Gguf", () => {
  it.scoped("is read by another implementation: shape, vocabulary, template, numbers", () =>
    Effect.gen(function*() {
      const model = yield* fixtures.qwen3(1)
      const file = yield* Gguf.writeModel({ ...model, output: model.at("model.gguf"), format: "f32", name: "tiny" })
      const { metadata, tensorDataOffset, tensorInfos } = yield* inspect(file)
      assert.strictEqual(metadata.get("general.architecture"), "qwen3")
      assert.strictEqual(metadata.get("general.name"), "tiny")
      assert.strictEqual(metadata.get("qwen3.attention.head_count_kv"), 1)
      assert.strictEqual(metadata.get("qwen3.attention.key_length"), 16)
      assert.strictEqual(metadata.get("tokenizer.ggml.pre"), "qwen2")
      assert.strictEqual(metadata.get("tokenizer.ggml.eos_token_id"), 94)
      assert.strictEqual(metadata.get("tokenizer.chat_template"), "{{ messages }}")
      const tokens = metadata.get("tokenizer.ggml.tokens")
      assert.strictEqual(Array.isArray(tokens) ? tokens.length : 0, fixtures.vocabulary)
      const down = tensorInfos.find(({ name }) => name === "blk.1.ffn_down.weight")
      assert(down !== undefined)
      // GGUF counts dimensions from the fastest one.
      assert.deepStrictEqual(down.shape, [BigInt(fixtures.inner), BigInt(fixtures.hidden)])
      const weight = model.weights["model.layers.1.mlp.down_proj.weight"]
      const a = model.matrices["base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"]
      const b = model.matrices["base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"]
      assert(weight !== undefined && a !== undefined && b !== undefined)
      const written = floats(file, tensorDataOffset + down.offset, fixtures.inner * fixtures.hidden)
      fixtures.merged(weight, a, b).forEach((value, i) => assert.closeTo(written[i] ?? NaN, value, 1e-6))
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("takes the vocabularies of real models, which are larger than a call has arguments", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const [tokens, rows] = [151_669, 151_936]
      const vocab = Object.fromEntries(Array.from({ length: tokens }, (_, id) => [`t${id}`, id]))
      const { model, ...rest } = JSON.parse(fixtures.tokenizerJson)
      yield* fixtures.write(directory, {
        "tokenizer.json": JSON.stringify({ ...rest, added_tokens: [], model: { ...model, vocab } })
      })
      const metadata = yield* ggufTokenizer.metadata({ directory, vocabularySize: rows, preTokenizer: undefined })
      const written = metadata["tokenizer.ggml.tokens"]
      assert(written?.type === "strings")
      assert.deepStrictEqual([written.value.length, written.value[tokens - 1]], [rows, `t${tokens - 1}`])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("says how positions are scaled", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(6)
      const config = { ...fixtures.qwen3Config({}), tie_word_embeddings: false }
      const rope = Effect.fnUntraced(function*(name: string, rope_scaling?: object) {
        yield* fs.writeFileString(`${model.base}/config.json`, JSON.stringify({ ...config, rope_scaling }))
        const file = yield* Gguf.writeModel({ ...model, output: model.at(`${name}.gguf`), format: "f32" })
        const { metadata } = yield* inspect(file)
        return ["type", "factor", "original_context_length"].map((key) => metadata.get(`qwen3.rope.scaling.${key}`))
      })
      assert.deepStrictEqual(yield* rope("default"), [undefined, undefined, undefined])
      assert.deepStrictEqual(yield* rope("linear", { type: "linear", factor: 2 }), ["linear", 2, undefined])
      assert.deepStrictEqual(
        yield* rope("yarn", { rope_type: "yarn", factor: 4, original_max_position_embeddings: 32 }),
        ["yarn", 4, 32]
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("keeps vectors in float32 and matrices in the format asked for", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(2)
      const sizes: Array<number> = []
      for (
        const [format, type] of [
          ["f16", GGMLQuantizationType.F16],
          ["bf16", GGMLQuantizationType.BF16],
          ["q8_0", GGMLQuantizationType.Q8_0]
        ] as const
      ) {
        const file = yield* Gguf.writeModel({ ...model, output: model.at(`${format}.gguf`), format })
        const { tensorInfos } = yield* inspect(file)
        for (const { dtype, name, shape } of tensorInfos) {
          assert.strictEqual(dtype, shape.length === 1 ? GGMLQuantizationType.F32 : type, name)
        }
        sizes.push(Number((yield* fs.stat(file)).size))
      }
      assert.isBelow(sizes[2] ?? 0, sizes[0] ?? 0)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("writes adapters to load beside a base model", () =>
    Effect.gen(function*() {
      const model = yield* fixtures.qwen3(3)
      const file = yield* Gguf.writeAdapter({ ...model, output: model.at("adapter.gguf") })
      const { metadata, tensorInfos } = yield* inspect(file)
      assert.strictEqual(metadata.get("general.type"), "adapter")
      assert.strictEqual(metadata.get("adapter.type"), "lora")
      assert.strictEqual(metadata.get("adapter.lora.alpha"), fixtures.alpha)
      const names = tensorInfos.map(({ name }) => name)
      assert.include(names, "blk.0.attn_q.weight.lora_a")
      assert.include(names, "output.weight.lora_b")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("puts the halves of Llama's heads side by side: rows 0, 8, 1, 9 of heads of 16", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(5, { layers: 1 })
      const tensors = Object.fromEntries(
        Object.entries(model.weights).filter(([name]) => !/[qk]_norm/.test(name))
      )
      yield* fs.remove(`${model.base}/model.safetensors.index.json`)
      yield* fixtures.write(model.base, {
        "config.json": JSON.stringify({ ...fixtures.qwen3Config({ layers: 1 }), model_type: "llama" }),
        "model.safetensors": fixtures.safetensors(tensors)
      })
      for (const n of [1, 2]) yield* fs.remove(`${model.base}/model-0000${n}-of-00002.safetensors`)
      const order = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]
      /** Rows in the order in which they should be written. */
      const reordered = (rows: ArrayLike<number>, columns: number) =>
        Array.from(rows, (_, i) => {
          const [row, column] = [Math.floor(i / columns), i % columns]
          return rows[(row - row % 16 + (order[row % 16] ?? 0)) * columns + column]
        })

      const at = "model.layers.0.self_attn"
      const merged = (name: string) => {
        const [a, b] = ["A", "B"].map((side) => model.matrices[`base_model.model.${at}.${name}.lora_${side}.weight`])
        const weight = model.weights[`${at}.${name}.weight`]
        assert(weight !== undefined && a !== undefined && b !== undefined)
        return { a, b, merged: fixtures.merged(weight, a, b) }
      }
      const file = yield* Gguf.writeModel({ ...model, output: model.at("model.gguf"), format: "f32" })
      const whole = yield* inspect(file)
      for (const [ours, theirs] of [["q_proj", "attn_q"], ["k_proj", "attn_k"], ["v_proj", "attn_v"]] as const) {
        const tensor = whole.tensorInfos.find(({ name }) => name === `blk.0.${theirs}.weight`)
        assert(tensor !== undefined)
        const { merged: values } = merged(ours)
        const wanted = ours === "v_proj" ? Array.from(values) : reordered(values, fixtures.hidden)
        const written = floats(file, whole.tensorDataOffset + tensor.offset, values.length)
        wanted.forEach((value, i) => assert.closeTo(written[i] ?? NaN, value ?? NaN, 1e-6, `${ours} ${i}`))
      }

      // of an adapter, B has the outputs
      for (const format of ["f32", "f16"] as const) {
        const own = yield* Gguf.writeAdapter({ ...model, output: model.at(`adapter-${format}.gguf`), format })
        const { metadata, tensorDataOffset, tensorInfos } = yield* inspect(own)
        assert.strictEqual(metadata.get("general.file_type"), format === "f16" ? 1 : 0)
        if (format === "f16") continue
        const { a, b } = merged("q_proj")
        for (
          const [side, wanted] of [["a", Array.from(a.values)], ["b", reordered(b.values, fixtures.rank)]] as const
        ) {
          const tensor = tensorInfos.find(({ name }) => name === `blk.0.attn_q.weight.lora_${side}`)
          assert(tensor !== undefined)
          assert.deepStrictEqual(Array.from(floats(own, tensorDataOffset + tensor.offset, wanted.length)), wanted)
        }
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("refuses architectures and tokenizers it does not know, and says what to do", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(4)
      const fails = Effect.flip(Gguf.writeModel({ ...model, output: model.at("model.gguf") }))
      yield* fs.writeFileString(`${model.base}/tokenizer.json`, fixtures.tokenizerJson.replace("{L}", "{Lu}"))
      assert.include((yield* fails).message, "preTokenizer")
      yield* fs.writeFileString(
        `${model.base}/config.json`,
        JSON.stringify({ ...fixtures.qwen3Config({}), model_type: "gemma" })
      )
      const unknown = yield* fails
      assert.strictEqual(unknown._tag, "UnsupportedFormat")
      assert.include(unknown.message, "convert_hf_to_gguf")
      assert.isFalse(yield* fs.exists(model.at("model.gguf")))
    }).pipe(Effect.provide(NodeContext.layer)))
})
