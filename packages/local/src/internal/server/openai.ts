/**
 * The shapes of OpenAI's API, as far as a text model can fill them, and text as the model a request names reads it.
 */
import * as OpenAiWire from "@effect-tinker/platform/OpenAiWire"
import * as Renderers from "@effect-tinker/tokenizer/Renderers"
import type { Tokenizer } from "@effect-tinker/tokenizer/Tokenizer"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { LocalModel } from "../../LocalModel.js"
import type { Sequence, Slice } from "../../LocalSampler.js"
import * as LocalTokenizer from "../../LocalTokenizer.js"
import { badRequest } from "./message.js"
import type { HttpFailure } from "./message.js"

const common = {
  ...OpenAiWire.Common.fields,
  model: Schema.String,
  max_tokens: OpenAiWire.maybe(Schema.Int),
  max_completion_tokens: OpenAiWire.maybe(Schema.Int),
  temperature: OpenAiWire.maybe(Schema.Number),
  top_p: OpenAiWire.maybe(Schema.Number),
  n: OpenAiWire.maybe(Schema.Int),
  // An addition of vLLM's, as are the token ids of responses.
  stop_token_ids: OpenAiWire.maybe(Schema.Array(Schema.Int)),
  logprobs: OpenAiWire.maybe(Schema.Union(Schema.Boolean, Schema.Int))
}

const Common = Schema.Struct(common)

/** @internal */
export type Common = typeof Common.Type

/** @internal */
export const CompletionRequest = Schema.Struct({
  ...common,
  prompt: Schema.Union(Schema.String, Schema.Array(Schema.Int))
})

const Message = Schema.Struct({
  role: Schema.String,
  content: Schema.Union(
    Schema.Null,
    Schema.String,
    Schema.Array(Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }))
  )
})

/** @internal */
export const ChatRequest = Schema.Struct({ ...common, messages: Schema.Array(Message).pipe(Schema.minItems(1)) })

type ChatMessage = typeof Message.Type

/** Text to tokens and back. @internal */
export interface TextCodec {
  readonly encode: (text: string) => Int32Array
  /** A conversation with the beginning of the answer. What users write never becomes a special token. */
  readonly render: (messages: ReadonlyArray<ChatMessage>) => Effect.Effect<Int32Array, HttpFailure>
  /** The bytes of a token; none for a special one, which is not part of the text. */
  readonly bytes: (token: number) => Uint8Array
  readonly spelling: (token: number) => string
}

const textOf = ({ content }: ChatMessage): string =>
  typeof content === "string" ? content : content?.map((part) => part.text).join("") ?? ""

const start = LocalTokenizer.specialTokens["<|im_start|>"]
const end = LocalTokenizer.specialTokens["<|im_end|>"]
const none = new Uint8Array(0)

const byteCodec: TextCodec = {
  encode: LocalTokenizer.encode,
  render: (messages) =>
    Effect.sync(() => {
      const plain = (text: string) => LocalTokenizer.encode(text, { specials: false })
      const tokens: Array<number> = []
      for (const message of messages) {
        tokens.push(start, ...plain(`${message.role}\n${textOf(message)}`), end, ...plain("\n"))
      }
      return Int32Array.from([...tokens, start, ...plain("assistant\n")])
    }),
  bytes: (token) => token < 256 ? LocalTokenizer.tokenBytes(token) : none,
  spelling: (token) => LocalTokenizer.decode([token])
}

const tokenizerCodec = (name: string, tokenizer: Tokenizer): TextCodec => {
  const encoder = new TextEncoder()
  const specials = new Set(tokenizer.addedTokens.filter(({ special }) => special).map(({ id }) => id))
  const bytes = (token: number) =>
    Option.getOrElse(tokenizer.tokenBytes(token), () => encoder.encode(tokenizer.decode([token])))
  return {
    encode: (text) => tokenizer.encode(text),
    render: (messages) =>
      Renderers.forModel(name, tokenizer).pipe(
        Effect.flatMap((renderer) =>
          renderer.generationPrompt(messages.map((message) => ({ role: message.role, content: textOf(message) })))
        ),
        Effect.mapError((error) => badRequest(error.message))
      ),
    bytes: (token) => specials.has(token) ? none : bytes(token),
    spelling: (token) => tokenizer.decode([token])
  }
}

/** The codec of a model. @internal */
export const codecOf = (model: LocalModel | undefined): TextCodec =>
  model?.tokenizer === undefined ? byteCodec : tokenizerCodec(model.name, model.tokenizer)

/** How much of the end of a text may turn out to be the beginning of a stop string. */
const undecided = (text: string, stops: ReadonlyArray<string>): number => {
  let most = 0
  for (const stop of stops) {
    for (let length = Math.min(stop.length, text.length); length > most; length--) {
      if (text.endsWith(stop.slice(0, length))) most = length
    }
  }
  return most
}

/**
 * A completion's text as it grows: whole characters, no special tokens, and nothing of the string that ends it.
 *
 * @internal
 */
export const makeText = (
  request: Pick<Common, "stop">,
  codec: TextCodec
): (slice: Pick<Slice, "tokens" | "stopReason">) => string => {
  const stops = OpenAiWire.stopsOf(request) ?? []
  const decoder = new TextDecoder()
  let held = ""
  return ({ stopReason, tokens }) => {
    for (const token of tokens) held += decoder.decode(codec.bytes(token), { stream: true })
    if (stopReason !== undefined) held += decoder.decode()
    const ending = stopReason === "stop" ? stops.find((stop) => held.endsWith(stop)) : undefined
    const out = stopReason === undefined
      ? held.slice(0, held.length - undecided(held, stops))
      : held.slice(0, held.length - (ending?.length ?? 0))
    held = held.slice(out.length)
    return out
  }
}

const logprobsOf = ({ logprobs, tokens }: Pick<Sequence, "logprobs" | "tokens">, codec: TextCodec) => ({
  content: Array.from(tokens, (token, i) => ({
    token: codec.spelling(token),
    logprob: logprobs[i] ?? 0,
    bytes: Array.from(codec.bytes(token)),
    top_logprobs: []
  }))
})

const idsOf = ({ return_token_ids: isAsked }: Common, { tokens }: Pick<Sequence, "tokens">) =>
  isAsked === true ? { token_ids: Array.from(tokens) } : {}

/** How completions and chat differ. @internal */
export interface Shape {
  readonly prefix: string
  readonly object: string
  readonly chunkObject: string
  readonly choice: (request: Common, sequence: Sequence, index: number, codec: TextCodec) => unknown
  /** First event of a completion, before any of its text. */
  readonly opening: (index: number) => ReadonlyArray<unknown>
  readonly delta: (request: Common, slice: Slice, text: string, codec: TextCodec) => unknown
  readonly closing: (index: number, stopReason: Sequence["stopReason"]) => unknown
}

/** @internal */
export const completion: Shape = {
  prefix: "cmpl",
  object: "text_completion",
  chunkObject: "text_completion",
  choice: (request, sequence, index, codec) => ({
    index,
    text: makeText(request, codec)(sequence),
    logprobs: null,
    finish_reason: sequence.stopReason,
    ...idsOf(request, sequence)
  }),
  opening: () => [],
  delta: (request, slice, text) => ({
    index: slice.index,
    text,
    logprobs: null,
    finish_reason: null,
    ...idsOf(request, slice)
  }),
  closing: (index, stopReason) => ({ index, text: "", logprobs: null, finish_reason: stopReason })
}

/** @internal */
export const chat: Shape = {
  prefix: "chatcmpl",
  object: "chat.completion",
  chunkObject: "chat.completion.chunk",
  choice: (request, sequence, index, codec) => ({
    index,
    message: { role: "assistant", content: makeText(request, codec)(sequence) },
    logprobs: request.logprobs === true ? logprobsOf(sequence, codec) : null,
    finish_reason: sequence.stopReason,
    ...idsOf(request, sequence)
  }),
  opening: (index) => [{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }],
  delta: (request, slice, content, codec) => ({
    index: slice.index,
    delta: { content },
    logprobs: request.logprobs === true ? logprobsOf(slice, codec) : null,
    finish_reason: null,
    ...idsOf(request, slice)
  }),
  closing: (index, stopReason) => ({ index, delta: {}, logprobs: null, finish_reason: stopReason })
}

/** The choices of the chunks that tell of each slice, as it comes. @internal */
export const makeDeltas = (
  request: Common,
  shape: Shape,
  codec: TextCodec
): (slice: Slice) => ReadonlyArray<unknown> => {
  const texts = new Map<number, ReturnType<typeof makeText>>()
  // Tokens may add no text: a part of a character, the beginning of a stop, a special token.
  const isTextOnly = request.logprobs !== true && request.return_token_ids !== true
  return (slice) => {
    const { index, stopReason } = slice
    const known = texts.get(index)
    const text = known ?? makeText(request, codec)
    texts.set(index, text)
    const piece = text(slice)
    return [
      ...(known === undefined ? shape.opening(index) : []),
      ...(piece === "" && isTextOnly ? [] : [shape.delta(request, slice, piece, codec)]),
      ...(stopReason === undefined ? [] : [shape.closing(index, stopReason)])
    ]
  }
}
