/**
 * Rows of training files (chats, prompts with completions, preferred and rejected answers), and how it
 * becomes data.
 *
 * The schemas read the spellings that are in use: OpenAI's messages with `tool_calls`, reasoning as `reasoning_content` or
 * `thinking`, `conversations` with `from` and `value`.
 *
 * @since 0.1.0
 */
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Datum from "effect-tinker/Datum"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as DataFile from "./DataFile.js"
import * as Dataset from "./Dataset.js"

// =============================================================================
// messages
// =============================================================================

const Json = Schema.Record({ key: Schema.String, value: Schema.Unknown })

const WireToolCall = Schema.Struct({
  id: Schema.optional(Schema.NullOr(Schema.String)),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.Union(Schema.String, Json) })
})

const WireMessage = Schema.Struct({
  role: Schema.optional(Schema.String),
  from: Schema.optional(Schema.String),
  content: Schema.optional(Schema.NullOr(Schema.Union(Schema.String, Schema.Array(Json)))),
  value: Schema.optional(Schema.String),
  reasoning_content: Schema.optional(Schema.NullOr(Schema.String)),
  thinking: Schema.optional(Schema.NullOr(Schema.String)),
  tool_calls: Schema.optional(Schema.NullOr(Schema.Array(WireToolCall))),
  tool_call_id: Schema.optional(Schema.NullOr(Schema.String)),
  name: Schema.optional(Schema.NullOr(Schema.String)),
  trainable: Schema.optional(Schema.Boolean)
})

const roles: Readonly<Record<string, string>> = { human: "user", gpt: "assistant" }

/** The parts of a content that is a list; `undefined` when one of them is neither text nor reasoning. */
const toParts = (
  list: ReadonlyArray<{ readonly [key: string]: unknown }>
): ReadonlyArray<Message.ContentPart> | undefined => {
  const parts: Array<Message.ContentPart> = []
  for (const { text, thinking, type } of list) {
    if (type === "text" && typeof text === "string") parts.push({ type, text })
    else if (type === "thinking" && typeof thinking === "string") parts.push({ type, thinking })
    else return undefined
  }
  return parts
}

/**
 * A message as files have it.
 *
 * @since 0.1.0
 * @category schemas
 */
export const MessageFromJson: Schema.Schema<Message.Message, typeof WireMessage.Encoded> = Schema.transformOrFail(
  WireMessage,
  Schema.typeSchema(Message.Message),
  {
    strict: true,
    decode: (wire, _, ast) => {
      const role = wire.role ?? (wire.from === undefined ? undefined : roles[wire.from] ?? wire.from)
      if (role === undefined) return ParseResult.fail(new ParseResult.Type(ast, wire, "a message needs a role"))
      const content = wire.content ?? wire.value ?? ""
      const parts = typeof content === "string" ? content : toParts(content)
      if (parts === undefined) {
        return ParseResult.fail(
          new ParseResult.Type(ast, wire, "content other than text and reasoning is not supported")
        )
      }
      const reasoning = wire.reasoning_content ?? wire.thinking ?? ""
      const list: ReadonlyArray<Message.ContentPart> = typeof parts === "string"
        ? [{ type: "text", text: parts }]
        : parts
      const message: Message.Message = {
        role,
        content: reasoning === "" ? parts : [{ type: "thinking", thinking: reasoning }, ...list],
        ...(wire.tool_calls === undefined || wire.tool_calls === null ? {} : {
          toolCalls: wire.tool_calls.map((call) => ({
            ...(typeof call.id === "string" ? { id: call.id } : {}),
            name: call.function.name,
            arguments: typeof call.function.arguments === "string"
              ? call.function.arguments
              : JSON.stringify(call.function.arguments)
          }))
        }),
        ...(typeof wire.tool_call_id === "string" ? { toolCallId: wire.tool_call_id } : {}),
        ...(typeof wire.name === "string" ? { name: wire.name } : {}),
        ...(wire.trainable === undefined ? {} : { trainable: wire.trainable })
      }
      return ParseResult.succeed(message)
    },
    encode: (message) => {
      const reasoning = Message.thinking(message)
      return ParseResult.succeed({
        role: message.role,
        content: Message.text(message),
        ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
        ...(message.toolCalls === undefined ? {} : {
          tool_calls: message.toolCalls.map((call) => ({
            ...(call.id === undefined ? {} : { id: call.id }),
            function: { name: call.name, arguments: call.arguments }
          }))
        }),
        ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
        ...(message.name === undefined ? {} : { name: message.name }),
        ...(message.trainable === undefined ? {} : { trainable: message.trainable })
      })
    }
  }
)

// =============================================================================
// examples
// =============================================================================

/**
 * A conversation, and the tools that were declared in it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Conversation {
  readonly _tag: "Conversation"
  readonly messages: ReadonlyArray<Message.Message>
  readonly tools?: ReadonlyArray<Message.ToolSpec> | undefined
}

/**
 * Text, and the text that is to follow it. No template is applied.
 *
 * @since 0.1.0
 * @category models
 */
export interface Completion {
  readonly _tag: "Completion"
  readonly prompt: string
  readonly completion: string
}

/**
 * An example of supervised training.
 *
 * @since 0.1.0
 * @category models
 */
export type Example = Conversation | Completion

/**
 * Two conversations that differ in how they end: the first one is preferred.
 *
 * @since 0.1.0
 * @category models
 */
export interface Preference {
  readonly prompt: ReadonlyArray<Message.Message>
  readonly chosen: ReadonlyArray<Message.Message>
  readonly rejected: ReadonlyArray<Message.Message>
}

/**
 * A conversation of these messages.
 *
 * @since 0.1.0
 * @category constructors
 */
export const conversation = (
  messages: ReadonlyArray<Message.Message>,
  tools?: ReadonlyArray<Message.ToolSpec>
): Conversation => ({ _tag: "Conversation", messages, ...(tools === undefined ? {} : { tools }) })

/**
 * A prompt with its completion.
 *
 * @since 0.1.0
 * @category constructors
 */
export const completion = (prompt: string, text: string): Completion => ({
  _tag: "Completion",
  prompt,
  completion: text
})

const WireTool = Schema.Union(
  Message.ToolSpec,
  Schema.Struct({
    type: Schema.optional(Schema.String),
    function: Schema.Struct({
      name: Schema.String,
      description: Schema.optionalWith(Schema.String, { default: () => "" }),
      parameters: Schema.optionalWith(Json, { default: () => ({}) })
    })
  })
)

const Messages = Schema.Array(MessageFromJson)
const Text = Schema.Union(Schema.String, Messages)

const ChatRow = Schema.Struct({
  messages: Schema.optional(Messages),
  conversations: Schema.optional(Messages),
  tools: Schema.optional(Schema.NullOr(Schema.Array(WireTool)))
})

const toMessages = (role: string, text: string | ReadonlyArray<Message.Message>): ReadonlyArray<Message.Message> =>
  typeof text === "string" ? [{ role, content: text }] : text

/** A schema that only reads. */
const decodeOnly = <A, B, I>(
  from: Schema.Schema<A, I>,
  identifier: string,
  decode: (value: A) => Either.Either<B, string>
): Schema.Schema<B, I> =>
  Schema.transformOrFail(
    from,
    Schema.declare((u): u is B => typeof u === "object" && u !== null, { identifier }),
    {
      strict: true,
      decode: (value, _, ast) => Either.mapLeft(decode(value), (problem) => new ParseResult.Type(ast, value, problem)),
      encode: (value, _, ast) => ParseResult.fail(new ParseResult.Forbidden(ast, value, "rows are read, not written"))
    }
  )

/**
 * A row with `messages` (or `conversations`) and perhaps `tools`.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ConversationFromJson: Schema.Schema<Conversation, typeof ChatRow.Encoded> = decodeOnly(
  ChatRow,
  "Conversation",
  ({ conversations, messages, tools }) => {
    const list = messages ?? conversations
    return list === undefined ? Either.left("a chat needs messages") : Either.right(conversation(
      list,
      tools?.map((tool) => "function" in tool ? tool.function : tool)
    ))
  }
)

const CompletionRow = Schema.Struct({ prompt: Text, completion: Text })

/**
 * A row with `prompt` and `completion`: texts, or messages.
 *
 * @since 0.1.0
 * @category schemas
 */
export const CompletionFromJson: Schema.Schema<Example, typeof CompletionRow.Encoded> = decodeOnly(
  CompletionRow,
  "Completion",
  (row): Either.Either<Example, string> =>
    Either.right(
      typeof row.prompt === "string" && typeof row.completion === "string"
        ? completion(row.prompt, row.completion)
        : conversation([
          ...toMessages("user", row.prompt).map((message) => ({ ...message, trainable: false })),
          ...toMessages("assistant", row.completion).map((message) => ({
            ...message,
            trainable: message.role === "assistant"
          }))
        ])
    )
)

const PreferenceRow = Schema.Struct({ prompt: Schema.optional(Text), chosen: Text, rejected: Text })

const sameMessage = Schema.equivalence(Message.Message)

/**
 * A row with `chosen` and `rejected`, and `prompt` unless both begin with it.
 *
 * @since 0.1.0
 * @category schemas
 */
export const PreferenceFromJson: Schema.Schema<Preference, typeof PreferenceRow.Encoded> = decodeOnly(
  PreferenceRow,
  "Preference",
  (row) => {
    const chosen = toMessages("assistant", row.chosen)
    const rejected = toMessages("assistant", row.rejected)
    if (row.prompt !== undefined) return Either.right({ prompt: toMessages("user", row.prompt), chosen, rejected })
    let shared = 0
    for (; shared < Math.min(chosen.length, rejected.length) - 1; shared++) {
      const [a, b] = [chosen[shared], rejected[shared]]
      if (a === undefined || b === undefined || !sameMessage(a, b)) break
    }
    return shared === 0
      ? Either.left("a preference needs a prompt, or a beginning both answers share")
      : Either.right({
        prompt: chosen.slice(0, shared),
        chosen: chosen.slice(shared),
        rejected: rejected.slice(shared)
      })
  }
)

/**
 * The chats of a JSONL file.
 *
 * @since 0.1.0
 * @category constructors
 */
export const chats = (
  path: string,
  options?: DataFile.Options
): Dataset.Dataset<Conversation, PlatformError.PlatformError, FileSystem.FileSystem> =>
  DataFile.jsonl(path, ConversationFromJson, options)

/**
 * The prompts and completions of a JSONL file.
 *
 * @since 0.1.0
 * @category constructors
 */
export const completions = (
  path: string,
  options?: DataFile.Options
): Dataset.Dataset<Example, PlatformError.PlatformError, FileSystem.FileSystem> =>
  DataFile.jsonl(path, CompletionFromJson, options)

/**
 * The preferences of a JSONL file.
 *
 * @since 0.1.0
 * @category constructors
 */
export const preferences = (
  path: string,
  options?: DataFile.Options
): Dataset.Dataset<Preference, PlatformError.PlatformError, FileSystem.FileSystem> =>
  DataFile.jsonl(path, PreferenceFromJson, options)

// =============================================================================
// data
// =============================================================================

/**
 * How examples become data.
 *
 * @since 0.1.0
 * @category models
 */
export interface RenderOptions {
  readonly renderer: Renderer.Renderer
  /** Most tokens of an example. Defaults to no limit. */
  readonly maxLength?: number | undefined
  /** Skip examples that are too long, or cut their end off. Defaults to `skip`. */
  readonly tooLong?: "skip" | "truncate" | undefined
  /** Defaults to `customized` where messages say whether they are trained on, else to `all_assistant_messages`. */
  readonly trainOn?: Renderer.TrainOnWhat | undefined
  /** `mean` divides the weights of an example by their sum, so that long ones count no more. Defaults to `none`. */
  readonly reduction?: "none" | "mean" | undefined
}

const skip = (reason: Dataset.SkipReason, detail: string) => Effect.fail(new Dataset.Skip({ reason, detail }))

/**
 * Tokens and weights as a datum, within the limits of the options.
 *
 * @since 0.1.0
 * @category combinators
 */
export const fromSupervised = (
  supervised: Renderer.Supervised,
  options?: Omit<RenderOptions, "renderer">
): Effect.Effect<Datum.Datum, Dataset.Skip> => {
  const limit = options?.maxLength ?? Infinity
  let { tokens, weights } = supervised
  if (tokens.length > limit) {
    if (options?.tooLong !== "truncate") return skip("too_long", `${tokens.length} tokens, of ${limit} allowed`)
    tokens = tokens.subarray(0, limit)
    weights = weights.subarray(0, limit)
  }
  if (tokens.length < 2) return skip("empty", `${tokens.length} tokens`)
  let sum = 0
  for (let i = 1; i < weights.length; i++) sum += weights[i] ?? 0
  if (sum === 0) return skip("empty", "no token to train on")
  return Either.match(
    Datum.fromTokens(tokens, {
      weights: options?.reduction === "mean" ? weights.map((weight) => weight / sum) : weights
    }),
    {
      onLeft: (error) => skip("malformed", error.message),
      onRight: Effect.succeed
    }
  )
}

/**
 * The tokens and weights of an example.
 *
 * @since 0.1.0
 * @category combinators
 */
export const render: (
  example: Example,
  options: RenderOptions
) => Effect.Effect<Renderer.Supervised, Dataset.Skip> = Effect.fnUntraced(
  function*(example, { renderer, trainOn }) {
    if (example._tag === "Completion") {
      const { tokenizer } = renderer
      const lead = tokenizer.encode(example.prompt, { parseSpecial: "none" })
      const answer = tokenizer.encode(example.completion, { addSpecialTokens: false, parseSpecial: "none" })
      const end = Option.getOrUndefined(Option.flatMap(tokenizer.specialTokens.eos, tokenizer.tokenToId))
      const tokens = Int32Array.from([...lead, ...answer, ...(end === undefined ? [] : [end])])
      return { tokens, weights: Float32Array.from(tokens, (_, i) => i < lead.length ? 0 : 1) }
    }
    if (example.messages.length === 0) return yield* skip("empty", "no messages")
    const declared = example.tools === undefined || example.tools.length === 0
      ? example.messages
      : yield* withTools(example.messages, example.tools, renderer)
    const marked = example.messages.some((message) => message.trainable !== undefined)
    const mode = trainOn ?? (marked ? "customized" : "all_assistant_messages")
    return yield* renderer.supervised(
      mode === "customized"
        ? declared.map((message) => ({ ...message, trainable: message.trainable ?? false }))
        : declared.map(({ trainable: _, ...message }) => message),
      mode
    )
  },
  Effect.catchTag("RenderFailed", (error) => skip("malformed", error.message))
)

const withTools = (
  messages: ReadonlyArray<Message.Message>,
  tools: ReadonlyArray<Message.ToolSpec>,
  renderer: Renderer.Renderer
) => {
  const [first, ...rest] = messages
  return first?.role === "system"
    ? Effect.map(renderer.toolMessages(tools, Message.text(first)), (head) => [...head, ...rest])
    : Effect.map(renderer.toolMessages(tools), (head) => [...head, ...messages])
}

/**
 * An example as a datum. It fails with the reason to skip it when it is too long, has nothing to train on, or is not what
 * the format can write.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toDatum = (example: Example, options: RenderOptions): Effect.Effect<Datum.Datum, Dataset.Skip> =>
  Effect.flatMap(render(example, options), (supervised) => fromSupervised(supervised, options))

/**
 * A dataset of examples as a dataset of data.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toData = (options: RenderOptions) =>
<E, R>(
  dataset: Dataset.Dataset<Example, E, R>
): Dataset.Dataset<Datum.Datum, E, R> => Dataset.mapEffect(dataset, (example) => toDatum(example, options))

/**
 * A preference as data.
 *
 * @since 0.1.0
 * @category models
 */
export interface Pair {
  readonly chosen: Datum.Datum
  readonly rejected: Datum.Datum
}

/**
 * A preference as data: the answers have weight, the prompt has none.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toPair = (
  preference: Preference,
  options: Pick<RenderOptions, "renderer" | "maxLength">
): Effect.Effect<Pair, Dataset.Skip> => {
  const side = (answer: Preference["chosen"]) =>
    toDatum(
      conversation([
        ...preference.prompt.map((message) => ({ ...message, trainable: false })),
        ...answer.map((message) => ({ ...message, trainable: message.role === "assistant" }))
      ]),
      options
    )
  return Effect.all({ chosen: side(preference.chosen), rejected: side(preference.rejected) })
}
