/**
 * Builds a renderer from a format.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Message from "../../Message.js"
import type { Delta, Parsed, Parser, Renderer, Termination } from "../../Renderer.js"
import type { Tokenizer } from "../../Tokenizer.js"
import { RenderFailed } from "../../TokenizerError.js"
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
      : tokenParser(tokenizer, new Set(stop), () => scanner(format.parsing))
    return {
      name: format.name,
      tokenizer,
      stop: format.parsing._tag === "string" ? [format.parsing.stop] : stop,
      isExtending: format.isExtending,
      generationPrompt: (messages, options) =>
        lift(() => assembler.prompt(messages, options?.role ?? "assistant", options?.prefill ?? "")),
      supervised: (messages, mode) => lift(() => assembler.supervised(messages, mode ?? "last_assistant_message")),
      supervisedAll: (messages, mode) => lift(() => assembler.supervisedAll(messages, mode ?? "last_assistant_turn")),
      toolMessages: (tools, system) => lift(() => format.tools(tools, system ?? "")),
      parser,
      parse: parseWith(parser)
    }
  })

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
  (tokenizer: Tokenizer, stops: ReadonlySet<number>, makeScanner: () => Scanner) => (): Parser => {
    const decoder = tokenizer.decoder()
    const scanning = makeScanner()
    let stopped = 0
    return {
      push: (ids) => {
        const body: Array<number> = []
        for (const id of ids) {
          if (stops.has(id)) stopped++
          else if (stopped === 0) body.push(id)
        }
        return scanning.push(decoder.push(body))
      },
      end: () => {
        const deltas = [...scanning.push(decoder.end()), ...scanning.end()]
        const detail = stopped === 0 ? "the answer has no end" : `the answer has ${stopped} ends`
        return { deltas, parsed: parsed(scanning.message(), stopped === 1 ? "stop_sequence" : "malformed", detail) }
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
