import { Recorder } from "@effect-tinker/agents"
import type * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { callOf } from "./support/chat.js"
import { gateway, send } from "./support/gateway.js"

const path = "/v1/messages"

const tools = [{
  name: "add",
  description: "Adds",
  input_schema: { type: "object", properties: { a: { type: "number" } }, required: ["a"] }
}]

const user = (content: unknown) => ({ role: "user", content })

const asked = (messages: ReadonlyArray<unknown>, more: object = {}) => ({
  model: "claude-of-the-day",
  max_tokens: 64,
  messages,
  tools,
  ...more
})

const create = (running: NodeGateway.Running, body: unknown, at = path) =>
  Effect.map(send(running, at, body), ({ text }) => JSON.parse(text))

interface Block {
  readonly type?: string
  readonly id?: string
  readonly name?: string
  readonly input?: unknown
  readonly text?: string
  readonly thinking?: string
  readonly signature?: string
}

interface Event {
  readonly type: string
  readonly index?: number
  readonly message?: object
  readonly usage?: { readonly output_tokens: number }
  readonly content_block?: Block
  readonly delta?: Block & {
    readonly partial_json?: string
    readonly stop_reason?: string
    readonly stop_sequence?: string | null
  }
}

const eventsOf = (text: string): ReadonlyArray<Event> =>
  text.split("\n\n").filter((event) => event !== "").map((event) => {
    const [, name = "", data = ""] = /^event: (\S+)\ndata: (.*)$/.exec(event) ?? []
    const value = JSON.parse(data)
    assert.strictEqual(value.type, name)
    return value
  })

/** One call of each of the two, with thinking and a word before. */
const twoCalls = `<think>\nhm\n</think>\n\nLet me add.\n${callOf("{\"a\": 1}")}\n${callOf("{\"a\": 2}")}`

describe("Anthropic's Messages", () => {
  it.scopedLive("answers in blocks, and goes on from the exact tokens when they come back", () =>
    Effect.gen(function*() {
      const running = yield* gateway([twoCalls, "<think>\nso\n</think>\n\nThree.", "Bye."])
      const system = [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }]
      const one = user("one")
      const first = yield* create(running, asked([one], { system }))
      assert.deepInclude(first, { type: "message", role: "assistant", model: "claude-of-the-day" })
      assert.deepInclude(first, { stop_reason: "tool_use", stop_sequence: null })
      assert.match(first.id, /^msg_call-/)
      const [thinking, text, ...uses] = first.content
      assert.deepInclude(thinking, { type: "thinking", thinking: "hm" })
      assert.deepStrictEqual(text, { type: "text", text: "Let me add." })
      assert.deepStrictEqual(uses.map(({ input, name, type }: Block) => [type, name, input]), [
        ["tool_use", "add", { a: 1 }],
        ["tool_use", "add", { a: 2 }]
      ])
      // results and what the user says next are blocks of one message
      const results = uses.map(({ id }: Block) => ({
        type: "tool_result",
        tool_use_id: id,
        content: [{ type: "text", text: "3" }]
      }))
      const second = yield* create(
        running,
        asked([one, { role: "assistant", content: first.content }, user(results)], { system })
      )
      assert.deepInclude(second, { stop_reason: "end_turn" })
      assert.isAbove(second.usage.cache_read_input_tokens, 0)
      // thinking may be left out of the history
      const history = [
        one,
        { role: "assistant", content: first.content.slice(1) },
        user(results),
        { role: "assistant", content: second.content.slice(1) },
        user([{ type: "text", text: "two" }])
      ]
      yield* create(running, asked(history, { system }))
      const [rollout = ""] = yield* (yield* Recorder.Recorder).rollouts
      const { calls } = yield* (yield* Recorder.Recorder).rollout(rollout)
      assert.deepInclude(Recorder.summarize(calls), { calls: 3, roots: 1, spliced: 2, forked: {} })
      for (const [n, { usage }] of [first, second].entries()) {
        const turn = calls[n]?.turn
        assert.strictEqual(usage.input_tokens + usage.cache_read_input_tokens, turn?.prompt.length)
        assert.strictEqual(usage.output_tokens, turn?.completion.length)
      }
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("streams the same blocks as it gives whole", () =>
    Effect.gen(function*() {
      const running = yield* gateway([twoCalls, twoCalls])
      const whole = yield* create(running, asked([user("x")]))
      const { headers, text } = yield* send(running, path, asked([user("x")], { stream: true }))
      assert.match(headers.get("content-type") ?? "", /^text\/event-stream/)
      const events = eventsOf(text)
      assert.strictEqual(events[0]?.type, "message_start")
      assert.deepInclude(events[0]?.message, { content: [], stop_reason: null })
      const blocks: Array<Block> = []
      let json = ""
      for (const { content_block, delta, index = -1, type } of events) {
        const block = blocks[index]
        if (content_block !== undefined) {
          assert.strictEqual(index, blocks.length)
          blocks.push(content_block)
          json = ""
        } else if (type === "content_block_stop" && json !== "") {
          blocks[index] = { ...block, input: JSON.parse(json) }
        } else if (type === "content_block_delta" && block !== undefined && delta !== undefined) {
          const grown = (field: "text" | "thinking" | "signature") =>
            delta[field] === undefined ? {} : { [field]: `${block[field] ?? ""}${delta[field]}` }
          json += delta.partial_json ?? ""
          blocks[index] = { ...block, ...grown("text"), ...grown("thinking"), ...grown("signature") }
        }
      }
      const bare = (content: ReadonlyArray<Block>) =>
        content.map(({ id: _, signature, ...block }) => ({ ...block, signed: signature !== "" }))
      assert.deepStrictEqual(bare(blocks), bare(whole.content))
      assert.deepInclude(events.at(-2), {
        type: "message_delta",
        delta: { stop_reason: "tool_use", stop_sequence: null }
      })
      assert.strictEqual(events.at(-2)?.usage?.output_tokens, whole.usage.output_tokens)
      assert.deepStrictEqual(events.at(-1), { type: "message_stop" })
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("says why an answer ended", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["One. Two. Three.", "One. Two. Three.", callOf("{\"a\": 1}")])
      const cut = yield* create(running, asked([user("x")], { stop_sequences: ["four", " Three"] }))
      assert.deepInclude(cut, { stop_reason: "stop_sequence", stop_sequence: " Three" })
      assert.deepStrictEqual(cut.content, [{ type: "text", text: "One. Two." }])
      const short = yield* create(running, asked([user("y")], { max_tokens: 2 }))
      assert.deepInclude(short, { stop_reason: "max_tokens", stop_sequence: null })
      const choice = { tool_choice: { type: "any", disable_parallel_tool_use: true } }
      assert.deepInclude(yield* create(running, asked([user("z")], choice)), { stop_reason: "tool_use" })
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("counts the tokens a prompt will have, and records nothing", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["One."])
      const body = asked([user("x")], { system: "Be brief.", metadata: { rollout_id: "a" } })
      const { max_tokens: _, ...counted } = body
      const { input_tokens } = yield* create(running, counted, `${path}/count_tokens`)
      assert.deepStrictEqual(yield* (yield* Recorder.Recorder).rollouts, [])
      assert.strictEqual((yield* create(running, body)).usage.input_tokens, input_tokens)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("takes keys as x-api-key, and refuses as Anthropic does", () =>
    Effect.gen(function*() {
      const running = yield* gateway(["One."])
      const post = (headers: Record<string, string>, body: unknown, at = path) =>
        Effect.promise(async () => {
          const response = await fetch(`${running.url}${at}`, { method: "POST", headers, body: JSON.stringify(body) })
          return { status: response.status, ...await response.json() }
        })
      const key = { "x-api-key": Redacted.value(yield* running.rolloutKey("a")) }
      const body = asked([user("x")])
      assert.deepInclude(yield* post(key, body), { status: 200, type: "message" })
      assert.deepStrictEqual(yield* (yield* Recorder.Recorder).rollouts, ["a"])
      const errorOf = (headers: Record<string, string>, body: unknown, at?: string) =>
        Effect.map(post(headers, body, at), ({ error, status, type }) => {
          assert.strictEqual(type, "error")
          return { status, ...error }
        })
      assert.deepInclude(yield* errorOf({ "x-api-key": "wrong" }, body), { status: 401, type: "authentication_error" })
      assert.deepInclude(yield* errorOf({}, body), { status: 401, type: "authentication_error" })
      assert.deepInclude(yield* errorOf(key, body, `/rollouts/b${path}`), { status: 403, type: "permission_error" })
      const invalid = (body: unknown) =>
        Effect.map(errorOf(key, body), ({ message, status, type }) => {
          assert.deepStrictEqual({ status, type }, { status: 400, type: "invalid_request_error" })
          return message as string
        })
      const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "x".repeat(9000) } }
      const refused = yield* invalid(asked([user([{ type: "text", text: "x" }, image])]))
      assert.match(refused, /^messages\.0\.content\.1\.type: .*got "image"$/)
      assert.include(yield* invalid(asked([user("x"), { role: "assistant", content: "On" }])), "prefill")
      assert.include(
        yield* invalid(asked([user([{ type: "tool_use", id: "1", name: "add", input: {} }])])),
        "messages.0.content.0"
      )
      assert.include(
        yield* invalid(asked([user("x")], { tool_choice: { type: "tool", name: "none" } })),
        "no tool none"
      )
      const search = { type: "web_search_20250305", name: "web_search" }
      assert.include(yield* invalid(asked([user("x")], { tools: [search] })), "tools.0")
    }).pipe(Effect.provide(Recorder.layer())))
})
