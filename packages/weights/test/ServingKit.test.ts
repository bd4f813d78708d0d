import { ServingKit } from "@effect-tinker/weights"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Stream } from "effect"
import * as fixtures from "./fixtures.js"

const make = Effect.fnUntraced(function*(options: ServingKit.Options) {
  const last = Option.getOrThrow(yield* Stream.runLast(ServingKit.stream(options)))
  assert(last._tag === "Completed")
  return last
})

describe("ServingKit", () => {
  const files: Readonly<Record<ServingKit.Target, ReadonlyArray<string>>> = {
    vllm: ["README.md", "adapter_config.json", "adapter_model.safetensors"],
    sglang: ["README.md", "adapter_config.json", "adapter_model.safetensors"],
    "llama.cpp": ["README.md", "model.gguf"],
    ollama: ["Modelfile", "README.md", "model.gguf"],
    transformers: [
      "README.md",
      "chat_template.jinja",
      "config.json",
      "model-00001-of-00002.safetensors",
      "model-00002-of-00002.safetensors",
      "model.safetensors.index.json",
      "tokenizer.json",
      "tokenizer_config.json"
    ]
  }
  for (const target of ServingKit.targets) {
    it.scoped(`for ${target}: its files, a model card and the command that serves them`, () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const model = yield* fixtures.qwen3(20)
        const output = model.at("kit")
        const { command } = yield* make({
          target,
          base: model.base,
          adapter: model.adapter,
          output,
          name: "support",
          baseModelName: "Qwen/Qwen3-8B",
          provenance: { "Checkpoint": "tinker://run/sampler_weights/final", "Trained on": "chats | tickets" }
        })
        assert.deepStrictEqual((yield* fs.readDirectory(output)).sort(), files[target])
        const card = yield* fs.readFileString(`${output}/README.md`)
        assert.include(card, command)
        assert.include(card, "Qwen/Qwen3-8B")
        assert.include(card, "| Trained on | chats \\| tickets |")
        assert.include(command, target === "transformers" ? output : "support")
      }).pipe(Effect.provide(NodeContext.layer)))
  }

  it.scoped("merges for vLLM on request", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(21)
      const { command } = yield* make({ ...model, target: "vllm", output: model.at("kit"), form: "merged" })
      assert.isTrue(yield* fs.exists(`${model.at("kit")}/config.json`))
      assert.match(command, /^vllm serve \S+ --served-model-name kit$/)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("gives Ollama the turns of the model's template", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(22)
      yield* fs.writeFileString(`${model.base}/chat_template.jinja`, "<|im_start|>{{ role }}")
      yield* make({ ...model, target: "ollama", output: model.at("kit") })
      const modelfile = yield* fs.readFileString(`${model.at("kit")}/Modelfile`)
      assert.include(modelfile, "FROM ./model.gguf")
      assert.include(modelfile, "<|im_start|>assistant")
      assert.include(modelfile, "PARAMETER stop \"<|im_end|>\"")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("an interrupted kit leaves nothing under its name, and can be made again", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const model = yield* fixtures.qwen3(23)
      const options = { ...model, target: "llama.cpp", output: model.at("kit") } as const
      yield* ServingKit.stream(options).pipe(Stream.take(1), Stream.runDrain)
      assert.isFalse(yield* fs.exists(options.output))
      yield* make(options)
      assert.isTrue(yield* fs.exists(`${options.output}/model.gguf`))
    }).pipe(Effect.provide(NodeContext.layer)))
})
