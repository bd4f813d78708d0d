import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Either } from "effect"
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as LocalCheckpoint from "../src/LocalCheckpoint.js"
import * as NodeEngine from "../src/NodeEngine.js"
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

  it.scoped("models on this machine are listed with their sizes, and those that cannot be used with the reason", () =>
    Effect.gen(function*() {
      const directory = yield* temporary
      const commit = "c".repeat(40)
      const repository = join(directory, "hub", "models--acme--chat")
      mkdirSync(join(repository, "refs"), { recursive: true })
      mkdirSync(join(repository, "snapshots"))
      writeFileSync(join(repository, "refs", "main"), commit)
      symlinkSync(fileURLToPath(LocalCheckpoint.chatDirectory), join(repository, "snapshots", commit))
      // a download of a tokenizer alone is no model
      mkdirSync(join(directory, "hub", "models--acme--tokenizer", "snapshots", commit), { recursive: true })
      writeFileSync(join(directory, "broken.gguf"), "GGUF?")
      const found = yield* NodeModels.installed({
        hub: { cacheDirectory: join(directory, "hub") },
        references: [join(directory, "broken.gguf"), join(directory, "moved.gguf")]
      }).pipe(Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["OLLAMA_MODELS", directory]]))))
      assert.deepStrictEqual(found.map(({ reference, source }) => [reference, source]), [
        ["acme/chat", "hub"],
        [join(directory, "broken.gguf"), "path"]
      ])
      const [chat, broken] = found
      const weights = statSync(new URL("model.safetensors", LocalCheckpoint.chatDirectory)).size
      assert.isAbove(chat?.bytes ?? 0, weights)
      if (chat === undefined) return assert.fail("missing")
      const model = yield* chat.model
      assert.strictEqual(model.family, "qwen3")
      assert.isTrue(broken !== undefined && Either.isLeft(broken.model))
      const hub = { cacheDirectory: join(directory, "hub") }
      assert.strictEqual(
        yield* NodeModels.locate("acme/chat", { hub }),
        join(repository, "snapshots", commit)
      )
      assert.strictEqual(yield* NodeModels.locate(directory, { hub }), join(directory, "broken.gguf"))
      assert.include((yield* Effect.flip(NodeModels.locate("acme/other", { hub }))).message, "acme/other")
      const memory = yield* NodeEngine.memoryOf(model, { threads: 2, memoryBytes: 2 ** 31 })
      assert.isTrue(memory.fits && memory.weights < memory.least && memory.least <= memory.preferred)
      assert.isFalse((yield* NodeEngine.memoryOf(model, { threads: 2, memoryBytes: memory.least - 1 })).fits)
    }))
})
