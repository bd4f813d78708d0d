/**
 * Conversations: messages, the chat format of a model, and its tokenizer.
 *
 * @since 0.1.0
 */
import type { CallOptions, Sampler } from "./Clients.js"

/**
 * A part of a message.
 *
 * @since 0.1.0
 * @category models
 */
export type Content =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "thinking"; readonly thinking: string }
  | { readonly type: "image"; readonly image: string }

/**
 * A message.
 *
 * @since 0.1.0
 * @category models
 */
export interface Message {
  /** `system`, `user`, `assistant`, `tool`, or another role that the format knows. */
  readonly role: string
  readonly content: string | ReadonlyArray<Content>
  /** Of a tool's answer: the tool. */
  readonly name?: string | undefined
  readonly toolCalls?:
    | ReadonlyArray<{ readonly name: string; readonly arguments: string; readonly id?: string | undefined }>
    | undefined
  /** Of a tool's answer: which call it answers. */
  readonly toolCallId?: string | undefined
}

/**
 * One question and its answer.
 *
 * @since 0.1.0
 * @category models
 */
export interface Exchange {
  readonly system?: string | undefined
  readonly user: string
  readonly assistant: string
}

/**
 * An example to train on: `fromExamples` makes data of them.
 *
 * @since 0.1.0
 * @category models
 */
export interface Supervised {
  readonly tokens: Int32Array
  readonly weights: Float32Array
}

/**
 * Settings of an answer.
 *
 * @since 0.1.0
 * @category models
 */
export interface AnswerOptions extends CallOptions {
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly topK?: number | undefined
  readonly topP?: number | undefined
  readonly seed?: number | undefined
}

/**
 * An answer of a model, with what is needed to go on from it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Answer {
  readonly message: Message
  /** The answer's text, without its reasoning. */
  readonly text: string
  /** The exact ids before and of the answer. */
  readonly turn: { readonly prompt: Int32Array; readonly completion: Int32Array }
  /** One for each token of the answer; empty when the sampler gave none. */
  readonly logprobs: Float32Array
}

/**
 * A model's chat format.
 *
 * @since 0.1.0
 * @category models
 */
export interface Chat {
  readonly supervised: (
    conversations: Iterable<Exchange | ReadonlyArray<Message>>,
    options?: CallOptions
  ) => Promise<ReadonlyArray<Supervised>>
  readonly ask: (
    sampler: Sampler,
    input: string | Message | ReadonlyArray<Message>,
    options?: AnswerOptions
  ) => Promise<Answer>
  /** Goes on from an answer with its exact tokens. */
  readonly reply: (
    sampler: Sampler,
    answer: Answer,
    input: string | Message | ReadonlyArray<Message>,
    options?: AnswerOptions
  ) => Promise<Answer>
}

/**
 * The tokenizer of a model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tokenizer {
  /** The name it was loaded by. */
  readonly id: string
  /** One more than the highest token id. */
  readonly vocabSize: number
  readonly encode: (text: string, options?: { readonly addSpecialTokens?: boolean | undefined }) => Int32Array
  readonly count: (text: string, options?: { readonly addSpecialTokens?: boolean | undefined }) => number
  /** Ids without a token contribute nothing. */
  readonly decode: (ids: Iterable<number>, options?: { readonly skipSpecialTokens?: boolean | undefined }) => string
}
