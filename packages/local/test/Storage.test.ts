import * as NodeContext from "@effect/platform-node/NodeContext"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import * as Storage from "../src/Storage.js"

const bytes = (text: string) => new TextEncoder().encode(text)
const text = Option.map((content: Uint8Array) => new TextDecoder().decode(content))

const laws = Effect.gen(function*() {
  const storage = yield* Storage.Storage
  yield* storage.put("a/b.json", bytes("one"))
  yield* storage.put("a/b.json", bytes("two"))
  assert.deepStrictEqual(text(yield* storage.get("a/b.json")), Option.some("two"))
  assert.isTrue(Option.isNone(yield* storage.get("a/c.json")))

  yield* storage.putAll("a/dir", new Map([["x", bytes("1")], ["y", new Uint8Array(0)]]))
  assert.deepStrictEqual(yield* storage.list("a/dir"), ["x", "y"])
  yield* storage.putAll("a/dir", new Map([["z", bytes("2")]]))
  assert.deepStrictEqual(yield* storage.list("a/dir"), ["z"])
  assert.deepStrictEqual(yield* storage.list("a"), ["b.json", "dir"])
  assert.deepStrictEqual(yield* storage.list("nowhere"), [])

  yield* storage.remove("a/dir")
  yield* storage.remove("a/dir")
  assert.deepStrictEqual(yield* storage.list("a"), ["b.json"])
  yield* storage.remove("a/b.json")
  assert.isTrue(Option.isNone(yield* storage.get("a/b.json")))
})

const inDirectory = <A, E>(
  f: (root: string, fs: FileSystem.FileSystem) => Effect.Effect<A, E, NodeContext.NodeContext>
) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    return yield* f(yield* fs.makeTempDirectoryScoped(), fs)
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

describe("Storage", () => {
  it.effect("memory keeps, replaces, lists and removes", () => laws.pipe(Effect.provide(Storage.layerMemory)))

  it.effect("a directory keeps, replaces, lists and removes", () =>
    inDirectory((root) => laws.pipe(Effect.provide(Storage.layerDirectory(`${root}/deep/er`)))))

  it.effect("a directory is still there when it is opened again", () =>
    inDirectory((root) =>
      Effect.gen(function*() {
        const first = yield* Storage.directory(root)
        yield* first.putAll("runs/a", new Map([["f", bytes("kept")]]))
        const second = yield* Storage.directory(root)
        assert.deepStrictEqual(text(yield* second.get("runs/a/f")), Option.some("kept"))
      })
    ))

  it.effect("what a killed process left half done is undone, and what it had replaced too early returns", () =>
    inDirectory((root, fs) =>
      Effect.gen(function*() {
        // killed while writing, between the two renames, and before cleaning up
        yield* fs.makeDirectory(`${root}/c/.new-0-first`, { recursive: true })
        yield* fs.writeFileString(`${root}/c/.new-0-first/f`, "half")
        yield* fs.makeDirectory(`${root}/c/.old-1-second`)
        yield* fs.writeFileString(`${root}/c/.old-1-second/f`, "the one that counts")
        yield* fs.makeDirectory(`${root}/c/.old-2-third`)
        yield* fs.makeDirectory(`${root}/c/third`)
        yield* fs.writeFileString(`${root}/c/third/f`, "new")
        const storage = yield* Storage.directory(root)
        assert.deepStrictEqual(yield* storage.list("c"), ["second", "third"])
        assert.deepStrictEqual(text(yield* storage.get("c/second/f")), Option.some("the one that counts"))
        assert.deepStrictEqual(text(yield* storage.get("c/third/f")), Option.some("new"))
        assert.deepStrictEqual((yield* fs.readDirectory(`${root}/c`)).sort(), ["second", "third"])
      })
    ))

  it.effect("says which file it cannot write", () =>
    inDirectory((root, fs) =>
      Effect.gen(function*() {
        const storage = yield* Storage.directory(root)
        yield* fs.writeFileString(`${root}/file`, "")
        const error = yield* Effect.flip(storage.put("file/below", bytes("x")))
        assert.strictEqual(error._tag, "StorageFailed")
        assert.strictEqual(error.path, "file/below")
      })
    ))
})
