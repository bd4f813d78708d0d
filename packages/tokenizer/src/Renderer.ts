/**
 * Conversations to tokens, and sampled tokens to messages, in the format a model was trained on.
 *
 * Text of messages never becomes a control token: `<|im_end|>` in a user's words is encoded as the letters it is made of,
 * unless the message says `markup`.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { Refusal } from "./internal/renderer/format.js"
import { imageFile } from "./internal/renderer/images.js"
import * as Message from "./Message.js"
import type { Tokenizer } from "./Tokenizer.js"
import type { ChatTemplateFailed } from "./TokenizerError.js"
import { CannotContinue, RenderFailed } from "./TokenizerError.js"

/**
 * Which tokens of a conversation are trained on.
 *
 * - `last_assistant_message`: the last message, when it is an assistant's.
 * - `last_assistant_turn`: every assistant message after the last user, with tool answers between them left out.
 * - `all_assistant_messages`, `all_messages`, `all_user_and_system_messages`: what they say, without headers.
 * - `all_tokens`: everything, headers too.
 * - `customized`: the messages marked `trainable`; every message must say.
 *
 * In the two `last` modes, what the prompt for the turn supplies (such as an opened `<think>`) has no weight.
 *
 * @since 0.1.0
 * @category models
 */
export type TrainOnWhat =
  | "last_assistant_message"
  | "last_assistant_turn"
  | "all_assistant_messages"
  | "all_messages"
  | "all_tokens"
  | "all_user_and_system_messages"
  | "customized"

/**
 * Tokens with one weight each.
 *
 * @since 0.1.0
 * @category models
 */
export interface Supervised {
  readonly tokens: Int32Array
  readonly weights: Float32Array
}

/**
 * How an answer ended: with the format's stop, with the model's end of text, or neither (cut short, or more than one stop).
 *
 * @since 0.1.0
 * @category models
 */
export type Termination = "stop_sequence" | "eos" | "malformed"

/**
 * An answer read from tokens.
 *
 * @since 0.1.0
 * @category models
 */
export interface Parsed {
  readonly message: Message.Message
  readonly termination: Termination
  /**
   * Kind of problem. `structural`: it did not end properly, so it cannot be continued from. `content`: it ended
   * properly, but a tool call in it cannot be read; the model can be asked again.
   */
  readonly failure: Option.Option<{ readonly kind: "structural" | "content"; readonly detail: string }>
}

/**
 * Event of parsing an answer.
 *
 * @since 0.1.0
 * @category models
 */
export type Delta =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Thinking"; readonly thinking: string }
  | { readonly _tag: "ToolCall"; readonly call: Message.ToolCall }
  | { readonly _tag: "UnparsedToolCall"; readonly call: Message.UnparsedToolCall }

/**
 * Reads an answer token by token.
 *
 * @since 0.1.0
 * @category models
 */
export interface Parser {
  readonly push: (ids: Iterable<number>) => ReadonlyArray<Delta>
  /** Events held back, and the answer as a whole. */
  readonly end: () => { readonly deltas: ReadonlyArray<Delta>; readonly parsed: Parsed }
}

/**
 * One answer of a model with the exact ids on both sides of it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Turn {
  /** The messages the prompt was rendered from, with those of `toolMessages` in front. */
  readonly messages: ReadonlyArray<Message.Message>
  /** The ids the sampler was given. */
  readonly prompt: Int32Array
  /** The ids it answered with, the stop included. */
  readonly completion: Int32Array
}

/**
 * How strict a continuation is.
 *
 * @since 0.1.0
 * @category models
 */
export interface ContinueOptions {
  /**
   * `template` refuses where the model's template would write earlier answers differently. `sampled` keeps them as they
   * were sampled: the prompt is then one the template would not write. Defaults to `template`.
   */
  readonly history?: "template" | "sampled" | undefined
  /**
   * Whether an answer that was cut short is closed with the tokens the format closes answers with, instead of refused.
   * Those tokens were not sampled. Defaults to `false`.
   */
  readonly closeTruncated?: boolean | undefined
}

/**
 * Placeholder in ids at each position an image takes. It is no token: a server refuses it, so ids with images cannot be
 * sent as text by mistake. {@link chunks} puts the images in their places.
 *
 * @since 0.1.0
 * @category models
 */
export const imageSlot = -1

/**
 * A piece of a model's input, as the wire has it.
 *
 * @since 0.1.0
 * @category models
 */
export type Chunk =
  | { readonly type: "encoded_text"; readonly tokens: Int32Array }
  | {
    readonly type: "image"
    readonly data: Uint8Array
    readonly format: "png" | "jpeg"
    readonly expectedTokens: number
  }

/**
 * The ids of rendered messages as chunks: text, and the messages' images where they stand. Ids without images are one
 * chunk, and may go to the server as they are.
 *
 * @since 0.1.0
 * @category combinators
 */
export const chunks = (
  messages: ReadonlyArray<Message.Message>,
  ids: Int32Array
): Either.Either<ReadonlyArray<Chunk>, RenderFailed> => {
  const refuse = (description: string) => Either.left(new RenderFailed({ renderer: "chunks", description }))
  const images = messages.flatMap(Message.images)
  const out: Array<Chunk> = []
  let found = 0
  for (let at = 0; at < ids.length;) {
    const isImage = ids[at] === imageSlot
    let end = at + 1
    while (end < ids.length && (ids[end] === imageSlot) === isImage) end++
    if (!isImage) out.push({ type: "encoded_text", tokens: ids.subarray(at, end) })
    else {
      const part = images[found++]
      if (part === undefined) return refuse(`the ids hold more images than the ${images.length} of the messages`)
      const file = imageFile(part)
      if (file instanceof Refusal) return refuse(file.description)
      out.push({ type: "image", data: file.data, format: file.format, expectedTokens: end - at })
    }
    at = end
  }
  return found === images.length
    ? Either.right(out)
    : refuse(`the ids hold ${found} images, the messages ${images.length}`)
}

/**
 * A chat format with a tokenizer.
 *
 * @since 0.1.0
 * @category models
 */
export interface Renderer {
  /** The name it is known by in the Tinker cookbook. */
  readonly name: string
  readonly tokenizer: Tokenizer
  /** Stop tokens, or stop strings for formats that have no such token: hand them to the sampler. */
  readonly stop: ReadonlyArray<number> | ReadonlyArray<string>
  /**
   * Whether the format only appends: each prompt of a conversation begins with the one before it, so that one example
   * can hold all its turns.
   */
  readonly extends: boolean
  /** Whether messages of people and tools may show images: see {@link chunks}. */
  readonly images: boolean
  /** The tokens after which the model answers. */
  readonly generationPrompt: (
    messages: ReadonlyArray<Message.Message>,
    options?: {
      /** Who speaks next. Defaults to `assistant`. */
      readonly role?: string | undefined
      /** Text the answer begins with. Defaults to none. */
      readonly prefill?: string | undefined
    }
  ) => Effect.Effect<Int32Array, RenderFailed | ChatTemplateFailed>
  /** One example. The mode defaults to `last_assistant_message`. */
  readonly supervised: (
    messages: ReadonlyArray<Message.Message>,
    mode?: TrainOnWhat
  ) => Effect.Effect<Supervised, RenderFailed>
  /**
   * As many examples as it takes to show each trained answer after the prompt it would be sampled from: one for a format
   * that is extending, one for each answer otherwise. The mode defaults to `last_assistant_turn`.
   */
  readonly supervisedAll: (
    messages: ReadonlyArray<Message.Message>,
    mode?: TrainOnWhat
  ) => Effect.Effect<ReadonlyArray<Supervised>, RenderFailed>
  /** Messages that declare tools, to put in front of a conversation. */
  readonly toolMessages: (
    tools: ReadonlyArray<Message.ToolSpec>,
    system?: string
  ) => Effect.Effect<ReadonlyArray<Message.Message>, RenderFailed>
  /**
   * The prompt after a turn and the messages that follow its answer. It begins with the exact ids of the turn's prompt and
   * completion; only what follows them is encoded, so the cost of a turn does not grow with the conversation.
   */
  readonly continue: (
    turn: Turn,
    messages: ReadonlyArray<Message.Message>,
    options?: ContinueOptions
  ) => Either.Either<Int32Array, CannotContinue>
  readonly parse: (ids: Iterable<number>) => Parsed
  readonly parser: () => Parser
}

/**
 * {@link Renderer.continue} for a conversation that a client keeps and sends back as a whole: it must hold the
 * messages of the turn and an answer that means what was sampled (see `Message.difference`), before the new messages.
 *
 * @since 0.1.0
 * @category combinators
 */
export const continueConversation = (
  renderer: Renderer,
  turn: Turn,
  conversation: ReadonlyArray<Message.Message>,
  options?: ContinueOptions & {
    /** The answer as the client was given it. Defaults to what the completion says. */
    readonly answer?: Message.Message | undefined
  }
): Either.Either<Int32Array, CannotContinue> => {
  const refuse = (reason: CannotContinue["reason"], index: number, description: string) =>
    Either.left(new CannotContinue({ renderer: renderer.name, reason, index, description }))
  const length = turn.messages.length
  for (let i = 0; i < length; i++) {
    const before = turn.messages[i]
    const now = conversation[i]
    if (before === now || before === undefined) continue
    if (now === undefined) return refuse("MessageEdited", i, "it is missing")
    const difference = Message.difference(before, now)
    if (Option.isSome(difference)) {
      // messages that declare tools are the format's own words
      const declares = before.markup === true || now.markup === true || before.role === "tool_declare"
      return refuse(declares ? "ToolsChanged" : "MessageEdited", i, difference.value)
    }
  }
  const echoed = conversation[length]
  if (echoed === undefined) return refuse("NothingNew", length, "the conversation ends before the answer")
  const difference = Message.difference(options?.answer ?? renderer.parse(turn.completion).message, echoed)
  if (Option.isSome(difference)) return refuse("AnswerDiffers", length, difference.value)
  return renderer.continue(turn, conversation.slice(length + 1), options)
}
