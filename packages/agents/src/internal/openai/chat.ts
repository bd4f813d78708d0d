/**
 * Chat completions: requests as `AgentModel` takes them, and replies as clients expect them, whole and in chunks.
 */
import * as OpenAiWire from "@effect-tinker/platform/OpenAiWire"
import * as ServerSentEvents from "@effect-tinker/platform/ServerSentEvents"
import type * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as AgentModel from "../../AgentModel.js"
import type { Refused } from "./common.js"
import { Content, decoder, invalid, Json, roleOf, sampling, textOf, tokenOf, toolSpec, unsupported } from "./common.js"

const ToolCall = Schema.Struct({
  id: OpenAiWire.maybe(Schema.String),
  type: OpenAiWire.maybe(Schema.Literal("function")),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.String })
})

const ChatMessage = Schema.Struct({
  role: Schema.Literal("system", "developer", "user", "assistant", "tool", "function"),
  content: Schema.optional(Content),
  reasoning_content: OpenAiWire.maybe(Schema.String),
  reasoning: OpenAiWire.maybe(Schema.String),
  tool_calls: OpenAiWire.maybe(Schema.Array(ToolCall)),
  tool_call_id: OpenAiWire.maybe(Schema.String),
  name: OpenAiWire.maybe(Schema.String)
})

const Tool = Schema.Struct({
  type: Schema.Literal("function"),
  function: Schema.Struct({
    name: Schema.String,
    description: OpenAiWire.maybe(Schema.String),
    parameters: OpenAiWire.maybe(Json)
  })
})

const ToolChoice = Schema.Union(
  Schema.Literal("auto", "none", "required"),
  Schema.Struct({ type: Schema.Literal("function"), function: Schema.Struct({ name: Schema.String }) })
)

const ResponseFormat = Schema.Union(
  Schema.Struct({ type: Schema.Literal("text") }),
  Schema.Struct({ type: Schema.Literal("json_object") }),
  Schema.Struct({ type: Schema.Literal("json_schema"), json_schema: Schema.Struct({ schema: OpenAiWire.maybe(Json) }) })
)

const ChatRequest = Schema.Struct({
  ...sampling,
  ...OpenAiWire.Common.fields,
  messages: Schema.NonEmptyArray(ChatMessage),
  max_tokens: OpenAiWire.maybe(Schema.Positive),
  max_completion_tokens: OpenAiWire.maybe(Schema.Positive),
  tools: OpenAiWire.maybe(Schema.Array(Tool)),
  tool_choice: OpenAiWire.maybe(ToolChoice),
  parallel_tool_calls: OpenAiWire.maybe(Schema.Boolean),
  response_format: OpenAiWire.maybe(ResponseFormat),
  n: OpenAiWire.maybe(Schema.Int.pipe(Schema.between(1, 128))),
  logprobs: OpenAiWire.maybe(Schema.Boolean),
  top_logprobs: OpenAiWire.maybe(Schema.Int.pipe(Schema.between(0, 20))),
  frequency_penalty: OpenAiWire.maybe(Schema.Number),
  presence_penalty: OpenAiWire.maybe(Schema.Number),
  logit_bias: OpenAiWire.maybe(Json),
  functions: OpenAiWire.maybe(Schema.Array(Schema.Unknown))
})

/** @internal */
export type ChatRequest = typeof ChatRequest.Type

/** @internal */
export const decode = decoder(ChatRequest)

const messageOf = (message: typeof ChatMessage.Type): Message.Message => {
  const text = textOf(message.content)
  const reasoning = message.reasoning_content ?? message.reasoning ?? ""
  const calls = message.tool_calls ?? []
  return {
    role: roleOf(message.role),
    content: reasoning === "" ? text : [{ type: "thinking", thinking: reasoning }, { type: "text", text }],
    ...(calls.length === 0 ? {} : {
      toolCalls: calls.map((call) => ({
        ...(call.id === undefined || call.id === null ? {} : { id: call.id }),
        name: call.function.name,
        arguments: call.function.arguments
      }))
    }),
    ...(message.tool_call_id === undefined || message.tool_call_id === null
      ? {}
      : { toolCallId: message.tool_call_id }),
    ...(message.name === undefined || message.name === null ? {} : { name: message.name })
  }
}

const formatOf = (format: typeof ResponseFormat.Type | null | undefined): AgentModel.ResponseFormat | undefined =>
  format === undefined || format === null || format.type === "text"
    ? undefined
    : format.type === "json_object"
    ? { _tag: "Json" }
    : { _tag: "Json", schema: format.json_schema.schema ?? undefined }

/**
 * The request, or why it cannot be answered: what would be ignored in silence is refused.
 *
 * @internal
 */
export const toRequest = (
  request: ChatRequest,
  rollout: string
): Effect.Effect<AgentModel.Request, Refused> => {
  if ((request.frequency_penalty ?? 0) !== 0) return unsupported("frequency_penalty", "penalties are not supported")
  if ((request.presence_penalty ?? 0) !== 0) return unsupported("presence_penalty", "penalties are not supported")
  if (Object.keys(request.logit_bias ?? {}).length > 0) return unsupported("logit_bias", "logit_bias is not supported")
  if ((request.functions ?? []).length > 0) return unsupported("functions", "functions are not supported; use tools")
  const tools = request.tools ?? []
  const choice = request.tool_choice ?? undefined
  if (choice !== undefined && choice !== "none" && choice !== "auto" && tools.length === 0) {
    return invalid("tool_choice needs tools", { param: "tool_choice" })
  }
  if (typeof choice === "object" && !tools.some((tool) => tool.function.name === choice.function.name)) {
    return invalid(`there is no tool ${choice.function.name}`, { param: "tool_choice" })
  }
  return Effect.succeed({
    rollout,
    messages: request.messages.map(messageOf),
    tools: tools.map((tool) => toolSpec(tool.function)),
    toolChoice: typeof choice === "object" ? { name: choice.function.name } : choice,
    parallelToolCalls: request.parallel_tool_calls ?? undefined,
    responseFormat: formatOf(request.response_format),
    maxTokens: request.max_completion_tokens ?? request.max_tokens ?? undefined,
    temperature: request.temperature ?? undefined,
    topK: request.top_k ?? undefined,
    topP: request.top_p ?? undefined,
    seed: request.seed ?? undefined,
    stop: OpenAiWire.stopsOf(request),
    topLogprobs: request.logprobs === true ? request.top_logprobs ?? undefined : undefined
  })
}

// =============================================================================
// responses
// =============================================================================

/** @internal */
export const usageOf = (replies: ReadonlyArray<AgentModel.Reply>) => {
  const [first] = replies
  const prompt = first?.usage.promptTokens ?? 0
  const completion = replies.reduce((sum, { usage }) => sum + usage.completionTokens, 0)
  return {
    ...OpenAiWire.usage(prompt, completion),
    prompt_tokens_details: { cached_tokens: first?.usage.cachedTokens ?? 0 }
  }
}

const toolCallOf = ({ arguments: args, id, name }: AgentModel.ToolCall) => ({
  id,
  type: "function",
  function: { name, arguments: args }
})

const logprobsOf = (request: ChatRequest, renderer: Renderer.Renderer, reply: AgentModel.Reply) =>
  request.logprobs !== true ? null : {
    content: Array.from(reply.sampledIds, (id, i) => ({
      ...tokenOf(renderer, id),
      logprob: reply.logprobs[i] ?? 0,
      top_logprobs: (reply.topLogprobs?.[i] ?? []).map(([other, logprob]) => ({
        ...tokenOf(renderer, other),
        logprob
      }))
    })),
    refusal: null
  }

const fingerprint = (replies: ReadonlyArray<AgentModel.Reply>) => `policy-${replies[0]?.policyVersion ?? 0}`

/** @internal */
export const whole = (
  head: OpenAiWire.Head,
  request: ChatRequest,
  renderer: Renderer.Renderer,
  replies: ReadonlyArray<AgentModel.Reply>
) => ({
  ...head,
  object: "chat.completion",
  system_fingerprint: fingerprint(replies),
  choices: replies.map((reply, index) => ({
    index,
    message: {
      role: "assistant",
      content: reply.text === "" && reply.toolCalls.length > 0 ? null : reply.text,
      refusal: null,
      ...(reply.reasoning === "" ? {} : { reasoning_content: reply.reasoning }),
      ...(reply.toolCalls.length === 0 ? {} : { tool_calls: reply.toolCalls.map(toolCallOf) })
    },
    finish_reason: reply.finishReason,
    logprobs: logprobsOf(request, renderer, reply),
    ...(request.return_token_ids === true ? { token_ids: Array.from(reply.sampledIds) } : {})
  })),
  usage: usageOf(replies),
  ...(request.return_token_ids === true ? { prompt_token_ids: Array.from(replies[0]?.promptIds ?? []) } : {})
})

/**
 * The same as events, the last of which says that there are no more.
 *
 * @internal
 */
export const chunks = function*(
  head: OpenAiWire.Head,
  request: ChatRequest,
  renderer: Renderer.Renderer,
  replies: ReadonlyArray<AgentModel.Reply>
): Iterable<string> {
  const withUsage = OpenAiWire.wantsUsage(request)
  const chunk = (choices: ReadonlyArray<unknown>, more: object = {}) =>
    ServerSentEvents.json({
      ...head,
      object: "chat.completion.chunk",
      system_fingerprint: fingerprint(replies),
      choices,
      ...(withUsage ? { usage: null } : {}),
      ...more
    })
  for (const [index, reply] of replies.entries()) {
    const choice = (delta: object, finish: string | null = null, more: object = {}) => ({
      index,
      delta,
      finish_reason: finish,
      logprobs: null,
      ...more
    })
    const ids = request.return_token_ids === true
    yield chunk(
      [choice({ role: "assistant", content: "" }, null, {
        ...(request.logprobs === true ? { logprobs: logprobsOf(request, renderer, reply) } : {}),
        ...(ids ? { token_ids: Array.from(reply.sampledIds) } : {})
      })],
      ids && index === 0 ? { prompt_token_ids: Array.from(reply.promptIds) } : {}
    )
    let calls = 0
    for (const delta of reply.deltas) {
      switch (delta._tag) {
        case "Text":
          yield chunk([choice({ content: delta.text })])
          break
        case "Reasoning":
          yield chunk([choice({ reasoning_content: delta.text })])
          break
        case "ToolCall":
          yield chunk([choice({ tool_calls: [{ index: calls++, ...toolCallOf(delta.call) }] })])
          break
      }
    }
    yield chunk([choice({}, reply.finishReason)])
  }
  if (withUsage) yield chunk([], { usage: usageOf(replies) })
  yield OpenAiWire.done
}
