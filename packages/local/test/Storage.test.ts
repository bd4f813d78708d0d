import * as NodeContext from "@effect/platform-node/NodeContext"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import type { Scope } from "effect"
import { Effect, Either, Layer, Option } from "effect"
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
  f: (root: string, fs: FileSystem.FileSystem) => Effect.Effect<A, E, NodeContext.NodeContext | Scope.Scope>
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
        yield* Effect.scoped(Effect.flatMap(
          Storage.directory(root),
          (first) => first.putAll("runs/a", new Map([["f", bytes("kept")]]))
        ))
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

  it.effect("one process at a time has a directory; the next gets it when the first has closed it", () =>
    inDirectory((root) =>
      Effect.gen(function*() {
        const open = Effect.flatMap(Storage.directory(root), (storage) => storage.put("a", bytes("x")))
        const refused = yield* Effect.scoped(Effect.zipRight(Storage.directory(root), Effect.flip(Effect.scoped(open))))
        assert.match(refused.message, new RegExp(`process ${process.pid} is using it`))
        yield* Effect.scoped(open)
      })
    ))

  it.effect("a claim of a process that is gone, or which is damaged, does not hold the directory", () =>
    inDirectory((root, fs) =>
      Effect.gen(function*() {
        const claim = (pid: number) => `${root}/.lock-${pid}-1`
        for (const left of ["0 - - held", "{"]) {
          yield* fs.writeFileString(claim(2 ** 30), left)
          yield* Effect.scoped(Storage.directory(root))
          assert.isFalse(yield* fs.exists(claim(2 ** 30)))
        }
        yield* fs.writeFileString(claim(1), "0 - - held")
        const refused = yield* Effect.flip(Effect.scoped(Storage.directory(root)))
        assert.match(refused.message, /process 1 is using it/)
      })
    ))

  it.effect("of several that open it at the same time, one gets the directory", () =>
    inDirectory((root, fs) =>
      Effect.gen(function*() {
        yield* fs.writeFileString(`${root}/.lock-${2 ** 30}-1`, "0 - - held")
        const opened = yield* Effect.forEach(
          Array.from({ length: 8 }),
          () => Effect.either(Storage.directory(root)),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(opened.filter(Either.isRight), 1)
      })
    ))

  it.effect("only this user can read what is in the directory", () =>
    inDirectory((root, fs) =>
      Effect.gen(function*() {
        const at = `${root}/data`
        yield* fs.makeDirectory(at, { mode: 0o755 })
        const storage = yield* Storage.directory(at)
        yield* storage.put("runs/a.json", bytes("x"))
        yield* storage.putAll("runs/b", new Map([["weights", bytes("y")]]))
        const mode = (name: string) => Effect.map(fs.stat(`${at}/${name}`), (info) => (info.mode & 0o777).toString(8))
        const claim = (yield* fs.readDirectory(at)).find((name) => name.startsWith(".lock")) ?? ""
        assert.deepStrictEqual(
          yield* Effect.forEach(["", "runs", "runs/b", "runs/a.json", "runs/b/weights", claim], mode),
          ["700", "700", "700", "600", "600", "600"]
        )
      })
    ))

  it.effect("names the reason when the disk is full, and when a place is impossible", () =>
    inDirectory((root, fs) =>
      Effect.gen(function*() {
        const full = Object.assign(new Error("write"), { code: "ENOSPC" })
        const failing = FileSystem.FileSystem.of({
          ...fs,
          open: (path, options) =>
            path.includes(".lock")
              ? fs.open(path, options)
              : Effect.fail(
                new SystemError({ reason: "Unknown", module: "FileSystem", method: "open", cause: full })
              )
        })
        const storage = yield* Effect.provide(Storage.directory(root), Layer.succeed(FileSystem.FileSystem, failing))
        assert.include((yield* Effect.flip(storage.put("a", bytes("x")))).message, "the disk is full")
        // Node never returns from making a directory here with its parents
        const nowhere = yield* Effect.flip(Effect.scoped(Storage.directory("/proc/tinker/data")))
        assert.match(nowhere.message, /cannot open .*: no such file/)
        yield* fs.writeFileString(`${root}/file`, "")
        assert.include(
          (yield* Effect.flip(Effect.scoped(Storage.directory(`${root}/file/data`)))).message,
          "is a file, not a directory"
        )
      })
    ))
})
