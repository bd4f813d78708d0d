/**
 * Text in, text out: messages to a model and its answer back, over anything that samples tokens.
 *
 * An answer keeps the exact ids and log probabilities it was sampled with. The next turn continues from those ids wherever
 * the format allows it, and says why where it does not: what is trained on is what was sampled.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { joined } from "./internal/bytes.js"
import * as Message from "./Message.js"
import * as Renderer from "./Renderer.js"
import * as Renderers from "./Renderers.js"
import type { CannotContinue, ChatTemplateFailed, TokenizerError } from "./TokenizerError.js"
import { RenderFailed } from "./TokenizerError.js"
import { Tokenizers } from "./Tokenizers.js"

/**
 * How to draw an answer. Everything may be left out.
 *
 * @since 0.1.0
 * @category models
 */
export interface Params {
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly topK?: number | undefined
  readonly topP?: number | undefined
  readonly seed?: number | undefined
}

/**
 * Tokens a model drew.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sequence {
  readonly tokens: ArrayLike<number>
  readonly logprobs?: ArrayLike<number> | undefined
  /** Why the sampler ended: `"length"`, `"stop"`, or what else it knows. */
  readonly stopReason?: string | undefined
}

/**
 * Where an answer ends.
 *
 * @since 0.1.0
 * @category models
 */
export interface Stop {
  readonly stop: ReadonlyArray<number> | ReadonlyArray<string>
}

/**
 * Draws tokens after a prompt. The chunks are the prompt with its images in their places; for text alone the ids are all
 * there is.
 *
 * @since 0.1.0
 * @category models
 */
export type Sample<E = never, R = never> = (
  prompt: Int32Array,
  params: Params & Stop,
  chunks: ReadonlyArray<Renderer.Chunk>
) => Effect.Effect<{ readonly sequences: ReadonlyArray<Sequence> }, E, R>

/**
 * A client that draws tokens after a prompt, such as the SDK's `SamplingClient`. A prompt of text comes as its ids, one
 * with images as chunks.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampler<E = never, R = never> {
  readonly sample: (
    options: Params & Stop & { readonly prompt: Int32Array | ReadonlyArray<Renderer.Chunk> }
  ) => Effect.Effect<{ readonly sequences: ReadonlyArray<Sequence> }, E, R>
}

/**
 * Draws tokens after a prompt and gives them out as they come, for servers that stream.
 *
 * @since 0.1.0
 * @category models
 */
export type SampleStream<E = never, R = never> = (
  prompt: Int32Array,
  params: Params & Stop,
  chunks: ReadonlyArray<Renderer.Chunk>
) => Stream.Stream<Sequence, E, R>

/**
 * Answer of a model, with everything needed to train on it or to go on from it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Answer {
  readonly message: Message.Message
  /** The answer's text, without its reasoning. */
  readonly text: string
  /** The messages before it and the exact ids on both sides of it. */
  readonly turn: Renderer.Turn
  /** One for each token of `turn.completion`; empty when the sampler gave none. */
  readonly logprobs: Float32Array
  /** How it ended, by its tokens. */
  readonly termination: Renderer.Termination
  /** Why the sampler ended it. */
  readonly stopReason: Option.Option<string>
  /** Problem of the answer: see `Renderer.Parsed`. */
  readonly failure: Renderer.Parsed["failure"]
  /** Why the prompt was written again instead of continuing from the turn before; `None` when it was not. */
  readonly fork: Option.Option<CannotContinue>
}

/**
 * A part of an answer that is being written, and at its end the answer.
 *
 * @since 0.1.0
 * @category models
 */
export type Part = Renderer.Delta | { readonly _tag: "Answer"; readonly answer: Answer }

/**
 * One question and its answer, as training data is often kept.
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
 * A conversation, or the one question it begins with.
 *
 * @since 0.1.0
 * @category models
 */
export type Input = string | Message.Message | ReadonlyArray<Message.Message>

/**
 * A model's chat format in use: with a system message and tools, if there are any.
 *
 * @since 0.1.0
 * @category models
 */
export interface Chat {
  readonly renderer: Renderer.Renderer
  /** The messages in front of every conversation: the system's, and those that declare tools. */
  readonly preamble: ReadonlyArray<Message.Message>
  /** Examples of conversations, one for each where the format extends; see `Renderer.supervisedAll`. */
  readonly supervised: (
    conversations: Iterable<Exchange | ReadonlyArray<Message.Message>>,
    mode?: Renderer.TrainOnWhat
  ) => Effect.Effect<ReadonlyArray<Renderer.Supervised>, RenderFailed>
  /** Asks a question. */
  readonly ask: <E, R>(
    sample: Sample<E, R> | Sampler<E, R>,
    input: Input,
    params?: Params
  ) => Effect.Effect<Answer, E | RenderFailed | ChatTemplateFailed, R>
  /**
   * Asks a question, and gives parts of the answer as they come. The last part is the answer.
   */
  readonly askStream: <E, R>(
    sample: SampleStream<E, R>,
    input: Input,
    params?: Params
  ) => Stream.Stream<Part, E | RenderFailed | ChatTemplateFailed, R>
  /**
   * Goes on after an answer: with the next question, or with what tools returned. The prompt begins with the exact ids of
   * the answer's turn, unless the format rewrites history: `fork` says why.
   */
  readonly reply: <E, R>(
    sample: Sample<E, R> | Sampler<E, R>,
    answer: Answer,
    input: Input,
    params?: Params & Renderer.ContinueOptions
  ) => Effect.Effect<Answer, E | RenderFailed | ChatTemplateFailed, R>
  /** {@link Chat.reply}, streamed. */
  readonly replyStream: <E, R>(
    sample: SampleStream<E, R>,
    answer: Answer,
    input: Input,
    params?: Params & Renderer.ContinueOptions
  ) => Stream.Stream<Part, E | RenderFailed | ChatTemplateFailed, R>
}

/**
 * Messages with which every conversation of a chat begins.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  readonly system?: string | undefined
  readonly tools?: ReadonlyArray<Message.ToolSpec> | undefined
}

const messagesOf = (input: Input): ReadonlyArray<Message.Message> =>
  typeof input === "string" ? [Message.user(input)] : "role" in input ? [input] : input

const isConversation = (
  item: Exchange | ReadonlyArray<Message.Message>
): item is ReadonlyArray<Message.Message> => Array.isArray(item)

/** A prompt, and why it does not continue from the turn before. */
interface Prompt {
  readonly messages: ReadonlyArray<Message.Message>
  readonly ids: Int32Array
  readonly fork: Option.Option<CannotContinue>
}

/** One sequence from either kind of sampler. */
const drawOne = <E, R>(sample: Sample<E, R> | Sampler<E, R>): (
  prompt: Int32Array,
  params: Params & Stop,
  chunks: ReadonlyArray<Renderer.Chunk>
) => Effect.Effect<Sequence, E | RenderFailed, R> =>
  Effect.fnUntraced(function*(prompt, params, chunks) {
    const { sequences: [sequence] } = yield* typeof sample === "function"
      ? sample(prompt, params, chunks)
      : sample.sample({ ...params, prompt: chunks.some(({ type }) => type === "image") ? chunks : prompt })
    return sequence ?? (yield* new RenderFailed({ renderer: "chat", description: "the sampler returned no sequence" }))
  })

/**
 * Streams from a sampler that only returns whole sequences, such as the SDK's `SamplingClient`: the answer is sampled in
 * pieces, each after the exact ids of those before it and twice as long. Its beginning is there after `first` tokens
 * (default: 32), and the prompt is sent once per piece, six times for 2,000 tokens. A seed counts up with the pieces.
 *
 * A format that stops at a string is sampled in one piece, because the string may straddle two.
 *
 * @since 0.1.0
 * @category constructors
 */
export const inPieces =
  <E, R>(sample: Sample<E, R> | Sampler<E, R>, options?: { readonly first?: number | undefined }): SampleStream<
    E | RenderFailed,
    R
  > =>
  (prompt, params, chunks) => {
    const draw = drawOne(sample)
    const { maxTokens = Infinity, seed, stop } = params
    const whole = stop.some((one) => typeof one === "string")
    const start: { readonly drawn: Int32Array; readonly piece: number } = { drawn: new Int32Array(), piece: 0 }
    return Stream.paginateEffect(start, ({ drawn, piece }) => {
      const rest = maxTokens - drawn.length
      const wanted = whole ? rest : Math.min(rest, Math.max(1, options?.first ?? 32) * 2 ** piece)
      return Effect.map(
        draw(
          joined(prompt, drawn),
          {
            ...params,
            maxTokens: Number.isFinite(wanted) ? wanted : undefined,
            ...(seed === undefined ? {} : { seed: seed + piece })
          },
          drawn.length === 0 ? chunks : [...chunks, { type: "encoded_text", tokens: drawn }]
        ),
        (sequence) => {
          // fewer than were asked for: the model stopped, or its context is full
          const isLast = sequence.tokens.length < wanted || sequence.stopReason !== "length" || wanted === rest
          const next = { drawn: joined(drawn, Int32Array.from(sequence.tokens)), piece: piece + 1 }
          return [sequence, isLast ? Option.none() : Option.some(next)] as const
        }
      )
    })
  }

const drawing = (params: (Params & Renderer.ContinueOptions) | undefined, renderer: Renderer.Renderer) => {
  const { closeTruncated: _, history: __, ...rest } = params ?? {}
  return { ...rest, stop: renderer.stop }
}

/**
 * A chat in a renderer's format.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (
  renderer: Renderer.Renderer,
  options?: Options
) => Effect.Effect<Chat, RenderFailed> = Effect.fnUntraced(function*(renderer, options) {
  const { system, tools = [] } = options ?? {}
  const preamble = tools.length > 0
    ? yield* renderer.toolMessages(tools, system ?? "")
    : system === undefined
    ? []
    : [Message.system(system)]

  const first = (input: Input): Effect.Effect<Prompt, RenderFailed | ChatTemplateFailed> => {
    const messages = [...preamble, ...messagesOf(input)]
    return Effect.map(renderer.generationPrompt(messages), (ids) => ({ messages, ids, fork: Option.none() }))
  }

  const next = (
    answer: Answer,
    input: Input,
    params: Renderer.ContinueOptions | undefined
  ): Effect.Effect<Prompt, RenderFailed | ChatTemplateFailed> => {
    const fresh = messagesOf(input)
    const messages = [...answer.turn.messages, answer.message, ...fresh]
    return Either.match(renderer.continue(answer.turn, fresh, params), {
      onRight: (ids) => Effect.succeed({ messages, ids, fork: Option.none<CannotContinue>() }),
      onLeft: (reason) =>
        Effect.map(renderer.generationPrompt(messages), (ids) => ({ messages, ids, fork: Option.some(reason) }))
    })
  }

  const answered = (
    prompt: Prompt,
    completion: Int32Array,
    parsed: Renderer.Parsed,
    logprobs: Float32Array,
    stopReason: string | undefined
  ): Answer => ({
    message: parsed.message,
    text: Message.text(parsed.message),
    turn: { messages: prompt.messages, prompt: prompt.ids, completion },
    logprobs,
    termination: parsed.termination,
    stopReason: Option.fromNullable(stopReason),
    failure: parsed.failure,
    fork: prompt.fork
  })

  const draw = <E, R>(
    sample: Sample<E, R> | Sampler<E, R>,
    params: (Params & Renderer.ContinueOptions) | undefined
  ) =>
    Effect.fnUntraced(function*(prompt: Prompt) {
      const chunks = yield* Renderer.chunks(prompt.messages, prompt.ids)
      const sequence = yield* drawOne(sample)(prompt.ids, drawing(params, renderer), chunks)
      const completion = Int32Array.from(sequence.tokens)
      return answered(
        prompt,
        completion,
        renderer.parse(completion),
        Float32Array.from(sequence.logprobs ?? []),
        sequence.stopReason
      )
    })

  const drawStream =
    <E, R>(sample: SampleStream<E, R>, params: (Params & Renderer.ContinueOptions) | undefined) =>
    (prompt: Prompt): Stream.Stream<Part, E | RenderFailed, R> =>
      Stream.unwrap(Effect.map(Renderer.chunks(prompt.messages, prompt.ids), (chunks) => {
        const parser = renderer.parser()
        const tokens: Array<number> = []
        const logprobs: Array<number> = []
        let stopReason: string | undefined
        return sample(prompt.ids, drawing(params, renderer), chunks).pipe(
          Stream.mapConcat((piece): ReadonlyArray<Part> => {
            const ids = Array.from(piece.tokens)
            for (const id of ids) tokens.push(id)
            for (const logprob of Array.from(piece.logprobs ?? [])) logprobs.push(logprob)
            stopReason = piece.stopReason ?? stopReason
            return parser.push(ids)
          }),
          Stream.concat(Stream.suspend(() => {
            const { deltas, parsed } = parser.end()
            const completion = Int32Array.from(tokens)
            const answer = answered(prompt, completion, parsed, Float32Array.from(logprobs), stopReason)
            return Stream.fromIterable<Part>([...deltas, { _tag: "Answer", answer }])
          }))
        )
      }))

  return {
    renderer,
    preamble,
    supervised: (conversations, mode) =>
      Effect.map(
        Effect.forEach(conversations, (item) => {
          const messages = isConversation(item)
            ? item
            : [
              ...(item.system === undefined ? [] : [Message.system(item.system)]),
              Message.user(item.user),
              Message.assistant(item.assistant)
            ]
          return renderer.supervisedAll([...preamble, ...messages], mode)
        }),
        (examples) => examples.flat()
      ),
    ask: (sample, input, params) => Effect.flatMap(first(input), draw(sample, params)),
    askStream: (sample, input, params) => Stream.unwrap(Effect.map(first(input), drawStream(sample, params))),
    reply: (sample, answer, input, params) => Effect.flatMap(next(answer, input, params), draw(sample, params)),
    replyStream: (sample, answer, input, params) =>
      Stream.unwrap(Effect.map(next(answer, input, params), drawStream(sample, params)))
  }
})

/**
 * Settings of {@link forModel}.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelOptions extends Options, Renderers.ImageOptions {
  /** The renderer by name. Defaults to the one recommended for the model. */
  readonly renderer?: string | undefined
  /** The tokenizer that the server names, such as a training client's `tokenizerId`. Defaults to the model's. */
  readonly tokenizerId?: string | undefined
}

/**
 * A client that knows the name of its model, such as the SDK's `SamplingClient`, or what the server says of it, such as the
 * SDK's `TrainingClient`.
 *
 * @since 0.1.0
 * @category models
 */
export type Client<E = never, R = never> =
  | { readonly baseModel: Effect.Effect<string, E, R> }
  | {
    readonly getInfo: Effect.Effect<
      { readonly modelData: { readonly modelName?: string | undefined; readonly tokenizerId?: string | undefined } },
      E,
      R
    >
  }

/** The name of a model, and the tokenizer that its server names. */
const identify = <E, R>(model: string | Client<E, R>) => {
  if (typeof model === "string") return Effect.succeed({ name: model, tokenizerId: undefined })
  if ("baseModel" in model) return Effect.map(model.baseModel, (name) => ({ name, tokenizerId: undefined }))
  return Effect.flatMap(model.getInfo, ({ modelData: { modelName, tokenizerId } }) =>
    modelName === undefined
      ? new RenderFailed({ renderer: "chat", description: "the server does not say which model it is: give its name" })
      : Effect.succeed({ name: modelName, tokenizerId }))
}

/**
 * A chat in the format recommended for a model, with its tokenizer. The model is a name, or a client of it.
 *
 * @example
 * ```ts
 * import { Chat } from "@effect-tinker/tokenizer"
 * import { Effect } from "effect"
 *
 * const examples = Effect.gen(function*() {
 *   const chat = yield* Chat.forModel("Qwen/Qwen3-8B", { system: "Be brief." })
 *   return yield* chat.supervised([{ user: "Who are you?", assistant: "A pirate." }])
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const forModel: <E = never, R = never>(
  model: string | Client<E, R>,
  options?: ModelOptions
) => Effect.Effect<Chat, E | TokenizerError | RenderFailed | ChatTemplateFailed, R | Tokenizers> = Effect.fnUntraced(
  function*(model, options) {
    const { name, tokenizerId } = yield* identify(model)
    const { forModel } = yield* Tokenizers
    const tokenizer = yield* forModel(name, { tokenizerId: options?.tokenizerId ?? tokenizerId })
    const renderer = options?.renderer === undefined
      ? yield* Renderers.forModel(name, tokenizer, options)
      : yield* Renderers.byName(options.renderer, tokenizer, options)
    return yield* make(renderer, options)
  }
)
