import type { AgentModel } from "@effect-tinker/agents"
import { Message } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Anthropic from "../src/internal/anthropic/messages.js"
import { Refused } from "../src/internal/openai/common.js"
import * as Completions from "../src/internal/openai/completions.js"
import * as Responses from "../src/internal/openai/responses.js"
import { chatRenderer } from "./support/chat.js"

const head = { id: "id", created: 1_790_000_000, model: "m" }

const call = { id: "c", name: "add", arguments: "{\"a\":1}" }

/** An answer; what a test is about is put in. */
const reply = (more: Partial<AgentModel.Reply> = {}): AgentModel.Reply => ({
  callId: "call-1",
  rollout: "r",
  message: Message.assistant("Hi."),
  text: "Hi.",
  reasoning: "",
  toolCalls: [],
  finishReason: "stop",
  stopText: undefined,
  usage: { promptTokens: 7, completionTokens: 2, cachedTokens: 5 },
  promptIds: Int32Array.of(1, 2),
  sampledIds: Int32Array.of(72, 105),
  logprobs: Float32Array.of(-0.5, -0.25),
  topLogprobs: undefined,
  policyVersion: 0,
  origin: { _tag: "Root" },
  deltas: [{ _tag: "Text", text: "Hi." }],
  ...more
})

const textOf = (events: Iterable<string>) =>
  Array.from(events).flatMap((event) => event.split("\n").filter((line) => line.startsWith("data: ")))
    .map((line) => line.slice("data: ".length))

/** The data of events, as far as it is JSON. */
const dataOf = (events: Iterable<string>) =>
  textOf(events).flatMap((data) => data === "[DONE]" ? [] : [JSON.parse(data)])

const read = <A>(decode: (text: string) => Effect.Effect<A, { readonly message: string }>, value: unknown) =>
  decode(JSON.stringify(value))

describe("completions", () => {
  const decode = (fields: object) => read(Completions.decode, { model: "m", prompt: "x", ...fields })
  const asked = (fields: object) =>
    Effect.map(
      Effect.flatMap(decode(fields), (request) => Completions.toRequest(request, "r")),
      ({ rollout: _, ...rest }) => Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
    )

  it.effect("what a request says, and what it leaves out", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* asked({}), { prompt: "x", maxTokens: 16 })
      assert.deepStrictEqual(
        yield* asked({
          max_tokens: 3,
          temperature: 0.5,
          top_k: 4,
          top_p: 0.75,
          seed: 6,
          stop: ["a", "b"],
          logprobs: 2,
          echo: false,
          suffix: "",
          best_of: 1
        }),
        { prompt: "x", maxTokens: 3, temperature: 0.5, topK: 4, topP: 0.75, seed: 6, stop: ["a", "b"], topLogprobs: 2 }
      )
      assert.deepStrictEqual(yield* asked({ prompt: [5, 6], stop: "a" }), {
        prompt: [5, 6],
        maxTokens: 16,
        stop: ["a"]
      })
      assert.deepStrictEqual(yield* asked({ prompt: ["one"] }), { prompt: "one", maxTokens: 16 })
      assert.deepStrictEqual(yield* asked({ prompt: [[5]] }), { prompt: [5], maxTokens: 16 })
      for (
        const [fields, message] of [
          [{ echo: true }, "echo is not supported"],
          [{ suffix: "s" }, "suffix is not supported"],
          [{ best_of: 2 }, "best_of is not supported"],
          [{ prompt: ["a", "b"] }, "several prompts"],
          [{ prompt: "" }, "the prompt is empty"],
          [{ n: 129 }, "n"],
          [{ logprobs: 21 }, "logprobs"],
          [{ prompt: [1.5] }, "prompt"]
        ] as const
      ) {
        assert.include((yield* Effect.flip(asked(fields))).message, message)
      }
    }))

  it.effect("log probabilities with the places of their tokens, ids, and the tokens of all answers together", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const ids = Int32Array.from(renderer.tokenizer.encode("ab, c"))
      const texts = Array.from(ids, (id) => renderer.tokenizer.decode([id]))
      const [first = 0, second = 0] = ids
      const one = reply({
        sampledIds: ids,
        logprobs: Float32Array.from(ids, (_, i) => -1 - i),
        topLogprobs: [[[first, -1], [second, -2]]],
        promptIds: Int32Array.of(3, 4)
      })
      const request = yield* decode({ logprobs: 1, return_token_ids: true })
      const { choices, object, usage } = Completions.whole(head, request, renderer, [one, reply({ text: "No." })])
      assert.strictEqual(object, "text_completion")
      assert.deepStrictEqual(choices.map(({ index, text }) => [index, text]), [[0, "Hi."], [1, "No."]])
      const offsets: Array<number> = []
      let at = 0
      for (const text of texts) {
        offsets.push(at)
        at += text.length
      }
      assert.deepStrictEqual(choices[0]?.logprobs, {
        tokens: texts,
        token_logprobs: Array.from(ids, (_, i) => -1 - i),
        top_logprobs: [{ [texts[0] ?? ""]: -1, [texts[1] ?? ""]: -2 }],
        text_offset: offsets
      })
      assert.deepStrictEqual(choices[1]?.logprobs?.top_logprobs, [])
      assert.deepInclude(choices[0], { token_ids: Array.from(ids), prompt_token_ids: [3, 4] })
      assert.deepInclude(usage, { prompt_tokens: 7, completion_tokens: 4, total_tokens: 11 })
      assert.deepStrictEqual(usage.prompt_tokens_details, { cached_tokens: 5 })
      const plain = Completions.whole(head, yield* decode({}), renderer, [one])
      assert.isNull(plain.choices[0]?.logprobs)
      assert.notProperty(plain.choices[0], "token_ids")
    }))

  it.effect("streams each answer's pieces and its end, the usage where it is wanted, and that it is over", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const replies = [
        reply({
          deltas: [{ _tag: "Reasoning", text: "hm" }, { _tag: "Text", text: "H" }, { _tag: "Text", text: "i." }]
        }),
        reply({ deltas: [], text: "", finishReason: "length" })
      ]
      const stream = (fields: object) =>
        Effect.map(decode(fields), (request) => textOf(Completions.chunks(head, request, renderer, replies)))
      const events = yield* stream({})
      assert.strictEqual(events.at(-1), "[DONE]")
      assert.deepStrictEqual(
        events.slice(0, -1).map((event) => {
          const [{ finish_reason, index, text }] = JSON.parse(event).choices
          return [index, text, finish_reason]
        }),
        [[0, "H", null], [0, "i.", null], [0, "", "stop"], [1, "", "length"]]
      )
      const counted = yield* stream({ stream_options: { include_usage: true } })
      assert.strictEqual(counted.length, 6)
      const last = JSON.parse(counted.at(-2) ?? "")
      assert.deepStrictEqual([last.choices, last.usage.completion_tokens], [[], 4])
    }))
})

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
