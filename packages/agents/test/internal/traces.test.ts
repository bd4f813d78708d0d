import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { facts } from "../../src/internal/traces/exports.js"
import type { Fact } from "../../src/internal/traces/fact.js"
import * as Messages from "../../src/internal/traces/messages.js"

type Fields = Readonly<Record<string, unknown>>

/** A value of OpenTelemetry as JSON has it. */
const any = (value: unknown): unknown =>
  typeof value === "string"
    ? { stringValue: value }
    : typeof value === "boolean"
    ? { boolValue: value }
    : typeof value === "number"
    ? Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value }
    : Array.isArray(value)
    ? { arrayValue: { values: value.map(any) } }
    : { kvlistValue: { values: pairs(Object(value)) } }

const pairs = (fields: Fields) => Object.entries(fields).map(([key, value]) => ({ key, value: any(value) }))

const exported = (name: string, attributes: Fields, events: ReadonlyArray<readonly [string, Fields]> = []) => ({
  resourceSpans: [{
    scopeSpans: [{
      spans: [{
        traceId: "t",
        spanId: "s",
        name,
        startTimeUnixNano: "1790000000500000000",
        endTimeUnixNano: "1790000002000000000",
        attributes: pairs(attributes),
        events: events.map(([name, attributes]) => ({ name, attributes: pairs(attributes) }))
      }]
    }]
  }]
})

const read = (row: Fields): ReadonlyArray<Fact> => Either.getOrThrow(facts(row))

const one = (row: Fields): Fact => {
  const [fact, ...others] = read(row)
  assert(fact !== undefined && others.length === 0)
  return fact
}

/** What is there, without the fields that are not. */
const given = (fields: object | undefined) =>
  Object.fromEntries(Object.entries(fields ?? {}).filter(([, value]) => value !== undefined))

const span = (...args: Parameters<typeof exported>) => one(exported(...args))

const times = { startedAt: 1_790_000_000_500, endedAt: 1_790_000_002_000 }

const user = { role: "user", content: "Hello" }
const answer = { role: "assistant", content: "Hi" }

describe("spans of OpenTelemetry", () => {
  it("the conventions for generative AI: messages, tools, tokens and evaluations", () => {
    const fact = span("chat m", {
      "gen_ai.operation.name": "chat",
      "gen_ai.system_instructions": JSON.stringify([{ type: "text", content: "Be" }, { type: "text", text: "brief." }]),
      "gen_ai.input.messages": JSON.stringify([user]),
      "gen_ai.output.messages": JSON.stringify([answer]),
      "gen_ai.tool.definitions": "[]",
      "gen_ai.request.model": "asked",
      "gen_ai.response.model": "gave",
      "gen_ai.usage.input_tokens": 12,
      "gen_ai.usage.output_tokens": 3,
      "gen_ai.usage.cost": 0.5,
      "session.id": "u"
    }, [
      ["gen_ai.evaluation.result", {
        "gen_ai.evaluation.name": "helpful",
        "gen_ai.evaluation.score.value": 0.75,
        "gen_ai.evaluation.explanation": "because"
      }],
      ["gen_ai.evaluation.result", { "gen_ai.evaluation.score.value": 1 }],
      ["exception", { "exception.message": "no" }]
    ])
    assert.deepStrictEqual(given(fact.call), {
      isModel: true,
      system: "Be\nbrief.",
      prompt: JSON.stringify([user]),
      answer: JSON.stringify([answer]),
      tools: "[]",
      model: "gave",
      ...times,
      input: 12,
      output: 3,
      cost: 0.5
    })
    assert.deepStrictEqual([fact.source, fact.trace, fact.observation, fact.session], ["otel", "t", "s", "u"])
    assert.deepStrictEqual(fact.tags, [])
    assert.deepStrictEqual(fact.scores?.map(given), [{ name: "helpful", value: 0.75, comment: "because" }, {
      name: "score",
      value: 1
    }])
  })

  it("only calls of models are calls", () => {
    const isCall = (name: string, attributes: Fields) => span(name, attributes).call !== undefined
    for (const name of ["chat", "text_completion", "generate_content"]) {
      assert.isTrue(isCall("any", { "gen_ai.operation.name": name }), name)
    }
    assert.isFalse(isCall("any", { "gen_ai.operation.name": "execute_tool" }))
    assert.isFalse(isCall("any", {}))
    assert.isTrue(isCall("openai.chat", { "llm.request.type": "chat" }))
    assert.isTrue(isCall("ai.generateText.doGenerate", { "ai.operationId": "x" }))
    assert.isTrue(isCall("ai.streamText.doStream", { "ai.operationId": "x" }))
    // The span around it has the same operation, and would count it twice.
    assert.isFalse(isCall("ai.generateText", { "ai.operationId": "x", "gen_ai.operation.name": "chat" }))
    assert.isTrue(isCall("any", { "langfuse.observation.type": "generation" }))
    assert.isFalse(isCall("any", { "langfuse.observation.type": "span", "gen_ai.operation.name": "chat" }))
    assert.isTrue(isCall("any", { "openinference.span.kind": "LLM" }))
    assert.isFalse(isCall("any", { "openinference.span.kind": "CHAIN", "llm.request.type": "chat" }))
  })

  it("messages whose place is in the names of attributes, in their order", () => {
    const prompt = {
      "gen_ai.prompt.10.role": "user",
      "gen_ai.prompt.10.content": "and then?",
      "gen_ai.prompt.0.role": "user",
      "gen_ai.prompt.0.content": "Hello",
      "gen_ai.prompt.1.role": "assistant",
      "gen_ai.prompt.1.tool_calls.1.id": "d",
      "gen_ai.prompt.1.tool_calls.1.name": "g",
      "gen_ai.prompt.1.tool_calls.0.id": "c",
      "gen_ai.prompt.1.tool_calls.0.name": "f",
      "gen_ai.prompt.1.tool_calls.0.arguments": "{}",
      "gen_ai.prompt.note": "no message"
    }
    const { call } = span("openai.chat", {
      "llm.request.type": "chat",
      ...prompt,
      "gen_ai.completion.0.role": "assistant",
      "gen_ai.completion.0.content": "Hi",
      "gen_ai.usage.prompt_tokens": 4,
      "gen_ai.usage.completion_tokens": 2
    })
    assert.deepStrictEqual(call?.prompt, [
      user,
      { role: "assistant", tool_calls: [{ id: "c", name: "f", arguments: "{}" }, { id: "d", name: "g" }] },
      { role: "user", content: "and then?" }
    ])
    assert.deepStrictEqual(call?.answer, [answer])
    assert.deepStrictEqual([call?.input, call?.output], [4, 2])
    // OpenInference has one name more in each.
    const inference = span("ChatCompletion", {
      "openinference.span.kind": "LLM",
      "llm.model_name": "m",
      "llm.token_count.prompt": 5,
      "llm.token_count.completion": 6,
      "llm.input_messages.0.message.role": "user",
      "llm.input_messages.0.message.content": "Hello",
      "llm.output_messages.0.message.role": "assistant",
      "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "f",
      "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{\"a\":1}",
      "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c"
    }).call
    assert.deepStrictEqual(inference?.prompt, [user])
    assert.deepStrictEqual(inference?.answer, [{
      role: "assistant",
      tool_calls: [{ name: "f", arguments: "{\"a\":1}", id: "c" }]
    }])
    assert.deepStrictEqual([inference?.model, inference?.input, inference?.output], ["m", 5, 6])
    const plain = span("any", { "openinference.span.kind": "LLM", "input.value": "in", "output.value": "out" }).call
    assert.deepStrictEqual([plain?.prompt, plain?.answer], ["in", "out"])
  })

  it("messages that are events", () => {
    const chat = { "gen_ai.operation.name": "chat" }
    const calls = [{ id: "c", function: { name: "f", arguments: "{}" } }]
    const { call } = span("chat", chat, [
      ["gen_ai.system.message", { content: "Be brief." }],
      ["gen_ai.user.message", { content: "Hello" }],
      ["gen_ai.assistant.message", { tool_calls: JSON.stringify(calls) }],
      ["gen_ai.tool.message", { id: "c", content: "3" }],
      ["gen_ai.choice", { index: 0, message: JSON.stringify(answer) }]
    ])
    const messages = Array.isArray(call?.prompt) ? call.prompt : []
    assert.deepStrictEqual(messages.map(given), [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
      { role: "assistant", tool_calls: calls },
      { role: "tool", id: "c", content: "3", tool_call_id: "c" }
    ])
    assert.deepStrictEqual(call?.answer, answer)
    const flat = span("chat", chat, [["gen_ai.choice", { content: "Hi", finish_reason: "stop" }]]).call
    assert.deepStrictEqual(given(Object(flat?.answer)), { role: "assistant", content: "Hi", finish_reason: "stop" })
    assert.isUndefined(flat?.prompt)
    const content = span("chat", chat, [
      ["gen_ai.content.prompt", { "gen_ai.prompt": JSON.stringify([user]) }],
      ["gen_ai.content.completion", { "gen_ai.completion": JSON.stringify([answer]) }]
    ]).call
    assert.deepStrictEqual([content?.prompt, content?.answer], [[user], [answer]])
  })

  it("the AI SDK's: the answer in parts, the session in its metadata, the function as a tag", () => {
    const fact = span("ai.generateText.doGenerate", {
      "ai.operationId": "ai.generateText.doGenerate",
      "ai.prompt.messages": JSON.stringify([user]),
      "ai.prompt.tools": ["{}"],
      "ai.response.text": "Hi",
      "ai.response.toolCalls": JSON.stringify([{ toolCallId: "c", toolName: "f", input: "{}" }]),
      "ai.response.reasoning": "greet",
      "ai.model.id": "m",
      "ai.usage.inputTokens": 7,
      "ai.usage.outputTokens": 8,
      "ai.telemetry.functionId": "support",
      "ai.telemetry.metadata.sessionId": "u"
    })
    assert.deepStrictEqual(fact.call?.answer, {
      role: "assistant",
      content: "Hi",
      toolCalls: [{ toolCallId: "c", toolName: "f", input: "{}" }],
      reasoning: "greet"
    })
    assert.deepStrictEqual([fact.call?.prompt, fact.call?.tools, fact.call?.model], [
      JSON.stringify([user]),
      ["{}"],
      "m"
    ])
    assert.deepStrictEqual([fact.call?.input, fact.call?.output], [7, 8])
    assert.deepStrictEqual([fact.session, fact.tags], ["u", ["support"]])
    const only = (attributes: Fields) => span("ai.x.doGenerate", { "ai.operationId": "x", ...attributes }).call?.answer
    assert.deepStrictEqual(only({ "ai.response.object": "{}" }), { role: "assistant", content: "{}" })
    assert.deepStrictEqual(only({ "ai.response.toolCalls": "[]" }), { role: "assistant", content: "", toolCalls: [] })
    assert.isUndefined(only({}))
  })

  it("Langfuse's, which are its own source", () => {
    const fact = span("any", {
      "langfuse.observation.type": "generation",
      "langfuse.observation.input": JSON.stringify([user]),
      "langfuse.observation.output": JSON.stringify(answer),
      "langfuse.observation.model.name": "m",
      "langfuse.observation.usage_details": JSON.stringify({ input: 9, output: 10, total: 19 }),
      "langfuse.observation.cost_details": JSON.stringify({ input: 1, total: 2.5 }),
      "langfuse.trace.tags": ["a", "b"],
      "langfuse.session.id": "u"
    })
    assert.strictEqual(fact.source, "langfuse")
    assert.deepStrictEqual(given(fact.call), {
      isModel: true,
      prompt: JSON.stringify([user]),
      answer: JSON.stringify(answer),
      model: "m",
      ...times,
      input: 9,
      output: 10,
      cost: 2.5
    })
    assert.deepStrictEqual([fact.tags, fact.session], [["a", "b"], "u"])
  })

  it("values of every type, and spans without an identity are none", () => {
    const { call } = span("chat", {
      "gen_ai.operation.name": "chat",
      "gen_ai.input.messages": [{ role: "user", content: [true, 1, 0.5, "x"] }],
      "gen_ai.usage.input_tokens": 1.5
    })
    assert.deepStrictEqual(call?.prompt, [{ role: "user", content: [true, 1, 0.5, "x"] }])
    assert.strictEqual(call?.input, 1.5)
    const nobody = { resourceSpans: [{ scopeSpans: [{ spans: [{ traceId: "t" }, { spanId: "s" }, "span"] }] }] }
    assert.deepStrictEqual(read(nobody), [])
    assert.deepStrictEqual(read({ resourceSpans: ["none", {}, { scopeSpans: [{}] }] }), [])
  })
})

describe("records of exports", () => {
  const when = "2026-09-21T12:26:40.500Z"

  it("Langfuse: batches of events, traces with what belongs to them, single observations and scores", () => {
    const body = {
      id: "o",
      traceId: "t",
      sessionId: "u",
      input: [user],
      output: answer,
      model: "m",
      startTime: when,
      endTime: when,
      usage: { promptTokens: 3, completionTokens: 4 },
      totalCost: 0.5
    }
    const call = {
      isModel: true,
      prompt: [user],
      answer,
      model: "m",
      startedAt: Date.parse(when),
      endedAt: Date.parse(when),
      input: 3,
      output: 4,
      cost: 0.5
    }
    const event = (type: string, body: Fields) => ({ id: "e", type, timestamp: when, body })
    const score = { traceId: "t", observationId: "o", name: "thumb", value: true, comment: "good" }
    const found = read({
      batch: [
        event("trace-create", { id: "t", metadata: { session_id: "v" }, tags: ["a", 1] }),
        event("generation-create", body),
        event("observation-create", { ...body, type: "SPAN" }),
        event("observation-create", { ...body, type: "GENERATION" }),
        event("score-create", score),
        event("span-create", body)
      ]
    })
    assert.deepStrictEqual(found.map((fact) => [fact.trace, fact.observation, fact.call === undefined]), [
      ["t", undefined, true],
      ["t", "o", false],
      ["t", "o", true],
      ["t", "o", false],
      ["t", "o", true],
      ["t", "o", true]
    ])
    assert.deepStrictEqual([found[0]?.session, found[0]?.tags, found[1]?.session], ["v", ["a"], "u"])
    assert.deepStrictEqual([given(found[1]?.call), given(found[3]?.call)], [call, call])
    assert.deepStrictEqual(found[4]?.scores, [{ name: "thumb", value: 1, comment: "good" }])
    assert.isTrue(found.every(({ source }) => source === "langfuse"))
    assert.deepStrictEqual(one(event("score-create", score)).scores, found[4]?.scores)
    assert.deepStrictEqual(one(score).scores, found[4]?.scores)
    assert.strictEqual(
      one({ ...score, value: undefined, stringValue: "fine", comment: undefined }).scores?.[0]?.comment,
      "fine"
    )
    assert.deepStrictEqual(given(one({ ...body, type: "GENERATION" }).call), call)
    assert.isUndefined(one({ ...body, type: "EVENT" }).call)
  })

  it("Braintrust: model spans, rows that continue one, scores, and comments on a row", () => {
    const row = {
      id: "r",
      span_id: "s",
      root_span_id: "t",
      input: [user],
      output: [answer],
      metadata: { model: "m", tools: [], session_id: "u" },
      metrics: {
        start: 1_790_000_000.5,
        end: 1_790_000_002,
        prompt_tokens: 3,
        completion_tokens: 4,
        estimated_cost: 0.5
      },
      scores: { good: true, half: 0.5, none: null },
      tags: ["a"],
      span_attributes: { type: "llm", name: "chat" }
    }
    const found = one(row)
    assert.deepStrictEqual([found.source, found.trace, found.observation, found.session], ["braintrust", "t", "r", "u"])
    assert.deepStrictEqual([found.tags, found.scores], [["a"], [{ name: "good", value: 1 }, {
      name: "half",
      value: 0.5
    }]])
    assert.deepStrictEqual(given(found.call), {
      isModel: true,
      prompt: [user],
      answer: [answer],
      tools: [],
      model: "m",
      ...times,
      input: 3,
      output: 4,
      cost: 0.5
    })
    assert.isUndefined(one({ ...row, span_attributes: { type: "task" } }).call)
    const { span_attributes: _, ...rest } = row
    assert.isUndefined(one(rest).call?.isModel)
    assert.deepStrictEqual(one(rest).call?.prompt, [user])
    const comment = one({ root_span_id: "t", origin: { id: "r" }, comment: { text: "nice" } })
    assert.deepStrictEqual([comment.observation, comment.scores], ["r", [{ name: "feedback", comment: "nice" }]])
    assert.deepStrictEqual(read({ rows: [row, rest] }).length, 2)
    assert.deepStrictEqual(read({ events: [row] }).length, 1)
    assert.strictEqual(one({ id: "alone", span_attributes: { type: "llm" } }).trace, "alone")
  })

  it("LangSmith: runs, updates, and feedback", () => {
    const run = {
      id: "r",
      trace_id: "t",
      run_type: "llm",
      inputs: { messages: [user] },
      outputs: { generations: [[{ message: answer }]], usage_metadata: { input_tokens: 3, output_tokens: 4 } },
      extra: { metadata: { thread_id: "u", ls_model_name: "m" }, invocation_params: { tools: [1], model: "n" } },
      start_time: when,
      end_time: when,
      total_cost: 0.5,
      tags: ["a"],
      feedback_stats: { thumb: { n: 2, avg: 0.75 }, note: { n: 1, avg: null } }
    }
    const found = one(run)
    assert.deepStrictEqual([found.source, found.trace, found.observation, found.session], ["langsmith", "t", "r", "u"])
    assert.deepStrictEqual([found.tags, found.scores], [["a"], [{ name: "thumb", value: 0.75 }]])
    assert.deepStrictEqual(given(found.call), {
      isModel: true,
      prompt: run.inputs,
      answer: run.outputs,
      tools: [1],
      model: "m",
      startedAt: Date.parse(when),
      endedAt: Date.parse(when),
      input: 3,
      output: 4,
      cost: 0.5
    })
    assert.isUndefined(one({ ...run, run_type: "chain" }).call)
    const older = one({
      ...run,
      inputs: { messages: [user], tools: [2] },
      outputs: { llm_output: { tokenUsage: { promptTokens: 5, completionTokens: 6 } } },
      extra: { invocation_params: { model: "n" } },
      metadata: { session_id: "v" }
    })
    assert.deepStrictEqual(
      [older.session, older.call?.tools, older.call?.model, older.call?.input, older.call?.output],
      ["v", [2], "n", 5, 6]
    )
    const counted = one({ ...run, outputs: {}, prompt_tokens: 7, completion_tokens: 8 }).call
    assert.deepStrictEqual([counted?.input, counted?.output], [7, 8])
    const { run_type: _, ...update } = run
    const posted = read({ post: [run], patch: [update] })
    assert.deepStrictEqual(posted.map(({ call }) => call?.isModel), [true, undefined])
    const feedback = one({ run_id: "r", trace_id: "t", key: "thumb", score: false, comment: "no" })
    assert.deepStrictEqual(
      [feedback.observation, feedback.scores],
      ["r", [{ name: "thumb", value: 0, comment: "no" }]]
    )
  })

  it("OpenAI: stored completions and their messages, responses, and lines of batches", () => {
    const completion = {
      object: "chat.completion",
      id: "chatcmpl-1",
      created: 1_790_000_000,
      model: "m",
      request: { tools: [1], messages: [user] },
      choices: [{ message: answer }],
      usage: { prompt_tokens: 3, completion_tokens: 4 },
      metadata: { session_id: "u" }
    }
    const found = one(completion)
    assert.deepStrictEqual([found.source, found.trace, found.observation, found.session], [
      "openai",
      "u",
      "chatcmpl-1",
      "u"
    ])
    assert.deepStrictEqual(given(found.call), {
      isModel: true,
      prompt: [user],
      answer: [{ message: answer }],
      tools: [1],
      model: "m",
      startedAt: 1_790_000_000_000,
      input: 3,
      output: 4
    })
    const { metadata: _, ...alone } = completion
    assert.strictEqual(one(alone).trace, "chatcmpl-1")
    const response = one({
      object: "response",
      id: "resp_1",
      created_at: 1_790_000_000,
      input: "Hello",
      instructions: "Be brief.",
      output: [answer],
      usage: { input_tokens: 5, output_tokens: 6 }
    }).call
    assert.deepStrictEqual(response?.prompt, { input: "Hello", instructions: "Be brief." })
    assert.deepStrictEqual([response?.answer, response?.input, response?.output], [[answer], 5, 6])
    const page = one({ object: "list", data: [{ id: "chatcmpl-1-0", ...user }] })
    assert.deepStrictEqual([page.observation, page.trace, page.call?.prompt], ["chatcmpl-1", undefined, [
      { id: "chatcmpl-1-0", ...user }
    ]])
    assert.deepStrictEqual(read({ data: [completion, alone] }).length, 2)
    const asked = one({ custom_id: "7", body: { messages: [user], tools: [2], metadata: { session_id: "w" } } })
    assert.deepStrictEqual([asked.trace, asked.observation, asked.session], ["batch-7", "7", "w"])
    assert.deepStrictEqual(given(asked.call), { isModel: true, prompt: [user], tools: [2] })
    const got = one({ custom_id: "7", response: { status_code: 200, body: completion } })
    assert.deepStrictEqual([got.call?.answer, got.session], [[{ message: answer }], "u"])
    const wrong = (row: Fields) => Either.getOrElse(Either.flip(facts({ custom_id: "7", ...row })), () => "none")
    assert.strictEqual(wrong({ response: { status_code: 400, body: {} } }), "the request failed: status 400")
    assert.strictEqual(wrong({ response: { status_code: 399 } }), "none")
    assert.strictEqual(wrong({ error: { message: "expired" } }), "the request failed: expired")
    assert.strictEqual(wrong({ response: { body: { error: { message: "full" } } } }), "the request failed: full")
  })

  it("what is none of them is named by its fields", () => {
    const row = Object.fromEntries(Array.from({ length: 14 }, (_, n) => [`f${n}`, n]))
    assert.strictEqual(
      Either.getOrElse(Either.flip(facts(row)), () => ""),
      `no log that is known has such records: its fields are ${Object.keys(row).slice(0, 12).join(", ")}`
    )
  })
})

describe("tools and messages", () => {
  it("tools in every spelling; what is none is left out", () => {
    const parameters = { type: "object" }
    const tool = { name: "f", description: "Does.", parameters }
    const spellings: ReadonlyArray<unknown> = [
      [{ type: "function", function: tool }],
      [tool],
      [{ name: "f", description: "Does.", input_schema: parameters }],
      [{ name: "f", description: "Does.", inputSchema: parameters }],
      [JSON.stringify(tool)],
      JSON.stringify([tool]),
      { f: tool },
      [null, { description: "no name" }, tool, "text"]
    ]
    for (const given of spellings) assert.deepStrictEqual(Messages.tools(given), [tool], JSON.stringify(given))
    assert.deepStrictEqual(Messages.tools([{ name: "g" }]), [{ name: "g", description: "", parameters: {} }])
    for (const none of [undefined, null, "text", 3, []]) assert.deepStrictEqual(Messages.tools(none), [])
  })

  it("a text is a message of whoever is expected, and instructions come first", () => {
    const read = (value: unknown, role: "user" | "assistant" = "user") =>
      Either.getOrUndefined(Messages.read(value, role))
    assert.deepStrictEqual(read("Hello"), [{ role: "user", content: "Hello" }])
    assert.deepStrictEqual(read("Hi", "assistant"), [{ role: "assistant", content: "Hi" }])
    assert.deepStrictEqual(read({ text: "Hi" }, "assistant"), [{ role: "assistant", content: "Hi" }])
    assert.deepStrictEqual(read({ output: "Hi" }, "assistant"), [{ role: "assistant", content: "Hi" }])
    assert.deepStrictEqual(read({ input: "Hello", instructions: "Be brief." }), [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" }
    ])
    assert.deepStrictEqual(read({ messages: [user], system: "Be brief." }), [
      { role: "system", content: "Be brief." },
      user
    ])
    const wrong = Either.getOrElse(Either.flip(Messages.read({ colour: "green" }, "user")), () => "")
    assert.strictEqual(wrong, "no messages in it: its fields are colour")
  })

  it("parts of messages in every spelling", () => {
    const message = (role: string, ...content: ReadonlyArray<object>) =>
      Either.getOrThrow(Messages.read([{ role, content }], "user"))
    assert.deepStrictEqual(
      message("user", { text: "a" }, { type: "input_text", text: "b" }, { type: "text", content: "c" }),
      [
        { role: "user", content: "abc" }
      ]
    )
    const called = { id: "c", name: "f", arguments: "{\"a\":1}" }
    for (
      const part of [
        { type: "tool-call", toolCallId: "c", toolName: "f", input: { a: 1 } },
        { type: "tool-call", toolCallId: "c", toolName: "f", args: { a: 1 } },
        { type: "tool_use", id: "c", name: "f", input: { a: 1 } },
        { type: "tool_call", id: "c", name: "f", arguments: { a: 1 } }
      ]
    ) {
      const [first] = message("assistant", { type: "output_text", text: "Well." }, part)
      assert.deepStrictEqual(first?.toolCalls, [called], JSON.stringify(part))
      assert.strictEqual(first?.content, "Well.")
    }
    for (
      const part of [
        { type: "tool-result", toolCallId: "c", output: { type: "text", value: "3" } },
        { type: "tool-result", toolCallId: "c", result: "3" },
        { type: "tool_result", tool_use_id: "c", content: [{ type: "text", text: "3" }] },
        { type: "tool_call_response", id: "c", response: "3" }
      ]
    ) {
      assert.deepStrictEqual(
        message("tool", part),
        [{ role: "tool", content: "3", toolCallId: "c" }],
        JSON.stringify(part)
      )
    }
    const wrong = (part: object) =>
      Either.getOrElse(Either.flip(Messages.read([{ role: "user", content: [part] }], "user")), () => "")
    assert.include(wrong({ type: "video" }), "a part of type video")
    assert.include(wrong({ url: "x" }), "a part without a type")
  })
})
