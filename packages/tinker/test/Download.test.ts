import { FileSystem, HttpClient, HttpClientResponse, Path } from "@effect/platform"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Chunk, Effect, Exit, Fiber, Layer, Schedule, Stream, TestClock } from "effect"
import { Download, RetryPolicy } from "effect-tinker"
import { createServer } from "node:http"
import type { IncomingMessage, ServerResponse } from "node:http"

const content = Uint8Array.from({ length: 200_000 }, (_, i) => (i * 31) % 251)

/** An object store: ranges, entity tags, and the faults it is told to have. */
const storage = (options: {
  readonly etag?: string | undefined
  readonly data?: Uint8Array
  /** Breaks the n-th body (from 0) after so many bytes. */
  readonly breakAt?: (n: number) => number | undefined
  readonly status?: (n: number) => number | undefined
  readonly lie?: boolean
}) => {
  const requests: Array<IncomingMessage> = []
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const n = requests.push(request) - 1
    const data = options.data ?? content
    const status = options.status?.(n)
    if (status !== undefined) return void response.writeHead(status).end()
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? "")
    const start = range !== null && request.headers["if-range"] === options.etag ? Number(range[1]) : 0
    if (start > 0 && start >= data.length) {
      return void response.writeHead(416, { "content-range": `bytes */${data.length}` }).end()
    }
    response.writeHead(start === 0 ? 200 : 206, {
      "content-length": options.lie === true ? data.length + 10 : data.length - start,
      ...(options.etag === undefined ? {} : { etag: options.etag }),
      ...(start === 0 ? {} : { "content-range": `bytes ${start}-${data.length - 1}/${data.length}` })
    })
    const breakAt = options.breakAt?.(n)
    if (breakAt === undefined && options.lie !== true) return void response.end(data.subarray(start))
    response.write(
      data.subarray(start, start + (breakAt ?? data.length)),
      () => setTimeout(() => response.socket?.destroy(), 100)
    )
  })
  return Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly requests: Array<IncomingMessage> }>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}/bucket/file?signature=secret`, requests }))
      })
    }),
    () =>
      Effect.async<void>((resume) => {
        server.closeAllConnections()
        server.close(() => resume(Effect.void))
      })
  )
}

const sandbox = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* fs.makeTempDirectoryScoped()
  return { fs, root, file: path.join(root, "model.tar") }
})

const Live = Layer.merge(NodeContext.layer, NodeHttpClient.layerUndici)
/** Once without new bytes. */
const once = Schedule.recurs(1)

const quick = Schedule.recurs(3)

describe("Download", () => {
  it.scopedLive("writes the file and reports progress up to its length", () =>
    Effect.gen(function*() {
      const { file, fs, root } = yield* sandbox
      const { requests, url } = yield* storage({ etag: "\"a\"" })
      const events = Chunk.toReadonlyArray(yield* Stream.runCollect(Download.progress({ url, path: file })))
      assert.deepStrictEqual(events[0], { received: 0, total: content.length })
      assert.deepStrictEqual(events.at(-1), { received: content.length, total: content.length })
      assert.deepStrictEqual(yield* fs.readFile(file), content)
      assert.deepStrictEqual(yield* fs.readDirectory(root), ["model.tar"])
      assert.isUndefined(requests[0]?.headers["traceparent"])
      assert.isUndefined(requests[0]?.headers["x-api-key"])
    }).pipe(Effect.provide(Live)))

  it.scopedLive("goes on where the connection broke, as often as it brings new bytes", () =>
    Effect.gen(function*() {
      const { file, fs } = yield* sandbox
      const { requests, url } = yield* storage({ etag: "\"a\"", breakAt: (n) => n < 4 ? 40_000 : undefined })
      const summary = yield* Download.toFile({ url, path: file, retry: once })
      assert.strictEqual(summary.bytes, content.length)
      assert.deepStrictEqual(yield* fs.readFile(file), content)
      assert.strictEqual(requests.length, 5)
      assert.isDefined(requests[1]?.headers.range)
    }).pipe(Effect.provide(Live)))

  it.scopedLive("withoutRetries: one request, even if it brought new bytes (G7)", () =>
    Effect.gen(function*() {
      const { file } = yield* sandbox
      const { requests, url } = yield* storage({ etag: "\"a\"", breakAt: () => 40_000 })
      const error = yield* Effect.flip(Download.toFile({ url, path: file }))
      assert.strictEqual(error._tag, "TransportFailed")
      assert.strictEqual(requests.length, 1)
    }).pipe(RetryPolicy.withoutRetries, Effect.provide(Live)))

  it.scopedLive("goes on in a later call", () =>
    Effect.gen(function*() {
      const { file, fs, root } = yield* sandbox
      const first = yield* storage({
        etag: "\"a\"",
        breakAt: () => 50_000,
        status: (n) => n > 0 ? 500 : undefined
      })
      const error = yield* Effect.flip(Download.toFile({ url: first.url, path: file, retry: once }))
      assert.strictEqual(error._tag, "Unavailable")
      assert.isFalse(yield* fs.exists(file))
      assert.deepStrictEqual((yield* fs.readDirectory(root)).sort(), ["model.tar.part", "model.tar.part.json"])
      const second = yield* storage({ etag: "\"a\"" })
      const summary = yield* Download.toFile({ url: second.url, path: file })
      assert.isAbove(summary.resumedFrom, 0)
      assert.strictEqual(second.requests[0]?.headers.range, `bytes=${summary.resumedFrom}-`)
      assert.deepStrictEqual(yield* fs.readFile(file), content)
      assert.deepStrictEqual(yield* fs.readDirectory(root), ["model.tar"])
    }).pipe(Effect.provide(Live)))

  it.scopedLive("starts over when the file has changed in between", () =>
    Effect.gen(function*() {
      const { file, fs } = yield* sandbox
      const first = yield* storage({ etag: "\"a\"", breakAt: () => 50_000, status: (n) => n > 0 ? 500 : undefined })
      yield* Effect.flip(Download.toFile({ url: first.url, path: file, retry: once }))
      const data = content.map((byte) => byte ^ 1).subarray(0, 1000)
      const second = yield* storage({ etag: "\"b\"", data })
      const summary = yield* Download.toFile({ url: second.url, path: file })
      assert.deepStrictEqual(summary, { bytes: 1000, resumedFrom: 0 })
      assert.deepStrictEqual(yield* fs.readFile(file), data)
    }).pipe(Effect.provide(Live)))

  it.scopedLive("starts over when the server gives nothing to recognise the file by", () =>
    Effect.gen(function*() {
      const { file, fs } = yield* sandbox
      const { requests, url } = yield* storage({ breakAt: (n) => n === 0 ? 40_000 : undefined })
      yield* Download.toFile({ url, path: file, retry: quick })
      assert.isUndefined(requests[1]?.headers.range)
      assert.deepStrictEqual(yield* fs.readFile(file), content)
    }).pipe(Effect.provide(Live)))

  it.scopedLive("notices that everything is there already", () =>
    Effect.gen(function*() {
      const { file, fs } = yield* sandbox
      const { url } = yield* storage({ etag: "\"a\"" })
      yield* fs.writeFile(`${file}.part`, content)
      yield* fs.writeFileString(`${file}.part.json`, JSON.stringify({ validator: "\"a\"", total: content.length }))
      const summary = yield* Download.toFile({ url, path: file })
      assert.deepStrictEqual(summary, { bytes: content.length, resumedFrom: content.length })
      assert.deepStrictEqual(yield* fs.readFile(file), content)
    }).pipe(Effect.provide(Live)))

  it.scopedLive("a body shorter than announced is a failure, and no file", () =>
    Effect.gen(function*() {
      const { file, fs } = yield* sandbox
      const { requests, url } = yield* storage({ lie: true })
      const error = yield* Effect.flip(Download.toFile({ url, path: file, retry: quick }))
      assert.strictEqual(error._tag, "TransportFailed")
      // Three retries came no further than the first attempt.
      assert.isAtLeast(requests.length, 4)
      assert.isFalse(yield* fs.exists(file))
    }).pipe(Effect.provide(Live)))

  it.scopedLive("retries unavailability, not refusal; never shows the signature", () =>
    Effect.gen(function*() {
      const { file } = yield* sandbox
      const busy = yield* storage({ status: (n) => n < 2 ? 503 : undefined })
      yield* Download.toFile({ url: busy.url, path: file, retry: quick })
      assert.strictEqual(busy.requests.length, 3)
      const refused = yield* storage({ status: () => 403 })
      const exit = yield* Effect.exit(Download.toFile({ url: refused.url, path: `${file}2`, retry: quick }))
      assert.strictEqual(refused.requests.length, 1)
      assert.isTrue(Exit.isFailure(exit))
      if (Exit.isFailure(exit)) {
        assert.include(Cause.pretty(exit.cause), "PermissionDenied")
        assert.notInclude(`${Cause.pretty(exit.cause)} ${JSON.stringify(exit)}`, "secret")
      }
    }).pipe(Effect.provide(Live)))

  it.scopedLive("refuses more than the limit before writing it", () =>
    Effect.gen(function*() {
      const { file, fs } = yield* sandbox
      const { url } = yield* storage({})
      const error = yield* Effect.flip(Download.toFile({ url, path: file, maxBytes: 1000 }))
      assert.strictEqual(error._tag, "MalformedResponse")
      assert.isFalse(yield* fs.exists(`${file}.part`))
    }).pipe(Effect.provide(Live)))

  it.scoped("a silent server is given up after the stall timeout", () =>
    Effect.gen(function*() {
      const { file } = yield* sandbox
      const silent = HttpClient.make((request) =>
        Effect.succeed(HttpClientResponse.fromWeb(request, new Response(new ReadableStream({}))))
      )
      const started = yield* Effect.makeLatch(false)
      const fiber = yield* Effect.fork(
        Effect.flip(Download.toFile({
          url: "https://storage.test/x",
          path: file,
          retry: Schedule.stop,
          onProgress: () => started.open
        })).pipe(Effect.provideService(HttpClient.HttpClient, silent))
      )
      yield* started.await
      yield* TestClock.adjust("60 seconds")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "TimedOut")
    }).pipe(Effect.provide(NodeContext.layer)))

  describe("stream", () => {
    const collect = (options: Parameters<typeof Download.stream>[0]) =>
      Effect.map(
        Stream.runCollect(Download.stream(options)),
        (chunks) => new Uint8Array(Buffer.concat(Chunk.toReadonlyArray(chunks)))
      )

    it.scopedLive("continues where the connection broke, and writes no file", () =>
      Effect.gen(function*() {
        const { requests, url } = yield* storage({ etag: "\"a\"", breakAt: (n) => n < 4 ? 40_000 : undefined })
        assert.deepStrictEqual(yield* collect({ url, retry: once }), content)
        assert.deepStrictEqual(
          requests.map(({ headers }) => headers.range),
          [undefined, "bytes=40000-", "bytes=80000-", "bytes=120000-", "bytes=160000-"]
        )
      }).pipe(Effect.provide(Live)))

    it.scopedLive("fails when it cannot tell that the rest belongs to the beginning", () =>
      Effect.gen(function*() {
        const { url } = yield* storage({ breakAt: () => 40_000 })
        assert.strictEqual((yield* Effect.flip(collect({ url, retry: quick })))._tag, "MalformedResponse")
      }).pipe(Effect.provide(Live)))

    it.scopedLive("fails when it ends before its length, and beyond the limit", () =>
      Effect.gen(function*() {
        const short = yield* storage({ lie: true })
        assert.strictEqual(
          (yield* Effect.flip(collect({ url: short.url, retry: Schedule.stop })))._tag,
          "TransportFailed"
        )
        const large = yield* storage({})
        assert.strictEqual((yield* Effect.flip(collect({ url: large.url, maxBytes: 10 })))._tag, "MalformedResponse")
      }).pipe(Effect.provide(Live)))
  })
})
