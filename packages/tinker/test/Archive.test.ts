import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Option, Stream } from "effect"
import { Archive } from "effect-tinker"
import * as tar from "./fixtures/tar.js"

const inPieces = (data: Uint8Array, size: number): Stream.Stream<Uint8Array> =>
  Stream.unfold(0, (offset) =>
    offset >= data.length
      ? Option.none()
      : Option.some([data.subarray(offset, offset + size), offset + size] as const))

/** The target and its siblings: what an escape would hit. */
const sandbox = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* fs.makeTempDirectoryScoped()
  yield* fs.makeDirectory(path.join(root, "target2"))
  yield* fs.writeFileString(path.join(root, "target2", "precious"), "untouched")
  const directory = path.join(root, "target")
  return { directory, fs, path, root }
})

const run = (data: Uint8Array, options: Archive.Limits & { readonly pieces?: number } = {}) =>
  Effect.gen(function*() {
    const { directory, fs, path, root } = yield* sandbox
    const exit = yield* Effect.exit(
      Archive.extract(inPieces(data, options.pieces ?? 1000), { ...options, directory })
    )
    const files = yield* fs.readDirectory(root, { recursive: true })
    const contents = new Map<string, string>()
    for (const file of files) {
      const info = yield* fs.stat(path.join(root, file))
      if (info.type === "File") contents.set(file, yield* fs.readFileString(path.join(root, file)))
    }
    return { contents, exit, files: files.sort() }
  })

const good = tar.archive(
  { name: "adapter/", type: "5" },
  { name: "adapter/config.json", body: tar.bytes("{}") },
  { name: "./adapter/model.bin", body: new Uint8Array(1500).fill(65) },
  { name: "empty" }
)

const big = (name: string, size: number): tar.Member => ({ name, body: new Uint8Array(size) })

const hostile: ReadonlyArray<readonly [name: string, reason: Archive.ArchiveRefused["reason"], data: Uint8Array]> = [
  ["an absolute path", "absolute-path", tar.archive({ name: "/etc/cron.d/x", body: tar.bytes("x") })],
  ["an absolute path by prefix", "absolute-path", tar.archive({ name: "x", prefix: "/tmp", body: tar.bytes("x") })],
  [
    "an absolute path in an extended header",
    "absolute-path",
    tar.archive(
      { name: "x", type: "x", body: tar.paxRecord("path", "/tmp/x") },
      { name: "innocent", body: tar.bytes("x") }
    )
  ],
  ["a drive letter", "absolute-path", tar.archive({ name: "C:/x", body: tar.bytes("x") })],
  ["a UNC path", "absolute-path", tar.archive({ name: "\\\\host\\share", body: tar.bytes("x") })],
  ["..", "escaping-path", tar.archive({ name: "../outside", body: tar.bytes("x") })],
  [".. inside", "escaping-path", tar.archive({ name: "a/../../outside", body: tar.bytes("x") })],
  [".. that would stay inside", "escaping-path", tar.archive({ name: "a/../b", body: tar.bytes("x") })],
  ["a directory ..", "escaping-path", tar.archive({ name: "..", type: "5" })],
  [
    "a sibling with the target as prefix",
    "escaping-path",
    tar.archive({
      name: "../target2/precious",
      body: tar.bytes("overwritten")
    })
  ],
  [
    ".. in a long name",
    "escaping-path",
    tar.archive(
      { name: "././@LongLink", type: "L", body: tar.bytes(`${"d/".repeat(60)}../${"../".repeat(60)}x\0`) },
      { name: "short", body: tar.bytes("x") }
    )
  ],
  ["a backslash escape", "unsafe-name", tar.archive({ name: "a\\..\\..\\x", body: tar.bytes("x") })],
  ["a control character", "unsafe-name", tar.archive({ name: "a\u001b[2Jb", body: tar.bytes("x") })],
  ["a file without a name", "unsafe-name", tar.archive({ name: ".", body: tar.bytes("x") })],
  ["a name too deep", "unsafe-name", tar.archive({ name: "d/".repeat(40) + "x", body: tar.bytes("x") })],
  ["a symbolic link", "link", tar.archive({ name: "l", type: "2", linkName: "/etc" })],
  [
    "a symbolic link used as a directory",
    "link",
    tar.archive(
      { name: "l", type: "2", linkName: "../target2" },
      { name: "l/precious", body: tar.bytes("overwritten") }
    )
  ],
  ["a hard link", "link", tar.archive({ name: "l", type: "1", linkName: "../target2/precious" })],
  ["a long link name", "link", tar.archive({ name: "././@LongLink", type: "K", body: tar.bytes("x\0") })],
  ["a character device", "special-file", tar.archive({ name: "d", type: "3" })],
  ["a block device", "special-file", tar.archive({ name: "d", type: "4" })],
  ["a pipe", "special-file", tar.archive({ name: "p", type: "6" })],
  ["a sparse file", "unsupported", tar.archive({ name: "s", type: "S", body: tar.bytes("x") })],
  [
    "a sparse file by extended header",
    "unsupported",
    tar.archive(
      { name: "x", type: "x", body: tar.paxRecord("GNU.sparse.major", "1") },
      { name: "s", body: tar.bytes("x") }
    )
  ],
  ["a name twice", "duplicate", tar.archive(big("a", 3), big("./a", 3))],
  ["a file used as a directory", "duplicate", tar.archive(big("a", 3), big("a/b", 3))],
  ["a directory that is also a file", "duplicate", tar.archive(big("a/b", 3), big("a", 3))],
  [
    "more members than allowed",
    "too-many-entries",
    tar.archive(
      ...Array.from({ length: 51 }, (_, i): tar.Member => ({ name: `f${i}` }))
    )
  ],
  ["more bytes than allowed", "too-large", tar.archive(big("a", 60_000), big("b", 60_000))],
  ["a length beyond the limit", "too-large", tar.join(tar.member({ name: "a", size: 0o77777777777 }), tar.end)],
  [
    "a length in an extended header beyond the limit",
    "too-large",
    tar.archive(
      { name: "x", type: "x", body: tar.paxRecord("size", "999999999999") },
      { name: "a" }
    )
  ],
  ["a length beyond safe integers", "malformed", tar.join(tar.member({ name: "a", size: "base256-huge" }), tar.end)],
  ["an endless extended header", "too-large", tar.join(tar.member({ name: "x", type: "x", size: 2 ** 30 }), tar.end)],
  [
    "extended headers for ever",
    "malformed",
    tar.archive(
      ...Array.from({ length: 6 }, (): tar.Member => ({ name: "x", type: "x", body: tar.paxRecord("a", "b") }))
    )
  ],
  [
    "an extended header that lies about its length",
    "malformed",
    tar.archive(
      { name: "x", type: "x", body: tar.bytes("99 path=x\n") },
      { name: "a" }
    )
  ],
  ["a directory with contents", "malformed", tar.archive({ name: "d/", type: "5", body: tar.bytes("x") })],
  ["a wrong checksum", "malformed", tar.archive({ name: "a", breakChecksum: true })],
  ["not an archive", "malformed", new Uint8Array(4096).fill(7)],
  [
    "a name that is not UTF-8",
    "malformed",
    (() => {
      const data = tar.archive({ name: "aa" })
      data.set([0xff, 0xfe], 0)
      data.set(tar.bytes("000000\0 "), 148)
      const sum = data.subarray(0, 512).reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte), 0)
      data.set(tar.bytes(`${sum.toString(8).padStart(6, "0")}\0 `), 148)
      return data
    })()
  ],
  ["nothing at all", "truncated", new Uint8Array(0)],
  ["half a header", "truncated", good.subarray(0, 300)],
  ["half a body", "truncated", good.subarray(0, 512 * 3 + 700)],
  ["no end mark", "truncated", good.subarray(0, good.length - 1024)],
  [
    "an extended header of nothing",
    "truncated",
    tar.archive({
      name: "x",
      type: "x",
      body: tar.paxRecord("path", "a")
    })
  ],
  ["zstd", "unsupported", tar.join(new Uint8Array([0x28, 0xb5, 0x2f, 0xfd]), new Uint8Array(100))],
  ["zip", "unsupported", tar.join(tar.bytes("PK\u0003\u0004"), new Uint8Array(100))],
  ["gzip that is not", "malformed", tar.join(new Uint8Array([0x1f, 0x8b, 8, 0]), new Uint8Array(100).fill(9))]
]

const expected = ["target", "target/adapter", "target/adapter/config.json", "target/adapter/model.bin", "target/empty"]

describe("Archive", () => {
  for (const pieces of [1, 511, 513, 100_000]) {
    it.scoped(`extracts files and directories from pieces of ${pieces} bytes`, () =>
      Effect.gen(function*() {
        const { contents, exit, files } = yield* run(good, { pieces })
        assert.deepStrictEqual(exit, Exit.succeed({ files: 3, bytes: 1502 }))
        assert.deepStrictEqual(files, [...expected, "target2", "target2/precious"].sort())
        assert.strictEqual(contents.get("target/adapter/config.json"), "{}")
        assert.strictEqual(contents.get("target/adapter/model.bin"), "A".repeat(1500))
      }).pipe(Effect.provide(NodeContext.layer)))
  }

  it.scoped("skips a directory that means the place itself, however it is written", () =>
    Effect.gen(function*() {
      for (const name of ["/", "./", ".", ""]) {
        const { contents, exit } = yield* run(
          tar.archive({ name, type: "5" }, { name: "adapter_config.json", body: tar.bytes("{}") })
        )
        assert.deepStrictEqual(exit, Exit.succeed({ files: 1, bytes: 2 }), name)
        assert.strictEqual(contents.get("target/adapter_config.json"), "{}")
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("reads gzip, prefixes, long names and extended headers", () =>
    Effect.gen(function*() {
      const long = `${"directory/".repeat(15)}file`
      const data = tar.archive(
        { name: "pax_global_header", type: "g", body: tar.paxRecord("comment", "any") },
        { name: "name", prefix: "under/a/prefix", body: tar.bytes("1") },
        { name: "././@LongLink", type: "L", body: tar.bytes(`${long}\0`) },
        { name: long.slice(0, 100), body: tar.bytes("2") },
        { name: "x", type: "x", body: tar.join(tar.paxRecord("mtime", "1.5"), tar.paxRecord("path", "grüße")) },
        { name: "gruesse", body: tar.bytes("3") }
      )
      const { contents, exit } = yield* run(yield* Effect.promise(() => tar.gzip(Uint8Array.from(data))))
      assert.deepStrictEqual(exit, Exit.succeed({ files: 3, bytes: 3 }))
      assert.strictEqual(contents.get("target/under/a/prefix/name"), "1")
      assert.strictEqual(contents.get(`target/${long}`), "2")
      assert.strictEqual(contents.get("target/grüße"), "3")
    }).pipe(Effect.provide(NodeContext.layer)))

  describe("refuses and leaves nothing behind", () => {
    for (const [name, reason, data] of hostile) {
      it.scoped(name, () =>
        Effect.gen(function*() {
          // A good member first: what was already written has to go too.
          const first = data.length > 1024 && reason !== "unsupported" && name !== "not an archive"
            ? tar.join(tar.member({ name: "first", body: tar.bytes("first") }), data)
            : data
          for (const bytes of [data, first]) {
            const { contents, exit, files } = yield* run(bytes, { maxEntries: 50, maxTotalBytes: 100_000 })
            assert.isTrue(Exit.isFailure(exit))
            if (Exit.isFailure(exit)) {
              const error = Option.getOrThrow(Cause.failureOption(exit.cause))
              assert.instanceOf(error, Archive.ArchiveRefused)
              assert.strictEqual(error instanceof Archive.ArchiveRefused ? error.reason : "", reason)
            }
            assert.deepStrictEqual(files, ["target2", "target2/precious"])
            assert.strictEqual(contents.get("target2/precious"), "untouched")
          }
        }).pipe(Effect.provide(NodeContext.layer)))
    }

    it.scoped("a gzip bomb, without expanding it", () =>
      Effect.gen(function*() {
        const zeros = new Uint8Array(50 * 2 ** 20)
        const bomb = yield* Effect.promise(() => tar.gzip(Uint8Array.from(tar.archive({ name: "zeros", body: zeros }))))
        assert.isBelow(bomb.length, 100_000)
        let written = 0
        const { directory, fs } = yield* sandbox
        const error = yield* Effect.flip(Archive.extract(inPieces(bomb, 4096), {
          directory,
          maxTotalBytes: 2 ** 20,
          onProgress: (bytes) =>
            Effect.sync(() => {
              written = bytes
            })
        }))
        assert.strictEqual(error instanceof Archive.ArchiveRefused ? error.reason : error._tag, "too-large")
        assert.strictEqual(written, 0)
        assert.isFalse(yield* fs.exists(directory))
      }).pipe(Effect.provide(NodeContext.layer)))

    it.scoped("gzip cut short", () =>
      Effect.gen(function*() {
        const whole = yield* Effect.promise(() => tar.gzip(Uint8Array.from(good)))
        const { exit, files } = yield* run(whole.subarray(0, whole.length - 20))
        assert.isTrue(Exit.isFailure(exit))
        assert.deepStrictEqual(files, ["target2", "target2/precious"])
      }).pipe(Effect.provide(NodeContext.layer)))
  })

  it.scoped("does not touch a directory that has something in it", () =>
    Effect.gen(function*() {
      const { directory, fs, path } = yield* sandbox
      yield* fs.makeDirectory(directory)
      yield* fs.writeFileString(path.join(directory, "mine"), "mine")
      const error = yield* Effect.flip(Archive.extract(inPieces(good, 512), { directory }))
      assert.strictEqual(error._tag, "ArchiveRefused")
      assert.deepStrictEqual(yield* fs.readDirectory(directory), ["mine"])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("removes what it wrote when the source fails or is interrupted", () =>
    Effect.gen(function*() {
      const { directory, fs } = yield* sandbox
      const half = inPieces(good.subarray(0, 2048), 512)
      const failing = Stream.concat(half, Stream.fail("gone" as const))
      assert.strictEqual(yield* Effect.flip(Archive.extract(failing, { directory })), "gone")
      assert.isFalse(yield* fs.exists(directory))
      const hanging = Stream.concat(half, Stream.never)
      const seen = yield* Effect.makeLatch(false)
      yield* Effect.race(
        Archive.extract(hanging, { directory, onProgress: () => seen.open }),
        seen.await
      )
      assert.isFalse(yield* fs.exists(directory))
    }).pipe(Effect.provide(NodeContext.layer)))
})
