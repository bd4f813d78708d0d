/**
 * Reads formats that put reasoning and tool calls between markers.
 */
import type { Markers, ToolCalls } from "../format.js"
import type { Delta, Scanner } from "./scanner.js"
import { Collector, first, held, stepwise } from "./scanner.js"

const unterminated = (rawText: string, open: string, close: string): ToolCalls => ({
  calls: [],
  unparsed: [{ rawText, error: `unterminated tool block: ${open} without ${close}` }]
})

/** @internal */
export const scanMarkers = (
  markers: Markers,
  tools: (block: string) => ToolCalls,
  starts: boolean | "perhaps"
): Scanner => {
  const collector = new Collector()
  const startsInThinking = starts === true
  let state: "unknown" | "text" | "thinking" | "tools" = startsInThinking ? "thinking" : starts ? "unknown" : "text"
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
    if (state === "unknown") {
      // the first marker says whether what came before it was reasoning
      const found = first(buffer, [markers.thinkOpen, markers.thinkClose, markers.toolsOpen])
      if (found === undefined && !isEnd) return false
      state = found?.[1] === markers.thinkClose ? "thinking" : "text"
      if (state === "thinking" && markers.framed) skips = /^\n+/
      return true
    }
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
        // white space between blocks is not text
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
    const tail = held(buffer, [markers.thinkOpen, markers.toolsOpen])
    const kept = buffer.slice(0, buffer.length - tail)
    const separator = kept.endsWith(markers.separator) ? markers.separator.length : held(kept, [markers.separator])
    collector.text(take(kept.length - separator), out)
    return false
  }
  return {
    ...stepwise(step, (text) => {
      buffer += text
    }),
    message: () =>
      // reasoning that was never closed nor opened by the model was an answer
      collector.message(
        closed
          ? collector.parts
          : collector.parts.map((part) => part.type === "thinking" ? { type: "text", text: part.thinking } : part)
      )
  }
}
