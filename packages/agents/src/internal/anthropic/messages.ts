/**
 * Anthropic's Messages API: requests as `AgentModel` takes them, replies as its clients expect them, whole and as events,
 * and refusals in its shape.
 */
import * as OpenAiWire from "@effect-tinker/platform/OpenAiWire"
import * as ServerSentEvents from "@effect-tinker/platform/ServerSentEvents"
import * as Message from "@effect-tinker/tokenizer/Message"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as AgentModel from "../../AgentModel.js"
import type { Refused } from "../openai/common.js"
import { decoder, invalid, Json, sampling, unsupported } from "../openai/common.js"

// =============================================================================
// requests
// =============================================================================

const TextBlock = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

const ToolUseBlock = Schema.Struct({
  type: Schema.Literal("tool_use"),
  id: Schema.String,
  name: Schema.String,
  input: Schema.Unknown
})

const ToolResultBlock = Schema.Struct({
  type: Schema.Literal("tool_result"),
  tool_use_id: Schema.String,
  content: OpenAiWire.maybe(Schema.Union(Schema.String, Schema.Array(TextBlock))),
  is_error: OpenAiWire.maybe(Schema.Boolean)
})

const ThinkingBlock = Schema.Struct({ type: Schema.Literal("thinking"), thinking: Schema.String })

const MessageParam = Schema.Struct({
  role: Schema.Literal("user", "assistant", "system"),
  content: Schema.Union(
    Schema.String,
    Schema.Array(Schema.Union(TextBlock, ToolUseBlock, ToolResultBlock, ThinkingBlock))
  )
})

const Tool = Schema.Struct({
  type: OpenAiWire.maybe(Schema.Literal("custom")),
  name: Schema.String,
  description: OpenAiWire.maybe(Schema.String),
  input_schema: Json
})

const ToolChoice = Schema.Union(
  Schema.Struct({ type: Schema.Literal("auto", "any"), disable_parallel_tool_use: OpenAiWire.maybe(Schema.Boolean) }),
  Schema.Struct({
    type: Schema.Literal("tool"),
    name: Schema.String,
    disable_parallel_tool_use: OpenAiWire.maybe(Schema.Boolean)
  }),
  Schema.Struct({ type: Schema.Literal("none") })
)

const Format = Schema.Struct({ type: Schema.Literal("json_schema"), schema: Json })

const prompt = {
  messages: Schema.NonEmptyArray(MessageParam),
  system: OpenAiWire.maybe(Schema.Union(Schema.String, Schema.Array(TextBlock))),
  tools: OpenAiWire.maybe(Schema.Array(Tool)),
  tool_choice: OpenAiWire.maybe(ToolChoice),
  output_format: OpenAiWire.maybe(Format),
  output_config: OpenAiWire.maybe(Schema.Struct({ format: OpenAiWire.maybe(Format) })),
  mcp_servers: OpenAiWire.maybe(Schema.Array(Schema.Unknown)),
  container: OpenAiWire.maybe(Schema.Unknown)
}

const MessagesRequest = Schema.Struct({
  ...sampling,
  ...prompt,
  max_tokens: OpenAiWire.maybe(Schema.Positive),
  stop_sequences: OpenAiWire.maybe(Schema.Array(Schema.String))
})

/** @internal */
export type MessagesRequest = typeof MessagesRequest.Type

/** @internal */
export const decode = decoder(MessagesRequest)

type Blocks = (typeof MessageParam.Type)["content"]
type Block = Exclude<Blocks, string>[number]

const blocksOf = (content: Blocks): ReadonlyArray<Block> =>
  typeof content === "string" ? [{ type: "text", text: content }] : content

/** Blocks that somebody wrote: each is a paragraph of its own. */
const paragraphs = (content: string | ReadonlyArray<typeof TextBlock.Type> | null | undefined): string =>
  typeof content === "string" ? content : (content ?? []).map(({ text }) => text).join("\n\n")

/** Blocks of one answer, which was one text before it was cut where calls are. */
const answerOf = (blocks: ReadonlyArray<Block>): Message.Message => {
  let [text, thinking] = ["", ""]
  const toolCalls: Array<Message.ToolCall> = []
  for (const block of blocks) {
    if (block.type === "text") text += block.text
    else if (block.type === "thinking") thinking += block.thinking
    else if (block.type === "tool_use") {
      toolCalls.push({ id: block.id, name: block.name, arguments: JSON.stringify(block.input) })
    }
  }
  return {
    ...Message.assistant(text, thinking === "" ? undefined : thinking),
    ...(toolCalls.length === 0 ? {} : { toolCalls })
  }
}

/** Results of tools are messages of their own for renderers, and blocks of the user's message here. */
const saidOf = (role: "user" | "system", blocks: ReadonlyArray<Block>): ReadonlyArray<Message.Message> => {
  const messages: Array<Message.Message> = []
  let texts: Array<typeof TextBlock.Type> = []
  const flush = () => {
    if (texts.length > 0) messages.push({ role, content: paragraphs(texts) })
    texts = []
  }
  for (const block of blocks) {
    if (block.type === "text") texts.push(block)
    else if (block.type === "tool_result") {
      flush()
      messages.push({ role: "tool", content: paragraphs(block.content), toolCallId: block.tool_use_id })
    }
  }
  flush()
  return messages
}

const messagesOf = ({ messages, system }: MessagesRequest): ReadonlyArray<Message.Message> => {
  const instructions = paragraphs(system)
  return [
    ...(instructions === "" ? [] : [Message.system(instructions)]),
    ...messages.flatMap(({ content, role }) =>
      role === "assistant" ? [answerOf(blocksOf(content))] : saidOf(role, blocksOf(content))
    )
  ]
}

/** Messages before the first answer: they stay the same while a conversation goes on. @internal */
export const openingOf = (request: MessagesRequest): unknown => {
  const messages = messagesOf(request)
  const end = messages.findIndex(({ role }) => role === "assistant")
  return end < 0 ? messages : messages.slice(0, end)
}

/** A block where it cannot stand, by the place of its message. */
const misplaced = ({ messages }: MessagesRequest): Refused | undefined => {
  for (const [i, { content, role }] of messages.entries()) {
    for (const [j, { type }] of blocksOf(content).entries()) {
      const isAnswers = type === "tool_use" || type === "thinking"
      if (type !== "text" && isAnswers !== (role === "assistant")) {
        const param = `messages.${i}.content.${j}`
        return invalid(`${param}: a message of the ${role} has no ${type} block`, { param })
      }
    }
  }
  return undefined
}

/** The request, or why it cannot be answered. @internal */
export const toRequest = (
  request: MessagesRequest,
  rollout: string
): Effect.Effect<AgentModel.Request, Refused> => {
  const wrong = misplaced(request)
  if (wrong !== undefined) return wrong
  if (request.messages.at(-1)?.role === "assistant") {
    return unsupported(
      "messages",
      "messages: an answer to be completed (prefill) is not supported; end with the user's"
    )
  }
  if ((request.mcp_servers ?? []).length > 0) return unsupported("mcp_servers", "mcp_servers are not supported")
  if (request.container !== undefined && request.container !== null) {
    return unsupported("container", "container is not supported")
  }
  const tools = request.tools ?? []
  const choice = request.tool_choice ?? undefined
  if ((choice?.type === "any" || choice?.type === "tool") && tools.length === 0) {
    return invalid("tool_choice needs tools", { param: "tool_choice" })
  }
  if (choice?.type === "tool" && !tools.some(({ name }) => name === choice.name)) {
    return invalid(`there is no tool ${choice.name}`, { param: "tool_choice" })
  }
  const format = request.output_config?.format ?? request.output_format ?? undefined
  return Effect.succeed({
    rollout,
    messages: messagesOf(request),
    tools: tools.map(({ description, input_schema, name }) => ({
      name,
      description: description ?? "",
      parameters: input_schema
    })),
    toolChoice: choice === undefined
      ? undefined
      : choice.type === "tool"
      ? { name: choice.name }
      : choice.type === "any"
      ? "required"
      : choice.type,
    parallelToolCalls: choice === undefined || choice.type === "none" ? undefined : !choice.disable_parallel_tool_use,
    responseFormat: format === undefined ? undefined : { _tag: "Json", schema: format.schema },
    maxTokens: request.max_tokens ?? undefined,
    temperature: request.temperature ?? undefined,
    topK: request.top_k ?? undefined,
    topP: request.top_p ?? undefined,
    stop: request.stop_sequences ?? undefined
  })
}

// =============================================================================
// responses
// =============================================================================

type ContentBlock =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "thinking"; readonly thinking: string; readonly signature: string }
  | {
    readonly type: "tool_use"
    readonly id: string
    readonly name: string
    readonly input: Readonly<Record<string, unknown>>
  }

interface Written {
  readonly block: ContentBlock
  /** The pieces it was written in. */
  readonly pieces: Array<string>
}

const inputOf = (json: string): Readonly<Record<string, unknown>> => {
  const value = Either.getOrElse(Either.try((): unknown => JSON.parse(json)), () => undefined)
  return Predicate.isReadonlyRecord(value) ? value : {}
}

/** An answer as blocks, in the order in which it was written. Thinking is signed with its call: clients drop it otherwise. */
const writtenOf = ({ callId, deltas }: AgentModel.Reply): ReadonlyArray<Written> => {
  const written: Array<Written> = []
  for (const delta of deltas) {
    if (delta._tag === "ToolCall") {
      const { arguments: json, id, name } = delta.call
      written.push({ block: { type: "tool_use", id, name, input: inputOf(json) }, pieces: [json] })
      continue
    }
    const type = delta._tag === "Text" ? "text" : "thinking"
    const last = written.at(-1)
    if (last?.block.type === type) last.pieces.push(delta.text)
    else {
      written.push({
        block: type === "text" ? { type, text: "" } : { type, thinking: "", signature: callId },
        pieces: [delta.text]
      })
    }
  }
  // clients do not send a block without text back, and some refuse to
  return written.filter(({ block, pieces }) => block.type === "tool_use" || pieces.join("").trim() !== "")
}

const wholeBlock = ({ block, pieces }: Written): ContentBlock =>
  block.type === "text"
    ? { ...block, text: pieces.join("") }
    : block.type === "thinking"
    ? { ...block, thinking: pieces.join("") }
    : block

const stopReasonOf = ({ finishReason, stopText }: AgentModel.Reply) =>
  finishReason === "tool_calls"
    ? "tool_use"
    : stopText !== undefined
    ? "stop_sequence"
    : finishReason === "length"
    ? "max_tokens"
    : "end_turn"

const usageOf = ({ usage }: AgentModel.Reply) => ({
  // tokens read from a cache are counted on their own here
  input_tokens: usage.promptTokens - usage.cachedTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: usage.cachedTokens,
  output_tokens: usage.completionTokens
})

const endOf = (reply: AgentModel.Reply) => {
  const reason = stopReasonOf(reply)
  return { stop_reason: reason, stop_sequence: reason === "stop_sequence" ? reply.stopText : null }
}

/** @internal */
export const whole = (head: OpenAiWire.Head, reply: AgentModel.Reply) => ({
  id: head.id,
  type: "message",
  role: "assistant",
  model: head.model,
  content: writtenOf(reply).map(wholeBlock),
  ...endOf(reply),
  usage: usageOf(reply)
})

const deltaOf = ({ type }: ContentBlock, piece: string) =>
  type === "text"
    ? { type: "text_delta", text: piece }
    : type === "thinking"
    ? { type: "thinking_delta", thinking: piece }
    : { type: "input_json_delta", partial_json: piece }

/** The same as events. @internal */
export const events = function*(head: OpenAiWire.Head, reply: AgentModel.Reply): Iterable<string> {
  const event = (type: string, data: object) => ServerSentEvents.named(type, { type, ...data })
  const usage = usageOf(reply)
  yield event("message_start", {
    message: {
      id: head.id,
      type: "message",
      role: "assistant",
      model: head.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { ...usage, output_tokens: 0 }
    }
  })
  for (const [index, { block, pieces }] of writtenOf(reply).entries()) {
    const started = block.type === "thinking"
      ? { ...block, signature: "" }
      : block.type === "tool_use"
      ? { ...block, input: {} }
      : block
    yield event("content_block_start", { index, content_block: started })
    for (const piece of pieces) yield event("content_block_delta", { index, delta: deltaOf(block, piece) })
    if (block.type === "thinking") {
      yield event("content_block_delta", { index, delta: { type: "signature_delta", signature: block.signature } })
    }
    yield event("content_block_stop", { index })
  }
  yield event("message_delta", { delta: endOf(reply), usage })
  yield event("message_stop", {})
}

const errorTypes: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error"
}

/** @internal */
export const refuse = ({ message, retryAfter, status }: Refused) => {
  const type = errorTypes[status] ?? (status < 500 ? "invalid_request_error" : "api_error")
  return HttpServerResponse.unsafeJson({ type: "error", error: { type, message } }, {
    status,
    headers: retryAfter === undefined ? {} : { "retry-after": String(retryAfter) }
  })
}
