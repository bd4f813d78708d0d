import { AgentModel, Gateway, Recorder, type Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Redacted } from "effect"
import { TinkerError } from "effect-tinker"
import * as tally from "../src/internal/tally.js"
import { callOf, chatRenderer, scripted } from "./support/chat.js"
import { type Answer, gateway, gatewayOver, send } from "./support/gateway.js"

const errorOf = ({ text }: Answer) => JSON.parse(text).error

const ask = (content: string, more: object = {}) => ({ messages: [{ role: "user", content }], ...more })

const chat = "/v1/chat/completions"

const addTool = {
  type: "function",
  function: { name: "add", parameters: { type: "object", properties: { a: { type: "number" } } } }
}

describe("Gateway", () => {
  it.scopedLive("names the rollout by path, header or metadata; the others go by their opening", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["1", "2", "3", "4", "5"])
      const rolloutOf = ({ headers }: Answer) => headers.get("x-rollout-id")
      assert.strictEqual(rolloutOf(yield* send(running, `/rollouts/a${chat}`, ask("x"))), "a")
      assert.strictEqual(rolloutOf(yield* send(running, chat, ask("x"), { headers: { "x-rollout-id": "b" } })), "b")
      assert.strictEqual(rolloutOf(yield* send(running, chat, ask("x", { metadata: { rollout_id: "c" } }))), "c")
      const first = yield* send(running, chat, ask("x"))
      const second = yield* send(running, chat, {
        messages: [...ask("x").messages, { role: "assistant", content: "4" }, { role: "user", content: "y" }]
      })
      assert.match(rolloutOf(first) ?? "", /^anonymous-/)
      assert.strictEqual(rolloutOf(first), rolloutOf(second))
      const { calls } = yield* (yield* Recorder.Recorder).rollout(rolloutOf(first) ?? "")
      assert.strictEqual(Recorder.summarize(calls).spliced, 1)
      assert.strictEqual((yield* send(running, "/rollouts/..%2Fa/traces")).status, 400)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("a rollout's key samples for that rollout, and can neither set its reward nor touch what was recorded", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["1", "2"])
      const created = JSON.parse((yield* send(running, "/sessions", { session_id: "a" })).text)
      const key = Redacted.make<string>(created.api_key)
      const status = (path: string, body?: unknown) =>
        Effect.map(send(running, path, body, { key }), ({ status }) => status)
      assert.strictEqual(yield* status(`/rollouts/a${chat}`, ask("x")), 200)
      // the agent that samples with it must not say how well it did, nor read or remove what is trained on
      for (const prefix of ["/rollouts/a", "/sessions/a"]) {
        assert.strictEqual(yield* status(`${prefix}/reward`, { reward: 1000 }), 403)
        assert.strictEqual(yield* status(`${prefix}/traces`), 403)
        assert.strictEqual(yield* status(prefix), 403)
        assert.strictEqual((yield* send(running, prefix, undefined, { key, method: "DELETE" })).status, 403)
      }
      const kept = yield* (yield* Recorder.Recorder).rollout("a")
      assert.strictEqual(kept.calls.length, 1)
      assert.isTrue(Option.isNone(kept.score))
      // the key alone says which rollout it is
      const plain = yield* send(running, chat, ask("x"), { key })
      assert.strictEqual(plain.headers.get("x-rollout-id"), "a")
      for (const path of ["/rollouts/b/traces", "/sessions/b/traces", "/rollouts/b", "/rollouts"]) {
        assert.strictEqual(yield* status(path), 403)
      }
      assert.strictEqual(yield* status(`/rollouts/b${chat}`, ask("x")), 403)
      assert.strictEqual((yield* send(running, chat, ask("x"), { key, headers: { "x-rollout-id": "b" } })).status, 403)
      assert.strictEqual(yield* status("/rollouts/b/reward", { reward: 1 }), 403)
      assert.strictEqual((yield* send(running, "/rollouts/b", undefined, { key, method: "DELETE" })).status, 403)
      // another rollout's name under this rollout's signature
      const forged = Redacted.make(Redacted.value(key).replace("rk-a.", "rk-b."))
      assert.strictEqual((yield* send(running, "/rollouts/b/traces", undefined, { key: forged })).status, 401)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("lets nobody in without a key, and no web page", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["1"])
      const wrong = { key: Redacted.make("ag-wrong") }
      const refused = yield* send(running, chat, ask("x"), wrong)
      assert.strictEqual(refused.status, 401)
      assert.deepInclude(errorOf(refused), { code: "invalid_api_key", type: "invalid_request_error" })
      // the key comes first, whatever the body is
      assert.strictEqual((yield* send(running, chat, "{", wrong)).status, 401)
      const page = { headers: { origin: "https://example.org" } }
      assert.strictEqual((yield* send(running, chat, ask("x"), page)).status, 403)
      assert.strictEqual((yield* send(running, "/health", undefined, wrong)).status, 200)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("says what is wrong with a request, as OpenAI does", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["no", "no", "no"], { maxBodyBytes: 2000 })
      const refusal = (body: unknown) =>
        Effect.map(send(running, chat, body), (answer) => ({ status: answer.status, ...errorOf(answer) }))
      assert.deepInclude(yield* refusal("{"), { status: 400, type: "invalid_request_error" })
      assert.deepInclude(yield* refusal({ messages: [] }), { status: 400, param: "messages.0" })
      assert.deepInclude(yield* refusal(ask("x", { presence_penalty: 1 })), { param: "presence_penalty" })
      assert.deepInclude(yield* refusal(ask("x", { tool_choice: "required" })), { param: "tool_choice" })
      const image = { type: "image_url", image_url: { url: "data:" } }
      assert.deepInclude(yield* refusal({ messages: [{ role: "user", content: [image] }] }), { status: 400 })
      assert.deepInclude(yield* refusal(ask("x".repeat(3000))), { status: 413, code: "body_too_large" })
      assert.deepInclude(yield* refusal(ask("x", { tools: [addTool], tool_choice: "required" })), {
        status: 422,
        code: "reply_rejected"
      })
      const unknown = yield* send(running, "/v1/embeddings", {})
      assert.strictEqual(unknown.status, 404)
      assert.include(errorOf(unknown).message, "/v1/embeddings")
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("names the offending part of a union, and never repeats the whole value", () =>
    Effect.gen(function*() {
      const running = yield* gateway([])
      const refusal = (path: string, body: unknown) =>
        Effect.map(send(running, path, body), (answer) => ({ status: answer.status, ...errorOf(answer) }))
      const long = "x".repeat(5000)
      const said = (content: unknown) => ({ messages: [{ role: "user", content }] })
      const parts = yield* refusal(chat, said([{ type: "text", text: long }, { type: "image_url", image_url: long }]))
      assert.deepInclude(parts, { status: 400, param: "messages.0.content.1.type" })
      assert.include(parts.message, "got \"image_url\"")
      const number = yield* refusal(chat, said([{ type: "text", text: { long } }]))
      assert.deepInclude(number, { param: "messages.0.content.0.text" })
      assert.include(number.message, "got an object with long")
      const item = yield* refusal("/v1/responses", { input: [{ type: "computer_call", id: long }] })
      assert.deepInclude(item, { param: "input.0.type" })
      const call = { type: "function_call", call_id: "1", name: "add", arguments: { a: long } }
      assert.deepInclude(yield* refusal("/v1/responses", { input: [call] }), { param: "input.0.arguments" })
      assert.deepInclude(yield* refusal(chat, said(7)), { param: "messages.0.content" })
      for (const { message } of [parts, number, item]) assert.isBelow(message.length, 400)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("takes a history as @openai/agents sends it to chat completions", () =>
    Effect.gen(function*() {
      const running = yield* gateway([`${callOf("{\"a\": 1}")}`, "Three.", "Again."])
      const answer = (messages: ReadonlyArray<unknown>) =>
        Effect.map(send(running, chat, { model: "m", messages, tools: [addTool], stream: false }), ({ text }) =>
          JSON.parse(text).choices[0].message)
      const asked = [{ content: "Be brief.", role: "system" }, { role: "user", content: "one" }]
      const { tool_calls } = yield* answer(asked)
      const called = [...asked, { role: "assistant", content: null, tool_calls }, {
        role: "tool",
        tool_call_id: tool_calls[0].id,
        content: "3"
      }]
      yield* answer(called)
      const said = { type: "text", text: "Three.", role: "assistant", refusal: null }
      const last = yield* answer([...called, { role: "assistant", content: [said] }, { role: "user", content: "two" }])
      assert.strictEqual(last.content, "Again.")
      const [rollout = ""] = yield* (yield* Recorder.Recorder).rollouts
      const { calls } = yield* (yield* Recorder.Recorder).rollout(rollout)
      assert.deepInclude(Recorder.summarize(calls), { calls: 3, roots: 1, spliced: 2, forked: {} })
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("finds the items that the AI SDK's Responses model refers to in the recording", () =>
    Effect.gen(function*() {
      const think = "<think>\nhm\n</think>\n\n"
      const running = yield* gateway([
        `${think}Let me see.\n${callOf("{\"a\": 1}")}\n${callOf("{\"a\": 2}")}`,
        `${think}Three.`,
        `${think}Again.`
      ])
      const { function: { name, parameters }, type } = addTool
      const tools = [{ type, name, parameters, strict: false }]
      const respond = (input: ReadonlyArray<unknown>, path = "/v1/responses") =>
        Effect.map(
          send(running, path, { model: "m", input, tools, tool_choice: "auto" }),
          ({ text }) => JSON.parse(text)
        )
      const refer = ({ id }: { readonly id: string }) => ({ type: "item_reference", id })
      const one = { role: "user", content: [{ type: "input_text", text: "one" }] }
      const first = yield* respond([one])
      const [reasoning, text, add, again] = first.output
      // ai 6 and 7 refer to reasoning and text, and write calls themselves, serialized once more; older ones refer to all
      const called = [one, refer(reasoning), refer(text), {
        type: "function_call",
        call_id: add.call_id,
        name: "add",
        arguments: "{\"a\":1}"
      }, refer(again)]
      const results = [add, again].map(({ call_id }) => ({ type: "function_call_output", call_id, output: "3" }))
      const second = yield* respond([...called, ...results])
      const two = { role: "user", content: [{ type: "input_text", text: "two" }] }
      const third = yield* respond([...called, ...results, ...second.output.map(refer), two])
      assert.strictEqual(third.output[1].content[0].text, "Again.")
      const [rollout = ""] = yield* (yield* Recorder.Recorder).rollouts
      const { calls } = yield* (yield* Recorder.Recorder).rollout(rollout)
      assert.deepInclude(Recorder.summarize(calls), { calls: 3, roots: 1, spliced: 2, forked: {} })
      // no other rollout has them
      const { error } = yield* respond([one, refer(reasoning), two], "/rollouts/other/v1/responses")
      assert.deepInclude(error, { code: "item_not_found", param: "input.1" })
      assert.include(error.message, "providerOptions.openai.store")
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("JSON that is nested too deeply is a bad request, and not the end of the stack", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["ok", "ok"])
      const deep = (open: string, close: string, levels: number) => open.repeat(levels) + "1" + close.repeat(levels)
      for (const levels of [101, 100_000]) {
        const metadata = `{"messages":[{"role":"user","content":"x"}],"metadata":${deep("{\"a\":", "}", levels)}}`
        const tools =
          `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f",` +
          `"parameters":${deep("{\"items\":", "}", levels)}}}]}`
        for (const body of [metadata, tools, deep("[", "]", levels), `{"prompt":${deep("[", "]", levels)}}`]) {
          for (const path of [chat, "/v1/completions", "/v1/responses", "/rollouts", "/rollouts/a/reward"]) {
            const answer = yield* send(running, path, body)
            assert.strictEqual(answer.status, 400, `${path} ${levels}`)
            assert.include(errorOf(answer).message, "nested more than 100 levels")
          }
        }
      }
      // brackets in a text are no levels
      assert.strictEqual((yield* send(running, chat, ask(`${"[{\"\\".repeat(500)}"`))).status, 200)
      const levels = `{"messages":[{"role":"user","content":"x"}],"metadata":${deep("{\"a\":", "}", 98)}}`
      assert.strictEqual((yield* send(running, chat, levels)).status, 200)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("streamed tool calls are numbered, and so are the answers they belong to", () =>
    Effect.gen(function*() {
      const both = `${callOf("{\"a\": 1}")}\n${callOf("{\"a\": 2}")}`
      const running = yield* gateway([both, callOf("{\"a\": 3}")])
      const { text } = yield* send(running, chat, ask("x", { tools: [addTool], stream: true, n: 2 }))
      const calls = text.split("\n").filter((line) => line.startsWith("data: {"))
        .flatMap((line) => JSON.parse(line.slice(6)).choices)
        .flatMap(({ delta, index }) => (delta.tool_calls ?? []).map((call: object) => ({ ...call, answer: index })))
        .map((call) => [call.answer, call.index, call.function.arguments])
      assert.deepStrictEqual(calls, [[0, 0, "{\"a\": 1}"], [0, 1, "{\"a\": 2}"], [1, 0, "{\"a\": 3}"]])
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("tool choice: required, named and none are kept to", () =>
    Effect.gen(function*() {
      const call = callOf("{\"a\": 1}")
      const running = yield* gateway(["no", call, call, "plain", `${call}\n${call}`, call])
      const choose = (tool_choice: unknown, more: object = {}) =>
        Effect.map(
          send(running, chat, ask("x", { tools: [addTool], tool_choice, ...more })),
          ({ text }) => JSON.parse(text).choices[0]
        )
      assert.strictEqual((yield* choose("required")).finish_reason, "tool_calls")
      assert.strictEqual((yield* choose("none")).message.content, "plain")
      const named = yield* choose({ type: "function", function: { name: "add" } })
      assert.strictEqual(named.message.tool_calls.length, 2)
      assert.notStrictEqual(named.message.tool_calls[0].id, named.message.tool_calls[1].id)
      assert.strictEqual((yield* choose("auto", { parallel_tool_calls: false })).message.tool_calls.length, 1)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("a client that leaves cancels its sample, and frees its place", () =>
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const cancelled = yield* Deferred.make<void>()
      const sampler: Sampler.Sampler = {
        sample: () =>
          Effect.zipRight(Deferred.succeed(started, void 0), Effect.never).pipe(
            Effect.onInterrupt(() => Deferred.succeed(cancelled, void 0))
          )
      }
      const running = yield* gatewayOver(sampler, { maxConcurrent: 1 })
      const call = yield* Effect.fork(send(running, chat, ask("x", { stream: true })))
      yield* Deferred.await(started)
      const busy = yield* send(running, chat, ask("y"))
      assert.strictEqual(busy.status, 429)
      assert.strictEqual(busy.headers.get("retry-after"), "1")
      yield* Fiber.interrupt(call)
      yield* Deferred.await(cancelled)
      const next = yield* Effect.fork(send(running, chat, ask("z")))
      const early = yield* Effect.raceFirst(Effect.as(Effect.sleep("200 millis"), undefined), Fiber.join(next))
      assert.isUndefined(early)
      yield* Fiber.interrupt(next)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("failures of the sampler keep what they mean", () =>
    Effect.gen(function*() {
      const fields = { module: "SamplingClient", method: "sample", description: "busy" }
      const statusOf = (error: TinkerError.TinkerError) =>
        Effect.gen(function*() {
          const running = yield* gatewayOver({ sample: () => Effect.fail(error) })
          return (yield* send(running, chat, ask("x"))).status
        })
      assert.strictEqual(yield* statusOf(new TinkerError.RateLimited(fields)), 429)
      assert.strictEqual(yield* statusOf(new TinkerError.Unavailable(fields)), 503)
      assert.strictEqual(yield* statusOf(new TinkerError.InvalidInput(fields)), 400)
      assert.strictEqual(yield* statusOf(new TinkerError.MalformedResponse(fields)), 502)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("rollouts can be scored, read and released", () =>
    Effect.gen(function*() {
      const recorder = yield* Recorder.Recorder
      const running = yield* gateway(["One."])
      yield* send(running, `/rollouts/a${chat}`, ask("x"))
      yield* send(running, "/rollouts/a/reward", { reward: 0.5, metrics: { turns: 1 } })
      const { calls, score } = yield* recorder.rollout("a")
      assert.strictEqual(Option.getOrThrow(score).reward, 0.5)
      const [trace] = JSON.parse((yield* send(running, "/sessions/a/traces")).text)
      assert.deepStrictEqual(trace, JSON.parse(JSON.stringify(calls.map((call) => Gateway.toTrace(call, "m"))[0])))
      assert.deepInclude(JSON.parse((yield* send(running, "/rollouts/a")).text), { session_id: "a", trace_count: 1 })
      const released = yield* send(running, "/rollouts/a", undefined, { method: "DELETE" })
      assert.deepStrictEqual(JSON.parse(released.text), { deleted: 1 })
      assert.deepStrictEqual(yield* recorder.rollouts, [])
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("says of every rollout how its calls came about, once: with its reward, its release or the gateway's end", () =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const onRollout = (report: Gateway.Report) => Effect.sync(() => void lines.push(Gateway.reportLine(report)))
      yield* Effect.gen(function*() {
        const running = yield* gateway(["One.", "Two.", "Three.", "Four.", "Five.", "Six."], { onRollout })
        const said = (...answers: ReadonlyArray<string>) => ({
          messages: [
            ...ask("x").messages,
            ...answers.flatMap((content) => [
              { role: "assistant", content },
              { role: "user", content: "and?" }
            ])
          ]
        })
        yield* send(running, `/rollouts/a${chat}`, said())
        yield* send(running, `/rollouts/a${chat}`, said("One."))
        yield* send(running, `/rollouts/a${chat}`, said("Uno.", "Two."))
        assert.deepStrictEqual(lines, [])
        yield* send(running, "/rollouts/a/reward", { reward: 1 })
        yield* send(running, "/rollouts/a", undefined, { method: "DELETE" })
        yield* send(running, `/rollouts/b${chat}`, ask("x", { n: 2 }))
        yield* send(running, "/rollouts/b", undefined, { method: "DELETE" })
        assert.deepStrictEqual(lines, [
          "rollout a: 3 calls, 1 continued, 1 forked (1 MessageEdited: content: \"One.\" became \"Uno.\")",
          "rollout b: 2 calls, 0 continued, 0 forked"
        ])
        yield* send(running, `/rollouts/c${chat}`, ask("x"))
      }).pipe(Effect.scoped)
      assert.deepStrictEqual(lines.slice(2), ["rollout c: 1 call, 0 continued, 0 forked"])
    }).pipe(Effect.provide(Recorder.layer())))

  it("a gateway that runs for months holds the counts of a limited number of rollouts", () => {
    const counts = tally.make(2)
    const reply = (rollout: string) => ({ rollout, origin: { _tag: "Root" as const } })
    assert.isUndefined(counts.add(reply("a")))
    assert.isUndefined(counts.add(reply("b")))
    assert.deepStrictEqual(counts.add(reply("c")), {
      rollout: "a",
      rollouts: 1,
      calls: 1,
      continued: 0,
      forked: []
    })
    assert.deepStrictEqual(counts.rest().map(({ rollout }) => rollout), ["b", "c"])
    assert.deepStrictEqual(counts.rest(), [])
  })

  it("at its end a gateway names the rollouts that forked most, and sums the others up", () => {
    const counts = tally.make()
    for (let n = 1; n <= 25; n++) counts.add({ rollout: `r${n}`, origin: { _tag: "Root" } })
    const fork = { reason: "MessageEdited", description: "content" }
    for (const rollout of ["r7", "r7", "r9"]) counts.add({ rollout, origin: { _tag: "Forked", fork } })
    const lines = counts.rest().map(Gateway.reportLine)
    assert.strictEqual(lines.length, 21)
    assert.strictEqual(lines[0], "rollout r7: 3 calls, 0 continued, 2 forked (2 MessageEdited: content)")
    assert.strictEqual(lines[1], "rollout r9: 2 calls, 0 continued, 1 forked (1 MessageEdited: content)")
    assert.strictEqual(lines.at(-1), "5 further rollouts: 5 calls, 0 continued, 0 forked")
  })

  it.scopedLive("answers rLLM's gateway client, which knows no bearer tokens", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["One.", "Two.", "Three."])
      const basic = (key: Redacted.Redacted) => ({ authorization: `Basic ${btoa(`key:${Redacted.value(key)}`)}` })
      const get = (path: string, key = running.apiKey) => send(running, path, undefined, { headers: basic(key) })
      for (const rollout of ["a.1", "a.1", "b"]) yield* send(running, `/sessions/${rollout}${chat}`, ask("x"))
      const traces = JSON.parse((yield* get("/sessions/a.1/traces")).text)
      assert.strictEqual(traces.length, 2)
      assert.deepStrictEqual(JSON.parse((yield* get("/sessions/a.1/traces?limit=1")).text), traces.slice(0, 1))
      assert.deepStrictEqual(JSON.parse((yield* get("/sessions/a.1/traces?since=9e9")).text), [])
      assert.strictEqual((yield* get("/sessions/a.1/traces?limit=x")).status, 400)
      assert.deepStrictEqual(JSON.parse((yield* get(`/traces/${traces[1].trace_id}`)).text), traces[1])
      assert.strictEqual((yield* get("/traces/a.1.call-0")).status, 404)
      assert.deepStrictEqual(JSON.parse((yield* get("/sessions?limit=1")).text), [{ session_id: "a.1" }])
      assert.deepInclude(errorOf(yield* get("/sessions?since=1")), { code: "unsupported_parameter" })
      const flushed = yield* send(running, "/admin/flush", "", { headers: basic(running.apiKey) })
      assert.deepStrictEqual(JSON.parse(flushed.text), { status: "flushed" })
      // the same limits for the key of one rollout, and none for no key
      const own = yield* running.rolloutKey("b")
      assert.strictEqual((yield* get("/sessions/b/traces", own)).status, 403)
      assert.strictEqual((yield* get(`/traces/${traces[1].trace_id}`, own)).status, 403)
      assert.strictEqual((yield* send(running, "/admin/flush", "", { headers: basic(own) })).status, 403)
      assert.strictEqual((yield* get("/sessions", Redacted.make("ag-wrong"))).status, 401)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("JSON is checked and sampled again; n and seed reach the sampler", () =>
    Effect.gen(function*() {
      const asked: Array<Sampler.Request> = []
      const script = yield* scripted(yield* chatRenderer, ["no", "{\"a\": \"x\"}", "{\"a\": 1}", "One.", "Two."])
      const running = yield* gatewayOver({
        sample: (request) => Effect.zipRight(Effect.sync(() => asked.push(request)), script.sample(request))
      })
      const schema = { type: "object", properties: { a: { type: "number" } }, required: ["a"] }
      const response_format = { type: "json_schema", json_schema: { name: "a", schema } }
      const json = yield* send(running, chat, ask("x", { response_format, seed: 7 }))
      assert.strictEqual(JSON.parse(json.text).choices[0].message.content, "{\"a\": 1}")
      // the same seed would draw the same answer again
      assert.deepStrictEqual(asked.map(({ seed }) => seed), [7, 8, 9])
      const two = JSON.parse((yield* send(running, chat, ask("x", { n: 2, seed: 1 }))).text)
      assert.deepStrictEqual(two.choices.map(({ message }: { message: { content: string } }) => message.content), [
        "One.",
        "Two."
      ])
      assert.deepInclude(asked.at(-1), { count: 2, seed: 1 })
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("streams reasoning, text and calls as deltas that end with [DONE]", () =>
    Effect.gen(function*() {
      const running = yield* gateway([`<think>\nhm\n</think>\n\nLet me add.\n${callOf("{\"a\": 1}")}`])
      const { headers, text } = yield* send(running, chat, ask("x", { tools: [addTool], stream: true }))
      assert.match(headers.get("content-type") ?? "", /^text\/event-stream/)
      const events = text.split("\n\n").filter((event) => event !== "").map((event) => event.slice("data: ".length))
      assert.strictEqual(events.at(-1), "[DONE]")
      const deltas = events.slice(0, -1).map((event) => JSON.parse(event).choices[0])
      const join = (field: string) => deltas.map(({ delta }) => delta[field] ?? "").join("")
      assert.strictEqual(join("reasoning_content"), "hm")
      assert.strictEqual(join("content"), "Let me add.")
      const calls = deltas.flatMap(({ delta }) => delta.tool_calls ?? [])
      assert.deepStrictEqual(calls.map((call) => call.function), [{ name: "add", arguments: "{\"a\": 1}" }])
      assert.strictEqual(deltas.at(-1).finish_reason, "tool_calls")
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("a layer serves for as long as it lives", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const sampler = yield* scripted(renderer, ["Hi."])
      const Live = NodeGateway.layer({ model: "m", open: true, onRollout: () => Effect.void }).pipe(
        Layer.provide(AgentModel.layer({ renderer, sampler })),
        Layer.provide(Recorder.layer())
      )
      const url = yield* Effect.gen(function*() {
        const running = yield* NodeGateway.NodeGateway
        const answer = yield* send(running, chat, ask("x"), { key: Redacted.make("anything") })
        assert.strictEqual(JSON.parse(answer.text).choices[0].message.content, "Hi.")
        return running.url
      }).pipe(Effect.provide(Live))
      yield* Effect.flip(Effect.tryPromise(() => fetch(`${url}/health`)))
    }))
})
