/**
 * Interface of every reader of sampled text: pieces in, events out, and a message of all of it.
 */
import type { ContentPart, Message, ToolCall, UnparsedToolCall } from "../../../Message.js"
import type { ToolCalls } from "../format.js"

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

/**
 * Reads on while there is something to read.
 *
 * @param step whether it got further
 * @internal
 */
export const stepwise = (
  step: (out: Array<Delta>, isEnd: boolean) => boolean,
  append: (text: string) => void
): Pick<Scanner, "push" | "end"> => {
  const run = (isEnd: boolean): ReadonlyArray<Delta> => {
    const out: Array<Delta> = []
    while (step(out, isEnd));
    return out
  }
  return {
    push: (text) => {
      append(text)
      return run(false)
    },
    end: () => run(true)
  }
}

/**
 * How much of the end of `text` may be the beginning of one of the markers.
 *
 * @internal
 */
export const held = (text: string, markers: ReadonlyArray<string>): number => {
  let longest = 0
  for (const marker of markers) {
    for (let length = Math.min(marker.length - 1, text.length); length > longest; length--) {
      if (marker.startsWith(text.slice(text.length - length))) longest = length
    }
  }
  return longest
}

/** @internal */
export const first = (
  text: string,
  markers: ReadonlyArray<string>
): readonly [at: number, marker: string] | undefined => {
  let found: readonly [number, string] | undefined
  for (const marker of markers) {
    const at = text.indexOf(marker)
    if (at >= 0 && (found === undefined || at < found[0])) found = [at, marker]
  }
  return found
}

/**
 * Collects what was said into a message.
 *
 * @internal
 */
export class Collector {
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
