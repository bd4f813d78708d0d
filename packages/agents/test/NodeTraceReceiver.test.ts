import * as NodeTraceReceiver from "@effect-tinker/agents/NodeTraceReceiver"
import { FileSystem } from "@effect/platform"
import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { request as send } from "node:http"
import { gzipSync } from "node:zlib"

const body = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [{ traceId: "t", spanId: "s" }] }] }] })

/** A request with any headers, which `fetch` does not allow: its status. */
const post = (
  url: string,
  bytes: Uint8Array | string,
  headers: Readonly<Record<string, string>> = {},
  path = "/v1/traces"
) =>
  Effect.async<number>((resume) => {
    const request = send(`${url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers }
    }, (response) => {
      response.resume()
      resume(Effect.succeed(response.statusCode ?? 0))
    })
    request.on("error", () => resume(Effect.succeed(0)))
    request.end(bytes)
  })

/** Sends a body of spaces piece by piece, each a chunk of its own. */
const inPieces = (url: string, count: number, size: number) =>
  Effect.async<number>((resume) => {
    const request = send(`${url}/v1/traces`, {
      method: "POST",
      headers: { "content-type": "application/json" }
    }, (response) => {
      response.resume()
      resume(Effect.succeed(response.statusCode ?? 0))
    })
    request.on("error", () => resume(Effect.succeed(0)))
    const piece = (left: number): void => {
      if (left === 0) request.end()
      else request.write(" ".repeat(size), () => setImmediate(() => piece(left - 1)))
    }
    piece(count)
  })

const receiver = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const out = `${yield* fs.makeTempDirectoryScoped()}/spans.jsonl`
  const running = yield* NodeTraceReceiver.serve({ out, port: 0, maxBytes: 10_000 })
  return { ...running, lines: Effect.map(fs.readFileString(out), (text) => text.split("\n").slice(0, -1)) }
})

describe("NodeTraceReceiver", () => {
  it.scopedLive("writes a line for each export: plain, compressed, and at Langfuse's path", () =>
    Effect.gen(function*() {
      const { lines, received, url } = yield* receiver
      assert.strictEqual(yield* post(url, body), 200)
      assert.strictEqual(yield* post(url, gzipSync(body), { "content-encoding": "gzip" }), 200)
      assert.strictEqual(yield* post(url, body, {}, "/api/public/otel/v1/traces"), 200)
      // resource_spans (field 1) of a scope (2) with one span (2), whose trace_id (1) is 0xab
      const protobuf = Uint8Array.from([10, 7, 18, 5, 18, 3, 10, 1, 0xab])
      assert.strictEqual(yield* post(url, protobuf, { "content-type": "application/x-protobuf" }), 200)
      assert.strictEqual(yield* received, 4)
      const written = (yield* lines).map((line) => JSON.parse(line))
      assert.deepStrictEqual(written.slice(0, 3), [1, 2, 3].map(() => JSON.parse(body)))
      assert.strictEqual(written[3].resourceSpans[0].scopeSpans[0].spans[0].traceId, "ab")
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scopedLive("refuses web pages, foreign host names, other paths, nonsense, and what is too large", () =>
    Effect.gen(function*() {
      const { lines, url } = yield* receiver
      assert.strictEqual(yield* post(url, body, { origin: "http://example.org" }), 403)
      assert.strictEqual(yield* post(url, body, { host: "example.org" }), 403)
      assert.strictEqual(yield* post(url, body, {}, "/v1/logs"), 404)
      assert.strictEqual(yield* post(url, "{"), 400)
      assert.strictEqual(yield* post(url, "{}"), 400)
      const cut = Uint8Array.from([10, 200, 1])
      assert.strictEqual(yield* post(url, cut, { "content-type": "application/x-protobuf" }), 400)
      assert.strictEqual(yield* post(url, " ".repeat(20_000)), 413)
      // Its connection may be closed before the answer is read.
      assert.include([413, 0], yield* inPieces(url, 3, 4000))
      assert.strictEqual(yield* inPieces(url, 2, 4000), 400)
      // small on the wire, large when it is unpacked
      assert.strictEqual(yield* post(url, gzipSync(" ".repeat(1_000_000)), { "content-encoding": "gzip" }), 413)
      assert.deepStrictEqual(yield* lines, [])
    }).pipe(Effect.provide(NodeFileSystem.layer)))
})
