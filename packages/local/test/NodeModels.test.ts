import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as LocalCheckpoint from "../src/LocalCheckpoint.js"
import * as NodeModels from "../src/NodeModels.js"

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-tinker-models-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
)

const refusal = (reference: string, options?: NodeModels.Options) =>
  Effect.map(Effect.flip(NodeModels.resolve(reference, options)), (error) => error.message)

describe("NodeModels", () => {
  it.effect("a directory is served under its name", () =>
    Effect.gen(function*() {
      const model = yield* NodeModels.resolve(fileURLToPath(LocalCheckpoint.chatDirectory))
      assert.strictEqual(model.name, "chat")
      assert.strictEqual(model.family, "qwen3")
    }))

  it.scoped("a reference that is nothing says what it could have been", () =>
    Effect.gen(function*() {
      const directory = yield* temporary
      assert.include(yield* refusal("./nowhere.gguf"), "no such directory or file")
      const hub = { cacheDirectory: directory, offline: true }
      assert.include(yield* refusal("org/name", { hub }), "downloads are off (HF_HUB_OFFLINE)")
      writeFileSync(join(directory, "a.gguf"), "GGUF?")
      assert.include(yield* refusal(join(directory, "a.gguf")), "a.gguf")
      writeFileSync(join(directory, "b.gguf"), "")
      assert.include(yield* refusal(directory), "name one of a.gguf, b.gguf")
    }))

  it.scoped("models of Ollama are found by their manifests", () =>
    Effect.gen(function*() {
      const directory = yield* temporary
      const manifests = join(directory, "manifests", "registry.ollama.ai", "library", "tiny")
      mkdirSync(manifests, { recursive: true })
      mkdirSync(join(directory, "blobs"))
      const digest = `sha256:${"ab".repeat(32)}`
      writeFileSync(
        join(manifests, "1b"),
        JSON.stringify({ layers: [{ mediaType: "application/vnd.ollama.image.model", digest }] })
      )
      writeFileSync(join(directory, "blobs", digest.replace(":", "-")), "not a model, but found")
      const environment = Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["OLLAMA_MODELS", directory]])))
      assert.include(yield* environment(refusal("ollama:tiny:1b")), "not a GGUF file")
      assert.include(yield* environment(refusal("ollama:tiny")), "ollama pull tiny:latest")
      assert.include(yield* environment(refusal("ollama:../x")), "not the name of a model of Ollama")
    }))
})
