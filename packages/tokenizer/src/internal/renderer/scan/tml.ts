/**
 * Reads Inkling's chains of messages: each has a header that ends with its kind, and a body.
 */
import type { ToolCalls } from "../format.js"
import { jsonProblem } from "../format.js"
import { fields } from "../json.js"
import type { Delta, Scanner } from "./scanner.js"
import { Collector, held, stepwise } from "./scanner.js"

const close = "<|end_message|>"

const readCall = (body: string): ToolCalls => {
  const refuse = (error: string): ToolCalls => ({ calls: [], unparsed: [{ rawText: body, error }] })
  const problem = jsonProblem(body)
  if (problem !== undefined) return refuse(problem)
  const found = new Map((fields(body) ?? []).map((field) => [field.name, field]))
  const name = found.get("name")?.text
  const args = found.get("args")?.json
  return name === undefined || args === undefined
    ? refuse("the call has no name or no args")
    : { calls: [{ name, arguments: args }], unparsed: [] }
}

/** @internal */
export const scanTml = (): Scanner => {
  const collector = new Collector()
  let buffer = ""
  let kind: string | undefined
  let call = ""
  const body = (text: string, out: Array<Delta>): void => {
    if (kind === "thinking") collector.thinking(text, out)
    else if (kind?.startsWith("invoke_tool") === true) call += text
    else collector.text(text, out)
  }
  const finish = (out: Array<Delta>): void => {
    if (kind?.startsWith("invoke_tool") === true) collector.tools(readCall(call), out)
    call = ""
    kind = undefined
  }
  const step = (out: Array<Delta>, isEnd: boolean): boolean => {
    if (kind === undefined) {
      const header = /<\|content_([a-z_]+)\|>/.exec(buffer)
      if (header !== null) {
        kind = header[1] ?? ""
        buffer = buffer.slice(header.index + header[0].length)
        return true
      }
      // what never got a kind is said as it is
      if (isEnd && buffer !== "" && !buffer.includes("<|message_")) collector.text(buffer, out)
      if (isEnd) buffer = ""
      return false
    }
    const at = buffer.indexOf(close)
    if (at >= 0) {
      body(buffer.slice(0, at), out)
      buffer = buffer.slice(at + close.length)
      finish(out)
      return true
    }
    const keep = isEnd ? 0 : held(buffer, [close])
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
