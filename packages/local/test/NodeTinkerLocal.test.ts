import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Redacted } from "effect"
import * as Faults from "../src/Faults.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as NodeTinkerLocal from "../src/NodeTinkerLocal.js"
import { send } from "./server/support.js"

const http = Effect.provide(FetchHttpClient.layer)
const bearer = { headers: { authorization: "Bearer tml-x" }, key: "tml-x" }
const apiKeys = [{ key: Redacted.make("tml-x") }]

/** The error codes of a failure and its causes. */
const codesOf = (error: unknown): ReadonlyArray<unknown> =>
  typeof error === "object" && error !== null
    ? ["code" in error ? error.code : undefined, ...codesOf("cause" in error ? error.cause : undefined)]
    : []

const eventsOf = (bytes: Uint8Array): ReadonlyArray<string> =>
  new TextDecoder().decode(bytes).split("\n\n").filter((event) => event !== "").map((event) =>
    event.replace(/^data: /, "")
  )

describe("NodeTinkerLocal", () => {
  it.scoped("listens on a port of this machine with a key of its own, and is healthy without one", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl, port } = yield* NodeTinkerLocal.serve()
      assert.strictEqual(baseUrl, `http://127.0.0.1:${port}`)
      const health = yield* Effect.promise(() => fetch(`${baseUrl}/api/v1/healthz`))
      assert.deepStrictEqual(yield* Effect.promise(() => health.json()), { status: "ok" })
      const config = (key: string) => send("GET", `${baseUrl}/api/v1/get_server_capabilities`, undefined, { key })
      assert.strictEqual((yield* config(Redacted.value(apiKey))).status, 200)
      assert.strictEqual((yield* config("tml-local")).status, 401)
    }).pipe(http))

  it.scoped("closing the scope closes the port", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* Effect.scoped(NodeTinkerLocal.serve())
      const refused = yield* Effect.flip(send("GET", `${baseUrl}/api/v1/healthz`))
      assert.deepInclude(refused, { _tag: "RequestError", reason: "Transport" })
      assert.include(codesOf(refused), "ECONNREFUSED")
    }).pipe(http))

  it.scoped("speaks OpenAI's completions and chat, whole and streamed", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* NodeTinkerLocal.serve({ apiKeys })
      const at = `${baseUrl}/oai/api/v1`
      const request = { model: "local/tiny", max_tokens: 12, seed: 3, temperature: 0.5, stop: ["\n\n\n"] }
      const messages = [{ role: "user", content: "hello" }]
      const whole = (yield* send("POST", `${at}/chat/completions`, { ...request, messages }, bearer)).json()
      assert.strictEqual(whole["object"], "chat.completion")
      // random weights have nothing to say: the chat model does, and the answer names it
      assert.strictEqual(whole["model"], "local/chat")
      const choice = Object(whole["choices"])[0]
      assert.strictEqual(choice.message.role, "assistant")
      assert.include(["stop", "length"], choice.finish_reason)
      assert.match(choice.message.content, /\w/)
      const usage = Object(whole["usage"])
      assert.isAbove(usage.prompt_tokens, "hello".length)
      assert.strictEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

      const streamed = yield* send(
        "POST",
        `${at}/chat/completions`,
        { ...request, messages, stream: true, stream_options: { include_usage: true } },
        bearer
      )
      assert.strictEqual(streamed.headers["content-type"], "text/event-stream")
      const events = eventsOf(streamed.bytes)
      assert.strictEqual(events[events.length - 1], "[DONE]")
      const chunks = events.slice(0, -1).map((event) => JSON.parse(event))
      assert.isTrue(chunks.every((chunk) => chunk.object === "chat.completion.chunk"))
      assert.strictEqual(
        chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""),
        choice.message.content
      )
      assert.deepStrictEqual(chunks[chunks.length - 1].usage, usage)

      const text = (yield* send("POST", `${at}/completions`, { ...request, prompt: "hello" }, bearer)).json()
      assert.strictEqual(text["model"], "local/tiny")
      assert.strictEqual(typeof Object(text["choices"])[0].text, "string")
      const tokens = Array.from(LocalTokenizer.encode("hello"))
      const same = (yield* send("POST", `${at}/completions`, { ...request, prompt: tokens }, bearer)).json()
      assert.deepStrictEqual(same["choices"], text["choices"])

      // vLLM's additions: the ids of what is drawn, and stops by id
      const { stop: _, ...free } = request
      const exact = { ...free, prompt: tokens, return_token_ids: true }
      const ids = Object((yield* send("POST", `${at}/completions`, exact, bearer)).json()["choices"])[0].token_ids
      assert.strictEqual(ids.length, 12)
      const pieces = eventsOf((yield* send("POST", `${at}/completions`, { ...exact, stream: true }, bearer)).bytes)
        .slice(0, -1).map((event) => JSON.parse(event).choices[0])
      assert.deepStrictEqual(pieces.flatMap(({ token_ids = [] }) => token_ids), ids)
      assert.strictEqual(pieces.at(-1).finish_reason, "length")
      const stopped = { ...exact, stop_token_ids: [ids[4]] }
      assert.deepStrictEqual(
        Object((yield* send("POST", `${at}/completions`, stopped, bearer)).json()["choices"])[0].token_ids,
        ids.slice(0, ids.indexOf(ids[4]) + 1)
      )
      assert.strictEqual((yield* send("POST", `${at}/completions`, { ...stopped, stop: "x" }, bearer)).status, 400)
      assert.deepStrictEqual((yield* send("GET", `${at}/models`, undefined, bearer)).json(), {
        object: "list",
        data: []
      })
      assert.strictEqual((yield* send("POST", `${at}/completions`, { model: "none", prompt: "x" }, bearer)).status, 400)
      assert.strictEqual((yield* send("POST", `${at}/completions`, { prompt: "x" }, bearer)).status, 422)
    }).pipe(http))

  it.scoped("streams what is drawn while more is drawn, and draws no more when nobody reads", () =>
    Effect.gen(function*() {
      const seen = yield* Effect.makeLatch(false)
      const held = yield* Effect.makeLatch(false)
      const stopped = yield* Deferred.make<void>()
      const free = 60
      let steps = 0
      const { baseUrl } = yield* NodeTinkerLocal.serve({
        apiKeys,
        engine: {
          sliceMillis: 0,
          // After so many steps nothing goes on until the client has seen a part of the answer.
          pause: Effect.suspend(() => ++steps < free ? Effect.yieldNow() : Effect.zipRight(held.open, seen.await)).pipe(
            Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
          )
        }
      })
      const aborting = new AbortController()
      const ask = Effect.promise(() =>
        fetch(`${baseUrl}/oai/api/v1/completions`, {
          method: "POST",
          headers: { authorization: "Bearer tml-x", "content-type": "application/json" },
          body: JSON.stringify({ model: "local/tiny", prompt: "hello", max_tokens: 400, stop: [], stream: true }),
          signal: aborting.signal
        })
      )
      const first = Effect.flatMap(ask, ({ body }) => {
        const reader = body?.getReader()
        return Effect.promise(async () => ({ reader, first: await reader?.read() }))
      })
      const { first: { value } = {}, reader } = yield* first
      assert.match(new TextDecoder().decode(value), /^data: \{/)
      yield* seen.open
      // As a whole: where one part ends and the next begins is up to the sockets.
      let rest = ""
      for (let part = yield* Effect.promise(async () => reader?.read()); part?.done === false;) {
        rest += new TextDecoder().decode(part.value)
        part = yield* Effect.promise(async () => reader?.read())
      }
      assert.match(rest, /data: \[DONE\]\s*$/)

      yield* seen.close
      yield* held.close
      steps = 0
      yield* first
      yield* held.await
      aborting.abort()
      yield* Deferred.await(stopped)
    }))

  it.scoped("breaks connections when a fault says so", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* NodeTinkerLocal.serve()
      const health = send("GET", `${baseUrl}/api/v1/healthz`)
      const dropped = yield* Effect.flip(health)
      assert.propertyVal(dropped, "_tag", "RequestError")
      const cut = yield* Effect.flip(health)
      // on a busy machine the head has been read when the connection breaks
      assert.include(["RequestError", "ResponseError"], cut._tag)
      for (const broken of [dropped, cut]) assert.notInclude(codesOf(broken), "ECONNREFUSED")
      assert.strictEqual((yield* health).status, 200)
    }).pipe(
      http,
      Effect.provide(Faults.layer({
        rules: [
          { endpoints: ["healthz"], times: 1, fault: { _tag: "Drop", when: "before" } },
          { endpoints: ["healthz"], skip: 1, times: 1, fault: { _tag: "Truncate", bytes: 3 } }
        ]
      }))
    ))
})
