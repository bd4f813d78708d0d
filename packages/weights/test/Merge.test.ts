import { Merge, Peft, Safetensors, SafetensorsHeader } from "@effect-tinker/weights"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import * as fixtures from "./fixtures.js"

const close = (actual: Float32Array | undefined, expected: Float64Array | Float32Array): void => {
  assert.strictEqual(actual?.length, expected.length)
  expected.forEach((value, i) => assert.closeTo(actual?.[i] ?? NaN, value, 1e-6))
}

const pairOf = (model: fixtures.Written, name: string) => {
  const a = model.matrices[`base_model.model.${name}.lora_A.weight`]
  const b = model.matrices[`base_model.model.${name}.lora_B.weight`]
  assert(a !== undefined && b !== undefined)
  return [a, b] as const
}

describe("Merge", () => {
  it.scoped("adds the scaled product of the LoRA matrices to each weight, and copies the rest bit by bit", () =>
    Effect.gen(function*() {
      const model = yield* fixtures.qwen3(1)
      yield* Merge.run({ ...model, output: model.at("merged") })
      const result = yield* fixtures.read(model.at("merged"))
      for (const name of ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"]) {
        const weight = model.weights[`${name}.weight`]
        assert(weight !== undefined)
        close(result.get(`${name}.weight`), fixtures.merged(weight, ...pairOf(model, name)))
      }
      const head = model.weights["lm_head.weight"]
      assert(head !== undefined)
      close(result.get("lm_head.weight"), fixtures.merged(head, ...pairOf(model, "model.unembed_tokens")))
      for (const name of ["model.norm.weight", "model.embed_tokens.weight", "model.layers.0.self_attn.q_norm.weight"]) {
        assert.deepStrictEqual(result.get(name), model.weights[name]?.values)
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("adds to tensors of more than a block in every row", () =>
    Effect.gen(function*() {
      // A block has 2^20 values: 32,768 rows of 32, or 31 rows of 32,832.
      const model = yield* fixtures.qwen3(12, { layers: 1, inner: 32_832 })
      yield* Merge.run({ ...model, output: model.at("merged") })
      const result = yield* fixtures.read(model.at("merged"))
      for (const name of ["model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj"]) {
        const weight = model.weights[`${name}.weight`]
        assert(weight !== undefined)
        const expected = fixtures.merged(weight, ...pairOf(model, name))
        const found = result.get(`${name}.weight`)
        assert.strictEqual(found?.length, expected.length)
        let furthest = 0
        expected.forEach((value, i) => {
          furthest = Math.max(furthest, Math.abs(value - (found?.[i] ?? NaN)))
        })
        assert.isBelow(furthest, 1e-6, name)
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("adds to experts that are kept transposed, gate and up in turns", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      const experts = "model.layers.0.mlp.experts"
      const tensor = (shape: ReadonlyArray<number>, values?: ReadonlyArray<number>): fixtures.Tensor => ({
        shape,
        values: Float32Array.from({ length: SafetensorsHeader.elements(shape) }, (_, i) => values?.[i] ?? 0)
      })
      yield* fixtures.write(`${root}/base`, {
        "config.json": JSON.stringify({ model_type: "gpt_oss", architectures: ["GptOssForCausalLM"] }),
        "model.safetensors": fixtures.safetensors({
          [`${experts}.down_proj`]: tensor([2, 3, 2]),
          [`${experts}.gate_up_proj`]: tensor([2, 3, 4])
        })
      })
      const pair = (name: string, a: ReadonlyArray<number>, b: ReadonlyArray<number>) => ({
        [`base_model.model.${experts}.${name}.lora_A.weight`]: tensor([2, 1, 3], a),
        [`base_model.model.${experts}.${name}.lora_B.weight`]: tensor([2, 2, 1], b)
      })
      yield* fixtures.write(`${root}/adapter`, {
        "adapter_config.json": JSON.stringify({ r: 1, lora_alpha: 2 }),
        "adapter_model.safetensors": fixtures.safetensors({
          ...pair("w2", [1, 2, 3, 1, 0, -1], [10, 20, 5, 7]),
          ...pair("w1", [1, 2, 3, 0, 0, 1], [1, 2, 3, 4]),
          ...pair("w3", [1, 0, 0, 1, 1, 1], [5, 6, 7, 8])
        })
      })
      yield* Merge.run({ base: `${root}/base`, adapter: `${root}/adapter`, output: `${root}/merged` })
      const result = yield* fixtures.read(`${root}/merged`)
      // 2 A[input] B[output], expert by expert, a row for each input
      assert.deepStrictEqual(Array.from(result.get(`${experts}.down_proj`) ?? []), [
        ...[20, 40, 40, 80, 60, 120],
        ...[10, 14, 0, 0, -10, -14]
      ])
      assert.deepStrictEqual(Array.from(result.get(`${experts}.gate_up_proj`) ?? []), [
        ...[2, 10, 4, 12, 4, 0, 8, 0, 6, 0, 12, 0],
        ...[0, 14, 0, 16, 0, 14, 0, 16, 6, 14, 8, 16]
      ])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("refuses adapters that mean more than a product of two matrices", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(11)
      for (const more of [{ use_dora: true }, { use_rslora: true }, { rank_pattern: { q_proj: 8 } }]) {
        const config = { r: 4, lora_alpha: 8, ...more }
        yield* fs.writeFileString(`${model.adapter}/adapter_config.json`, JSON.stringify(config))
        const error = yield* Effect.flip(Merge.run({ ...model, output: model.at("merged") }))
        assert.strictEqual(error._tag, "UnsupportedFormat", JSON.stringify(more))
      }
      const plain = { r: 4, lora_alpha: 8, use_dora: false, use_rslora: false, rank_pattern: {} }
      yield* fs.writeFileString(`${model.adapter}/adapter_config.json`, JSON.stringify(plain))
      yield* Merge.run({ ...model, output: model.at("merged") })
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("brings the files a server needs, and keeps shards and index", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(2)
      yield* Merge.run({ ...model, output: model.at("merged") })
      assert.deepStrictEqual((yield* fs.readDirectory(model.at("merged"))).sort(), [
        "chat_template.jinja",
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json"
      ])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("gives a trained output head its own weight where the model shares it with the embedding", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(3, { head: false })
      yield* Merge.run({ ...model, output: model.at("merged") })
      const result = yield* fixtures.read(model.at("merged"))
      const embedding = model.weights["model.embed_tokens.weight"]
      assert(embedding !== undefined)
      assert.deepStrictEqual(result.get("model.embed_tokens.weight"), embedding.values)
      close(result.get("lm_head.weight"), fixtures.merged(embedding, ...pairOf(model, "model.unembed_tokens")))
      const config = JSON.parse(yield* fs.readFileString(`${model.at("merged")}/config.json`))
      assert.isFalse(config.tie_word_embeddings)

      yield* Merge.run({ ...model, output: model.at("shared"), tiedEmbeddings: "merge" })
      const shared = yield* fixtures.read(model.at("shared"))
      assert.isFalse(shared.has("lm_head.weight"))
      close(
        shared.get("model.embed_tokens.weight"),
        fixtures.merged(embedding, ...pairOf(model, "model.unembed_tokens"))
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("writes another type on request", () =>
    Effect.gen(function*() {
      const path = yield* Path.Path
      const model = yield* fixtures.qwen3(4)
      yield* Merge.run({ ...model, output: model.at("merged"), dtype: "BF16" })
      const [shard = ""] = yield* Safetensors.shardNames(model.at("merged"))
      const file = yield* Safetensors.open(path.join(model.at("merged"), shard))
      assert.deepStrictEqual([...new Set(file.tensors.map(({ dtype }) => dtype))], ["BF16"])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("reports progress up to the last byte, and is only visible when complete", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(5)
      const output = model.at("merged")
      const events = yield* Merge.stream({ ...model, output }).pipe(
        Stream.tap((event) =>
          event._tag === "Progress"
            ? Effect.map(fs.exists(output), (visible) => assert.isFalse(visible))
            : Effect.void
        ),
        Stream.runCollect,
        Effect.map(Chunk.toReadonlyArray)
      )
      const [planned, last] = [events[0], events.at(-2)]
      assert(planned?._tag === "Planned" && last?._tag === "Progress")
      assert.strictEqual(last.written, planned.bytes)
      assert.strictEqual(events.at(-1)?._tag, "Completed")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("goes on with the first missing file after an interruption, with the same result", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(6)
      yield* Merge.run({ ...model, output: model.at("whole") })
      const output = model.at("merged")
      const first = "model-00001-of-00002.safetensors"
      // Stops with the first file complete.
      yield* Merge.stream({ ...model, output }).pipe(
        Stream.takeUntilEffect(() => fs.exists(`${output}.partial/${first}`)),
        Stream.runDrain
      )
      assert.isFalse(yield* fs.exists(output))
      const before = yield* fs.stat(`${output}.partial/${first}`)
      yield* Merge.run({ ...model, output })
      const after = yield* fs.stat(`${output}/${first}`)
      assert.deepStrictEqual(after.ino, before.ino)
      for (const name of yield* fs.readDirectory(output)) {
        assert.deepStrictEqual(
          yield* fs.readFile(`${output}/${name}`),
          yield* fs.readFile(`${model.at("whole")}/${name}`)
        )
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("starts again when the inputs have changed since", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(7)
      const output = model.at("merged")
      yield* fs.makeDirectory(`${output}.partial`)
      yield* fs.writeFileString(`${output}.partial/model-00001-of-00002.safetensors`, "of other inputs")
      yield* Merge.run({ ...model, output })
      assert.isAbove((yield* fixtures.read(output)).size, 10)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("refuses what cannot work before it writes anything", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(8)
      const fails = (options: Partial<Merge.Options>) =>
        Effect.flip(Merge.run({ ...model, output: model.at("merged"), ...options }))

      yield* fs.makeDirectory(model.at("taken"))
      assert.strictEqual((yield* fails({ output: model.at("taken") }))._tag, "OutputExists")

      yield* fixtures.write(model.at("other"), {
        "adapter_config.json": JSON.stringify({ r: 4, lora_alpha: 8 }),
        "adapter_model.safetensors": fixtures.safetensors({
          "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight": fixtures.random(1, 4, 32),
          "base_model.model.model.layers.7.self_attn.q_proj.lora_B.weight": fixtures.random(2, 32, 4)
        })
      })
      const missing = yield* fails({ adapter: model.at("other") })
      assert.strictEqual(missing._tag, "AdapterMismatch")
      assert.include(missing.message, "model.layers.7.self_attn.q_proj.weight")

      yield* fixtures.write(model.at("misshapen"), {
        "adapter_config.json": JSON.stringify({ r: 4, lora_alpha: 8 }),
        "adapter_model.safetensors": fixtures.safetensors({
          "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": fixtures.random(1, 4, 48),
          "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight": fixtures.random(2, 32, 4)
        })
      })
      assert.include((yield* fails({ adapter: model.at("misshapen") })).message, "[32, 48]")

      const codes = SafetensorsHeader.encode([{
        name: "model.layers.0.self_attn.q_proj.weight",
        dtype: "I8",
        shape: [32, 32]
      }])
      yield* fixtures.write(model.at("integers"), {
        "config.json": JSON.stringify({ model_type: "qwen3" }),
        "model.safetensors": new Uint8Array(Buffer.concat([codes, new Uint8Array(32 * 32)]))
      })
      yield* fixtures.write(model.at("one"), {
        "adapter_config.json": JSON.stringify({ r: 4, lora_alpha: 8 }),
        "adapter_model.safetensors": fixtures.safetensors({
          "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": fixtures.random(1, 4, 32),
          "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight": fixtures.random(2, 32, 4)
        })
      })
      const integers = yield* fails({ base: model.at("integers"), adapter: model.at("one") })
      assert.strictEqual(integers._tag, "UnsupportedFormat")
      assert.include(integers.message, "q_proj.weight is I8")

      yield* fs.writeFileString(`${model.at("base")}/config.json`, JSON.stringify({ quantization_config: {} }))
      assert.strictEqual((yield* fails({}))._tag, "UnsupportedFormat")
      assert.isFalse(yield* fs.exists(`${model.at("merged")}.partial`))
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("says which file is damaged", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(9)
      const shard = `${model.base}/model-00002-of-00002.safetensors`
      const bytes = yield* fs.readFile(shard)
      const fails = Effect.flip(Merge.run({ ...model, output: model.at("merged") }))
      yield* fs.writeFile(shard, bytes.subarray(0, bytes.length - 100))
      const cut = yield* fails
      assert.strictEqual(cut._tag, "InvalidFile")
      assert.include(cut.message, "cut off")
      yield* fs.writeFile(shard, new Uint8Array(200).fill(0xff))
      assert.include((yield* fails).message, "not a safetensors file")
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("Peft", () => {
  it.scoped("makes one pair of projections that the model keeps in one weight, and experts one by one; a merge adds to their rows", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      const tensor = (shape: ReadonlyArray<number>, ...values: ReadonlyArray<number>): fixtures.Tensor => ({
        shape,
        values: Float32Array.from({ length: SafetensorsHeader.elements(shape) }, (_, i) => values[i] ?? 0)
      })
      yield* fixtures.write(`${root}/base`, {
        "config.json": JSON.stringify({ model_type: "nemotron_h", architectures: ["NemotronHForCausalLM"] }),
        "model.safetensors": fixtures.safetensors({
          "backbone.layers.3.mixer.in_proj.weight": tensor([7, 3]),
          "backbone.layers.4.mixer.experts.0.up_proj.weight": tensor([2, 3]),
          "backbone.layers.4.mixer.experts.1.up_proj.weight": tensor([2, 3])
        })
      })
      const at = "base_model.model.model.layers"
      const adapter = {
        [`${at}.3.mixer.gate_proj.lora_A.weight`]: tensor([1, 3], 1, 2, 3),
        [`${at}.3.mixer.gate_proj.lora_B.weight`]: tensor([2, 1], 4, 5),
        [`${at}.3.mixer.x_proj.lora_A.weight`]: tensor([2, 3], 6, 7, 8, 9, 10, 11),
        [`${at}.3.mixer.x_proj.lora_B.weight`]: tensor([3, 2], 12, 13, 14, 15, 16, 17),
        [`${at}.4.mixer.experts.w1.lora_A.weight`]: tensor([1, 1, 3], 1, 2, 3),
        [`${at}.4.mixer.experts.w1.lora_B.weight`]: tensor([2, 2, 1], 4, 5, 6, 7)
      }
      yield* fixtures.write(`${root}/adapter`, {
        "adapter_config.json": JSON.stringify({ r: 2, lora_alpha: 4 }),
        "adapter_model.safetensors": fixtures.safetensors(adapter)
      })
      yield* Peft.convert({ base: `${root}/base`, adapter: `${root}/adapter`, output: `${root}/peft` })
      const { tensors } = yield* Safetensors.open(`${root}/peft/adapter_model.safetensors`)
      const values = yield* fixtures.read(`${root}/peft`)
      const found = Object.fromEntries(tensors.map(({ name, shape }) => [
        name.replace("base_model.model.model.layers.", ""),
        [shape, Array.from(values.get(name) ?? [])]
      ]))
      assert.deepStrictEqual(found, {
        "3.mixer.in_proj.lora_A.weight": [[3, 3], [1, 2, 3, 6, 7, 8, 9, 10, 11]],
        // B's on a diagonal; the two rows of the weight that no projection has stay as they are
        "3.mixer.in_proj.lora_B.weight": [
          [7, 3],
          [4, 0, 0, 5, 0, 0, 0, 12, 13, 0, 14, 15, 0, 16, 17, 0, 0, 0, 0, 0, 0]
        ],
        // the experts share one A
        "4.mixer.experts.0.up_proj.lora_A.weight": [[1, 3], [1, 2, 3]],
        "4.mixer.experts.0.up_proj.lora_B.weight": [[2, 1], [4, 5]],
        "4.mixer.experts.1.up_proj.lora_A.weight": [[1, 3], [1, 2, 3]],
        "4.mixer.experts.1.up_proj.lora_B.weight": [[2, 1], [6, 7]]
      })
      const config = JSON.parse(yield* fs.readFileString(`${root}/peft/adapter_config.json`))
      assert.deepStrictEqual(config.rank_pattern, { in_proj: 3 })
      // 4 over 2, as 6 over 3
      assert.deepStrictEqual(config.alpha_pattern, { in_proj: 6 })

      // Merged, each part is added to its own rows: 2 B A.
      yield* Merge.run({ base: `${root}/base`, adapter: `${root}/adapter`, output: `${root}/merged` })
      const merged = yield* fixtures.read(`${root}/merged`)
      assert.deepStrictEqual(Array.from(merged.get("backbone.layers.3.mixer.in_proj.weight") ?? []), [
        ...[8, 16, 24, 10, 20, 30],
        ...[378, 428, 478, 438, 496, 554, 498, 564, 630],
        ...[0, 0, 0, 0, 0, 0]
      ])
      assert.deepStrictEqual(
        Array.from(merged.get("backbone.layers.4.mixer.experts.1.up_proj.weight") ?? []),
        [12, 24, 36, 14, 28, 42]
      )

      // Without one of its parts the weight cannot be made.
      const { [`${at}.3.mixer.x_proj.lora_A.weight`]: _, [`${at}.3.mixer.x_proj.lora_B.weight`]: __, ...rest } = adapter
      yield* fs.writeFile(`${root}/adapter/adapter_model.safetensors`, fixtures.safetensors(rest))
      const options = { base: `${root}/base`, adapter: `${root}/adapter`, output: `${root}/part` }
      assert.include((yield* Effect.flip(Peft.convert(options))).message, "missing its part x_proj")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("names matrices as servers expect them, and leaves their numbers alone", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(10)
      const summary = yield* Peft.convert({ ...model, output: model.at("peft"), baseModelName: "Qwen/Qwen3-8B" })
      assert.deepStrictEqual(summary.targetModules, [
        "down_proj",
        "gate_proj",
        "k_proj",
        "lm_head",
        "o_proj",
        "q_proj",
        "up_proj",
        "v_proj"
      ])
      assert.deepStrictEqual(summary.warnings, [])
      const file = yield* Safetensors.open(`${model.at("peft")}/adapter_model.safetensors`)
      const head = file.tensors.find(({ name }) => name === "base_model.model.lm_head.lora_B.weight")
      assert(head !== undefined)
      assert.deepStrictEqual(
        new Float32Array((yield* file.read(head.start, head.bytes)).buffer),
        model.matrices["base_model.model.model.unembed_tokens.lora_B.weight"]?.values
      )
      const config = JSON.parse(yield* fs.readFileString(`${model.at("peft")}/adapter_config.json`))
      assert.strictEqual(config.base_model_name_or_path, "Qwen/Qwen3-8B")
    }).pipe(Effect.provide(NodeContext.layer)))
})
