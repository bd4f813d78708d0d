/**
 * Reads sampled text as it arrives: reasoning, text and tool calls.
 */
import type { ContentPart, Message, ToolCall, UnparsedToolCall } from "../../Message.js"
import type { Markers, Parsing, ToolCalls } from "./format.js"
import { readCall } from "./gptOss.js"

/** @internal */
export type Delta =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Thinking"; readonly thinking: string }
  | { readonly _tag: "ToolCall"; readonly call: ToolCall }
  | { readonly _tag: "UnparsedToolCall"; readonly call: UnparsedToolCall }

/** @internal */
export interface Scanner {
  readonly push: (text: string) => ReadonlyArray<Delta>
  readonly end: () => ReadonlyArray<Delta>
  readonly message: () => Message
}

/** How much of the end of `text` may be the beginning of one of the markers. */
const held = (text: string, markers: ReadonlyArray<string>): number => {
  let longest = 0
  for (const marker of markers) {
    for (let length = Math.min(marker.length - 1, text.length); length > longest; length--) {
      if (marker.startsWith(text.slice(text.length - length))) longest = length
    }
  }
  return longest
}

const first = (text: string, markers: ReadonlyArray<string>): readonly [at: number, marker: string] | undefined => {
  let found: readonly [number, string] | undefined
  for (const marker of markers) {
    const at = text.indexOf(marker)
    if (at >= 0 && (found === undefined || at < found[0])) found = [at, marker]
  }
  return found
}

/** Collects what was said into a message. */
class Collector {
  readonly parts: Array<ContentPart> = []
  readonly calls: Array<ToolCall> = []
  readonly unparsed: Array<UnparsedToolCall> = []

  text(text: string, out: Array<Delta>): void {
    if (text === "") return
    const last = this.parts.at(-1)
    if (last?.type === "text") this.parts[this.parts.length - 1] = { type: "text", text: last.text + text }
    else this.parts.push({ type: "text", text })
    out.push({ _tag: "Text", text })
  }

  thinking(thinking: string, out: Array<Delta>): void {
    if (thinking === "") return
    const last = this.parts.at(-1)
    if (last?.type === "thinking") {
      this.parts[this.parts.length - 1] = { type: "thinking", thinking: last.thinking + thinking }
    } else this.parts.push({ type: "thinking", thinking })
    out.push({ _tag: "Thinking", thinking })
  }

  tools({ calls, unparsed }: ToolCalls, out: Array<Delta>): void {
    for (const call of calls) {
      this.calls.push(call)
      out.push({ _tag: "ToolCall", call })
    }
    for (const call of unparsed) {
      this.unparsed.push(call)
      out.push({ _tag: "UnparsedToolCall", call })
    }
  }

  message(parts: ReadonlyArray<ContentPart> = this.parts): Message {
    return {
      role: "assistant",
      content: parts.some((part) => part.type === "thinking")
        ? parts
        : parts.map((part) => part.type === "text" ? part.text : "").join(""),
      ...(this.calls.length === 0 ? {} : { toolCalls: this.calls }),
      ...(this.unparsed.length === 0 ? {} : { unparsedToolCalls: this.unparsed })
    }
  }
}

const unterminated = (rawText: string, open: string, close: string): ToolCalls => ({
  calls: [],
  unparsed: [{ rawText, error: `unterminated tool block: ${open} without ${close}` }]
})

const scanMarkers = (
  markers: Markers,
  tools: (block: string) => ToolCalls,
  startsInThinking: boolean
): Scanner => {
  const collector = new Collector()
  let state: "text" | "thinking" | "tools" = startsInThinking ? "thinking" : "text"
  let buffer = ""
  // what the format, not the model, put at the beginning of this stretch
  let skips: RegExp | undefined = startsInThinking && markers.framed ? /^\n+/ : undefined
  let fresh = true
  let closed = !startsInThinking

  const take = (length: number): string => {
    const text = buffer.slice(0, length)
    buffer = buffer.slice(length)
    return text
  }
  const skip = (): void => {
    if (skips === undefined) return
    buffer = buffer.replace(skips, "")
    if (buffer !== "") skips = undefined
  }
  const step = (out: Array<Delta>, isEnd: boolean): boolean => {
    if (state === "thinking") {
      // the prompt already opened the reasoning; a model that opens it again means the same
      if (fresh && startsInThinking && buffer.startsWith(markers.thinkOpen)) {
        take(markers.thinkOpen.length)
        closed = true
      }
      if (fresh && startsInThinking && !isEnd && markers.thinkOpen.startsWith(buffer)) return false
      fresh = false
      skip()
      const at = buffer.indexOf(markers.thinkClose)
      if (at >= 0) {
        const text = take(at)
        collector.thinking(markers.framed ? text.replace(/\n+$/, "") : text, out)
        take(markers.thinkClose.length)
        state = "text"
        closed = true
        skips = markers.framed ? /^\n+/ : undefined
        return true
      }
      if (isEnd) {
        collector.thinking(take(buffer.length), out)
        return false
      }
      const marker = held(buffer, [markers.thinkClose])
      const kept = buffer.slice(0, buffer.length - marker)
      const tail = markers.framed ? kept.length - kept.replace(/\n+$/, "").length : 0
      collector.thinking(take(kept.length - tail), out)
      return false
    }
    if (state === "tools") {
      const at = buffer.indexOf(markers.toolsClose)
      if (at >= 0) {
        collector.tools(tools(take(at)), out)
        take(markers.toolsClose.length)
        state = "text"
        // white space between blocks is nobody's text
        skips = /^\s+/
        return true
      }
      if (isEnd) {
        collector.tools(
          unterminated(markers.toolsOpen + take(buffer.length), markers.toolsOpen, markers.toolsClose),
          out
        )
      }
      return false
    }
    skip()
    const found = first(buffer, [markers.thinkOpen, markers.toolsOpen])
    if (found !== undefined) {
      const text = take(found[0])
      const isTools = found[1] === markers.toolsOpen
      collector.text(
        isTools && text.endsWith(markers.separator) ? text.slice(0, text.length - markers.separator.length) : text,
        out
      )
      take(found[1].length)
      state = isTools ? "tools" : "thinking"
      skips = !isTools && markers.framed ? /^\n+/ : undefined
      return true
    }
    if (isEnd) {
      collector.text(take(buffer.length), out)
      return false
    }
    const tail = held(buffer, [markers.thinkOpen, markers.toolsOpen].map((marker) => marker))
    const kept = buffer.slice(0, buffer.length - tail)
    const separator = markers.separator !== "" && kept.endsWith(markers.separator) ? markers.separator.length : 0
    collector.text(take(kept.length - separator), out)
    return false
  }
  const run = (isEnd: boolean): ReadonlyArray<Delta> => {
    const out: Array<Delta> = []
    while (step(out, isEnd));
    return out
  }
  return {
    push: (text) => {
      buffer += text
      return run(false)
    },
    end: () => run(true),
    message: () =>
      // reasoning that was never closed nor opened by the model was an answer
      collector.message(
        closed
          ? collector.parts
          : collector.parts.map((part) => part.type === "thinking" ? { type: "text", text: part.thinking } : part)
      )
  }
}

const scanPlain = (): Scanner => {
  const collector = new Collector()
  return {
    push: (text) => {
      const out: Array<Delta> = []
      collector.text(text, out)
      return out
    },
    end: () => [],
    message: () => collector.message()
  }
}

const harmonyEnds = ["<|end|>", "<|start|>", "<|call|>", "<|return|>"]

const scanHarmony = (): Scanner => {
  const collector = new Collector()
  let buffer = ""
  let header = ""
  let inBody = false
  let call = ""

  const channel = (): string | undefined => /<\|channel\|>\s*([^<\s]+)/.exec(header)?.[1]
  const recipient = (): string | undefined => /to=([^\s<]+)/.exec(header)?.[1]
  const isCall = (): boolean => recipient()?.startsWith("functions.") === true
  const body = (text: string, out: Array<Delta>): void => {
    if (isCall()) call += text
    else if (channel() === "analysis") collector.thinking(text, out)
    else collector.text(text, out)
  }
  const finish = (out: Array<Delta>): void => {
    const to = recipient()
    if (to !== undefined && isCall()) collector.tools(readCall(to, call, `${header}<|message|>${call}`), out)
    header = ""
    call = ""
    inBody = false
  }
  const step = (out: Array<Delta>, isEnd: boolean): boolean => {
    if (!inBody) {
      const at = buffer.indexOf("<|message|>")
      if (at < 0) {
        if (isEnd) {
          const rest = buffer
          buffer = ""
          if (rest.includes("to=functions.")) {
            collector.tools({
              calls: [],
              unparsed: [{ rawText: rest, error: "unterminated tool block: no <|message|>" }]
            }, out)
          } else if (!rest.includes("<|") && collector.parts.length === 0 && collector.calls.length === 0) {
            // no channel at all: what was said is text
            collector.text(rest, out)
          }
        }
        return false
      }
      header = buffer.slice(0, at)
      buffer = buffer.slice(at + "<|message|>".length)
      inBody = true
      return true
    }
    const found = first(buffer, harmonyEnds)
    if (found !== undefined) {
      body(buffer.slice(0, found[0]), out)
      buffer = buffer.slice(found[0] + found[1].length)
      finish(out)
      return true
    }
    const keep = isEnd ? 0 : held(buffer, harmonyEnds)
    body(buffer.slice(0, buffer.length - keep), out)
    buffer = buffer.slice(buffer.length - keep)
    if (isEnd) finish(out)
    return false
  }
  const run = (isEnd: boolean): ReadonlyArray<Delta> => {
    const out: Array<Delta> = []
    while (step(out, isEnd));
    return out
  }
  return {
    push: (text) => {
      buffer += text
      return run(false)
    },
    end: () => run(true),
    message: () => collector.message()
  }
}

/** @internal */
export const scanner = (parsing: Parsing): Scanner => {
  switch (parsing._tag) {
    case "markers":
      return scanMarkers(parsing.markers, parsing.tools, parsing.startsInThinking)
    case "harmony":
      return scanHarmony()
    default:
      return scanPlain()
  }
}

/**
 * Cuts text at a stop string, giving out what cannot be part of it any more.
 *
 * @internal
 */
export const stopString = (stop: string) => {
  let buffer = ""
  let started = false
  let count = 0
  const lead = (text: string): string => {
    if (started || text === "") return text
    started = true
    return text.startsWith(" ") ? text.slice(1) : text
  }
  return {
    push: (text: string): string => {
      if (count > 0) {
        buffer += text
        count = 1 + buffer.split(stop).length - 1
        return ""
      }
      buffer += text
      const at = buffer.indexOf(stop)
      if (at >= 0) {
        const done = lead(buffer.slice(0, at))
        buffer = buffer.slice(at + stop.length)
        count = 1 + buffer.split(stop).length - 1
        return done
      }
      const keep = held(buffer, [stop])
      const done = lead(buffer.slice(0, buffer.length - keep))
      buffer = buffer.slice(buffer.length - keep)
      return done
    },
    /** What was held back; the blank line that ends an answer is not part of it. */
    end: (): string => count > 0 ? "" : lead(buffer.replace(/\n\n$/, "")),
    count: (): number => count
  }
}
