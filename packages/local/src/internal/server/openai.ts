/**
 * The shapes of OpenAI's API, as far as a text model can fill them.
 */
import * as Schema from "effect/Schema"
import type { Sequence } from "../../LocalSampler.js"
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

const stopsOf = ({ stop }: Common): ReadonlyArray<string> => typeof stop === "string" ? [stop] : stop ?? []

/** The text of a completion without what ended it. */
const textOf = (request: Common, { stopReason, tokens }: Sequence): string => {
  const text = LocalTokenizer.decode(tokens, { skipSpecials: true })
  const ending = stopReason === "stop" ? stopsOf(request).find((stop) => text.endsWith(stop)) : undefined
  return ending === undefined ? text : text.slice(0, text.length - ending.length)
}

/** The same in pieces, one for each token that completes a character. */
const pieces = (request: Common, sequence: Sequence): ReadonlyArray<string> => {
  const whole = textOf(request, sequence)
  const decoder = new TextDecoder()
  const out: Array<string> = []
  let length = 0
  for (const token of sequence.tokens) {
    if (token >= 256) continue
    const piece = decoder.decode(LocalTokenizer.tokenBytes(token), { stream: true })
      .slice(0, Math.max(0, whole.length - length))
    length += piece.length
    if (piece !== "") out.push(piece)
  }
  const rest = whole.slice(length)
  return rest === "" ? out : [...out, rest]
}

const logprobsOf = ({ logprobs, tokens }: Sequence) => ({
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
  readonly deltas: (request: Common, sequence: Sequence, index: number) => ReadonlyArray<unknown>
}

/** @internal */
export const completion: Shape = {
  prefix: "cmpl",
  object: "text_completion",
  chunkObject: "text_completion",
  choice: (request, sequence, index) => ({
    index,
    text: textOf(request, sequence),
    logprobs: null,
    finish_reason: sequence.stopReason
  }),
  deltas: (request, sequence, index) => [
    ...pieces(request, sequence).map((text) => ({ index, text, logprobs: null, finish_reason: null })),
    { index, text: "", logprobs: null, finish_reason: sequence.stopReason }
  ]
}

/** @internal */
export const chat: Shape = {
  prefix: "chatcmpl",
  object: "chat.completion",
  chunkObject: "chat.completion.chunk",
  choice: (request, sequence, index) => ({
    index,
    message: { role: "assistant", content: textOf(request, sequence) },
    logprobs: request.logprobs === true ? logprobsOf(sequence) : null,
    finish_reason: sequence.stopReason
  }),
  deltas: (request, sequence, index) => [
    { index, delta: { role: "assistant", content: "" }, finish_reason: null },
    ...pieces(request, sequence).map((content) => ({ index, delta: { content }, finish_reason: null })),
    { index, delta: {}, finish_reason: sequence.stopReason }
  ]
}
