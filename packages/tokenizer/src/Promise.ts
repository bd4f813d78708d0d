/**
 * Tokenizers and chats for plain async code: over a connection of `effect-tinker/Promise` whose layer provides
 * `Tokenizers`, as that of `connectLocal` does; `NodeTokenizers.layer()` provides those of the hub.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import * as Chat from "./Chat.js"
import type * as Renderer from "./Renderer.js"
import type * as Tokenizer from "./Tokenizer.js"
import { Tokenizers } from "./Tokenizers.js"

/**
 * Options of every call.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallOptions {
  /** Stops waiting when it is aborted: the call rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Runner of Effects: the `Tinker` of `effect-tinker/Promise`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Connection<in R> {
  readonly run: <A, E>(effect: Effect.Effect<A, E, R>, options?: CallOptions) => Promise<A>
  readonly iterate: <A, E>(stream: Stream.Stream<A, E, R>, options?: CallOptions) => AsyncIterable<A>
}

/**
 * Source of tokens: the `Sampler` of `effect-tinker/Promise`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampler {
  readonly sample: (
    options: Chat.Params & Chat.Stop & CallOptions & { readonly prompt: Int32Array | ReadonlyArray<Renderer.Chunk> }
  ) => Promise<{ readonly sequences: ReadonlyArray<Chat.Sequence> }>
}

/**
 * A model's chat format. See `Chat` for what each call does.
 *
 * @since 0.1.0
 * @category models
 */
export interface PromiseChat {
  readonly renderer: Renderer.Renderer
  /** Examples to train on: `fromExamples` of `effect-tinker/Promise` makes data of them. */
  readonly supervised: (
    conversations: Parameters<Chat.Chat["supervised"]>[0],
    options?: { readonly mode?: Renderer.TrainOnWhat | undefined } & CallOptions
  ) => Promise<ReadonlyArray<Renderer.Supervised>>
  readonly ask: (sampler: Sampler, input: Chat.Input, options?: Chat.Params & CallOptions) => Promise<Chat.Answer>
  /** The answer in parts, as they come; the last part is the whole answer. */
  readonly askStream: (
    sampler: Sampler,
    input: Chat.Input,
    options?: Chat.Params & CallOptions
  ) => AsyncIterable<Chat.Part>
  readonly reply: (
    sampler: Sampler,
    answer: Chat.Answer,
    input: Chat.Input,
    options?: Chat.Params & Renderer.ContinueOptions & CallOptions
  ) => Promise<Chat.Answer>
  /** {@link PromiseChat.reply}, in parts. */
  readonly replyStream: (
    sampler: Sampler,
    answer: Chat.Answer,
    input: Chat.Input,
    options?: Chat.Params & Renderer.ContinueOptions & CallOptions
  ) => AsyncIterable<Chat.Part>
}

/**
 * The tokenizer of a model. Its calls are plain functions.
 *
 * @since 0.1.0
 * @category constructors
 */
export const tokenizerFor = (
  connection: Connection<Tokenizers>,
  model: string,
  options?: { readonly tokenizerId?: string | undefined; readonly revision?: string | undefined } & CallOptions
): Promise<Tokenizer.Tokenizer> =>
  connection.run(Effect.flatMap(Tokenizers, ({ forModel }) => forModel(model, options)), options)

/** Rejections are passed on as they are. */
const drawing = (sampler: Sampler): Chat.Sampler<unknown> => ({
  sample: (options) =>
    Effect.tryPromise({ try: (signal) => sampler.sample({ ...options, signal }), catch: (error) => error })
})

/**
 * The chat format of a model, with its tokenizer.
 *
 * @since 0.1.0
 * @category constructors
 */
export const chatFor = async (
  connection: Connection<Tokenizers>,
  model: string,
  options?: Chat.ModelOptions & CallOptions
): Promise<PromiseChat> => {
  const chat = await connection.run(Chat.forModel(model, options), options)
  return {
    renderer: chat.renderer,
    supervised: (conversations, options) => connection.run(chat.supervised(conversations, options?.mode), options),
    ask: (sampler, input, { signal, ...params } = {}) =>
      connection.run(chat.ask(drawing(sampler), input, params), { signal }),
    askStream: (sampler, input, { signal, ...params } = {}) =>
      connection.iterate(chat.askStream(Chat.inPieces(drawing(sampler)), input, params), { signal }),
    reply: (sampler, answer, input, { signal, ...params } = {}) =>
      connection.run(chat.reply(drawing(sampler), answer, input, params), { signal }),
    replyStream: (sampler, answer, input, { signal, ...params } = {}) =>
      connection.iterate(chat.replyStream(Chat.inPieces(drawing(sampler)), answer, input, params), { signal })
  }
}
