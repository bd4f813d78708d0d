import type { AgentModel } from "@effect-tinker/agents"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Responses from "../../src/internal/openai/responses.js"
import { call, dataOf, head, read, reply } from "../support/wire.js"

describe("responses", () => {
  const decode = (fields: object) => read(Responses.decode, { model: "m", input: "x", ...fields })
  const asked = (fields: object) => Effect.flatMap(decode(fields), (request) => Responses.toRequest(request, "r", []))
  const messages = (fields: object) => Effect.map(asked(fields), (request) => request.messages)
  const tools = [{ type: "function", name: "add" }, { type: "function", name: "sub", description: "Subtracts." }]

  const user = { role: "user", content: "one" }
  const reasoning = (text: string) => ({ type: "reasoning", summary: [], content: [{ text }] })
  const said = (text: string) => ({ type: "message", role: "assistant", content: [{ type: "output_text", text }] })
  const called = (id: string) => ({ type: "function_call", call_id: id, name: "add", arguments: "{}" })
  const output = (id: string) => ({ type: "function_call_output", call_id: id, output: id })

  it.effect("items of one answer are one message, and another one begins where it must", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* messages({ instructions: "Be brief." }), [
        { role: "system", content: "Be brief." },
        { role: "user", content: "x" }
      ])
      const toolCall = (id: string) => ({ id, name: "add", arguments: "{}" })
      assert.deepStrictEqual(
        yield* messages({
          input: [
            { role: "developer", content: "Rules." },
            user,
            reasoning("hm"),
            said("Let me see."),
            called("c"),
            called("d"),
            output("c"),
            output("d"),
            said("Two."),
            said("answers."),
            { type: "reasoning", summary: [{ text: "again" }] },
            called("e"),
            said("After a call.")
          ]
        }),
        [
          { role: "system", content: "Rules." },
          { role: "user", content: "one" },
          {
            role: "assistant",
            content: [{ type: "thinking", thinking: "hm" }, { type: "text", text: "Let me see." }],
            toolCalls: [toolCall("c"), toolCall("d")]
          },
          { role: "tool", content: "c", toolCallId: "c" },
          { role: "tool", content: "d", toolCallId: "d" },
          { role: "assistant", content: "Two." },
          { role: "assistant", content: "answers." },
          {
            role: "assistant",
            content: [{ type: "thinking", thinking: "again" }, { type: "text", text: "" }],
            toolCalls: [toolCall("e")]
          },
          { role: "assistant", content: "After a call." }
        ]
      )
    }))

  it.effect("an opening is what comes before the first answer", () =>
    Effect.gen(function*() {
      const opening = (fields: object) => Effect.map(decode(fields), Responses.openingOf)
      const one = { role: "user", content: "one" }
      assert.deepStrictEqual(yield* opening({}), [{ role: "user", content: "x" }])
      assert.deepStrictEqual(yield* opening({ input: [user, { role: "user", content: "two" }] }), [
        one,
        { role: "user", content: "two" }
      ])
      assert.deepStrictEqual(yield* opening({ input: [user, said("yes"), { role: "user", content: "two" }] }), [one])
      const reference = { type: "item_reference", id: "msg_call-1" }
      const referring = yield* decode({ input: [user, reference, { role: "user", content: "two" }] })
      assert.deepStrictEqual(Responses.openingOf(referring), [one])
      assert.isTrue(Responses.hasReferences(referring))
      assert.isFalse(Responses.hasReferences(yield* decode({ input: [user] })))
      assert.isFalse(Responses.hasReferences(yield* decode({})))
    }))

  it.effect("settings, tools and formats; what needs a state is refused", () =>
    Effect.gen(function*() {
      const plain = yield* asked({})
      assert.deepStrictEqual(plain.tools, [])
      for (const field of ["toolChoice", "responseFormat", "maxTokens", "temperature", "parallelToolCalls"] as const) {
        assert.isUndefined(plain[field], field)
      }
      const full = yield* asked({
        tools,
        tool_choice: { type: "function", name: "sub" },
        parallel_tool_calls: false,
        max_output_tokens: 9,
        temperature: 0.5,
        top_k: 3,
        top_p: 0.25,
        text: { format: { type: "json_schema", schema: { type: "object" } } }
      })
      assert.deepStrictEqual(full.tools, [
        { name: "add", description: "", parameters: { type: "object", properties: {} } },
        { name: "sub", description: "Subtracts.", parameters: { type: "object", properties: {} } }
      ])
      assert.deepStrictEqual(full.toolChoice, { name: "sub" })
      assert.deepStrictEqual(full.responseFormat, { _tag: "Json", schema: { type: "object" } })
      assert.deepInclude(full, { parallelToolCalls: false, maxTokens: 9, temperature: 0.5, topK: 3, topP: 0.25 })
      assert.strictEqual((yield* asked({ tools, tool_choice: "required" })).toolChoice, "required")
      assert.isUndefined((yield* asked({ text: { format: { type: "text" } } })).responseFormat)
      assert.deepStrictEqual((yield* asked({ text: { format: { type: "json_object" } } })).responseFormat, {
        _tag: "Json",
        schema: undefined
      })
      yield* asked({ previous_response_id: null, conversation: null, background: false })
      for (
        const [fields, message] of [
          [{ tools, tool_choice: { type: "function", name: "mul" } }, "there is no tool mul"],
          [{ previous_response_id: "resp_1" }, "previous_response_id needs state"],
          [{ conversation: "c" }, "conversation needs state"],
          [{ background: true }, "background needs state"]
        ] as const
      ) {
        assert.include((yield* Effect.flip(asked(fields))).message, message)
      }
    }))

  it.effect("gives items for reasoning, text and calls, and repeats what was asked", () =>
    Effect.gen(function*() {
      const typesOf = (answer: AgentModel.Reply, request: Responses.ResponsesRequest) =>
        Responses.whole(head, request, answer).output.map(({ id, type }) => [type, id])
      const request = yield* decode({})
      const other = { ...call, id: "d" }
      assert.deepStrictEqual(typesOf(reply(), request), [["message", "msg_call-1"]])
      assert.deepStrictEqual(typesOf(reply({ reasoning: "hm", toolCalls: [call, other] }), request), [
        ["reasoning", "rs_call-1"],
        ["message", "msg_call-1"],
        ["function_call", "fc_call-1_0"],
        ["function_call", "fc_call-1_1"]
      ])
      assert.deepStrictEqual(typesOf(reply({ text: "", toolCalls: [call] }), request), [[
        "function_call",
        "fc_call-1_0"
      ]])
      assert.deepStrictEqual(typesOf(reply({ text: "" }), request), [["message", "msg_call-1"]])
      const whole = Responses.whole(head, request, reply())
      assert.deepInclude(whole, {
        id: "id",
        object: "response",
        created_at: 1_790_000_000,
        status: "completed",
        incomplete_details: null,
        instructions: null,
        metadata: {},
        parallel_tool_calls: true,
        temperature: null,
        tool_choice: "auto",
        tools: [],
        store: false
      })
      assert.deepStrictEqual(whole.usage, {
        input_tokens: 7,
        input_tokens_details: { cached_tokens: 5 },
        output_tokens: 2,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 9
      })
      const asked = yield* decode({
        instructions: "Be brief.",
        metadata: { a: "b" },
        parallel_tool_calls: false,
        temperature: 0.5,
        top_p: 0.25,
        max_output_tokens: 9,
        tool_choice: "none",
        tools,
        text: { format: { type: "json_object" } }
      })
      const cut = Responses.whole(head, asked, reply({ finishReason: "length" }))
      assert.deepInclude(cut, {
        status: "incomplete",
        incomplete_details: { reason: "max_output_tokens" },
        instructions: "Be brief.",
        metadata: { a: "b" },
        parallel_tool_calls: false,
        temperature: 0.5,
        top_p: 0.25,
        max_output_tokens: 9,
        tool_choice: "none",
        text: { format: { type: "json_object" } }
      })
      assert.deepInclude(cut.tools[0], { name: "add", description: null, parameters: null, strict: false })
    }))

  it.effect("streams the same items, numbered, piece by piece", () =>
    Effect.gen(function*() {
      const answer = reply({
        reasoning: "hm, so",
        text: "Hi there",
        toolCalls: [call],
        deltas: [
          { _tag: "Reasoning", text: "hm," },
          { _tag: "Reasoning", text: " so" },
          { _tag: "Text", text: "Hi " },
          { _tag: "Text", text: "there" },
          { _tag: "ToolCall", call }
        ]
      })
      const request = yield* decode({})
      const events = dataOf(Responses.events(head, request, answer))
      assert.deepStrictEqual(events.map(({ sequence_number }) => sequence_number), events.map((_, i) => i))
      assert.deepStrictEqual(
        events.map(({ delta, output_index, type }) =>
          [type.replace("response.", ""), output_index, delta].filter((value) => value !== undefined)
        ),
        [
          ["created"],
          ["in_progress"],
          ["output_item.added", 0],
          ["reasoning_text.delta", 0, "hm,"],
          ["reasoning_text.delta", 0, " so"],
          ["reasoning_text.done", 0],
          ["output_item.done", 0],
          ["output_item.added", 1],
          ["content_part.added", 1],
          ["output_text.delta", 1, "Hi "],
          ["output_text.delta", 1, "there"],
          ["output_text.done", 1],
          ["content_part.done", 1],
          ["output_item.done", 1],
          ["output_item.added", 2],
          ["function_call_arguments.delta", 2, call.arguments],
          ["function_call_arguments.done", 2],
          ["output_item.done", 2],
          ["completed"]
        ]
      )
      const [created] = events
      assert.deepInclude(created.response, { status: "in_progress", output: [], usage: null })
      assert.deepStrictEqual(events.at(-1).response, JSON.parse(JSON.stringify(Responses.whole(head, request, answer))))
      assert.deepStrictEqual(events[2].item.content, [])
      assert.strictEqual(events[14].item.arguments, "")
      const cut = dataOf(Responses.events(head, request, reply({ finishReason: "length" })))
      assert.strictEqual(cut.at(-1).type, "response.incomplete")
    }))
})
