/**
 * The Responses API: the whole conversation is in `input`. Items of earlier answers may be references, which are looked up
 * in the recording of the rollout; there is no other state on the server.
 */
import * as OpenAiWire from "@effect-tinker/platform/OpenAiWire"
import * as ServerSentEvents from "@effect-tinker/platform/ServerSentEvents"
import * as Message from "@effect-tinker/tokenizer/Message"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as AgentModel from "../../AgentModel.js"
import type * as Recorder from "../../Recorder.js"
import type { Refused } from "./common.js"
import { Content, decoder, invalid, Json, roleOf, sampling, textOf, toolSpec, unsupported } from "./common.js"

const MessageItem = Schema.Struct({
  type: Schema.optional(Schema.Literal("message")),
  role: Schema.Literal("system", "developer", "user", "assistant"),
  content: Content
})

const CallItem = Schema.Struct({
  type: Schema.Literal("function_call"),
  call_id: Schema.String,
  name: Schema.String,
  arguments: Schema.String
})

const OutputItem = Schema.Struct({
  type: Schema.Literal("function_call_output"),
  call_id: Schema.String,
  output: Content
})

const ReasoningItem = Schema.Struct({
  type: Schema.Literal("reasoning"),
  content: OpenAiWire.maybe(Schema.Array(Schema.Struct({ text: Schema.String }))),
  summary: OpenAiWire.maybe(Schema.Array(Schema.Struct({ text: Schema.String })))
})

/** An item of an earlier answer, by its id: clients that leave the history to the server send these. */
const ReferenceItem = Schema.Struct({ type: Schema.Literal("item_reference"), id: Schema.String })

const InputItem = Schema.Union(CallItem, OutputItem, ReasoningItem, ReferenceItem, MessageItem)

const Tool = Schema.Struct({
  type: Schema.Literal("function"),
  name: Schema.String,
  description: OpenAiWire.maybe(Schema.String),
  parameters: OpenAiWire.maybe(Json),
  strict: OpenAiWire.maybe(Schema.Boolean)
})

const Format = Schema.Union(
  Schema.Struct({ type: Schema.Literal("text", "json_object") }),
  Schema.Struct({ type: Schema.Literal("json_schema"), schema: OpenAiWire.maybe(Json) })
)

const ResponsesRequest = Schema.Struct({
  ...sampling,
  input: Schema.Union(
    Schema.String,
    Schema.NonEmptyArray(InputItem)
  ),
  instructions: OpenAiWire.maybe(Schema.String),
  max_output_tokens: OpenAiWire.maybe(Schema.Positive),
  tools: OpenAiWire.maybe(Schema.Array(Tool)),
  tool_choice: OpenAiWire.maybe(Schema.Union(
    Schema.Literal("auto", "none", "required"),
    Schema.Struct({ type: Schema.Literal("function"), name: Schema.String })
  )),
  parallel_tool_calls: OpenAiWire.maybe(Schema.Boolean),
  text: OpenAiWire.maybe(Schema.Struct({ format: OpenAiWire.maybe(Format) })),
  previous_response_id: OpenAiWire.maybe(Schema.String),
  conversation: OpenAiWire.maybe(Schema.Unknown),
  background: OpenAiWire.maybe(Schema.Boolean)
})

/** @internal */
export type ResponsesRequest = typeof ResponsesRequest.Type

/** @internal */
export const decode = decoder(ResponsesRequest)

type Reference = typeof ReferenceItem.Type
type KnownItem = Exclude<typeof InputItem.Type, Reference>

/** Whether the request refers to items of earlier answers, which only their recording has. @internal */
export const hasReferences = ({ input }: ResponsesRequest): boolean =>
  typeof input !== "string" && input.some(({ type }) => type === "item_reference")

/** The ids that items are given out with, and what they name: an answer, and which of its calls. */
const itemId = {
  reasoning: (callId: string) => `rs_${callId}`,
  text: (callId: string) => `msg_${callId}`,
  call: (callId: string, index: number) => `fc_${callId}_${index}`
}

const referred = ({ id }: Reference, calls: ReadonlyMap<string, Recorder.Call>): KnownItem | undefined => {
  const [, kind, callId = "", index = ""] = /^(rs|msg|fc)_(call-[0-9a-f]+)(?:_(\d+))?$/.exec(id) ?? []
  const message = calls.get(callId)?.message
  if (message === undefined) return undefined
  if (kind === "msg") return { type: "message", role: "assistant", content: Message.text(message) }
  if (kind === "rs") return { type: "reasoning", content: [{ text: Message.thinking(message) }] }
  const call = message.toolCalls?.[Number(index)]
  return call === undefined
    ? undefined
    : { type: "function_call", call_id: call.id ?? "", name: call.name, arguments: call.arguments }
}

/** The request with the recorded items in the place of references to them. */
const resolved = (
  request: ResponsesRequest,
  recorded: ReadonlyArray<Recorder.Call>
): Effect.Effect<string | ReadonlyArray<KnownItem>, Refused> => {
  const { input } = request
  if (typeof input === "string") return Effect.succeed(input)
  const calls = new Map(recorded.map((call) => [call.id, call]))
  return Effect.forEach(input, (item, index): Effect.Effect<KnownItem, Refused> => {
    if (item.type !== "item_reference") return Effect.succeed(item)
    const found = referred(item, calls)
    return found === undefined
      ? invalid(
        `input.${index}: the item ${JSON.stringify(item.id)} was not recorded in this rollout: send the item itself ` +
          "(the AI SDK does with providerOptions.openai.store set to false), or name the rollout that has it",
        { code: "item_not_found", param: `input.${index}` }
      )
      : Effect.succeed(found)
  })
}

/** Items as messages: reasoning, text and calls of one answer are separate items here. */
const messagesOf = (
  { instructions }: ResponsesRequest,
  input: string | ReadonlyArray<KnownItem>
): ReadonlyArray<Message.Message> => {
  const messages: Array<Message.Message> = []
  if (instructions !== undefined && instructions !== null) messages.push({ role: "system", content: instructions })
  if (typeof input === "string") return [...messages, { role: "user", content: input }]
  let answer: { thinking: string; text: string; calls: Array<Message.ToolCall> } | undefined
  const flush = () => {
    if (answer === undefined) return
    const { calls, text, thinking } = answer
    messages.push({
      role: "assistant",
      content: thinking === "" ? text : [{ type: "thinking", thinking }, { type: "text", text }],
      ...(calls.length === 0 ? {} : { toolCalls: calls })
    })
    answer = undefined
  }
  const current = () => answer ??= { thinking: "", text: "", calls: [] }
  for (const item of input) {
    switch (item.type) {
      case "reasoning": {
        if (answer !== undefined) flush()
        const parts = item.content ?? item.summary ?? []
        current().thinking += parts.map(({ text }) => text).join("")
        break
      }
      case "function_call":
        current().calls.push({ id: item.call_id, name: item.name, arguments: item.arguments })
        break
      case "function_call_output":
        flush()
        messages.push({ role: "tool", content: textOf(item.output), toolCallId: item.call_id })
        break
      default:
        if (item.role === "assistant") {
          if (answer !== undefined && (answer.text !== "" || answer.calls.length > 0)) flush()
          current().text += textOf(item.content)
        } else {
          flush()
          messages.push({ role: roleOf(item.role), content: textOf(item.content) })
        }
    }
  }
  flush()
  return messages
}

/** Messages before the first answer: they stay the same while a conversation goes on. @internal */
export const openingOf = (request: ResponsesRequest): unknown => {
  const { input } = request
  if (typeof input === "string") return messagesOf(request, input)
  const items: Array<KnownItem> = []
  for (const item of input) {
    if (item.type === "item_reference") break
    items.push(item)
  }
  const messages = messagesOf(request, items)
  const end = messages.findIndex(({ role }) => role === "assistant")
  return end < 0 ? messages : messages.slice(0, end)
}

/** @internal */
export const toRequest = (
  request: ResponsesRequest,
  rollout: string,
  recorded: ReadonlyArray<Recorder.Call>
): Effect.Effect<AgentModel.Request, Refused> => {
  const param = (["previous_response_id", "conversation", "background"] as const).find((name) => {
    const value = request[name]
    return value !== undefined && value !== null && value !== false
  })
  if (param !== undefined) {
    return unsupported(param, `${param} needs state on the server, which is not kept: send the whole input`)
  }
  const tools = request.tools ?? []
  const choice = request.tool_choice ?? undefined
  if (typeof choice === "object" && !tools.some(({ name }) => name === choice.name)) {
    return invalid(`there is no tool ${choice.name}`, { param: "tool_choice" })
  }
  const format = request.text?.format ?? undefined
  return Effect.map(resolved(request, recorded), (input) => ({
    rollout,
    messages: messagesOf(request, input),
    tools: tools.map(toolSpec),
    toolChoice: typeof choice === "object" ? { name: choice.name } : choice,
    parallelToolCalls: request.parallel_tool_calls ?? undefined,
    responseFormat: format === undefined || format.type === "text"
      ? undefined
      : { _tag: "Json", schema: format.type === "json_schema" ? format.schema ?? undefined : undefined },
    maxTokens: request.max_output_tokens ?? undefined,
    temperature: request.temperature ?? undefined,
    topK: request.top_k ?? undefined,
    topP: request.top_p ?? undefined
  }))
}

// =============================================================================
// responses
// =============================================================================

type Item = Readonly<Record<string, unknown>> & { readonly id: string; readonly type: string }

const textPart = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] })

const itemsOf = ({ callId, reasoning, text, toolCalls }: AgentModel.Reply): ReadonlyArray<Item> => [
  ...(reasoning === "" ? [] : [{
    type: "reasoning",
    id: itemId.reasoning(callId),
    summary: [],
    content: [{ type: "reasoning_text", text: reasoning }]
  }]),
  ...(text === "" && toolCalls.length > 0 ? [] : [{
    type: "message",
    id: itemId.text(callId),
    role: "assistant",
    status: "completed",
    content: [textPart(text)]
  }]),
  ...toolCalls.map((call, index) => ({
    type: "function_call",
    id: itemId.call(callId, index),
    call_id: call.id,
    name: call.name,
    arguments: call.arguments,
    status: "completed"
  }))
]

const envelope = (head: OpenAiWire.Head, request: ResponsesRequest) => ({
  id: head.id,
  object: "response",
  created_at: head.created,
  model: head.model,
  error: null,
  instructions: request.instructions ?? null,
  metadata: request.metadata ?? {},
  parallel_tool_calls: request.parallel_tool_calls ?? true,
  temperature: request.temperature ?? null,
  top_p: request.top_p ?? null,
  max_output_tokens: request.max_output_tokens ?? null,
  previous_response_id: null,
  store: false,
  text: { format: request.text?.format ?? { type: "text" } },
  tool_choice: request.tool_choice ?? "auto",
  // `@effect/ai-openai` does not read a tool that leaves these out
  tools: (request.tools ?? []).map((tool) => ({
    ...tool,
    description: tool.description ?? null,
    parameters: tool.parameters ?? null,
    strict: tool.strict ?? false
  }))
})

/** @internal */
export const whole = (head: OpenAiWire.Head, request: ResponsesRequest, reply: AgentModel.Reply) => {
  const { finishReason, usage } = reply
  return {
    ...envelope(head, request),
    status: finishReason === "length" ? "incomplete" : "completed",
    incomplete_details: finishReason === "length" ? { reason: "max_output_tokens" } : null,
    output: itemsOf(reply),
    usage: {
      input_tokens: usage.promptTokens,
      input_tokens_details: { cached_tokens: usage.cachedTokens },
      output_tokens: usage.completionTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: usage.promptTokens + usage.completionTokens
    }
  }
}

/** @internal */
export const events = function*(
  head: OpenAiWire.Head,
  request: ResponsesRequest,
  reply: AgentModel.Reply
): Iterable<string> {
  let number = 0
  const event = (type: string, data: object) =>
    ServerSentEvents.named(type, { type, sequence_number: number++, ...data })
  const response = whole(head, request, reply)
  const started = { ...response, status: "in_progress", incomplete_details: null, output: [], usage: null }
  yield event("response.created", { response: started })
  yield event("response.in_progress", { response: started })
  for (const [index, item] of response.output.entries()) {
    const at = { item_id: item.id, output_index: index }
    const part = { ...at, content_index: 0 }
    switch (item.type) {
      case "reasoning":
        yield event("response.output_item.added", { output_index: index, item: { ...item, content: [] } })
        for (const delta of reply.deltas) {
          if (delta._tag === "Reasoning") yield event("response.reasoning_text.delta", { ...part, delta: delta.text })
        }
        yield event("response.reasoning_text.done", { ...part, text: reply.reasoning })
        break
      case "message":
        yield event("response.output_item.added", {
          output_index: index,
          item: { ...item, status: "in_progress", content: [] }
        })
        yield event("response.content_part.added", { ...part, part: textPart("") })
        for (const delta of reply.deltas) {
          if (delta._tag === "Text") {
            yield event("response.output_text.delta", { ...part, delta: delta.text, logprobs: [] })
          }
        }
        yield event("response.output_text.done", { ...part, text: reply.text, logprobs: [] })
        yield event("response.content_part.done", { ...part, part: textPart(reply.text) })
        break
      default:
        yield event("response.output_item.added", {
          output_index: index,
          item: { ...item, status: "in_progress", arguments: "" }
        })
        yield event("response.function_call_arguments.delta", { ...at, delta: item["arguments"] })
        yield event("response.function_call_arguments.done", {
          ...at,
          name: item["name"],
          arguments: item["arguments"]
        })
    }
    yield event("response.output_item.done", { output_index: index, item })
  }
  yield event(response.status === "incomplete" ? "response.incomplete" : "response.completed", { response })
}
