import { FileSystem, HttpClient, HttpClientResponse, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Deferred, Effect, Either, Fiber, Layer, Option, Stream, TestClock } from "effect"
import { Checkpoint, CheckpointDownload, RestClient, TinkerTransport } from "effect-tinker"
import * as tar from "./fixtures/tar.js"

const path = "tinker://s:train:0/weights/0001"
const external = "tinker://s:train:0/external_weights/final"

const good = tar.archive(
  { name: "adapter_config.json", body: tar.bytes("{}") },
  { name: "adapter_model.safetensors", body: new Uint8Array(300_000).fill(7) }
)

/** The service and its object store in one. */
const service = (options: {
  readonly archive?: Uint8Array | undefined
  readonly files?: Readonly<Record<string, string>>
  /** Answers of the object store that replace its own, by request number. */
  readonly storage?: (n: number) => Response | undefined
}) => {
  const seen: Array<{ readonly url: string; readonly headers: Readonly<Record<string, string | undefined>> }> = []
  let signatures = 0
  const serve = (data: Uint8Array, range: string | undefined) => {
    const start = range === undefined ? 0 : Number(/\d+/.exec(range)?.[0])
    const bytes = Uint8Array.from(data.subarray(start))
    return new Response(bytes, {
      status: start === 0 ? 200 : 206,
      headers: {
        etag: "\"x\"",
        "content-length": String(bytes.length),
        ...(start === 0 ? {} : { "content-range": `bytes ${start}-${data.length - 1}/${data.length}` })
      }
    })
  }
  const client = HttpClient.make((request, url) =>
    Effect.sync(() => {
      const stored = seen.filter((call) => call.url.includes("storage.test")).length
      seen.push({ url: url.href, headers: request.headers })
      const answer = (): Response => {
        if (url.host === "storage.test") {
          const scripted = options.storage?.(stored)
          if (scripted !== undefined) return scripted
          const file = options.files?.[decodeURIComponent(url.pathname.slice(1))]
          if (file !== undefined) return serve(tar.bytes(file), request.headers["range"])
          return options.archive === undefined
            ? new Response("", { status: 404 })
            : serve(options.archive, request.headers["range"])
        }
        const expires = "2099-01-01T00:00:00Z"
        const signature = ++signatures
        if (url.pathname.endsWith("/archive")) {
          return options.archive === undefined
            ? Response.json({ detail: "Not Found" }, { status: 404 })
            : Response.json({ url: `https://storage.test/archive?sig=${signature}`, expires })
        }
        if (url.pathname.endsWith("/external_weights_urls")) {
          const urls = Object.fromEntries(
            Object.keys(options.files ?? {}).map((name) => [
              name,
              `https://storage.test/${encodeURIComponent(name)}?sig=${signature}`
            ])
          )
          return Response.json({ urls, expires })
        }
        return Response.json({})
      }
      return HttpClientResponse.fromWeb(request, answer())
    })
  )
  const http = Layer.succeed(HttpClient.HttpClient, client)
  const layer = Layer.mergeAll(
    RestClient.layer({ baseUrl: "http://localhost:9", apiKey: "tml-key" }).pipe(
      Layer.provide(TinkerTransport.layer()),
      Layer.provide(http)
    ),
    http,
    NodeContext.layer
  )
  return { layer, seen }
}

const sandbox = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const root = yield* fs.makeTempDirectoryScoped()
  const directory = paths.join(root, "checkpoint")
  const list = Effect.map(fs.readDirectory(root, { recursive: true }), (names) => names.sort())
  return { directory, fs, list, paths, root }
})

const complete = ["checkpoint", "checkpoint/adapter_config.json", "checkpoint/adapter_model.safetensors"]

/** A body that breaks off after some bytes. */
const cut = (data: Uint8Array, after: number) =>
  new Response(
    new ReadableStream({
      start: (controller) => controller.enqueue(data.subarray(0, after)),
      pull: (controller) => controller.error(new Error("reset"))
    }, { highWaterMark: 0 }),
    { headers: { etag: "\"x\"", "content-length": String(data.length) } }
  )

describe("CheckpointDownload", () => {
  it("names directories in characters every file system has", () => {
    const parsed = Either.getOrThrow(Checkpoint.parsePath("tinker://0-1:train:0/sampler_weights/a b?"))
    assert.strictEqual(CheckpointDownload.directoryName(parsed), "0-1_train_0_sampler_weights_a_b_")
  })

  it.scoped("fetches, unpacks and renames, without a credential at the store", () => {
    const { layer, seen } = service({ archive: good })
    return Effect.gen(function*() {
      const { directory, list } = yield* sandbox
      const events = Chunk.toReadonlyArray(
        yield* Stream.runCollect(CheckpointDownload.stream({ tinkerPath: path, directory }))
      )
      const phases = events.map((event) => event._tag).filter((tag, i, all) => tag !== all[i - 1])
      assert.deepStrictEqual(phases, ["Preparing", "Downloading", "Extracting", "Completed"])
      assert.deepStrictEqual(events.at(-1), {
        _tag: "Completed",
        directory,
        files: 2,
        bytes: 300_002,
        fetched: good.length
      })
      assert.deepStrictEqual(yield* list, complete)
      const stored = seen.filter(({ url }) => url.includes("storage.test"))
      assert.isTrue(stored.every(({ headers }) => headers["x-api-key"] === undefined))
    }).pipe(Effect.provide(layer))
  })

  it.scoped("an archive that is refused leaves nothing behind", () => {
    const evil = tar.archive(
      { name: "fine", body: tar.bytes("fine") },
      { name: "../checkpoint2/escaped", body: tar.bytes("x") }
    )
    const { layer } = service({ archive: evil })
    return Effect.gen(function*() {
      const { directory, list } = yield* sandbox
      const error = yield* Effect.flip(CheckpointDownload.run({ tinkerPath: path, directory }))
      assert.strictEqual(error._tag, "ArchiveRefused")
      assert.deepStrictEqual(yield* list, [])
    }).pipe(Effect.provide(layer))
  })

  it.scoped("unpacks an archive as it arrives: it is never on the disk beside its files", () => {
    const { layer } = service({ archive: good })
    return Effect.gen(function*() {
      const { directory, list } = yield* sandbox
      const seen: Array<string> = []
      const events = yield* CheckpointDownload.stream({ tinkerPath: path, directory, streamArchive: true }).pipe(
        Stream.tap(() => Effect.map(list, (names) => void seen.push(...names))),
        Stream.runCollect
      )
      assert.deepStrictEqual(yield* list, complete)
      assert.isFalse(seen.some((name) => name.endsWith(".tar") || name.endsWith(".part")))
      const last = Option.getOrThrow(Chunk.last(events))
      assert(last._tag === "Completed")
      assert.strictEqual(last.fetched, good.length)
    }).pipe(Effect.provide(layer))
  })

  it.scopedLive("goes on where an earlier call broke off", () =>
    Effect.gen(function*() {
      const { directory, list } = yield* sandbox
      const first = service({
        archive: good,
        storage: (n) => n === 0 ? cut(good, 200_000) : new Response("", { status: 400 })
      })
      const error = yield* Effect.flip(
        CheckpointDownload.run({ tinkerPath: path, directory }).pipe(Effect.provide(first.layer))
      )
      assert.strictEqual(error._tag, "BadRequest")
      assert.include(yield* list, "checkpoint.download/archive.tar.part")
      const second = service({ archive: good })
      const summary = yield* CheckpointDownload.run({ tinkerPath: path, directory }).pipe(Effect.provide(second.layer))
      assert.strictEqual(summary.fetched, good.length - 200_000)
      assert.strictEqual(summary.bytes, 300_002)
      assert.deepStrictEqual(yield* list, complete)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("does not go on with what belongs to another checkpoint", () =>
    Effect.gen(function*() {
      const { directory, list } = yield* sandbox
      const first = service({
        archive: good,
        storage: (n) => n === 0 ? cut(good, 200_000) : new Response("", { status: 400 })
      })
      yield* Effect.flip(CheckpointDownload.run({ tinkerPath: path, directory }).pipe(Effect.provide(first.layer)))
      const other = tar.archive({ name: "other", body: tar.bytes("other") })
      yield* CheckpointDownload.run({ tinkerPath: "tinker://t/weights/2", directory }).pipe(
        Effect.provide(service({ archive: other }).layer)
      )
      assert.deepStrictEqual(yield* list, ["checkpoint", "checkpoint/other"])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("does not touch a directory that is there, unless told to; then only when all is there", () =>
    Effect.gen(function*() {
      const { directory, fs, list, paths } = yield* sandbox
      yield* fs.makeDirectory(directory)
      yield* fs.writeFileString(paths.join(directory, "mine"), "mine")
      const { layer, seen } = service({ archive: good })
      const error = yield* Effect.flip(
        CheckpointDownload.run({ tinkerPath: path, directory }).pipe(Effect.provide(layer))
      )
      assert.strictEqual(error._tag, "InvalidInput")
      assert.deepStrictEqual(seen, [])
      const evil = service({ archive: tar.archive({ name: "/etc/x" }) })
      yield* Effect.flip(
        CheckpointDownload.run({ tinkerPath: path, directory, overwrite: true }).pipe(Effect.provide(evil.layer))
      )
      assert.deepStrictEqual(yield* list, ["checkpoint", "checkpoint/mine"])
      yield* CheckpointDownload.run({ tinkerPath: path, directory, overwrite: true }).pipe(Effect.provide(layer))
      assert.deepStrictEqual(yield* list, complete)
    }).pipe(Effect.provide(NodeContext.layer)))

  describe("two downloads to one place", () => {
    /** Lets time pass until it is over: in small steps, so that the disk keeps up with it and no owner of a lock looks dead. */
    const settled = <A, E>(fiber: Fiber.RuntimeFiber<A, E>) =>
      Effect.gen(function*() {
        while (Option.isNone(yield* Fiber.poll(fiber))) yield* TestClock.adjust("50 millis")
        return yield* Fiber.join(fiber)
      })

    it.scoped("do not mix: the second is told, the first completes", () => {
      const { layer } = service({ archive: good })
      return Effect.gen(function*() {
        const { directory, list } = yield* sandbox
        const started = yield* Deferred.make<void>()
        const released = yield* Deferred.make<string>()
        const first = yield* Effect.fork(
          CheckpointDownload.run({
            tinkerPath: path,
            directory,
            exportExternal: () => Effect.zipRight(Deferred.succeed(started, undefined), Deferred.await(released))
          }).pipe(Effect.provide(service({ files: { "adapter_config.json": "{}" } }).layer))
        )
        yield* Deferred.await(started)
        const second = yield* Effect.fork(Effect.flip(CheckpointDownload.run({ tinkerPath: path, directory })))
        const error = yield* settled(second)
        assert.strictEqual(error._tag, "DownloadInProgress")
        assert.include(error.message, directory)
        yield* Deferred.succeed(released, external)
        assert.strictEqual((yield* settled(first)).files, 1)
        assert.deepStrictEqual(yield* list, ["checkpoint", "checkpoint/adapter_config.json"])
        const error2 = yield* Effect.flip(CheckpointDownload.run({ tinkerPath: path, directory }))
        assert.strictEqual(error2._tag, "InvalidInput")
      }).pipe(Effect.provide(layer))
    })

    it.scoped("one that was killed does not stand in the way for long", () => {
      const { layer } = service({ archive: good })
      return Effect.gen(function*() {
        const { directory, fs, list } = yield* sandbox
        yield* TestClock.adjust("1 minute")
        // Recent: it could be alive, and is watched for a while.
        yield* fs.writeFileString(`${directory}.download.lock`, "dead 59000")
        const fiber = yield* Effect.fork(CheckpointDownload.run({ tinkerPath: path, directory }))
        assert.strictEqual((yield* settled(fiber)).files, 2)
        yield* fs.remove(directory, { recursive: true })
        // Old: it is not waited for at all.
        yield* fs.writeFileString(`${directory}.download.lock`, "dead 0")
        yield* CheckpointDownload.run({ tinkerPath: path, directory })
        assert.deepStrictEqual(yield* list, complete)
      }).pipe(Effect.provide(layer))
    })
  })

  describe("external checkpoints", () => {
    it.scoped("are fetched file by file, with new addresses when the old ones are refused", () => {
      const { layer, seen } = service({
        files: { "adapter_config.json": "{}", "nested/model.bin": "weights", "z.txt": "z" },
        storage: (n) => n === 1 ? new Response("", { status: 403 }) : undefined
      })
      return Effect.gen(function*() {
        const { directory, fs, list, paths } = yield* sandbox
        const summary = yield* CheckpointDownload.run({ tinkerPath: external, directory })
        assert.deepStrictEqual(summary, { directory, files: 3, bytes: 10, fetched: 10 })
        assert.strictEqual(yield* fs.readFileString(paths.join(directory, "nested/model.bin")), "weights")
        assert.notInclude((yield* list).join(), ".download")
        assert.strictEqual(seen.filter(({ url }) => url.includes("external_weights_urls")).length, 2)
      }).pipe(Effect.provide(layer))
    })

    for (const name of ["../escape", "/absolute", "a/../../b", "c:\\x", "nul\u0000l"]) {
      it.scoped(`refuses the file name ${JSON.stringify(name)}`, () => {
        const { layer, seen } = service({ files: { good: "x", [name]: "x" } })
        return Effect.gen(function*() {
          const { directory, list } = yield* sandbox
          const error = yield* Effect.flip(CheckpointDownload.run({ tinkerPath: external, directory }))
          assert.strictEqual(error._tag, "ArchiveRefused")
          assert.deepStrictEqual(yield* list, [])
          assert.isTrue(seen.every(({ url }) => !url.includes("storage.test")))
        }).pipe(Effect.provide(layer))
      })
    }

    it.scoped("stand in for an archive the server does not offer, and are released afterwards", () => {
      const { layer } = service({ files: { "adapter_config.json": "{}" } })
      return Effect.gen(function*() {
        const { directory, list } = yield* sandbox
        const exported: Array<string> = []
        const refused = yield* Effect.flip(CheckpointDownload.run({ tinkerPath: path, directory }))
        assert.strictEqual(refused._tag, "Unsupported")
        yield* CheckpointDownload.run({
          tinkerPath: path,
          directory,
          exportExternal: (source) =>
            Effect.acquireRelease(
              Effect.sync(() => {
                exported.push(source)
                return external
              }),
              () => Effect.sync(() => void exported.push("released"))
            )
        })
        assert.deepStrictEqual(exported, [path, "released"])
        assert.deepStrictEqual(yield* list, ["checkpoint", "checkpoint/adapter_config.json"])
      }).pipe(Effect.provide(layer))
    })
  })
})
