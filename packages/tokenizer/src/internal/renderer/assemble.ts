/**
 * Puts a conversation together from what a format says about each message.
 */
import type { Message } from "../../Message.js"
import type { Supervised, TrainOnWhat } from "../../Renderer.js"
import type { Tokenizer } from "../../Tokenizer.js"
import { IntBuffer } from "../bytes.js"
import type { Format, MessageContext, Piece } from "./format.js"
import { lastIndex, Refusal } from "./format.js"

/** @internal */
export interface Assembler {
  readonly prompt: (messages: ReadonlyArray<Message>, role: string, prefill: string) => Int32Array | Refusal
  readonly supervised: (messages: ReadonlyArray<Message>, mode: TrainOnWhat) => Supervised | Refusal
  readonly supervisedAll: (messages: ReadonlyArray<Message>, mode: TrainOnWhat) => ReadonlyArray<Supervised> | Refusal
}

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
      else {
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

  const contextOf = (messages: ReadonlyArray<Message>, index: number, start: number, generating: boolean) => ({
    index,
    isLast: index === messages.length - 1,
    previous: messages[index - 1],
    next: messages[index + 1],
    lastUser: lastIndex(messages, isUser),
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
      const rendered = format.message(message, contextOf(messages, i, start, true))
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
      const rendered = format.message(message, context)
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

  return {
    prompt: (messages, role, prefill) => promptOf(prepare(messages), role, prefill),
    supervised: (messages, mode) => supervisedOf(prepare(messages), mode),
    supervisedAll: (messages, mode) => {
      const prepared = prepare(messages)
      if (format.isExtending) {
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
