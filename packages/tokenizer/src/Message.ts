/**
 * Messages of a conversation: what renderers turn into tokens and make of sampled tokens.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import * as Option from "effect/Option"
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
 * An image for models that see: a `data:` URI of a PNG or a JPEG (see {@link image}).
 *
 * @since 0.1.0
 * @category schemas
 */
export const ImagePart = Schema.Struct({ type: Schema.Literal("image"), image: Schema.String })

/**
 * An image for models that see.
 *
 * @since 0.1.0
 * @category models
 */
export type ImagePart = typeof ImagePart.Type

/**
 * A part of a message: text, reasoning or an image.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ContentPart = Schema.Union(TextPart, ThinkingPart, ImagePart)

/**
 * A part of a message: text, reasoning or an image.
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
 * One message. `content` is text, or parts when it holds reasoning or images.
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
 * Instructions for the model, before the conversation.
 *
 * @since 0.1.0
 * @category constructors
 */
export const system = (content: string): Message => ({ role: "system", content })

/**
 * Message of the user: text, or images.
 *
 * @since 0.1.0
 * @category constructors
 */
export const user = (content: Message["content"]): Message => ({ role: "user", content })

/**
 * The bytes of a PNG or a JPEG as a part of a message.
 *
 * @since 0.1.0
 * @category constructors
 */
export const image = (data: Uint8Array, format: "png" | "jpeg"): ImagePart => ({
  type: "image",
  image: `data:image/${format};base64,${Encoding.encodeBase64(data)}`
})

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
 * The images of a message, in order.
 *
 * @since 0.1.0
 * @category combinators
 */
export const images = (message: Message): ReadonlyArray<ImagePart> =>
  typeof message.content === "string" ? [] : message.content.filter((part) => part.type === "image")

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

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> =>
  typeof u === "object" && u !== null && !Array.isArray(u)

/** The same JSON value, whatever the order of keys. */
const sameValue = (left: unknown, right: unknown): boolean => {
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, i) => sameValue(item, right[i]))
  }
  if (isRecord(left) && isRecord(right)) {
    const keys = Object.keys(left)
    return keys.length === Object.keys(right).length &&
      keys.every((key) => Object.hasOwn(right, key) && sameValue(left[key], right[key]))
  }
  return left === right
}

const quoted = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)

const differs = (field: string, before: string, now: string): Option.Option<string> =>
  Option.some(`${field}: ${quoted(before)} became ${quoted(now)}`)

/**
 * How a message that was sent back differs in meaning from the one it stands for, named by field; `None` when it says the
 * same. Arguments of tool calls are compared as JSON values; text may be in one piece or in parts; reasoning may be
 * missing, because many clients drop it, but may not be different; ids of calls count when both have one.
 *
 * @since 0.1.0
 * @category combinators
 */
export const difference = (original: Message, echoed: Message): Option.Option<string> => {
  if (original.role !== echoed.role) return differs("role", original.role, echoed.role)
  const [said, says] = [text(original), text(echoed)]
  if (said !== says) return differs("content", said, says)
  const [shown, shows] = [images(original), images(echoed)]
  if (shown.length !== shows.length || shown.some(({ image }, i) => image !== shows[i]?.image)) {
    return differs("images", `${shown.length} images`, `${shows.length} images or others`)
  }
  const [thought, thinks] = [thinking(original), thinking(echoed)]
  if (thinks !== "" && thought !== thinks) return differs("reasoning", thought, thinks)
  for (const field of ["name", "toolCallId"] as const) {
    const [before, now] = [original[field], echoed[field]]
    if (before !== undefined && now !== undefined && before !== now) return differs(field, before, now)
  }
  const [called, calls] = [original.toolCalls ?? [], echoed.toolCalls ?? []]
  if (called.length !== calls.length) {
    return differs("toolCalls", `${called.length} calls`, `${calls.length} calls`)
  }
  for (let i = 0; i < called.length; i++) {
    const [before, now] = [called[i], calls[i]]
    if (before === undefined || now === undefined) continue
    if (before.name !== now.name) return differs(`toolCalls[${i}].name`, before.name, now.name)
    if (before.id !== undefined && now.id !== undefined && before.id !== now.id) {
      return differs(`toolCalls[${i}].id`, before.id, now.id)
    }
    if (
      before.arguments !== now.arguments &&
      !sameValue(parseArguments(before.arguments), parseArguments(now.arguments))
    ) {
      return differs(`toolCalls[${i}].arguments`, before.arguments, now.arguments)
    }
  }
  return Option.none()
}
