import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Layer, Stream } from "effect"
import { OpenAiCompat } from "effect-tinker"
import * as ApiRequest from "../src/internal/transport/apiRequest.js"
import type { Seen } from "./utils/transport.js"
import { answering } from "./utils/transport.js"

const chunk = (delta: unknown, finish: string | null = null) =>
  JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] })

const sse = (...data: ReadonlyArray<string>) =>
  new Response(data.map((line) => `data: ${line}\n\n`).join(""), { headers: { "content-type": "text/event-stream" } })

const live = (answer: (seen: Seen, n: number) => Response) => {
  const { client, seen } = answering(answer)
  const layer = OpenAiCompat.layer({ baseUrl: "https://h.test/svc", apiKey: "tml-key" }).pipe(Layer.provide(client))
  return { seen, layer }
}

const ask = { model: "Qwen/Qwen3-4B", messages: [{ role: "user", content: "hi" }], max_tokens: 8 }

describe("OpenAiCompat", () => {
  it.effect("lists models, with the key as a bearer and not as X-API-Key", () => {
    const { layer, seen } = live(() =>
      Response.json({ object: "list", data: [{ id: "tinker://a/sampler_weights/b", object: "model" }] })
    )
    return Effect.gen(function*() {
      const { models } = yield* OpenAiCompat.OpenAiCompat
      assert.deepStrictEqual((yield* models).data, [{ id: "tinker://a/sampler_weights/b" }])
      assert.strictEqual(seen[0]?.url, "https://h.test/svc/oai/api/v1/models")
      assert.strictEqual(seen[0]?.headers["authorization"], "Bearer tml-key")
      assert.isUndefined(seen[0]?.headers["x-api-key"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("chat and text completions", () => {
    const { layer, seen } = live(({ url }) =>
      url.endsWith("/chat/completions")
        ? Response.json({
          id: "c1",
          object: "chat.completion",
          choices: [{
            index: 0,
            message: { role: "assistant", content: null, reasoning_content: "hm" },
            finish_reason: "length"
          }],
          usage: { prompt_tokens: 3, completion_tokens: 8 }
        })
        : Response.json({ choices: [{ text: "there", finish_reason: "stop" }] })
    )
    return Effect.gen(function*() {
      const { chat, complete } = yield* OpenAiCompat.OpenAiCompat
      const answer = yield* chat({ ...ask, reasoning_effort: "low" })
      assert.strictEqual(answer.choices[0]?.message.reasoning_content, "hm")
      assert.isUndefined(answer.choices[0]?.message.content)
      assert.strictEqual(answer.usage?.completion_tokens, 8)
      assert.deepStrictEqual(JSON.parse(seen[0]?.body ?? ""), { ...ask, reasoning_effort: "low" })
      const text = yield* complete({ model: "m", prompt: "hi" })
      assert.strictEqual(text.choices[0]?.text, "there")
      assert.strictEqual((yield* Effect.flip(chat({ ...ask, temperature: Number.NaN })))._tag, "InvalidInput")
    }).pipe(Effect.provide(layer))
  })

  it.effect("streams until [DONE], reads past the usage piece, and each run asks anew", () => {
    const { layer, seen } = live(() =>
      sse(
        chunk({ role: "assistant", content: "he" }),
        chunk({ content: "llo" }, "stop"),
        JSON.stringify({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } }),
        "[DONE]",
        chunk({ content: "never seen" })
      )
    )
    return Effect.gen(function*() {
      const { chatStream } = yield* OpenAiCompat.OpenAiCompat
      const stream = chatStream(ask)
      const pieces = Chunk.toReadonlyArray(yield* Stream.runCollect(stream))
      assert.strictEqual(pieces.map((piece) => piece.choices[0]?.delta.content ?? "").join(""), "hello")
      assert.strictEqual(pieces.at(-1)?.usage?.completion_tokens, 2)
      assert.isTrue(JSON.parse(seen[0]?.body ?? "").stream)
      assert.strictEqual(seen[0]?.headers["accept"], "text/event-stream")
      yield* Stream.runDrain(stream)
      assert.strictEqual(seen.length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a streamed completion counts as sent, as a whole one does", () => {
    const { layer } = live(({ url }, n) =>
      n === 0 && url.endsWith("/chat/completions") ? sse("[DONE]") : Response.json({ choices: [] })
    )
    return Effect.gen(function*() {
      const { chat, chatStream } = yield* OpenAiCompat.OpenAiCompat
      let sent = 0
      const counting = ApiRequest.onSent(() => sent++)
      yield* counting(Stream.runDrain(chatStream(ask)))
      assert.strictEqual(sent, 1)
      yield* counting(chat(ask))
      assert.strictEqual(sent, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("failures inside a stream are tagged", () => {
    const answers = [
      () => sse(chunk({ content: "a" }), JSON.stringify({ error: { message: "overloaded" } })),
      () => sse("{not json"),
      () => new Response(new Uint8Array([...new TextEncoder().encode("data: "), 0xff, 0x0a, 0x0a])),
      () => Response.json({ detail: "who are you" }, { status: 401 })
    ]
    const { layer } = live((_, n) => answers[n]?.() ?? new Response())
    return Effect.gen(function*() {
      const { completeStream } = yield* OpenAiCompat.OpenAiCompat
      const tags = yield* Effect.forEach(
        answers,
        () =>
          Effect.map(Effect.flip(Stream.runDrain(completeStream({ model: "m", prompt: "p" }))), (error) => error._tag)
      )
      // the first piece is a chat piece, which is malformed as a text completion
      assert.deepStrictEqual(tags, ["MalformedResponse", "MalformedResponse", "MalformedResponse", "Authentication"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a stream that ends before the completion does has failed, also when it ends in order", () => {
    const answers = [
      sse(chunk({ content: "he" }), chunk({ content: "llo" })),
      sse(),
      sse(chunk({ content: "hello" }, "stop")),
      sse(chunk({ content: "hello" }), "[DONE]")
    ]
    const { layer } = live(() => answers.shift() ?? new Response())
    return Effect.gen(function*() {
      const { chatStream } = yield* OpenAiCompat.OpenAiCompat
      for (const tag of ["TransportFailed", "TransportFailed", undefined, undefined]) {
        const result = yield* Effect.either(Stream.runDrain(chatStream(ask)))
        assert.strictEqual(result._tag === "Left" ? result.left._tag : undefined, tag)
      }
    }).pipe(Effect.provide(layer))
  })

  it.effect("an error event ends the stream as a failed request", () => {
    const { layer } = live(() => sse(chunk({ content: "a" }), JSON.stringify({ error: { message: "overloaded" } })))
    return Effect.gen(function*() {
      const { chatStream } = yield* OpenAiCompat.OpenAiCompat
      const error = yield* Effect.flip(Stream.runDrain(chatStream(ask)))
      assert.strictEqual(error._tag, "RequestFailed")
      assert.strictEqual(error.description, "overloaded")
    }).pipe(Effect.provide(layer))
  })
})
