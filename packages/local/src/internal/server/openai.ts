/**
 * The shapes of OpenAI's API, as far as a text model can fill them.
 */
import * as Schema from "effect/Schema"
import type { Sequence, Slice } from "../../LocalSampler.js"
import * as LocalTokenizer from "../../LocalTokenizer.js"

const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))

const common = {
  model: Schema.String,
  max_tokens: optional(Schema.Int),
  max_completion_tokens: optional(Schema.Int),
  temperature: optional(Schema.Number),
  top_p: optional(Schema.Number),
  n: optional(Schema.Int),
  seed: optional(Schema.Int),
  stop: optional(Schema.Union(Schema.String, Schema.Array(Schema.String))),
  stream: optional(Schema.Boolean),
  stream_options: optional(Schema.Struct({ include_usage: optional(Schema.Boolean) })),
  logprobs: optional(Schema.Union(Schema.Boolean, Schema.Int))
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

const start = LocalTokenizer.specialTokens["<|im_start|>"]
const end = LocalTokenizer.specialTokens["<|im_end|>"]

/** A conversation as tokens, with the beginning of the answer. What users write never becomes a special token. @internal */
export const render = (messages: ReadonlyArray<typeof Message.Type>): Int32Array => {
  const plain = (text: string) => LocalTokenizer.encode(text, { specials: false })
  const tokens: Array<number> = []
  for (const { content, role } of messages) {
    const text = typeof content === "string" ? content : content?.map((part) => part.text).join("") ?? ""
    tokens.push(start, ...plain(`${role}\n${text}`), end, ...plain("\n"))
  }
  return Int32Array.from([...tokens, start, ...plain("assistant\n")])
}

const stopsOf = ({ stop }: Pick<Common, "stop">): ReadonlyArray<string> =>
  typeof stop === "string" ? [stop] : stop ?? []

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
export const makeText = (request: Pick<Common, "stop">): (slice: Pick<Slice, "tokens" | "stopReason">) => string => {
  const stops = stopsOf(request)
  const decoder = new TextDecoder()
  let held = ""
  return ({ stopReason, tokens }) => {
    for (const token of tokens) {
      if (token < 256) held += decoder.decode(LocalTokenizer.tokenBytes(token), { stream: true })
    }
    if (stopReason !== undefined) held += decoder.decode()
    const ending = stopReason === "stop" ? stops.find((stop) => held.endsWith(stop)) : undefined
    const out = stopReason === undefined
      ? held.slice(0, held.length - undecided(held, stops))
      : held.slice(0, held.length - (ending?.length ?? 0))
    held = held.slice(out.length)
    return out
  }
}

const logprobsOf = ({ logprobs, tokens }: Pick<Sequence, "logprobs" | "tokens">) => ({
  content: Array.from(tokens, (token, i) => ({
    token: LocalTokenizer.decode([token]),
    logprob: logprobs[i] ?? 0,
    bytes: Array.from(LocalTokenizer.tokenBytes(token)),
    top_logprobs: []
  }))
})

/** How completions and chat differ. @internal */
export interface Shape {
  readonly prefix: string
  readonly object: string
  readonly chunkObject: string
  readonly choice: (request: Common, sequence: Sequence, index: number) => unknown
  /** What is sent of a completion before any of its text. */
  readonly opening: (index: number) => ReadonlyArray<unknown>
  readonly delta: (request: Common, slice: Slice, text: string) => unknown
  readonly closing: (index: number, stopReason: Sequence["stopReason"]) => unknown
}

/** @internal */
export const completion: Shape = {
  prefix: "cmpl",
  object: "text_completion",
  chunkObject: "text_completion",
  choice: (request, sequence, index) => ({
    index,
    text: makeText(request)(sequence),
    logprobs: null,
    finish_reason: sequence.stopReason
  }),
  opening: () => [],
  delta: (_, { index }, text) => ({ index, text, logprobs: null, finish_reason: null }),
  closing: (index, stopReason) => ({ index, text: "", logprobs: null, finish_reason: stopReason })
}

/** @internal */
export const chat: Shape = {
  prefix: "chatcmpl",
  object: "chat.completion",
  chunkObject: "chat.completion.chunk",
  choice: (request, sequence, index) => ({
    index,
    message: { role: "assistant", content: makeText(request)(sequence) },
    logprobs: request.logprobs === true ? logprobsOf(sequence) : null,
    finish_reason: sequence.stopReason
  }),
  opening: (index) => [{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }],
  delta: (request, slice, content) => ({
    index: slice.index,
    delta: { content },
    logprobs: request.logprobs === true ? logprobsOf(slice) : null,
    finish_reason: null
  }),
  closing: (index, stopReason) => ({ index, delta: {}, logprobs: null, finish_reason: stopReason })
}

/** The choices of the chunks that tell of each slice, as it comes. @internal */
export const makeDeltas = (request: Common, shape: Shape): (slice: Slice) => ReadonlyArray<unknown> => {
  const texts = new Map<number, ReturnType<typeof makeText>>()
  return (slice) => {
    const { index, stopReason } = slice
    const known = texts.get(index)
    const text = known ?? makeText(request)
    texts.set(index, text)
    const piece = text(slice)
    return [
      ...(known === undefined ? shape.opening(index) : []),
      ...(piece === "" && request.logprobs !== true ? [] : [shape.delta(request, slice, piece)]),
      ...(stopReason === undefined ? [] : [shape.closing(index, stopReason)])
    ]
  }
}
