import { OpenAiWire, ServerSentEvents } from "@effect-tinker/platform"
import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"

describe("OpenAiWire", () => {
  it("fields may be absent or null, and what is no number is refused", () => {
    const decode = Schema.decodeUnknownOption(OpenAiWire.Common)
    assert.deepStrictEqual(decode({ stop: null, seed: 3, more: true }), Option.some({ stop: null, seed: 3 }))
    assert.isTrue(Option.isNone(decode({ seed: "3" })))
    assert.isTrue(Option.isNone(decode({ stop: [3] })))
  })

  it("stops are a list, or none", () => {
    assert.deepStrictEqual(OpenAiWire.stopsOf({ stop: "a" }), ["a"])
    assert.deepStrictEqual(OpenAiWire.stopsOf({ stop: ["a", "b"] }), ["a", "b"])
    assert.isUndefined(OpenAiWire.stopsOf({ stop: null }))
    assert.isUndefined(OpenAiWire.stopsOf({}))
  })

  it("usage is asked for or not", () => {
    assert.isTrue(OpenAiWire.wantsUsage({ stream_options: { include_usage: true } }))
    assert.isFalse(OpenAiWire.wantsUsage({ stream_options: { include_usage: null } }))
    assert.isFalse(OpenAiWire.wantsUsage({ stream_options: null }))
    assert.deepStrictEqual(OpenAiWire.usage(5, 7), { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 })
  })
})

describe("ServerSentEvents", () => {
  it("an event is one block of lines, whatever its data hold", () => {
    assert.strictEqual(ServerSentEvents.json({ text: "a\n\nb" }), "data: {\"text\":\"a\\n\\nb\"}\n\n")
    assert.strictEqual(ServerSentEvents.named("ping", 1), "event: ping\ndata: 1\n\n")
    assert.strictEqual(OpenAiWire.done, "data: [DONE]\n\n")
  })
})
