/**
 * The embedded chat model: Qwen3's frame and calls, a tool list of one line a tool, and reasoning that stays in the history.
 */
import type { ToolSpec } from "../../Message.js"
import * as Messages from "../../Message.js"
import type { Format, Piece } from "./format.js"
import { control, tag, text } from "./format.js"
import { pythonJson } from "./json.js"
import { calls, readCalls } from "./qwen3.js"

const typeOf = (schema: unknown): string => {
  const { type }: { readonly type?: unknown } = typeof schema === "object" && schema !== null ? schema : {}
  return Array.isArray(type) ? type.map(String).join("|") : typeof type === "string" ? type : "any"
}

/** `name(param: type, param?: type) description` */
const declare = (tool: ToolSpec): string => {
  const { properties, required } = tool.parameters
  const isRequired = (name: string) => Array.isArray(required) && required.includes(name)
  const params = typeof properties === "object" && properties !== null ? Object.entries(properties) : []
  const list = params.map(([name, schema]) => `${name}${isRequired(name) ? "" : "?"}: ${typeOf(schema)}`)
  return `${tool.name}(${list.join(", ")})${tool.description === "" ? "" : ` ${tool.description}`}\n`
}

/** @internal */
export const localChat: Format = {
  name: "local_chat",
  bos: [],
  // a system message that says nothing is none
  prepare: (messages) =>
    messages[0]?.role === "system" && Messages.text(messages[0]) === "" ? messages.slice(1) : messages,
  message: (message, context) => {
    const line = text(context.index > 0 ? "\n" : "")
    const content = Messages.text(message)
    if (message.role === "tool") {
      // the answers of one round share a user block
      return {
        header: context.previous?.role === "tool" ? [text("\n")] : [line, control("<|im_start|>"), text("user\n")],
        output: [
          tag("<tool_response>"),
          text(`\n${content}\n`),
          tag("</tool_response>"),
          ...(context.next?.role === "tool" ? [] : [control("<|im_end|>")])
        ]
      }
    }
    const header = [line, control("<|im_start|>"), text(`${message.role}\n`)]
    if (message.role !== "assistant") return { header, output: [text(content), control("<|im_end|>")] }
    const reasoning = Messages.thinking(message)
    const thought: ReadonlyArray<Piece> = reasoning === ""
      ? []
      : [tag("<think>"), text(`\n${reasoning}\n`), tag("</think>"), text("\n\n")]
    return {
      header,
      output: [...thought, text(content), ...calls(message, content !== "", pythonJson), control("<|im_end|>")]
    }
  },
  suffix: (role, context) => [text(context.index > 0 ? "\n" : ""), control("<|im_start|>"), text(`${role}\n`)],
  stops: ["<|im_end|>", "<|endoftext|>"],
  eos: "<|endoftext|>",
  parsing: {
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
    startsInThinking: false
  },
  extends: true,
  disablesThinking: false,
  tools: (tools, system) => [{
    role: "system",
    markup: true,
    content: `${system === "" ? "" : `${system}\n\n`}<tools>\n${tools.map(declare).join("")}</tools>`
  }]
}
