/**
 * Parts of a chat format. Families describe it as data and small functions; `assemble` turns them into tokens.
 */
import type { ContentPart, ImagePart, Message, ToolCall, ToolSpec, UnparsedToolCall } from "../../Message.js"
import * as Messages from "../../Message.js"

/**
 * A stretch of a rendered conversation.
 *
 * - `control`: a token the format needs; a tokenizer without it cannot be used.
 * - `tag`: a marker that is one token where the tokenizer has it, and text where it does not.
 * - `text`: text, in which no token is ever recognised.
 * - `cut`: texts on its two sides are not encoded together.
 * - `image`: the positions an image takes.
 *
 * @internal
 */
export type Piece =
  | { readonly _tag: "control"; readonly token: string }
  | { readonly _tag: "tag"; readonly token: string }
  | { readonly _tag: "text"; readonly text: string }
  | { readonly _tag: "cut" }
  | { readonly _tag: "image"; readonly part: ImagePart }

/** @internal */
export const control = (token: string): Piece => ({ _tag: "control", token })

/** @internal */
export const tag = (token: string): Piece => ({ _tag: "tag", token })

/** @internal */
export const text = (text: string): Piece => ({ _tag: "text", text })

/** @internal */
export const cut: Piece = { _tag: "cut" }

/** @internal */
export const image = (part: ImagePart): Piece => ({ _tag: "image", part })

/**
 * Text and images of a message, with each image between the format's marks.
 *
 * @internal
 */
export const content = (
  message: Message,
  frame: (part: ImagePart) => ReadonlyArray<Piece>,
  edit: (parts: ReadonlyArray<ContentPart>) => ReadonlyArray<ContentPart> = (parts) => parts
): ReadonlyArray<Piece> =>
  edit(Messages.parts(message)).flatMap((part) =>
    part.type === "text" ? [text(part.text)] : part.type === "image" ? frame(part) : []
  )

/** @internal */
export interface Rendered {
  /** Header of the message: given to the model, never produced by it. */
  readonly header: ReadonlyArray<Piece>
  /** Output of the model, with the token that ends it. */
  readonly output: ReadonlyArray<Piece>
  /** The part of the stop sequence that belongs to the next header; only after the last message. */
  readonly overlap?: ReadonlyArray<Piece> | undefined
}

/** @internal */
export interface MessageContext {
  readonly index: number
  readonly isLast: boolean
  readonly previous: Message | undefined
  readonly next: Message | undefined
  /** Whether it belongs to the turn that is being produced. */
  readonly inLastTurn: boolean
  /** Whether the render is a prompt for the model to go on from. */
  readonly generating: boolean
  readonly messages: ReadonlyArray<Message>
}

/**
 * A complaint; the caller says which renderer it came from.
 *
 * @internal
 */
export class Refusal {
  constructor(readonly description: string) {}
}

/** @internal */
export interface Markers {
  readonly thinkOpen: string
  readonly thinkClose: string
  readonly toolsOpen: string
  readonly toolsClose: string
  /** Whether newlines around reasoning belong to the format. */
  readonly framed: boolean
  /** Separator between text and a tool block. */
  readonly separator: string
}

/** @internal */
export interface ToolCalls {
  readonly calls: ReadonlyArray<ToolCall>
  readonly unparsed: ReadonlyArray<UnparsedToolCall>
}

/** @internal */
export type Parsing =
  /** Text with reasoning and tool blocks between markers, ended by a stop token. */
  | {
    readonly _tag: "markers"
    readonly markers: Markers
    /** Reads what is between the tool markers. */
    readonly tools: (block: string) => ToolCalls
    /** Whether the prompt opened the reasoning, so that an answer starts inside it; some formats do so now and then. */
    readonly startsInThinking: boolean | "perhaps"
  }
  /** Plain text ended by a stop token. */
  | { readonly _tag: "plain" }
  /** Plain text ended by a string. */
  | { readonly _tag: "string"; readonly stop: string }
  /** Channels, as gpt-oss writes. */
  | { readonly _tag: "harmony" }
  /** Messages with a kind, as Inkling writes. */
  | { readonly _tag: "tml" }

/** @internal */
export interface Format {
  readonly name: string
  readonly bos: ReadonlyArray<Piece>
  /** Messages with what the format adds by itself. */
  readonly prepare?: ((messages: ReadonlyArray<Message>) => ReadonlyArray<Message>) | undefined
  readonly message: (message: Message, context: MessageContext) => Rendered | Refusal
  /** Tokens after the conversation when an answer is asked for. */
  readonly suffix: (role: string, context: MessageContext) => ReadonlyArray<Piece>
  /** Where the turn being produced begins; the default is after the last user. */
  readonly turnStart?: ((messages: ReadonlyArray<Message>) => number) | undefined
  /** Stop tokens by spelling; empty when the stop is a string. */
  readonly stops: ReadonlyArray<string>
  readonly parsing: Parsing
  /** The roles a new message may have after an answer. Defaults to `system`, `user` and `tool`. */
  readonly roles?: ReadonlyArray<string> | undefined
  /** The stop that ends the text as a whole instead of a message: history does not keep it. */
  readonly eos?: string | undefined
  /** The token that closes an answer which was cut short. Defaults to the first stop. */
  readonly close?: string | undefined
  /** The stop that must end this answer before the next message; none when no answer can end before it. */
  readonly closes?: ((answer: Message, next: Message) => string | undefined) | undefined
  /** How many tokens an image takes; a format without it has no images. */
  readonly images?: ((size: { readonly width: number; readonly height: number }) => number | Refusal) | undefined
  /** A sampled answer as the messages after it see it, where they write a part of it. */
  readonly continued?: ((answer: Message) => Message) | undefined
  /** Whether every prompt begins with the one before it. */
  readonly extends: boolean
  /** Whether the prompt tells the model not to reason. */
  readonly disablesThinking: boolean
  readonly tools: (tools: ReadonlyArray<ToolSpec>, system: string) => ReadonlyArray<Message> | Refusal
}

/** `json.dumps` of a plain value. */
const json = (value: unknown, separators: readonly [string, string], sorted: boolean): string => {
  if (Array.isArray(value)) return `[${value.map((item) => json(item, separators, sorted)).join(separators[0])}]`
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value)
    if (sorted) entries.sort(([left], [right]) => left < right ? -1 : left > right ? 1 : 0)
    return `{${
      entries.map(([key, item]) => JSON.stringify(key) + separators[1] + json(item, separators, sorted)).join(
        separators[0]
      )
    }}`
  }
  return JSON.stringify(value) ?? "null"
}

/**
 * As Python and the templates write JSON.
 *
 * @internal
 */
export const toJson = (value: unknown): string => json(value, [", ", ": "], false)

/** @internal */
export const toCompactSortedJson = (value: unknown): string => json(value, [",", ":"], true)

/** @internal */
export const asFunction = (tool: ToolSpec) => ({
  type: "function",
  function: { name: tool.name, description: tool.description, parameters: tool.parameters }
})

/**
 * Reads calls of the shape `open name separator arguments close` out of a block.
 *
 * @internal
 */
export const delimitedCalls = (
  block: string,
  markers: { readonly open: string; readonly separator: string; readonly close: string },
  named: (head: string) => { readonly name: string; readonly id?: string | undefined }
): ToolCalls => {
  const calls: Array<ToolCall> = []
  const unparsed: Array<UnparsedToolCall> = []
  let at = block.indexOf(markers.open)
  while (at >= 0) {
    const start = at + markers.open.length
    const end = block.indexOf(markers.close, start)
    const following = block.indexOf(markers.open, start)
    if (end < 0 || (following >= 0 && following < end)) {
      unparsed.push({
        rawText: block.slice(at, following < 0 ? undefined : following),
        error: `unterminated tool block: ${markers.open} without ${markers.close}`
      })
    } else {
      const body = block.slice(start, end)
      const rawText = block.slice(at, end + markers.close.length)
      const cutAt = body.indexOf(markers.separator)
      const args = body.slice(cutAt + markers.separator.length).trim()
      const problem = cutAt < 0 ? `no ${markers.separator}` : jsonProblem(args)
      if (problem === undefined) calls.push({ ...named(body.slice(0, cutAt).trim()), arguments: args })
      else unparsed.push({ rawText, error: problem })
    }
    at = following
  }
  return { calls, unparsed }
}

/**
 * Why a text is not JSON.
 *
 * @internal
 */
export const jsonProblem = (text: string): string | undefined => {
  try {
    JSON.parse(text)
    return undefined
  } catch (cause) {
    return `Invalid JSON: ${cause instanceof Error ? cause.message : String(cause)}`
  }
}

/** @internal */
export const lastIndex = <A>(items: ReadonlyArray<A>, is: (item: A) => boolean): number => {
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i]
    if (item !== undefined && is(item)) return i
  }
  return -1
}
