/**
 * DeepSeek V3.1: `<｜User｜>…<｜Assistant｜>…<｜end▁of▁sentence｜>`; an answer without reasoning starts with `</think>`.
 */
import type { Message } from "../../Message.js"
import * as Messages from "../../Message.js"
import type { Format, Piece } from "./format.js"
import { control, delimitedCalls, Refusal, tag, text, toJson } from "./format.js"

/** @internal */
export interface DeepSeekV3Options {
  readonly name: string
  readonly thinking: boolean
  readonly keepThinking: boolean
}

const end = control("<｜end▁of▁sentence｜>")

const calls = (message: Message): ReadonlyArray<Piece> =>
  message.toolCalls === undefined || message.toolCalls.length === 0 ? [] : [
    tag("<｜tool▁calls▁begin｜>"),
    ...message.toolCalls.flatMap((call) => [
      tag("<｜tool▁call▁begin｜>"),
      text(call.name),
      tag("<｜tool▁sep｜>"),
      text(call.arguments),
      tag("<｜tool▁call▁end｜>")
    ]),
    tag("<｜tool▁calls▁end｜>")
  ]

/** An answer's text after the reasoning, wherever the reasoning is written. */
const answer = (message: Message): string => {
  const content = Messages.text(message)
  const at = content.indexOf("</think>")
  return at < 0 ? content : content.slice(at + "</think>".length)
}

/** @internal */
export const deepseekV3 = (options: DeepSeekV3Options): Format => ({
  name: options.name,
  bos: [control("<｜begin▁of▁sentence｜>")],
  message: (message, context) => {
    const content = Messages.text(message)
    switch (message.role) {
      case "system":
        return context.index === 0
          ? { header: [], output: [text(content)] }
          : new Refusal("DeepSeek knows a system message only as the first message")
      case "user":
        return { header: [control("<｜User｜>")], output: [text(content)] }
      case "tool":
        return {
          header: [tag("<｜tool▁output▁begin｜>")],
          output: [text(content), tag("<｜tool▁output▁end｜>")]
        }
      case "assistant": {
        // an answer to a tool goes on without a new header
        if (context.previous?.role === "tool") {
          return { header: [], output: [text(content), ...calls(message), end] }
        }
        const reasoning = Messages.thinking(message)
        const shows = options.thinking && (context.isLast || options.keepThinking)
        return shows
          ? {
            header: [control("<｜Assistant｜>")],
            output: [tag("<think>"), text(reasoning), tag("</think>"), text(answer(message)), ...calls(message), end]
          }
          : {
            header: [control("<｜Assistant｜>"), tag("</think>")],
            output: [text(answer(message)), ...calls(message), end]
          }
      }
      default:
        return new Refusal(`DeepSeek has no role "${message.role}"`)
    }
  },
  suffix: (_role, context) =>
    context.previous?.role === "tool"
      ? []
      : [control("<｜Assistant｜>"), tag(options.thinking ? "<think>" : "</think>")],
  stops: ["<｜end▁of▁sentence｜>"],
  parsing: {
    _tag: "markers",
    markers: {
      thinkOpen: "<think>",
      thinkClose: "</think>",
      toolsOpen: "<｜tool▁calls▁begin｜>",
      toolsClose: "<｜tool▁calls▁end｜>",
      framed: false,
      separator: ""
    },
    tools: (block) =>
      delimitedCalls(block, {
        open: "<｜tool▁call▁begin｜>",
        separator: "<｜tool▁sep｜>",
        close: "<｜tool▁call▁end｜>"
      }, (name) => ({ name })),
    startsInThinking: options.thinking
  },
  extends: !options.thinking || options.keepThinking,
  disablesThinking: false,
  tools: (tools, system) => [{
    role: "system",
    markup: true,
    content: [
      system,
      ...(tools.length === 0 ? [] : [
        "\n\n## Tools\nYou have access to the following tools:\n\n",
        tools.map((tool) =>
          `### ${tool.name}\nDescription: ${tool.description}\n\nParameters: ${toJson(tool.parameters)}`
        ).join("\n"),
        "\n\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>\n\nWhere:\n",
        "- `tool_call_name` must be an exact match to one of the available tools\n",
        "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n",
        "- For multiple tool calls, chain them directly without separators or spaces"
      ])
    ].join("")
  }]
})
