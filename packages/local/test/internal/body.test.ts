import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer, Stream } from "effect"
import { Datum, ServiceClient, TinkerTransport, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import * as zlib from "node:zlib"
import { readBody, unpack as unpackWithin } from "../../src/internal/server/body.js"
import { HttpFailure } from "../../src/internal/server/message.js"
import * as LocalTokenizer from "../../src/LocalTokenizer.js"
import * as NodeTinkerLocal from "../../src/NodeTinkerLocal.js"

const maxBlock = 128 * 1024
const limit = 16 * 1024 * 1024
const unpack = (body: Uint8Array, encoding: string | undefined) => unpackWithin(body, encoding, limit)

/** A zstd frame that stores the bytes as they are: one segment, its size in four bytes, blocks of type raw. */
const stored = (bytes: Uint8Array): Uint8Array => {
  const parts = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0])]
  parts[0]?.writeUInt32LE(bytes.length, 5)
  for (let at = 0; at === 0 || at < bytes.length; at += maxBlock) {
    const block = bytes.subarray(at, at + maxBlock)
    const header = Buffer.alloc(3)
    header.writeUIntLE((block.length << 3) | (at + maxBlock >= bytes.length ? 1 : 0), 0, 3)
    parts.push(header, Buffer.from(block))
  }
  return Buffer.concat(parts)
}

/** By the reference implementation at its default level. */
const sentence = "The quick brown fox jumps over the lazy dog. "
const reference = "KLUv/WAIBrUBANQCVGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHRoZSBsYXp5IGRvZy4gAQDFFv6qDA=="

interface Sent {
  readonly encoding: string | undefined
  readonly bytes: number
}

type Compress = TinkerTransport.Service["compress"]

/** Node's transport, whose runtime may or may not have zstd of its own. */
const node = (sent: Array<Sent>, compress: (own: Compress) => Compress) =>
  Layer.effect(
    TinkerTransport.TinkerTransport,
    Effect.map(TinkerTransport.TinkerTransport, (transport) => ({
      ...TinkerTransport.mapSend((send) => (request) => {
        if (request.path.endsWith("/forward_backward")) {
          sent.push({ encoding: request.headers["content-encoding"], bytes: request.body?.length ?? 0 })
        }
        return send(request)
      })(transport),
      compress: compress(transport.compress)
    }))
  ).pipe(Layer.provide(NodeTinker.layer()))

const batch = [Either.getOrThrow(Datum.fromTokens(LocalTokenizer.encode("cat: meow\n".repeat(20))))]

const lossOver = (
  compress: (own: Compress) => Compress,
  asked = true
) =>
  Effect.gen(function*() {
    const sent: Array<Sent> = []
    const { baseUrl } = yield* NodeTinkerLocal.serve({ open: true, clientConfig: { protoCompressFwdbwd: asked } })
    const { metrics } = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4, seed: 1 }).pipe(
      Effect.flatMap((training) => Effect.flatten(training.forwardBackward(batch, "cross_entropy"))),
      Effect.provide(ServiceClient.layer({ baseUrl, apiKey: "tml-local" }).pipe(Layer.provide(node(sent, compress))))
    )
    return { loss: metrics["loss:sum"] ?? NaN, sent }
  })

describe("compressed bodies", () => {
  it.effect("zstd: stored, and packed by the reference implementation", () =>
    Effect.gen(function*() {
      for (const size of [0, 1, 1000, maxBlock, maxBlock + 1, 3 * maxBlock + 7]) {
        const bytes = Uint8Array.from({ length: size }, (_, i) => i * 31)
        assert.deepStrictEqual(Buffer.from(yield* unpack(stored(bytes), "zstd")), Buffer.from(bytes), String(size))
      }
      const text = new TextDecoder().decode(yield* unpack(Buffer.from(reference, "base64"), "ZSTD"))
      assert.strictEqual(text, sentence.repeat(40))
    }))

  it.effect("gzip and deflate too; what is not what it says, and what nobody knows, is refused", () =>
    Effect.gen(function*() {
      const bytes = new TextEncoder().encode(sentence)
      assert.deepStrictEqual(yield* unpack(zlib.gzipSync(bytes), "gzip"), bytes)
      assert.deepStrictEqual(yield* unpack(zlib.deflateSync(bytes), "deflate"), bytes)
      for (const encoding of ["zstd", "gzip", "deflate"]) {
        assert.strictEqual((yield* Effect.flip(unpack(bytes, encoding))).status, 400, encoding)
      }
      assert.strictEqual((yield* Effect.flip(unpack(bytes, "br"))).status, 415)
    }))

  it.effect(
    "a small body that decompresses into a large one is refused, and so is a frame that declares one",
    () =>
      Effect.gen(function*() {
        const header = (size: number) => {
          const frame = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0])
          frame.writeUInt32LE(size, 5)
          return frame
        }
        const block = (type: 0 | 1, size: number, last: boolean) => {
          const bytes = Buffer.alloc(3)
          bytes.writeUIntLE((size << 3) | (type << 1) | (last ? 1 : 0), 0, 3)
          return bytes
        }
        // 8 Ki blocks of one repeated byte each: 32 KB for 1 GiB; each frame declares a little
        const bomb = Buffer.concat(Array.from({ length: 512 }, () =>
          Buffer.concat([
            header(maxBlock),
            ...Array.from({ length: 16 }, (_, i) => Buffer.concat([block(1, maxBlock, i === 15), Buffer.of(7)]))
          ])))
        assert.isBelow(bomb.length, 64 * 1024)
        assert.strictEqual((yield* Effect.flip(unpack(bomb, "zstd"))).status, 413)
        const declared = Buffer.concat([header(3 * 2 ** 30), block(0, 1, true), Buffer.of(7)])
        assert.strictEqual((yield* Effect.flip(unpack(declared, "zstd"))).status, 413)
        // 2 GiB of window
        const window = Buffer.concat([
          Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3]),
          block(0, 1, true),
          Buffer.of(7)
        ])
        assert.strictEqual((yield* Effect.flip(unpack(window, "zstd"))).status, 413)
        for (const [encoding, pack] of [["gzip", zlib.gzipSync], ["deflate", zlib.deflateSync]] as const) {
          const packed = pack(new Uint8Array(limit + 1))
          assert.isBelow(packed.length, 20_000)
          assert.strictEqual((yield* Effect.flip(unpack(packed, encoding))).status, 413, encoding)
        }
        const many = Buffer.concat([header(20_000), ...Array.from({ length: 20_000 }, () => block(0, 0, false))])
        assert.strictEqual((yield* Effect.flip(unpack(many, "zstd"))).status, 400)
      }),
    30_000
  )

  it.effect("a body is read up to its limit and no further, whatever it declares", () =>
    Effect.gen(function*() {
      let read = 0
      const endless = Stream.repeatEffect(Effect.sync(() => {
        read++
        return new Uint8Array(1024)
      }))
      const request = { method: "POST", url: new URL("http://localhost/"), headers: {}, body: endless }
      const refused = yield* Effect.flip(readBody(request, 10 * 1024))
      assert.strictEqual(refused instanceof HttpFailure ? refused.status : 0, 413)
      assert.isAtMost(read, 12)
      read = 0
      const declared = { ...request, headers: { "content-length": "20000" } }
      assert.strictEqual((yield* Effect.flip(readBody(declared, 10 * 1024)))._tag, "HttpFailure")
      assert.strictEqual(read, 0)
    }))

  it.scopedLive(
    "a training pass travels packed where the server asks, with the same result as a plain one",
    () =>
      Effect.gen(function*() {
        const plain = yield* lossOver(() => undefined)
        assert.deepStrictEqual(plain.sent.map(({ encoding }) => encoding), [undefined])
        const framed = yield* lossOver(() => (body) => Effect.succeed(stored(body)))
        assert.deepStrictEqual(framed.sent.map(({ encoding }) => encoding), ["zstd"])
        assert.strictEqual(framed.loss, plain.loss)
      }),
    30_000
  )

  it.scopedLive(
    "the runtime's own zstd is used where it has one; elsewhere bodies are plain",
    () =>
      Effect.gen(function*() {
        const able = "zstdCompress" in zlib
        const plain = yield* lossOver(() => undefined)
        const own = yield* lossOver((compress) => compress)
        assert.deepStrictEqual(own.sent.map(({ encoding }) => encoding), [able ? "zstd" : undefined])
        const [a, b] = [own.sent[0]?.bytes ?? 0, plain.sent[0]?.bytes ?? 0]
        if (able) assert.isBelow(a, b)
        else assert.strictEqual(a, b)
        assert.strictEqual(own.loss, plain.loss)
        const unasked = yield* lossOver((compress) => compress, false)
        assert.deepStrictEqual(unasked.sent.map(({ encoding }) => encoding), [undefined])
      }),
    30_000
  )
})
