/**
 * Builds a renderer from a format.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Message from "../../Message.js"
import type { Delta, Parsed, Parser, Renderer, Termination } from "../../Renderer.js"
import type { Tokenizer } from "../../Tokenizer.js"
import { CannotContinue, RenderFailed } from "../../TokenizerError.js"
import { joined } from "../bytes.js"
import type { Assembler } from "./assemble.js"
import { assemble } from "./assemble.js"
import type { Format } from "./format.js"
import { Refusal } from "./format.js"
import { scanner } from "./scan.js"
import type { Scanner } from "./scan/scanner.js"
import { stopString } from "./scan/stopString.js"

/** @internal */
export const fromFormat: (format: Format, tokenizer: Tokenizer) => Effect.Effect<Renderer, RenderFailed> = Effect
  .fnUntraced(function*(format, tokenizer) {
    const refuse = ({ description }: Refusal) => new RenderFailed({ renderer: format.name, description })
    const lift = <A>(make: () => A | Refusal): Effect.Effect<A, RenderFailed> =>
      Effect.suspend(() => {
        const result = make()
        return result instanceof Refusal ? Effect.fail(refuse(result)) : Effect.succeed(result)
      })
    const assembler = assemble(format, tokenizer)
    const stop: Array<number> = []
    for (const token of format.stops) {
      const id = tokenizer.addedTokens.find((added) => added.content === token)?.id
      if (id === undefined) {
        return yield* refuse(new Refusal(`the tokenizer ${tokenizer.id} has no token ${token}`))
      }
      stop.push(id)
    }
    const eos = Option.flatMap(tokenizer.specialTokens.eos, tokenizer.tokenToId)
    const parser = format.parsing._tag === "string"
      ? stringParser(tokenizer, format.parsing.stop, eos)
      : tokenParser(
        tokenizer,
        new Set(stop),
        () => scanner(format.parsing),
        format.eos === undefined ? undefined : stop[format.stops.indexOf(format.eos)]
      )
    const parse = parseWith(parser)
    return {
      name: format.name,
      tokenizer,
      continue: continueWith(format, tokenizer, assembler, stop, parse),
      stop: format.parsing._tag === "string" ? [format.parsing.stop] : stop,
      extends: format.extends,
      images: format.images !== undefined,
      generationPrompt: (messages, options) =>
        lift(() => assembler.prompt(messages, options?.role ?? "assistant", options?.prefill ?? "")),
      supervised: (messages, mode) => lift(() => assembler.supervised(messages, mode ?? "last_assistant_message")),
      supervisedAll: (messages, mode) => lift(() => assembler.supervisedAll(messages, mode ?? "last_assistant_turn")),
      toolMessages: (tools, system) => lift(() => format.tools(tools, system ?? "")),
      parser,
      parse
    }
  })

const endsWith = (ids: Int32Array, tail: Int32Array): boolean => {
  const from = ids.length - tail.length
  return from >= 0 && tail.every((id, i) => id === ids[from + i])
}

const continueWith = (
  format: Format,
  tokenizer: Tokenizer,
  assembler: Assembler,
  stop: ReadonlyArray<number>,
  parse: (ids: Iterable<number>) => Parsed
): Renderer["continue"] => {
  const roles = format.roles ?? ["system", "user", "tool"]
  const idOf = (token: string): Int32Array => {
    const id = tokenizer.addedTokens.find((added) => added.content === token)?.id
    return id === undefined
      ? tokenizer.encode(token, { addSpecialTokens: false, parseSpecial: "none" })
      : Int32Array.of(id)
  }

  const stopText = format.parsing._tag === "string" ? format.parsing.stop : undefined

  /** How an answer ends: as the format has it, not at all, or what is wrong. */
  const ending = (completion: Int32Array, next: Message.Message): string => {
    if (stopText === undefined) {
      const at = completion.findIndex((id) => stop.includes(id))
      if (at < 0) return "truncated"
      if (at < completion.length - 1) return "something follows the answer's end"
      const end = format.stops[stop.indexOf(completion[at] ?? -1)]
      const closes = format.closes
      if (end === format.eos) return "it ended with the end of text, which history has not"
      return closes === undefined || end === closes(parse(completion).message, next)
        ? "whole"
        : `it ended with ${end}, which is not how this message follows an answer`
    }
    const text = tokenizer.decode(completion)
    const at = text.indexOf(stopText)
    const last = completion.at(-1)
    const eos = Option.flatMap(tokenizer.specialTokens.eos, tokenizer.tokenToId)
    if (at < 0) {
      return Option.isSome(eos) && last === eos.value
        ? "it ended with the end of text, which history has not"
        : "truncated"
    }
    return at + stopText.length === text.length ? "whole" : "something follows the answer's end"
  }

  /** Tokens missing from an answer that was cut short: the end of its reasoning, and its own. */
  const closing = (sampled: string, completion: Int32Array, next: Message.Message): Int32Array | undefined => {
    const { parsing } = format
    if (parsing._tag === "string") {
      return tokenizer.encode(parsing.stop, { addSpecialTokens: false, parseSpecial: "none" })
    }
    const token = format.closes === undefined
      ? format.close ?? format.stops[0]
      : format.closes(parse(completion).message, next)
    if (token === undefined) return undefined
    const close = idOf(token)
    if (parsing._tag !== "markers") return close
    const { thinkClose, thinkOpen } = parsing.markers
    return sampled.lastIndexOf(thinkOpen) > sampled.lastIndexOf(thinkClose)
      ? joined(idOf(thinkClose), close)
      : close
  }

  return (turn, fresh, options) => {
    const count = turn.messages.length
    const refuse = (reason: CannotContinue["reason"], description: string, index?: number) =>
      Either.left(new CannotContinue({ renderer: format.name, reason, index, description }))
    const [first] = fresh
    if (first === undefined) return refuse("NothingNew", "no message follows the answer", count)
    for (const [i, message] of fresh.entries()) {
      if (message.role === "assistant") {
        return refuse("UnsampledAnswer", "the assistant's words must be sampled to be continued from", count + 1 + i)
      }
      if (!roles.includes(message.role)) {
        return refuse(
          "UnknownRole",
          `the format continues with ${roles.join(", ")}, not "${message.role}"`,
          count + 1 + i
        )
      }
    }
    const suffix = assembler.suffix(turn.messages)
    if (suffix instanceof Refusal) return refuse("Unrenderable", suffix.description)
    if (!endsWith(turn.prompt, suffix.ids)) {
      return refuse("PromptMismatch", `the prompt does not end with ${JSON.stringify(suffix.text)}`)
    }
    let completion = turn.completion
    let sampled = suffix.text + tokenizer.decode(completion)
    const end = ending(completion, first)
    if (end === "truncated" && options?.closeTruncated === true) {
      const close = closing(sampled, completion, first)
      if (close === undefined) return refuse("AnswerTruncated", "no answer ends before such a message", count)
      completion = joined(completion, close)
      sampled = suffix.text + tokenizer.decode(completion)
    } else if (end === "truncated") {
      return refuse("AnswerTruncated", "the answer has no end", count)
    } else if (end !== "whole") {
      return refuse("AnswerMalformed", end, count)
    }
    if (stopText !== undefined && first.role !== "user") {
      return refuse("Unrenderable", "the answer ended with the header of a user's message", count + 1)
    }
    const extension = assembler.extension(
      turn.messages,
      parse(completion).message,
      fresh,
      sampled,
      stopText !== undefined
    )
    if (extension instanceof Refusal) return refuse("Unrenderable", extension.description)
    if (extension.rewritten !== undefined && options?.history !== "sampled") {
      return refuse(
        "HistoryRewritten",
        "the format writes its reasoning differently once it is history",
        extension.rewritten
      )
    }
    return Either.right(joined(turn.prompt, completion, extension.ids))
  }
}

/** @internal */
export const parseWith = (parser: () => Parser) => (ids: Iterable<number>): Parsed => {
  const reading = parser()
  reading.push(ids)
  return reading.end().parsed
}

const parsed = (message: Message.Message, termination: Termination, detail: string): Parsed => ({
  message,
  termination,
  failure: termination === "malformed"
    ? Option.some({ kind: "structural", detail })
    : message.unparsedToolCalls === undefined
    ? Option.none()
    : Option.some({ kind: "content", detail: message.unparsedToolCalls.map((call) => call.error).join("\n") })
})

/** @internal */
export const tokenParser =
  (tokenizer: Tokenizer, stops: ReadonlySet<number>, makeScanner: () => Scanner, eos?: number) => (): Parser => {
    const decoder = tokenizer.decoder()
    const scanning = makeScanner()
    let stopped = 0
    let ended = false
    return {
      push: (ids) => {
        const body: Array<number> = []
        for (const id of ids) {
          if (stops.has(id)) {
            stopped++
            ended = id === eos
          } else if (stopped === 0) body.push(id)
        }
        return scanning.push(decoder.push(body))
      },
      end: () => {
        const deltas = [...scanning.push(decoder.end()), ...scanning.end()]
        const detail = stopped === 0 ? "the answer has no end" : `the answer has ${stopped} ends`
        const termination = stopped !== 1 ? "malformed" : ended ? "eos" : "stop_sequence"
        return { deltas, parsed: parsed(scanning.message(), termination, detail) }
      }
    }
  }

const stringParser = (tokenizer: Tokenizer, stop: string, eos: Option.Option<number>) => (): Parser => {
  const decoder = tokenizer.decoder()
  const cutting = stopString(stop)
  let text = ""
  let ended = false
  const emit = (piece: string): ReadonlyArray<Delta> => {
    text += piece
    return piece === "" ? [] : [{ _tag: "Text", text: piece }]
  }
  return {
    push: (ids) => {
      const body: Array<number> = []
      for (const id of ids) {
        if (Option.isSome(eos) && id === eos.value) ended = true
        else if (!ended) body.push(id)
      }
      return emit(cutting.push(decoder.push(body)))
    },
    end: () => {
      const deltas = [...emit(cutting.push(decoder.end())), ...emit(cutting.end())]
      const count = cutting.count()
      const termination = count === 1 && !ended ? "stop_sequence" : count === 0 && ended ? "eos" : "malformed"
      const detail = count === 0 ? "the answer has no end" : `${JSON.stringify(stop)} does not end the answer`
      return { deltas, parsed: parsed({ role: "assistant", content: text }, termination, detail) }
    }
  }
}
