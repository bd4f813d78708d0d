/**
 * Conversations to tokens, and sampled tokens to messages, in the format a model was trained on.
 *
 * Text of messages never becomes a control token: `<|im_end|>` in a user's words is encoded as the letters it is made of,
 * unless the message says `markup`.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Message from "./Message.js"
import type { Tokenizer } from "./Tokenizer.js"
import type { ChatTemplateFailed, RenderFailed } from "./TokenizerError.js"

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
   * What is wrong with it. `structural`: it did not end properly, so it cannot be continued from. `content`: it ended
   * properly, but a tool call in it cannot be read; the model can be asked again.
   */
  readonly failure: Option.Option<{ readonly kind: "structural" | "content"; readonly detail: string }>
}

/**
 * What became known about an answer.
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
  /** What was still held back, and the answer as a whole. */
  readonly end: () => { readonly deltas: ReadonlyArray<Delta>; readonly parsed: Parsed }
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
  /** Whether each prompt of a conversation begins with the one before it, so that one example can hold all its turns. */
  readonly isExtending: boolean
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
  readonly parse: (ids: Iterable<number>) => Parsed
  readonly parser: () => Parser
}
