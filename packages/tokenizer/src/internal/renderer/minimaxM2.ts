/**
 * MiniMax M2: `]~b]role\n…[e~[`, a system message that is always there, calls as `<invoke>` blocks, and reasoning that is shown
 * after the last question only.
 */
import type { Message, ToolCall, UnparsedToolCall } from "../../Message.js"
import * as Messages from "../../Message.js"
import type { Format, Piece, ToolCalls } from "./format.js"
import { control, jsonProblem, lastIndex, tag, text, toJson } from "./format.js"
import { fields } from "./json.js"

/** @internal */
export interface MiniMaxM2Options {
  readonly name: string
  readonly keepThinking: boolean
}

const identity = "You are a helpful assistant. Your name is MiniMax-M2.5 and is built by MiniMax."

const calls = (message: Message): ReadonlyArray<Piece> =>
  message.toolCalls === undefined || message.toolCalls.length === 0 ? [] : [
    tag("<minimax:tool_call>"),
    text(
      "\n" + message.toolCalls.map((call) =>
        [
          `<invoke name="${call.name}">\n`,
          ...(fields(call.arguments) ?? []).map(({ json, name, text }) =>
            `<parameter name="${name}">${text ?? json}</parameter>\n`
          ),
          "</invoke>\n"
        ].join("")
      ).join("")
    ),
    tag("</minimax:tool_call>")
  ]

const readInvoke = (rawText: string, name: string, body: string): ToolCall | UnparsedToolCall => {
  const parameter = /<parameter name="([^"]+)">([\s\S]*?)<\/parameter>/g
  if (body.replace(parameter, "").trim() !== "") return { rawText, error: "between the arguments is something else" }
  const found = Array.from(
    body.matchAll(parameter),
    ([, key = "", value = ""]) =>
      `${JSON.stringify(key)}: ${jsonProblem(value) === undefined ? value.trim() : JSON.stringify(value)}`
  )
  return { name, arguments: `{${found.join(", ")}}` }
}

const readCalls = (block: string): ToolCalls => {
  const invoke = /<invoke name="([^"]+)">([\s\S]*?)<\/invoke>/g
  const found = Array.from(block.matchAll(invoke), ([raw, name = "", body = ""]) => readInvoke(raw, name, body))
  if (found.length === 0 || block.replace(invoke, "").trim() !== "") {
    return {
      calls: [],
      unparsed: [{
        rawText: `<minimax:tool_call>${block}</minimax:tool_call>`,
        error: "the block is not a list of calls"
      }]
    }
  }
  return {
    calls: found.flatMap((call) => "rawText" in call ? [] : [call]),
    unparsed: found.flatMap((call) => "rawText" in call ? [call] : [])
  }
}

/** @internal */
export const minimaxM2 = (options: MiniMaxM2Options): Format => ({
  name: options.name,
  bos: [control("]~!b[")],
  prepare: (messages) => {
    const [first] = messages
    if (first?.role !== "system") return [Messages.system(identity), ...messages]
    return Messages.text(first) === "" ? [{ ...first, content: identity }, ...messages.slice(1)] : messages
  },
  message: (message, context) => {
    const content = Messages.text(message)
    const start = (role: string): ReadonlyArray<Piece> => [
      text(context.index > 0 ? "\n" : ""),
      control("]~b]"),
      text(role)
    ]
    switch (message.role) {
      case "tool":
        return {
          header: context.previous?.role === "tool" ? [] : start("tool"),
          output: [
            text(`${context.previous?.role === "tool" ? "" : "\n"}<response>${content}</response>`),
            text(context.next?.role === "tool" ? "\n" : ""),
            ...(context.next?.role === "tool" ? [] : [control("[e~[")])
          ]
        }
      case "assistant": {
        const reasoning = Messages.thinking(message)
        const shows = reasoning !== "" &&
          (options.keepThinking || context.index > lastIndex(context.messages, ({ role }) => role === "user"))
        const list = calls(message)
        // a line break before calls that nothing precedes is one token with that of the header
        const isBare = !shows && content === "" && list.length > 0
        return {
          header: start(isBare ? "ai\n\n" : "ai\n"),
          output: [
            ...(shows ? [tag("<think>"), text(`\n${reasoning}\n`), tag("</think>"), text("\n\n")] : []),
            text(content),
            text(list.length > 0 && !isBare ? "\n" : ""),
            ...list,
            control("[e~[")
          ]
        }
      }
      default:
        return { header: start(`${message.role}\n`), output: [text(content), control("[e~[")] }
    }
  },
  suffix: (role, context) => [
    text(context.index > 0 ? "\n" : ""),
    control("]~b]"),
    text(`${role === "assistant" ? "ai" : role}\n`),
    ...(role === "assistant" ? [tag("<think>"), text("\n")] : [])
  ],
  stops: ["[e~["],
  parsing: {
    _tag: "markers",
    markers: {
      thinkOpen: "<think>",
      thinkClose: "</think>",
      toolsOpen: "<minimax:tool_call>",
      toolsClose: "</minimax:tool_call>",
      framed: true,
      separator: "\n"
    },
    tools: readCalls,
    startsInThinking: true
  },
  extends: false,
  disablesThinking: false,
  tools: (tools, system) => [{
    role: "system",
    markup: true,
    content: [
      system === "" ? identity : system,
      ...(tools.length === 0 ? [] : [
        "\n\n# Tools\nYou may call one or more tools to assist with the user query.\n",
        "Here are the tools available in JSONSchema format:\n\n<tools>\n",
        ...tools.map(({ description, name, parameters }) =>
          `<tool>${toJson({ name, description, parameters })}</tool>\n`
        ),
        "</tools>\n\nWhen making tool calls, use XML format to invoke tools and pass parameters:\n\n",
        "<minimax:tool_call>\n<invoke name=\"tool-name-1\">\n<parameter name=\"param-key-1\">param-value-1</parameter>\n",
        "<parameter name=\"param-key-2\">param-value-2</parameter>\n...\n</invoke>\n</minimax:tool_call>"
      ])
    ].join("")
  }]
})
