import { TokenizerFiles } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"

const get = (repo: string, file: string) =>
  Effect.flatMap(TokenizerFiles.TokenizerFiles, (files) => files.get({ repo }, file))

const text = (file: TokenizerFiles.TokenizerFile) =>
  Option.map(file.content, (bytes) => new TextDecoder().decode(bytes))

describe("TokenizerFiles", () => {
  it.effect("memory tells a missing file from a missing repository", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(text(yield* get("org/a", "x.json")), Option.some("{}"))
      assert.deepStrictEqual(text(yield* get("org/a", "y.json")), Option.none())
      assert.strictEqual((yield* Effect.flip(get("org/b", "x.json")))._tag, "TokenizerNotFound")
    }).pipe(Effect.provide(TokenizerFiles.layerMemory({ "org/a": { "x.json": "{}" } }))))

  it.scoped("a directory is asked by relative name and by absolute path", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      yield* fs.makeDirectory(`${root}/org/a`, { recursive: true })
      yield* fs.writeFileString(`${root}/org/a/x.json`, "{}")
      yield* Effect.gen(function*() {
        assert.deepStrictEqual(text(yield* get("org/a", "x.json")), Option.some("{}"))
        assert.deepStrictEqual(text(yield* get(`${root}/org/a`, "x.json")), Option.some("{}"))
        assert.deepStrictEqual(text(yield* get("org/a", "y.json")), Option.none())
        const error = yield* Effect.flip(get("org/b", "x.json"))
        assert.strictEqual(error._tag, "TokenizerNotFound")
        assert.include(error.message, `${root}/org/b`)
      }).pipe(Effect.provide(TokenizerFiles.layerDirectory(root)))
    }).pipe(Effect.provide(NodeContext.layer)))
})
