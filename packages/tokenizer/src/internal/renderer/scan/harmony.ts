/**
 * Reads the harmony format: messages with a header that names their channel and recipient.
 */
import { readCall } from "../gptOss.js"
import type { Delta, Scanner } from "./scanner.js"
import { Collector, first, held, stepwise } from "./scanner.js"

const harmonyEnds = ["<|end|>", "<|start|>", "<|call|>", "<|return|>"]

/** @internal */
export const scanHarmony = (): Scanner => {
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
  return {
    ...stepwise(step, (text) => {
      buffer += text
    }),
    message: () => collector.message()
  }
}
