import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import * as CompletionStream from "../../src/internal/sampling/completionStream.js"

const encoder = new TextEncoder()

const events = (...chunks: ReadonlyArray<Uint8Array>) =>
  Effect.map(Stream.runCollect(CompletionStream.decodeEvents(Stream.fromIterable(chunks))), Chunk.toReadonlyArray)

const bytewise = (bytes: Uint8Array) => Array.from(bytes, (byte) => new Uint8Array([byte]))

const message = (data: string, event = "message", id = "") => ({ event, data, id })

describe("sse", () => {
  const cases: ReadonlyArray<readonly [title: string, text: string, expected: ReadonlyArray<CompletionStream.Event>]> =
    [
      ["LF", "data: a\n\ndata: b\n\n", [message("a"), message("b")]],
      ["CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", [message("a"), message("b")]],
      ["CR", "data: a\r\rdata: b\r\r", [message("a"), message("b")]],
      ["mixed ends", "data: a\r\n\ndata: b\n\r\n", [message("a"), message("b")]],
      ["several data lines", "data: a\ndata:b\ndata:  c\n\n", [message("a\nb\n c")]],
      ["event and id", "event: e\nid: 7\ndata: x\n\ndata: y\n\n", [
        message("x", "e", "7"),
        message("y", "message", "7")
      ]],
      ["an id with NUL is ignored", "id: a\0b\ndata: x\n\n", [message("x")]],
      ["comments and unknown fields", ": hi\nfoo: bar\nretry: 5\ndata: x\n\n", [message("x")]],
      ["a field without a colon", "data\n\n", [message("")]],
      ["no data, no event", "event: e\n\n\n\n", []],
      ["an unfinished event is dropped", "data: a\n\ndata: b\n", [message("a")]],
      ["only real line ends", "data: a\u2028b\u0085c\u000bd\n\n", [message("a\u2028b\u0085c\u000bd")]],
      ["multi-byte characters", "data: héllo 🎉 漢\n\n", [message("héllo 🎉 漢")]],
      ["a byte order mark", "\uFEFFdata: a\n\n", [message("a")]]
    ]
  for (const [title, text, expected] of cases) {
    it.effect(title, () =>
      Effect.gen(function*() {
        const bytes = encoder.encode(text)
        assert.deepStrictEqual(yield* events(bytes), expected)
        assert.deepStrictEqual(yield* events(...bytewise(bytes)), expected, "byte by byte")
        for (let cut = 1; cut < bytes.length; cut++) {
          assert.deepStrictEqual(yield* events(bytes.subarray(0, cut), bytes.subarray(cut)), expected, `cut at ${cut}`)
        }
      }))
  }

  it.effect("bytes that are not UTF-8 are an error, not a guess", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(events(new Uint8Array([...encoder.encode("data: "), 0xff, 0x0a, 0x0a])))
      assert.strictEqual(error._tag, "SseError")
    }))

  it.effect("a line without end is an error, not a full memory", () =>
    Effect.gen(function*() {
      const endless = Stream.forever(Stream.make(new Uint8Array(1024 * 1024).fill(0x61)))
      const error = yield* Effect.flip(Stream.runDrain(CompletionStream.decodeEvents(endless)))
      assert.strictEqual(error._tag, "SseError")
    }))

  it.effect("each run decodes anew", () =>
    Effect.gen(function*() {
      const stream = CompletionStream.decodeEvents(Stream.make(encoder.encode("id: 1\ndata: a\n\ndata: unfinished")))
      assert.deepStrictEqual(yield* Stream.runCollect(stream), yield* Stream.runCollect(stream))
    }))
})
