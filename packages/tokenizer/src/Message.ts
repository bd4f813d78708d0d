/**
 * Messages of a conversation: what renderers turn into tokens and make of sampled tokens.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

/**
 * Text meant to be read.
 *
 * @since 0.1.0
 * @category schemas
 */
export const TextPart = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

/**
 * Reasoning that precedes an answer.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ThinkingPart = Schema.Struct({ type: Schema.Literal("thinking"), thinking: Schema.String })

/**
 * A part of a message: text or reasoning.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ContentPart = Schema.Union(TextPart, ThinkingPart)

/**
 * A part of a message: text or reasoning.
 *
 * @since 0.1.0
 * @category models
 */
export type ContentPart = typeof ContentPart.Type

/**
 * A call of a tool. The arguments are JSON text, exactly as the model wrote them.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ToolCall = Schema.Struct({
  id: Schema.optional(Schema.String),
  name: Schema.String,
  arguments: Schema.String
})

/**
 * A call of a tool.
 *
 * @since 0.1.0
 * @category models
 */
export type ToolCall = typeof ToolCall.Type

/**
 * Something that looks like a call of a tool but cannot be read as one.
 *
 * @since 0.1.0
 * @category schemas
 */
export const UnparsedToolCall = Schema.Struct({ rawText: Schema.String, error: Schema.String })

/**
 * Something that looks like a call of a tool but cannot be read as one.
 *
 * @since 0.1.0
 * @category models
 */
export type UnparsedToolCall = typeof UnparsedToolCall.Type

/**
 * One message. `content` is text, or parts when it holds reasoning.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Message = Schema.Struct({
  /** `system`, `user`, `assistant`, `tool`, or what else a format knows. */
  role: Schema.String,
  content: Schema.Union(Schema.String, Schema.Array(ContentPart)),
  toolCalls: Schema.optional(Schema.Array(ToolCall)),
  unparsedToolCalls: Schema.optional(Schema.Array(UnparsedToolCall)),
  /** Whether the message is trained on; for `"customized"` only. */
  trainable: Schema.optional(Schema.Boolean),
  /**
   * Whether control tokens spelled in the text are recognised. Only for text you wrote yourself, such as the messages of
   * `Renderer.toolMessages`: anybody else's could end its message and speak in another's name.
   */
  markup: Schema.optional(Schema.Boolean),
  /** Of a tool's answer: which call it answers. */
  toolCallId: Schema.optional(Schema.String),
  /** Of a tool's answer: the tool. */
  name: Schema.optional(Schema.String)
})

/**
 * One message.
 *
 * @since 0.1.0
 * @category models
 */
export type Message = typeof Message.Type

/**
 * A tool the model may call.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ToolSpec = Schema.Struct({
  name: Schema.String,
  description: Schema.String,
  /** A JSON Schema of the arguments. */
  parameters: Schema.Record({ key: Schema.String, value: Schema.Unknown })
})

/**
 * A tool the model may call.
 *
 * @since 0.1.0
 * @category models
 */
export type ToolSpec = typeof ToolSpec.Type

/**
 * What the model is told before the conversation.
 *
 * @since 0.1.0
 * @category constructors
 */
export const system = (content: string): Message => ({ role: "system", content })

/**
 * What the user says.
 *
 * @since 0.1.0
 * @category constructors
 */
export const user = (content: string): Message => ({ role: "user", content })

/**
 * An answer, with the reasoning before it where there is some.
 *
 * @since 0.1.0
 * @category constructors
 */
export const assistant = (content: string, thinking?: string): Message => ({
  role: "assistant",
  content: thinking === undefined ? content : [{ type: "thinking", thinking }, { type: "text", text: content }]
})

/**
 * The parts of a message's content.
 *
 * @since 0.1.0
 * @category combinators
 */
export const parts = (message: Message): ReadonlyArray<ContentPart> =>
  typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content

/**
 * The text of a message, without its reasoning.
 *
 * @since 0.1.0
 * @category combinators
 */
export const text = (message: Message): string =>
  parts(message).map((part) => part.type === "text" ? part.text : "").join("")

/**
 * The reasoning of a message; empty when there is none.
 *
 * @since 0.1.0
 * @category combinators
 */
export const thinking = (message: Message): string =>
  parts(message).map((part) => part.type === "thinking" ? part.thinking : "").join("")

/**
 * A message as chat templates (and the OpenAI API) spell it. Arguments of tool calls that are JSON become values, because
 * most templates print them; reasoning is given in both fields templates read it from.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toTemplate = (message: Message): Readonly<Record<string, unknown>> => {
  const reasoning = thinking(message)
  return {
    role: message.role,
    content: text(message),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning, thinking: reasoning }),
    ...(message.toolCalls === undefined || message.toolCalls.length === 0 ? {} : {
      tool_calls: message.toolCalls.map((call) => ({
        type: "function",
        ...(call.id === undefined ? {} : { id: call.id }),
        function: { name: call.name, arguments: parseArguments(call.arguments) }
      }))
    }),
    ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
    ...(message.name === undefined ? {} : { name: message.name })
  }
}

const parseArguments = (text: string): unknown =>
  Either.getOrElse(Either.try((): unknown => JSON.parse(text)), () => text)
