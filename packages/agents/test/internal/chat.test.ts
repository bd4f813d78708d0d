import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Chat from "../../src/internal/openai/chat.js"
import { chatRenderer } from "../support/chat.js"
import { call, head, read, reply, textOf } from "../support/wire.js"

const decode = (fields: object) =>
  read(Chat.decode, { model: "m", messages: [{ role: "user", content: "x" }], ...fields })
const asked = (fields: object) => Effect.flatMap(decode(fields), (request) => Chat.toRequest(request, "r"))

const tools = [{ type: "function", function: { name: "add", description: "Adds.", parameters: { type: "object" } } }]
const wireCall = { id: "c", type: "function", function: { name: "add", arguments: call.arguments } }

describe("chat completions", () => {
  it.effect("messages with reasoning, calls, results and names", () =>
    Effect.gen(function*() {
      const { messages } = yield* asked({
        messages: [
          { role: "developer", content: [{ type: "text", text: "Be " }, { type: "text", text: "brief." }] },
          { role: "user", content: "x", name: "ann" },
          { role: "assistant", content: null, reasoning_content: "hm", tool_calls: [wireCall] },
          { role: "tool", content: "3", tool_call_id: "c", name: "add" },
          { role: "assistant", content: "so", reasoning: "hm" },
          { role: "function", content: "4", name: null, tool_call_id: null },
          { role: "assistant", tool_calls: [{ function: { name: "add", arguments: "{}" } }] }
        ]
      })
      const thinking = (text: string) => [{ type: "thinking", thinking: "hm" }, { type: "text", text }]
      assert.deepStrictEqual<unknown>(messages, [
        { role: "system", content: "Be brief." },
        { role: "user", content: "x", name: "ann" },
        { role: "assistant", content: thinking(""), toolCalls: [call] },
        { role: "tool", content: "3", toolCallId: "c", name: "add" },
        { role: "assistant", content: thinking("so") },
        { role: "tool", content: "4" },
        { role: "assistant", content: "", toolCalls: [{ name: "add", arguments: "{}" }] }
      ])
    }))

  it.effect("settings; what would be ignored in silence is refused", () =>
    Effect.gen(function*() {
      const plain = yield* asked({})
      assert.deepStrictEqual([plain.tools, plain.toolChoice, plain.maxTokens, plain.stop], [
        [],
        undefined,
        undefined,
        undefined
      ])
      const full = yield* asked({
        tools,
        tool_choice: { type: "function", function: { name: "add" } },
        parallel_tool_calls: false,
        max_tokens: 3,
        max_completion_tokens: 4,
        temperature: 0,
        top_k: 2,
        top_p: 0.5,
        seed: 7,
        stop: "a",
        logprobs: true,
        top_logprobs: 2,
        response_format: { type: "json_schema", json_schema: { schema: { type: "object" } } }
      })
      assert.deepInclude(full, { parallelToolCalls: false, maxTokens: 4, temperature: 0, topK: 2, topP: 0.5, seed: 7 })
      assert.deepStrictEqual(full.toolChoice, { name: "add" })
      assert.deepStrictEqual([full.stop, full.topLogprobs], [["a"], 2])
      assert.deepStrictEqual(full.responseFormat, { _tag: "Json", schema: { type: "object" } })
      assert.strictEqual((yield* asked({ max_tokens: 3 })).maxTokens, 3)
      assert.isUndefined((yield* asked({ top_logprobs: 2 })).topLogprobs)
      assert.isUndefined((yield* asked({ response_format: { type: "text" } })).responseFormat)
      assert.deepStrictEqual((yield* asked({ response_format: { type: "json_object" } })).responseFormat, {
        _tag: "Json"
      })
      yield* asked({ frequency_penalty: 0, presence_penalty: 0, logit_bias: {}, functions: [], tool_choice: "auto" })
      assert.strictEqual((yield* asked({ tool_choice: "none" })).toolChoice, "none")
      for (
        const [fields, message] of [
          [{ frequency_penalty: 0.1 }, "penalties are not supported"],
          [{ presence_penalty: -1 }, "penalties are not supported"],
          [{ logit_bias: { 5: 1 } }, "logit_bias is not supported"],
          [{ functions: [{}] }, "use tools"],
          [{ tool_choice: "required" }, "tool_choice needs tools"],
          [{ tools, tool_choice: { type: "function", function: { name: "sub" } } }, "there is no tool sub"]
        ] as const
      ) {
        assert.include((yield* Effect.flip(asked(fields))).message, message)
      }
    }))

  it.effect("answers whole: text or calls, reasoning, log probabilities and ids", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const [a = 0, b = 0] = renderer.tokenizer.encode("ab")
      const one = reply({
        text: "",
        toolCalls: [call],
        reasoning: "hm",
        finishReason: "tool_calls",
        policyVersion: 4,
        sampledIds: Int32Array.of(a, b),
        topLogprobs: [[[b, -2]]]
      })
      const request = yield* decode({ logprobs: true, return_token_ids: true })
      const whole = Chat.whole(head, request, renderer, [one, reply()])
      assert.deepInclude(whole, { object: "chat.completion", system_fingerprint: "policy-4", prompt_token_ids: [1, 2] })
      assert.deepStrictEqual<unknown>(whole.choices[0]?.message, {
        role: "assistant",
        content: null,
        refusal: null,
        reasoning_content: "hm",
        tool_calls: [wireCall]
      })
      assert.deepInclude(whole.choices[0], { index: 0, finish_reason: "tool_calls", token_ids: [a, b] })
      const shown = (id: number, logprob: number) => {
        const token = renderer.tokenizer.decode([id])
        return { token, bytes: Array.from(new TextEncoder().encode(token)), logprob }
      }
      assert.deepStrictEqual(whole.choices[0]?.logprobs, {
        content: [
          { ...shown(a, -0.5), top_logprobs: [shown(b, -2)] },
          { ...shown(b, -0.25), top_logprobs: [] }
        ],
        refusal: null
      })
      assert.deepStrictEqual<unknown>(whole.choices[1]?.message, { role: "assistant", content: "Hi.", refusal: null })
      assert.deepInclude(whole.usage, { prompt_tokens: 7, completion_tokens: 4, total_tokens: 11 })
      const plain = Chat.whole(head, yield* decode({}), renderer, [reply({ text: "", toolCalls: [] })])
      assert.deepInclude(plain.choices[0], { logprobs: null })
      assert.strictEqual(plain.choices[0]?.message.content, "")
      assert.notProperty(plain, "prompt_token_ids")
    }))

  it.effect("streams every answer from its role to its end, calls numbered, ids and probabilities first", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const other = { ...call, id: "d" }
      const replies = [
        reply({
          deltas: [
            { _tag: "Reasoning", text: "hm" },
            { _tag: "Text", text: "H" },
            { _tag: "ToolCall", call },
            { _tag: "ToolCall", call: other }
          ]
        }),
        reply({ finishReason: "length", promptIds: Int32Array.of(1, 2) })
      ]
      const stream = (fields: object) =>
        Effect.map(decode(fields), (request) => {
          const events = textOf(Chat.chunks(head, request, renderer, replies))
          assert.strictEqual(events.pop(), "[DONE]")
          return events.map((event) => JSON.parse(event))
        })
      const events = yield* stream({})
      assert.deepStrictEqual(
        events.map(({ choices: [{ delta, finish_reason, index }] }) => [index, delta, finish_reason]),
        [
          [0, { role: "assistant", content: "" }, null],
          [0, { reasoning_content: "hm" }, null],
          [0, { content: "H" }, null],
          [0, { tool_calls: [{ index: 0, ...wireCall }] }, null],
          [0, { tool_calls: [{ index: 1, ...wireCall, id: "d" }] }, null],
          [0, {}, "stop"],
          [1, { role: "assistant", content: "" }, null],
          [1, { content: "Hi." }, null],
          [1, {}, "length"]
        ]
      )
      assert.notProperty(events[0], "usage")
      assert.isNull(events[0].choices[0].logprobs)
      const more = yield* stream({ stream_options: { include_usage: true }, return_token_ids: true, logprobs: true })
      assert.isNull(more[0].usage)
      assert.deepStrictEqual([more[0].prompt_token_ids, more[0].choices[0].token_ids], [[1, 2], [72, 105]])
      assert.strictEqual(more[0].choices[0].logprobs.content.length, 2)
      assert.notProperty(more[6], "prompt_token_ids")
      assert.deepStrictEqual([more.at(-1).choices, more.at(-1).usage.completion_tokens], [[], 4])
    }))
})
