/**
 * Puts a conversation together from what a format says about each message.
 */
import type { Message } from "../../Message.js"
import type { Supervised, TrainOnWhat } from "../../Renderer.js"
import { imageSlot } from "../../Renderer.js"
import type { Tokenizer } from "../../Tokenizer.js"
import { IntBuffer } from "../bytes.js"
import type { Format, MessageContext, Parsing, Piece, Rendered } from "./format.js"
import { lastIndex, Refusal } from "./format.js"
import { imageLength } from "./images.js"

/** @internal */
export interface Assembler {
  readonly prompt: (messages: ReadonlyArray<Message>, role: string, prefill: string) => Int32Array | Refusal
  readonly supervised: (messages: ReadonlyArray<Message>, mode: TrainOnWhat) => Supervised | Refusal
  readonly supervisedAll: (messages: ReadonlyArray<Message>, mode: TrainOnWhat) => ReadonlyArray<Supervised> | Refusal
  /** Header that asks for an answer after these messages: its ids and its text. */
  readonly suffix: (messages: ReadonlyArray<Message>) => { readonly ids: Int32Array; readonly text: string } | Refusal
  /** Tokens after an answer, up to the next one. */
  readonly extension: (
    messages: ReadonlyArray<Message>,
    answer: Message,
    fresh: ReadonlyArray<Message>,
    sampled: string,
    headed: boolean
  ) => Extension | Refusal
}

/** @internal */
export interface Extension {
  readonly ids: Int32Array
  /** The first message of those before the answer, or the answer, that is written differently from now on. */
  readonly rewritten: number | undefined
}

/** Where a text reasons: each of the format's marks in their order, and whether something is said after it. */
const reasoningMarks = (parsing: Parsing): (text: string) => string => {
  if (parsing._tag === "harmony") return (text) => String(text.split("<|channel|>analysis").length - 1)
  if (parsing._tag !== "markers") return () => ""
  const { thinkClose, thinkOpen } = parsing.markers
  return (text) =>
    text.split(thinkOpen).map((part, i) => {
      const [thought = "", ...rest] = part.split(thinkClose)
      return `${i > 0 && thought.trim() !== "" ? "said" : "silent"} ${rest.length}`
    }).join()
}

const textOf = (pieces: ReadonlyArray<Piece>): string =>
  pieces.map((piece) => piece._tag === "text" ? piece.text : "token" in piece ? piece.token : "").join("")

const noImages = new Refusal("the format has no images")

/**
 * Pieces of a message. A family without images never looks at them, so they are refused before they are lost; those
 * that have images show them where people and tools speak.
 */
const lostImages = (format: Format, message: Message): Refusal | undefined =>
  typeof message.content === "string" || !message.content.some(({ type }) => type === "image")
    ? undefined
    : format.images === undefined
    ? noImages
    : message.role === "user" || message.role === "tool"
    ? undefined
    : new Refusal(`the format has no images in a message of "${message.role}"`)

const isUser = (message: Message): boolean => message.role === "user"

const isAssistant = (message: Message): boolean => message.role === "assistant"

/** @internal */
export const assemble = (format: Format, tokenizer: Tokenizer): Assembler => {
  const controls = new Map(tokenizer.addedTokens.map((token) => [token.content, token.id]))
  const prepare = format.prepare ?? ((messages: ReadonlyArray<Message>) => messages)
  const turnStart = format.turnStart ?? ((messages: ReadonlyArray<Message>) => lastIndex(messages, isUser) + 1)

  const encode = (pieces: ReadonlyArray<Piece>, out: IntBuffer, markup: boolean): Refusal | undefined => {
    // texts next to each other are one text: cutting them would cut words
    let pending = ""
    const flush = (): void => {
      if (pending === "") return
      out.append(tokenizer.encode(pending, { addSpecialTokens: false, parseSpecial: markup ? "all" : "none" }))
      pending = ""
    }
    for (const piece of pieces) {
      if (piece._tag === "text") pending += piece.text
      else if (piece._tag === "cut") flush()
      else if (piece._tag === "image") {
        const length = format.images === undefined ? noImages : imageLength(piece.part, format.images)
        if (length instanceof Refusal) return length
        flush()
        for (let i = 0; i < length; i++) out.push(imageSlot)
      } else {
        const id = controls.get(piece.token)
        if (id !== undefined) {
          flush()
          out.push(id)
        } else if (piece._tag === "tag") pending += piece.token
        else return new Refusal(`the tokenizer ${tokenizer.id} has no token ${piece.token}`)
      }
    }
    flush()
    return undefined
  }

  const written = (message: Message, context: MessageContext): Rendered | Refusal =>
    lostImages(format, message) ?? format.message(message, context)

  const contextOf = (messages: ReadonlyArray<Message>, index: number, start: number, generating: boolean) => ({
    index,
    isLast: index === messages.length - 1,
    previous: messages[index - 1],
    next: messages[index + 1],
    inLastTurn: index >= start,
    generating,
    messages
  })

  const promptOf = (messages: ReadonlyArray<Message>, role: string, prefill: string): Int32Array | Refusal => {
    const out = new IntBuffer(256)
    const start = turnStart(messages)
    let refusal = encode(format.bos, out, false)
    for (let i = 0; i < messages.length && refusal === undefined; i++) {
      const message = messages[i]
      if (message === undefined) continue
      const rendered = written(message, contextOf(messages, i, start, true))
      if (rendered instanceof Refusal) return rendered
      refusal = encode(rendered.header, out, false) ?? encode(rendered.output, out, message.markup === true)
    }
    refusal ??= encode(format.suffix(role, contextOf(messages, messages.length, start, true)), out, false)
    refusal ??= encode([{ _tag: "text", text: prefill }], out, false)
    return refusal ?? out.toArray()
  }

  const supervisedOf = (messages: ReadonlyArray<Message>, mode: TrainOnWhat): Supervised | Refusal => {
    const complaint = trainable(messages, mode)
    if (complaint !== undefined) return complaint
    const out = new IntBuffer(256)
    const weights: Array<number> = []
    const add = (pieces: ReadonlyArray<Piece>, weight: number, markup: boolean): Refusal | undefined => {
      const refusal = encode(pieces, out, markup)
      while (weights.length < out.length) weights.push(weight)
      return refusal
    }
    // the last message is what is produced: it cannot start the turn it belongs to
    const start = turnStart(messages.slice(0, -1))
    let refusal = add(format.bos, 0, false)
    for (let i = 0; i < messages.length && refusal === undefined; i++) {
      const message = messages[i]
      if (message === undefined) continue
      const context = contextOf(messages, i, start, false)
      const rendered = written(message, context)
      if (rendered instanceof Refusal) return rendered
      const weight = isTrained(message, context, mode) ? 1 : 0
      refusal = add(rendered.header, mode === "all_tokens" ? 1 : 0, false) ??
        add(rendered.output, weight, message.markup === true) ??
        (context.isLast ? add(rendered.overlap ?? [], weight, false) : undefined)
    }
    if (refusal !== undefined) return refusal
    return afterPrompt(messages, mode, { tokens: out.toArray(), weights: Float32Array.from(weights) })
  }

  /** Takes the weight from everything the prompt for this turn supplies: the model is not asked to produce it. */
  const afterPrompt = (
    messages: ReadonlyArray<Message>,
    mode: TrainOnWhat,
    example: Supervised
  ): Supervised | Refusal => {
    const boundary = mode === "last_assistant_message"
      ? messages.length - 1
      : mode === "last_assistant_turn"
      ? lastIndex(messages, isUser) + 1
      : -1
    if (messages[boundary]?.role !== "assistant") return example
    const prompt = promptOf(messages.slice(0, boundary), "assistant", "")
    if (prompt instanceof Refusal) return prompt
    if (!prompt.every((id, i) => id === example.tokens[i])) {
      return format.disablesThinking
        ? new Refusal(
          "it tells the model not to reason, but this turn reasoned; use the thinking renderer or drop the reasoning"
        )
        : example
    }
    return { tokens: example.tokens, weights: example.weights.map((weight, i) => i < prompt.length ? 0 : weight) }
  }

  const marks = reasoningMarks(format.parsing)

  const answered = (message: Message): boolean => isAssistant(message) && (message.toolCalls?.length ?? 0) === 0

  const marksOf = (messages: ReadonlyArray<Message>, index: number, start: number): string | Refusal => {
    const message = messages[index]
    if (message === undefined) return marks("")
    const rendered = written(message, contextOf(messages, index, start, true))
    if (rendered instanceof Refusal) return rendered
    const all = textOf([...rendered.header, ...rendered.output])
    // what the model wrote may be spelled in another way; everything else is the format's
    return isAssistant(message) ? marks(all) : all
  }

  /** The first message whose reasoning is written differently once `after` is the conversation. */
  const firstRewritten = (
    before: ReadonlyArray<Message>,
    after: ReadonlyArray<Message>,
    sampled: string
  ): number | undefined | Refusal => {
    const start = turnStart(after)
    const answer = marksOf(after, before.length, start)
    if (answer instanceof Refusal) return answer
    if (answer !== marks(sampled)) return before.length
    // while a round of tools goes on nothing before it changes: a long one is not gone through again at each of its calls
    const last = after[before.length]
    if (last !== undefined && !answered(last) && after.slice(before.length + 1).every(({ role }) => role === "tool")) {
      return undefined
    }
    const startBefore = turnStart(before)
    const from = Math.min(startBefore, lastIndex(before, isUser), lastIndex(before, answered) + 1)
    for (let i = Math.max(0, from); i < before.length; i++) {
      const [then, now] = [marksOf(before, i, startBefore), marksOf(after, i, start)]
      if (now instanceof Refusal) return now
      if (then !== now) return i
    }
    return undefined
  }

  return {
    suffix: (messages) => {
      const prepared = prepare(messages)
      const pieces = format.suffix("assistant", contextOf(prepared, prepared.length, turnStart(prepared), true))
      const out = new IntBuffer(16)
      return encode(pieces, out, false) ?? { ids: out.toArray(), text: textOf(pieces) }
    },
    extension: (messages, answer, fresh, sampled, headed) => {
      const before = prepare(messages)
      const after = prepare([...messages, format.continued?.(answer) ?? answer, ...fresh])
      const rewritten = firstRewritten(before, after, sampled)
      if (rewritten instanceof Refusal) return rewritten
      const out = new IntBuffer(64)
      const start = turnStart(after)
      for (let i = before.length + 1; i < after.length; i++) {
        const message = after[i]
        if (message === undefined) continue
        const rendered = written(message, contextOf(after, i, start, true))
        if (rendered instanceof Refusal) return rendered
        // a stop string can hold the header of the message after it
        const header = headed && i === before.length + 1 ? [] : rendered.header
        const refusal = encode(header, out, false) ?? encode(rendered.output, out, message.markup === true)
        if (refusal !== undefined) return refusal
      }
      const suffix = format.suffix("assistant", contextOf(after, after.length, start, true))
      return encode(suffix, out, false) ?? {
        ids: out.toArray(),
        rewritten: rewritten === undefined ? undefined : rewritten + messages.length - before.length
      }
    },
    prompt: (messages, role, prefill) => promptOf(prepare(messages), role, prefill),
    supervised: (messages, mode) => supervisedOf(prepare(messages), mode),
    supervisedAll: (messages, mode) => {
      const prepared = prepare(messages)
      if (format.extends) {
        const example = supervisedOf(prepared, mode)
        return example instanceof Refusal ? example : [example]
      }
      const first = mode === "last_assistant_message"
        ? prepared.length - 1
        : mode === "last_assistant_turn"
        ? turnStart(prepared.slice(0, -1))
        : mode === "all_assistant_messages"
        ? 0
        : undefined
      if (first === undefined) {
        return new Refusal(
          `"${mode}" cannot be split into examples: this format writes a turn differently once it is history`
        )
      }
      const examples: Array<Supervised> = []
      for (let i = first; i < prepared.length; i++) {
        if (prepared[i]?.role !== "assistant") continue
        const example = supervisedOf(prepared.slice(0, i + 1), "last_assistant_message")
        if (example instanceof Refusal) return example
        examples.push(example)
      }
      return examples
    }
  }
}

const trainable = (messages: ReadonlyArray<Message>, mode: TrainOnWhat): Refusal | undefined => {
  const odd = messages.find((message) => (message.trainable === undefined) === (mode === "customized"))
  if (odd === undefined) return undefined
  return new Refusal(
    mode === "customized"
      ? `"customized" needs "trainable" on every message`
      : `"trainable" on a message only goes with "customized", not with "${mode}"`
  )
}

const isTrained = (message: Message, context: MessageContext, mode: TrainOnWhat): boolean => {
  switch (mode) {
    case "last_assistant_message":
      return isAssistant(message) && context.isLast
    case "last_assistant_turn":
      return isAssistant(message) && context.inLastTurn
    case "all_assistant_messages":
      return isAssistant(message)
    case "all_messages":
    case "all_tokens":
      return true
    case "all_user_and_system_messages":
      return isUser(message) || message.role === "system"
    case "customized":
      return message.trainable === true
  }
}
