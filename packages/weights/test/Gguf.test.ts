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

  it.scoped("heads have the size that is given, or their share of the width", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { adapter: _, ...model } = yield* fixtures.qwen3(13, { layers: 1 })
      const { head_dim: __, ...config } = fixtures.qwen3Config({ layers: 1 })
      const sizes = Effect.fnUntraced(function*(name: string, more: object) {
        yield* fs.writeFileString(`${model.base}/config.json`, JSON.stringify({ ...config, ...more }))
        const { metadata } = yield* inspect(
          yield* Gguf.writeModel({ ...model, output: model.at(`${name}.gguf`), format: "f32" })
        )
        return ["key_length", "value_length"].map((key) => metadata.get(`qwen3.attention.${key}`))
      })
      assert.deepStrictEqual(yield* sizes("given", { head_dim: 24 }), [24, 24])
      // 32 over two heads
      assert.deepStrictEqual(yield* sizes("shared", {}), [16, 16])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("says whether texts begin with a token of their own, where the tokenizer says it", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const written = Effect.fnUntraced(function*(settings: object) {
        yield* fixtures.write(directory, {
          "tokenizer.json": fixtures.tokenizerJson,
          "tokenizer_config.json": JSON.stringify({ eos_token: { content: "<|im_end|>" }, ...settings })
        })
        const options = { directory, vocabularySize: fixtures.vocabulary, preTokenizer: undefined }
        const metadata = yield* ggufTokenizer.metadata(options)
        return [metadata["tokenizer.ggml.add_bos_token"]?.value, metadata["tokenizer.ggml.eos_token_id"]?.value]
      })
      const [no, yes] = [yield* written({ add_bos_token: false }), yield* written({ add_bos_token: true })]
      assert.deepStrictEqual([Number(no[0]), Number(yes[0])], [0, 1])
      assert.deepStrictEqual(yield* written({}), [undefined, 94])
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

  it.scoped("writes experts by their numbers, whatever their order in the file", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      const { weights } = fixtures.dense(7, { layers: 1 })
      const experts = 11
      const constant = (value: number, ...shape: ReadonlyArray<number>): fixtures.Tensor => ({
        shape,
        values: new Float32Array(shape.reduce((product, size) => product * size, 1)).fill(value)
      })
      // As text, 10 comes before 2: the order in which files have them.
      const numbers = Array.from({ length: experts }, (_, n) => n).sort((a, b) => String(a) < String(b) ? -1 : 1)
      const mlp = "model.layers.0.mlp"
      yield* fixtures.write(`${root}/base`, {
        "config.json": JSON.stringify({
          ...fixtures.qwen3Config({ layers: 1 }),
          model_type: "qwen3_moe",
          num_experts: experts,
          num_experts_per_tok: 2,
          moe_intermediate_size: 4
        }),
        "tokenizer.json": fixtures.tokenizerJson,
        "model.safetensors": fixtures.safetensors({
          ...Object.fromEntries(Object.entries(weights).filter(([name]) => !name.includes(".mlp."))),
          [`${mlp}.gate.weight`]: constant(1, experts, fixtures.hidden),
          ...Object.fromEntries(numbers.flatMap((n) => [
            [`${mlp}.experts.${n}.gate_proj.weight`, constant(n, 4, fixtures.hidden)],
            [`${mlp}.experts.${n}.up_proj.weight`, constant(100 + n, 4, fixtures.hidden)],
            [`${mlp}.experts.${n}.down_proj.weight`, constant(200 + n, fixtures.hidden, 4)]
          ]))
        })
      })
      const file = yield* Gguf.writeModel({ base: `${root}/base`, output: `${root}/model.gguf`, format: "f32" })
      const { metadata, tensorDataOffset, tensorInfos } = yield* inspect(file)
      assert.strictEqual(metadata.get("qwen3moe.expert_count"), experts)
      assert.strictEqual(metadata.get("qwen3moe.expert_used_count"), 2)
      assert.strictEqual(metadata.get("qwen3moe.expert_feed_forward_length"), 4)
      for (const [name, first] of [["gate", 0], ["up", 100], ["down", 200]] as const) {
        const tensor = tensorInfos.find((info) => info.name === `blk.0.ffn_${name}_exps.weight`)
        assert(tensor !== undefined)
        assert.strictEqual(tensor.shape.at(-1), BigInt(experts))
        const size = 4 * fixtures.hidden
        const values = floats(file, tensorDataOffset + tensor.offset, experts * size)
        assert.deepStrictEqual(
          Array.from({ length: experts }, (_, n) => Array.from(new Set(values.subarray(n * size, (n + 1) * size)))),
          Array.from({ length: experts }, (_, n) => [first + n]),
          name
        )
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("writes tensors of more than a block whole, in the order of their rows", () =>
    Effect.gen(function*() {
      // A block has 2^20 values: 32,768 rows of 32 or 31 rows of 32,832, and the rest.
      const model = yield* fixtures.qwen3(8, { layers: 1, inner: 32_832 })
      const { adapter: _, ...base } = model
      const file = yield* Gguf.writeModel({ ...base, output: model.at("model.gguf"), format: "f32" })
      const { tensorDataOffset, tensorInfos } = yield* inspect(file)
      for (const name of ["up", "down"]) {
        const tensor = tensorInfos.find((info) => info.name === `blk.0.ffn_${name}.weight`)
        const values = model.weights[`model.layers.0.mlp.${name}_proj.weight`]?.values
        assert(tensor !== undefined && values !== undefined)
        const written = floats(file, tensorDataOffset + tensor.offset, values.length)
        assert.isTrue(Buffer.from(written.buffer).equals(Buffer.from(values.buffer)), name)
      }
      // Nothing comes after the last tensor, not even a block too many.
      const last = tensorInfos.reduce((a, b) => a.offset > b.offset ? a : b)
      const bytes = last.shape.reduce((product, size) => product * size, 4n)
      const size = (yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.stat(file))).size
      assert.strictEqual(size, tensorDataOffset + last.offset + (bytes + 31n) / 32n * 32n)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("writes the factors by which Llama 3 stretches its frequencies, and no other scaling", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(9, { layers: 1 })
      const scaling = {
        rope_type: "llama3",
        factor: 8,
        low_freq_factor: 1,
        high_freq_factor: 4,
        original_max_position_embeddings: 64
      }
      const write = Effect.fnUntraced(function*(name: string, rope_scaling: object) {
        yield* fs.writeFileString(
          `${model.base}/config.json`,
          JSON.stringify({ ...fixtures.qwen3Config({ layers: 1 }), rope_scaling })
        )
        const { adapter: _, ...base } = model
        return yield* Gguf.writeModel({ ...base, output: model.at(`${name}.gguf`), format: "f32" })
      })
      const file = yield* write("llama3", scaling)
      const { tensorDataOffset, tensorInfos } = yield* inspect(file)
      const factors = tensorInfos.find(({ name }) => name === "rope_freqs.weight")
      assert(factors !== undefined)
      assert.deepStrictEqual(factors.shape, [8n])
      // Heads of 16, base 10,000: wavelengths 2 pi 10^(i / 2). 6.28 is below 64 / 4 and stays, those from 62.8 up lie
      // between 16 and 64 or beyond: for 19.87, (64 / 19.87 - 1) / 3 = 0.7404, so 1 / (0.2596 / 8 + 0.7404) = 1.2940;
      // for 62.83, 0.0062 gives 1 / (0.9938 / 8 + 0.0062) = 7.6674.
      const wanted = [1, 1.293976, 7.667385, 8, 8, 8, 8, 8]
      floats(file, tensorDataOffset + factors.offset, 8).forEach((value, i) =>
        assert.closeTo(value, wanted[i] ?? NaN, 1e-5)
      )
      const refused = yield* Effect.flip(write("longrope", { rope_type: "longrope", factor: 2 }))
      assert.include(refused.message, "rope scaling of type longrope")
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
