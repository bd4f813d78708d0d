/**
 * A renderer made from a model's own chat template. A template only writes text, so the tokens of an answer are found by
 * comparison: the text up to and with the answer begins with the prompt that asks for it, and the rest is the answer.
 * Where a template marks its answers (`{% generation %}`), the marks say the same.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as ChatTemplate from "../../ChatTemplate.js"
import * as Message from "../../Message.js"
import type { Renderer, Supervised, TrainOnWhat } from "../../Renderer.js"
import type { Tokenizer } from "../../Tokenizer.js"
import type { ChatTemplateFailed } from "../../TokenizerError.js"
import { CannotContinue, RenderFailed } from "../../TokenizerError.js"
import { IntBuffer, joined } from "../bytes.js"
import type { Parsing } from "./format.js"
import { asFunction, lastIndex } from "./format.js"
import { parseWith, tokenParser } from "./make.js"
import { readCalls } from "./qwen3.js"
import { scanner } from "./scan.js"

/** @internal */
export interface TemplateOptions {
  readonly variables?: Readonly<Record<string, unknown>> | undefined
  readonly tools?: ReadonlyArray<Message.ToolSpec> | undefined
}

/** A stretch of a text that is trained on. */
interface Span {
  readonly from: number
  readonly to: number
}

/** The role of messages that declare tools; a template gets them as a variable. */
const declaring = "tool_declare"

// Characters of the private use area, which stand where answers begin and end in templates that mark them.
const marks = { generation_begins: "\uE0F0", generation_ends: "\uE0F1" }
const markPattern = /[\uE0F0\uE0F1]/g

const isAssistant = (message: Message.Message | undefined): boolean => message?.role === "assistant"

const probe = "Probe"

// As much of a prompt as shows that a turn was asked for by this template.
const promptEnding = 16

const markers = (template: string, prompt: string): Parsing =>
  template.includes("<tool_call>") || template.includes("<think>")
    ? {
      _tag: "markers",
      markers: {
        thinkOpen: "<think>",
        thinkClose: "</think>",
        toolsOpen: "<tool_call>",
        toolsClose: "</tool_call>",
        framed: true,
        separator: "\n"
      },
      tools: readCalls,
      startsInThinking: /<think>\s*$/.test(prompt)
    }
    : { _tag: "plain" }

/** Tools of messages that declare them, and the other messages as templates spell them. */
const prepared = (messages: ReadonlyArray<Message.Message>, own: ReadonlyArray<Message.ToolSpec>) => {
  const declared = messages.flatMap((message): ReadonlyArray<unknown> =>
    message.role === declaring ? JSON.parse(Message.text(message)) : []
  )
  const tools = [...own.map(asFunction), ...declared]
  return {
    messages: messages.filter(({ role }) => role !== declaring).map(Message.toTemplate),
    tools: tools.length === 0 ? undefined : tools
  }
}

/** @internal */
export const fromTemplate = (
  template: ChatTemplate.ChatTemplate,
  tokenizer: Tokenizer,
  options: TemplateOptions | undefined
): Renderer => {
  const name = "template"
  const refusal = (description: string) => new RenderFailed({ renderer: name, description })

  const render = (
    messages: ReadonlyArray<Message.Message>,
    addGenerationPrompt: boolean,
    variables: Readonly<Record<string, unknown>> = {}
  ): Either.Either<string, ChatTemplateFailed> => {
    const { messages: written, tools } = prepared(messages, options?.tools ?? [])
    return template.renderAt(new Date(0), written, {
      addGenerationPrompt,
      variables: { ...options?.variables, ...variables },
      tools
    })
  }

  const encode = (text: string): Int32Array => tokenizer.encode(text, { addSpecialTokens: false })

  // What the format does is found out once, with a conversation of two answers.
  const shortest = [Message.user("a"), Message.assistant(probe)]
  const probed = {
    prompt: Either.getOrElse(render([Message.user("a")], true), () => ""),
    answer: Either.getOrElse(render(shortest, false), () => ""),
    more: Either.getOrElse(render([...shortest, Message.user("b"), Message.assistant("c")], false), () => "")
  }
  const reasoned: Message.Message = {
    role: "assistant",
    content: [{ type: "thinking", thinking: "d" }, { type: "text", text: probe }]
  }
  const reasonedTexts = [[reasoned], [reasoned, Message.user("b"), Message.assistant("c")]].map((rest) =>
    Either.getOrElse(render([Message.user("a"), ...rest], false), () => "")
  )
  const extendsHistory = probed.answer !== "" && probed.more.startsWith(probed.answer) &&
    (reasonedTexts[1] ?? "").startsWith(reasonedTexts[0] ?? "")

  /** The tokens that end an answer: the one the template writes after it, and the model's end of text. */
  const tail = probed.answer.slice(probed.answer.lastIndexOf(probe) + probe.length).trimStart()
  const turnEnd = tokenizer.addedTokens
    .filter(({ content }) => content !== "" && tail.startsWith(content))
    .sort((a, b) => b.content.length - a.content.length)[0]
  const eos = Option.flatMap(tokenizer.specialTokens.eos, tokenizer.tokenToId)
  const stop = Array.from(new Set([...(turnEnd === undefined ? [] : [turnEnd.id]), ...Option.toArray(eos)]))
  const stopTexts = stop.flatMap((id) => Option.toArray(tokenizer.idToToken(id)))

  const parser = tokenParser(
    tokenizer,
    new Set(stop),
    () => scanner(markers(template.source, probed.prompt)),
    turnEnd === undefined || Option.contains(eos, turnEnd.id) ? undefined : Option.getOrUndefined(eos)
  )
  const parse = parseWith(parser)

  /** Where an answer ends: behind its stop; what follows that is written by the template. */
  const endOf = (text: string, from: number): number => {
    const ends = stopTexts.map((stop) => text.lastIndexOf(stop)).filter((at) => at >= from)
    const last = Math.max(-1, ...ends)
    const found = stopTexts.find((stop) => text.startsWith(stop, last))
    return last < 0 || found === undefined ? text.length : last + found.length
  }

  const words = (error: ChatTemplateFailed): RenderFailed => refusal(error.description)

  /** The text up to and with an answer, and the answer's place in it. */
  const answerAt = (
    messages: ReadonlyArray<Message.Message>,
    index: number
  ): Either.Either<{ readonly text: string; readonly span: Span }, RenderFailed> =>
    Either.gen(function*() {
      const prompt = yield* Either.mapLeft(render(messages.slice(0, index), true), words)
      const text = yield* Either.mapLeft(render(messages.slice(0, index + 1), false), words)
      if (!text.startsWith(prompt)) {
        return yield* Either.left(refusal(
          `message ${index}: the template does not write this answer behind the prompt that asks for it ` +
            `(${JSON.stringify(prompt.slice(-40))}), so its tokens cannot be told from the prompt's`
        ))
      }
      return { text, span: { from: prompt.length, to: endOf(text, prompt.length) } }
    })

  /** Content of a message and its end: from its first word to the end of the text it adds. */
  const saidAt = (
    messages: ReadonlyArray<Message.Message>,
    index: number,
    full: string
  ): Either.Either<Span, RenderFailed> =>
    Either.gen(function*() {
      const message = messages[index]
      const before = index === 0 ? "" : yield* Either.mapLeft(render(messages.slice(0, index), false), words)
      const text = yield* Either.mapLeft(render(messages.slice(0, index + 1), false), words)
      const said = message === undefined ? "" : Message.text(message).trim()
      const from = text.startsWith(before) && full.startsWith(text) ? text.indexOf(said, before.length) : -1
      return from < 0
        ? yield* Either.left(refusal(`message ${index}: the template does not write its text where it could be found`))
        : { from, to: endOf(text, from) }
    })

  /** The first message that is written differently once others follow. */
  const rewritten = (index: number): RenderFailed =>
    refusal(
      `message ${index}: the template writes this answer differently once messages follow it, such as without its ` +
        `reasoning; make one example for each answer (supervisedAll)`
    )

  /** Encodes a text in pieces, so that no token lies across the border of a span. */
  const example = (text: string, spans: ReadonlyArray<Span>): Supervised => {
    const tokens = new IntBuffer(256)
    const weights: Array<number> = []
    const append = (from: number, to: number, weight: number): void => {
      if (from >= to) return
      const ids = encode(text.slice(from, to))
      tokens.append(ids)
      for (let i = 0; i < ids.length; i++) weights.push(weight)
    }
    let at = 0
    for (const { from, to } of [...spans].sort((a, b) => a.from - b.from)) {
      append(at, from, 0)
      append(Math.max(at, from), to, 1)
      at = Math.max(at, to)
    }
    append(at, text.length, 0)
    return { tokens: tokens.toArray(), weights: Float32Array.from(weights) }
  }

  /** The marked answers of a text, without the marks. */
  const marked = (text: string): { readonly text: string; readonly spans: ReadonlyArray<Span> } => {
    const spans: Array<Span> = []
    let removed = 0
    let from = 0
    for (const match of text.matchAll(markPattern)) {
      const at = match.index - removed
      if (match[0] === marks.generation_begins) from = at
      else spans.push({ from, to: at })
      removed++
    }
    return { text: text.replace(markPattern, ""), spans }
  }

  const isTrained = (messages: ReadonlyArray<Message.Message>, mode: TrainOnWhat) => {
    const turnStart = lastIndex(messages.slice(0, -1), ({ role }) => role === "user") + 1
    return (message: Message.Message, index: number): boolean => {
      switch (mode) {
        case "last_assistant_message":
          return isAssistant(message) && index === messages.length - 1
        case "last_assistant_turn":
          return isAssistant(message) && index >= turnStart
        case "all_assistant_messages":
          return isAssistant(message)
        case "all_messages":
        case "all_tokens":
          return message.role !== declaring
        case "all_user_and_system_messages":
          return message.role === "user" || message.role === "system"
        case "customized":
          return message.trainable === true
      }
    }
  }

  const check = (messages: ReadonlyArray<Message.Message>, mode: TrainOnWhat): RenderFailed | undefined => {
    if (messages.some((message) => Message.images(message).length > 0)) return noImages
    if (messages.some((message) => Message.text(message).search(markPattern) >= 0)) {
      return refusal("a message has characters that stand for the borders of answers (U+E0F0, U+E0F1)")
    }
    const odd = messages.find((message) => (message.trainable === undefined) === (mode === "customized"))
    return odd === undefined
      ? undefined
      : refusal(
        mode === "customized"
          ? `"customized" needs "trainable" on every message`
          : `"trainable" on a message only goes with "customized", not with "${mode}"`
      )
  }

  const noImages = refusal(
    "a template does not say how many tokens an image takes; use a renderer of the model's family"
  )

  const supervised = (
    messages: ReadonlyArray<Message.Message>,
    mode: TrainOnWhat
  ): Either.Either<Supervised, RenderFailed> =>
    Either.gen(function*() {
      const problem = check(messages, mode)
      if (problem !== undefined) return yield* Either.left(problem)
      const full = yield* Either.mapLeft(render(messages, false), words)
      if (mode === "all_tokens") return example(full, [{ from: 0, to: full.length }])
      const trained = isTrained(messages, mode)
      const own = template.marksAnswers
        ? marked(yield* Either.mapLeft(render(messages, false, marks), words))
        : undefined
      const answers = messages.flatMap((message, index) => isAssistant(message) ? [index] : [])
      const spans: Array<Span> = []
      for (const [index, message] of messages.entries()) {
        if (!trained(message, index)) continue
        const mark = own !== undefined && own.spans.length === answers.length
          ? own.spans[answers.indexOf(index)]
          : undefined
        if (mark !== undefined && isAssistant(message)) spans.push(mark)
        else if (isAssistant(message)) {
          const { span, text } = yield* answerAt(messages, index)
          if (!full.startsWith(text.slice(0, span.to))) return yield* Either.left(rewritten(index))
          spans.push(span)
        } else spans.push(yield* saidAt(messages, index, full))
      }
      return example(full, spans)
    })

  const supervisedAll = (
    messages: ReadonlyArray<Message.Message>,
    mode: TrainOnWhat
  ): Either.Either<ReadonlyArray<Supervised>, RenderFailed> => {
    const whole = supervised(messages, mode)
    if (Either.isRight(whole)) return Either.right([whole.right])
    const problem = check(messages, mode)
    const splits = mode === "last_assistant_message" || mode === "last_assistant_turn" ||
      mode === "all_assistant_messages"
    if (problem !== undefined || !splits) return Either.left(whole.left)
    const trained = isTrained(messages, mode)
    return Either.all(
      messages.flatMap((message, index) =>
        trained(message, index) ? [supervised(messages.slice(0, index + 1), "last_assistant_message")] : []
      )
    )
  }

  const continueTurn: Renderer["continue"] = (turn, fresh, continueOptions) => {
    const count = turn.messages.length
    const refuse = (reason: CannotContinue["reason"], description: string, index?: number) =>
      Either.left(new CannotContinue({ renderer: name, reason, index, description }))
    if (fresh.length === 0) return refuse("NothingNew", "no message follows the answer", count)
    const spoken = fresh.findIndex(isAssistant)
    if (spoken >= 0) {
      return refuse("UnsampledAnswer", "the assistant's words must be sampled to be continued from", count + 1 + spoken)
    }
    const at = turn.completion.findIndex((id) => stop.includes(id))
    if (at >= 0 && at < turn.completion.length - 1) {
      return refuse("AnswerMalformed", "something follows the answer's end", count)
    }
    if (at < 0 && continueOptions?.closeTruncated !== true) {
      return refuse("AnswerTruncated", "the answer has no end", count)
    }
    const completion = at >= 0 ? turn.completion : joined(turn.completion, Int32Array.from(stop.slice(0, 1)))
    const answer = parse(completion).message
    const texts = Either.all([render(turn.messages, true), render([...turn.messages, answer, ...fresh], true)])
    if (Either.isLeft(texts)) return refuse("Unrenderable", texts.left.description)
    const [prompt, next] = texts.right
    const ending = prompt.slice(-promptEnding)
    if (!tokenizer.decode(turn.prompt).endsWith(ending)) {
      return refuse("PromptMismatch", `the prompt does not end with ${JSON.stringify(ending)}`)
    }
    const sampled = tokenizer.decode(completion)
    if (next.startsWith(prompt + sampled)) {
      return Either.right(joined(turn.prompt, completion, encode(next.slice(prompt.length + sampled.length))))
    }
    if (continueOptions?.history !== "sampled") {
      return refuse("HistoryRewritten", "the template writes the conversation differently once it is history", count)
    }
    // what follows the answer is the same, however the template writes what came before
    const after = render([...turn.messages, answer], false)
    const rest = Either.isRight(after) && next.startsWith(after.right.slice(0, endOf(after.right, 0)))
      ? next.slice(endOf(after.right, 0))
      : undefined
    return rest === undefined
      ? refuse("HistoryRewritten", "the template rewrites what came before the new messages", count)
      : Either.right(joined(turn.prompt, completion, encode(rest)))
  }

  return {
    name,
    tokenizer,
    stop,
    extends: extendsHistory,
    images: false,
    generationPrompt: (messages, prompt) => {
      if (messages.some((message) => Message.images(message).length > 0)) return Effect.fail(noImages)
      const { messages: written, tools } = prepared(messages, options?.tools ?? [])
      return Effect.map(
        template.render(written, { addGenerationPrompt: true, variables: options?.variables, tools }),
        // templates write the beginning-of-text themselves
        (text) => encode(text + (prompt?.prefill ?? ""))
      )
    },
    supervised: (messages, mode) => Effect.suspend(() => supervised(messages, mode ?? "last_assistant_message")),
    supervisedAll: (messages, mode) => Effect.suspend(() => supervisedAll(messages, mode ?? "last_assistant_turn")),
    toolMessages: (tools, system) =>
      /\btools\b/.test(template.source)
        ? Effect.succeed([
          { role: declaring, content: JSON.stringify(tools.map(asFunction)) },
          ...(system === undefined || system === "" ? [] : [Message.system(system)])
        ])
        : Effect.fail(refusal("the model's template has no tools")),
    continue: continueTurn,
    parser,
    parse
  }
}
