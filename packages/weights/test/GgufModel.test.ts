import { Gguf, GgufModel, Merge, Peft, Safetensors, ServingKit } from "@effect-tinker/weights"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as fixtures from "./fixtures.js"

/** The model of the fixtures, or the same without normalized queries and keys: a Llama, whose file has other rows. */
const written = Effect.fnUntraced(function*(type: "qwen3" | "llama") {
  const path = yield* Path.Path
  const model = yield* fixtures.qwen3(7)
  if (type === "llama") {
    const scaling = {
      rope_type: "llama3",
      factor: 32,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192
    }
    const weights = Object.fromEntries(
      Object.entries(model.weights).filter(([name]) => !/self_attn\.[qk]_norm/.test(name))
    )
    const fs = yield* FileSystem.FileSystem
    for (const name of yield* fs.readDirectory(model.base)) {
      if (name.includes("safetensors")) yield* fs.remove(path.join(model.base, name))
    }
    yield* fixtures.write(model.base, {
      "config.json": JSON.stringify({
        ...fixtures.qwen3Config({}),
        model_type: "llama",
        rope_theta: 500_000,
        rope_scaling: scaling,
        tie_word_embeddings: false
      }),
      "model.safetensors": fixtures.safetensors(weights)
    })
  }
  const gguf = yield* Gguf.writeModel({ base: model.base, output: model.at("base.gguf"), format: "f32" })
  return { ...model, gguf }
})

const bytesOf = (file: string) => Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFile(file))

/** The numbers of a file, which end it: headers differ by the model's name. */
const numbersOf = Effect.fnUntraced(function*(file: string) {
  const { tensors } = yield* Effect.map(GgufModel.open(file), ({ file }) => file)
  const total = Array.from(tensors.values()).reduce((sum, { bytes }) => sum + Math.ceil(bytes / 32) * 32, 0)
  return (yield* bytesOf(file)).slice(-total)
})

describe.each(["qwen3", "llama"] as const)("a GGUF file of a %s model as a base", (type) => {
  it.scoped("has the configuration and tensors of the directory it was made from", () =>
    Effect.gen(function*() {
      const { base, gguf } = yield* written(type)
      const model = yield* GgufModel.open(gguf)
      const original = JSON.parse(new TextDecoder().decode(yield* bytesOf(`${base}/config.json`)))
      for (
        const key of ["model_type", "hidden_size", "num_key_value_heads", "head_dim", "rope_theta", "rope_scaling"]
      ) {
        assert.deepStrictEqual(model.config[key], original[key], key)
      }
      const expected = yield* fixtures.read(base)
      assert.deepStrictEqual([...model.tensors.keys()].sort(), [...expected.keys()].sort())
      for (const [name, values] of expected) {
        const shape = model.tensors.get(name)?.shape ?? []
        const columns = shape.at(-1) ?? 1
        const rows = values.length / columns
        assert.deepStrictEqual(yield* model.floats(name, 0, rows), values, name)
        // rows that begin and end within a head
        if (rows < 8) continue
        assert.deepStrictEqual(yield* model.floats(name, 3, 4), values.slice(3 * columns, 7 * columns), name)
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("is merged into the same numbers as the directory, as GGUF and as safetensors", () =>
    Effect.gen(function*() {
      const { adapter, at, base, gguf } = yield* written(type)
      const both = yield* Effect.forEach(
        [base, gguf],
        (from, i) =>
          Gguf.writeModel({ base: from, adapter, output: at(`merged-${i}.gguf`), format: "f32", name: "tiny" })
      )
      const [fromDirectory = "", fromFile = ""] = both
      assert.deepStrictEqual(yield* numbersOf(fromFile), yield* numbersOf(fromDirectory))
      const [here, there] = yield* Effect.all([GgufModel.open(fromFile), GgufModel.open(fromDirectory)])
      assert.deepStrictEqual(new Map([...here.file.metadata].sort()), new Map([...there.file.metadata].sort()))

      const merged = yield* Merge.run({ base: gguf, adapter, output: at("from-file") })
      const expected = yield* fixtures.read(yield* Merge.run({ base, adapter, output: at("from-directory") }))
      const found = yield* fixtures.read(merged)
      assert.deepStrictEqual([...found.keys()].sort(), [...expected.keys()].sort())
      for (const [name, values] of expected) assert.deepStrictEqual(found.get(name), values, name)
      const fs = yield* FileSystem.FileSystem
      assert.includeMembers(yield* fs.readDirectory(merged), ["tokenizer.json", "chat_template.jinja", "config.json"])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("takes adapters beside it", () =>
    Effect.gen(function*() {
      const { adapter, at, base, gguf } = yield* written(type)
      const own = yield* Gguf.writeAdapter({ base: gguf, adapter, output: at("own.gguf") })
      assert.deepStrictEqual(
        yield* bytesOf(own),
        yield* bytesOf(yield* Gguf.writeAdapter({ base, adapter, output: at("other.gguf") }))
      )
      const { tensors } = yield* Peft.convert({ base: gguf, adapter, output: at("peft") })
      const file = yield* Safetensors.open(at("peft/adapter_model.safetensors"))
      assert.strictEqual(file.tensors.length, tensors)
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("GgufModel", () => {
  it.scoped("a kit for Ollama is made from a file, and continues where it was broken off", () =>
    Effect.gen(function*() {
      const { adapter, at, gguf } = yield* written("qwen3")
      const fs = yield* FileSystem.FileSystem
      const make = ServingKit.stream({ target: "ollama", base: gguf, adapter, output: at("kit"), name: "tiny" })
      yield* Stream.runDrain(Stream.take(make, 1))
      yield* Stream.runDrain(make)
      assert.sameMembers(yield* fs.readDirectory(at("kit")), ["model.gguf", "Modelfile", "README.md"])
      const { tensors } = yield* GgufModel.open(at("kit/model.gguf"))
      assert.strictEqual(tensors.get("model.layers.0.mlp.up_proj.weight")?.format, "F16")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a model of few bits is read in the sixteen that the embedded backend computes with", () =>
    Effect.gen(function*() {
      const { adapter, at, base } = yield* written("llama")
      const gguf = yield* Gguf.writeModel({ base, output: at("q8.gguf"), format: "q8_0" })
      const model = yield* GgufModel.open(gguf)
      const name = "model.layers.1.self_attn.q_proj.weight"
      const merged = yield* Safetensors.open(
        `${yield* Merge.run({ base: gguf, adapter, output: at("out") })}/model.safetensors`
      )
      assert.strictEqual(merged.tensors.find((tensor) => tensor.name === name)?.dtype, "BF16")
      assert.strictEqual(merged.tensors.find((tensor) => tensor.name === "model.norm.weight")?.dtype, "F32")
      assert.strictEqual(model.tensors.get(name)?.format, "Q8_0")
    }).pipe(Effect.provide(NodeContext.layer)))
})
