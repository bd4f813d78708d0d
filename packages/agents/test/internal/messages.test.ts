import type { AgentModel } from "@effect-tinker/agents"
import { Message } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Anthropic from "../../src/internal/anthropic/messages.js"
import { Refused } from "../../src/internal/openai/common.js"
import { call, dataOf, head, read, reply } from "../support/wire.js"

describe("messages", () => {
  const user = (content: unknown) => ({ role: "user", content })
  const decode = (fields: object) =>
    read(Anthropic.decode, { model: "m", max_tokens: 9, messages: [user("x")], ...fields })
  const asked = (fields: object) => Effect.flatMap(decode(fields), (request) => Anthropic.toRequest(request, "r"))
  const text = (text: string) => ({ type: "text", text })
  const tools = [{ name: "add", input_schema: { type: "object" } }]

  it.effect("blocks become messages: answers as one text, what somebody wrote as paragraphs, results on their own", () =>
    Effect.gen(function*() {
      const conversation = [
        user([text("one"), text("two")]),
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm" },
            text("Let "),
            text("me."),
            { type: "tool_use", id: "c", name: "add", input: { a: 1 } }
          ]
        },
        user([
          text("before"),
          { type: "tool_result", tool_use_id: "c", content: [text("3"), text("4")] },
          { type: "tool_result", tool_use_id: "d" },
          text("after")
        ])
      ]
      const request = yield* decode({ system: [text("Be"), text("brief.")], messages: conversation })
      const { messages } = yield* Anthropic.toRequest(request, "r")
      assert.deepStrictEqual(messages, [
        Message.system("Be\n\nbrief."),
        { role: "user", content: "one\n\ntwo" },
        { ...Message.assistant("Let me.", "hm"), toolCalls: [call] },
        { role: "user", content: "before" },
        { role: "tool", content: "3\n\n4", toolCallId: "c" },
        { role: "tool", content: "", toolCallId: "d" },
        { role: "user", content: "after" }
      ])
      assert.deepStrictEqual(Anthropic.openingOf(request), messages.slice(0, 2))
      assert.deepStrictEqual(Anthropic.openingOf(yield* decode({})), [{ role: "user", content: "x" }])
    }))

  it.effect("settings and tools; what cannot be done is refused by its place", () =>
    Effect.gen(function*() {
      const plain = yield* asked({})
      assert.deepStrictEqual([plain.tools, plain.toolChoice, plain.parallelToolCalls], [[], undefined, undefined])
      assert.strictEqual(plain.maxTokens, 9)
      const schema = { type: "object" }
      const full = yield* asked({
        tools: [{ ...tools[0], description: "Adds." }],
        tool_choice: { type: "tool", name: "add" },
        temperature: 0.5,
        top_k: 3,
        top_p: 0.25,
        stop_sequences: ["a"],
        output_format: { type: "json_schema", schema }
      })
      assert.deepStrictEqual(full.tools, [{ name: "add", description: "Adds.", parameters: { type: "object" } }])
      assert.deepStrictEqual(full.toolChoice, { name: "add" })
      assert.deepStrictEqual(full.responseFormat, { _tag: "Json", schema })
      assert.deepInclude(full, { parallelToolCalls: true, temperature: 0.5, topK: 3, topP: 0.25 })
      assert.deepStrictEqual(full.stop, ["a"])
      const chosen = (tool_choice: object) =>
        Effect.map(
          asked({ tools, tool_choice }),
          ({ parallelToolCalls, toolChoice }) => [toolChoice, parallelToolCalls]
        )
      assert.deepStrictEqual(yield* chosen({ type: "any", disable_parallel_tool_use: true }), ["required", false])
      assert.deepStrictEqual(yield* chosen({ type: "auto" }), ["auto", true])
      assert.deepStrictEqual(yield* chosen({ type: "none" }), ["none", undefined])
      const newer = yield* asked({
        output_config: { format: { type: "json_schema", schema: { a: 1 } } },
        output_format: {
          type: "json_schema",
          schema
        }
      })
      assert.deepStrictEqual(newer.responseFormat, { _tag: "Json", schema: { a: 1 } })
      const use = { type: "tool_use", id: "c", name: "add", input: {} }
      const result = { type: "tool_result", tool_use_id: "c" }
      for (
        const [fields, message] of [
          [{ messages: [user([text("x"), use])] }, "messages.0.content.1: a message of the user has no tool_use block"],
          [{ messages: [user("x"), { role: "assistant", content: [result] }, user("y")] }, "messages.1.content.0"],
          [{ messages: [user("x"), { role: "assistant", content: "Sure, " }] }, "prefill"],
          [{ mcp_servers: [{}] }, "mcp_servers are not supported"],
          [{ container: "c" }, "container is not supported"],
          [{ tool_choice: { type: "any" } }, "tool_choice needs tools"],
          [{ tool_choice: { type: "tool", name: "add" } }, "tool_choice needs tools"],
          [{ tools, tool_choice: { type: "tool", name: "sub" } }, "there is no tool sub"]
        ] as const
      ) {
        assert.include((yield* Effect.flip(asked(fields))).message, message)
      }
      yield* asked({ mcp_servers: [], container: null, tool_choice: { type: "auto" } })
    }))

  const thought = reply({
    text: "Hi there",
    reasoning: "hm, so",
    deltas: [
      { _tag: "Reasoning", text: "hm," },
      { _tag: "Reasoning", text: " so" },
      { _tag: "Text", text: "Hi " },
      { _tag: "Text", text: "there" },
      { _tag: "ToolCall", call },
      { _tag: "Text", text: "\n" },
      { _tag: "ToolCall", call: { id: "d", name: "add", arguments: "[1]" } }
    ],
    toolCalls: [call],
    finishReason: "tool_calls"
  })
  const blocks = [
    { type: "thinking", thinking: "hm, so", signature: "call-1" },
    { type: "text", text: "Hi there" },
    { type: "tool_use", id: "c", name: "add", input: { a: 1 } },
    { type: "tool_use", id: "d", name: "add", input: {} }
  ]
  const usage = {
    input_tokens: 2,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 5,
    output_tokens: 2
  }

  it("an answer in blocks without empty ones, and why it ended", () => {
    const whole = Anthropic.whole(head, thought)
    assert.deepStrictEqual<unknown>(whole.content, blocks)
    assert.deepStrictEqual(whole.usage, usage)
    const end = (more: Partial<AgentModel.Reply>) => {
      const { stop_reason, stop_sequence } = Anthropic.whole(head, reply(more))
      return [stop_reason, stop_sequence]
    }
    assert.deepStrictEqual(end({}), ["end_turn", null])
    assert.deepStrictEqual(end({ finishReason: "length" }), ["max_tokens", null])
    assert.deepStrictEqual(end({ stopText: "a" }), ["stop_sequence", "a"])
    assert.deepStrictEqual(end({ finishReason: "tool_calls", stopText: "a" }), ["tool_use", null])
  })

  it("streams the same blocks, each begun empty and ended", () => {
    const events = dataOf(Anthropic.events(head, thought))
    assert.deepStrictEqual(events[0].message.usage, { ...usage, output_tokens: 0 })
    assert.deepStrictEqual(events.at(-2), {
      type: "message_delta",
      delta: { stop_reason: "tool_use", stop_sequence: null },
      usage
    })
    assert.deepStrictEqual(events.at(-1), { type: "message_stop" })
    const part = events.slice(1, -2).map(({ content_block, delta, index, type }) =>
      [
        type.replace("content_block_", ""),
        index,
        content_block ?? delta
      ].filter((value) => value !== undefined)
    )
    const json = (partial_json: string) => ({ type: "input_json_delta", partial_json })
    assert.deepStrictEqual(part, [
      ["start", 0, { type: "thinking", thinking: "", signature: "" }],
      ["delta", 0, { type: "thinking_delta", thinking: "hm," }],
      ["delta", 0, { type: "thinking_delta", thinking: " so" }],
      ["delta", 0, { type: "signature_delta", signature: "call-1" }],
      ["stop", 0],
      ["start", 1, { type: "text", text: "" }],
      ["delta", 1, { type: "text_delta", text: "Hi " }],
      ["delta", 1, { type: "text_delta", text: "there" }],
      ["stop", 1],
      ["start", 2, { type: "tool_use", id: "c", name: "add", input: {} }],
      ["delta", 2, json(call.arguments)],
      ["stop", 2],
      ["start", 3, { type: "tool_use", id: "d", name: "add", input: {} }],
      ["delta", 3, json("[1]")],
      ["stop", 3]
    ])
  })

  it("refuses with the type of the status", () => {
    const refused = (status: number, retryAfter?: number) => {
      const { body, headers, status: given } = Anthropic.refuse(
        new Refused({ message: "no", status, retryAfter, type: "server_error", code: null, param: null })
      )
      assert.strictEqual(given, status)
      const json = body._tag === "Uint8Array" ? JSON.parse(new TextDecoder().decode(body.body)) : {}
      assert.deepInclude(json, { type: "error" })
      return [json.error.type, headers["retry-after"]]
    }
    assert.deepStrictEqual(refused(400), ["invalid_request_error", undefined])
    assert.deepStrictEqual(refused(429, 3), ["rate_limit_error", "3"])
    assert.deepStrictEqual(refused(499), ["invalid_request_error", undefined])
    assert.deepStrictEqual(refused(500), ["api_error", undefined])
    assert.deepStrictEqual(refused(503), ["overloaded_error", undefined])
  })
})
