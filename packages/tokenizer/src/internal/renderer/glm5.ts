/**
 * GLM 5, 5.1 and 5.3: messages without an end token. An answer ends with the header of the message after it: `<|user|>`, or
 * `<|observation|>` after calls of tools. Where the first two show no reasoning they write `</think>` alone; 5.3 always opens
 * it, and begins with its reasoning effort.
 */
import type { Message, ToolCall, UnparsedToolCall } from "../../Message.js"
import * as Messages from "../../Message.js"
import * as python from "../python.js"
import type { Format, Piece, ToolCalls } from "./format.js"
import { asFunction, control, jsonProblem, lastIndex, Refusal, tag, text, toJson } from "./format.js"
import { fields } from "./json.js"

/** @internal */
export interface Glm5Options {
  readonly name: string
  readonly version: "5" | "5.1" | "5.3"
  /** How hard 5.3 thinks. */
  readonly effort?: "Low" | "High" | "Max" | undefined
  readonly thinking: boolean
  readonly keepThinking: boolean
}

const hasCalls = (message: Message): boolean => (message.toolCalls?.length ?? 0) > 0

/** The token that ends an answer; none when the message after it has another header. */
const terminator = (answer: Message, next: Message | undefined): string | undefined => {
  const expected = hasCalls(answer) ? "<|observation|>" : "<|user|>"
  const follows = next?.role === "user" ? "<|user|>" : next?.role === "tool" ? "<|observation|>" : undefined
  return next === undefined || follows === expected ? expected : undefined
}

const calls = (message: Message): ReadonlyArray<Piece> =>
  (message.toolCalls ?? []).flatMap((call) => [
    tag("<tool_call>"),
    text(call.name),
    ...(fields(call.arguments) ?? []).flatMap(({ json, name, text: value }) => [
      tag("<arg_key>"),
      text(name),
      tag("</arg_key>"),
      tag("<arg_value>"),
      text(value ?? json),
      tag("</arg_value>")
    ]),
    tag("</tool_call>")
  ])

const readCall = (block: string): ToolCall | UnparsedToolCall => {
  const refuse = (error: string) => ({ rawText: `<tool_call>${block}</tool_call>`, error })
  const [, name, body = ""] = /^\s*([\w\-.]+)\s*([\s\S]*)$/.exec(block) ?? []
  if (name === undefined) return refuse("the call has no name")
  const argument = /\s*<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/y
  const found: Array<string> = []
  let end = 0
  for (let match = argument.exec(body); match !== null; match = argument.exec(body)) {
    const key = match[1]?.trim() ?? ""
    if (key === "") return refuse("an argument has no name")
    const value = match[2] ?? ""
    found.push(`${JSON.stringify(key)}: ${jsonProblem(value) === undefined ? value.trim() : JSON.stringify(value)}`)
    end = argument.lastIndex
  }
  return body.slice(end).trim() === ""
    ? { name, arguments: `{${found.join(", ")}}` }
    : refuse("between the arguments is something else")
}

const readCalls = (block: string): ToolCalls => {
  const call = readCall(block)
  return "rawText" in call ? { calls: [], unparsed: [call] } : { calls: [call], unparsed: [] }
}

/** Answers of tools in the order of their calls, where ids leave no doubt about it. */
const inOrder = (answers: ReadonlyArray<Message>, caller: Message | undefined): ReadonlyArray<Message> => {
  const ids = (caller?.role === "assistant" ? caller.toolCalls ?? [] : []).map((call) => call.id)
  const given = answers.map((answer) => answer.toolCallId)
  const isClear = ids.length > 0 && ids.every((id) => id !== undefined && id !== "") &&
    new Set(ids).size === ids.length &&
    given.every((id) => id !== undefined && ids.includes(id)) && new Set(given).size === given.length
  return isClear ? ids.flatMap((id) => answers.filter((answer) => answer.toolCallId === id)) : answers
}

const prepare = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  if (!messages.some((message) => message.role === "tool" && message.toolCallId !== undefined)) return messages
  const out: Array<Message> = []
  for (let i = 0; i < messages.length;) {
    let end = i
    while (messages[end]?.role === "tool") end++
    if (end > i) out.push(...inOrder(messages.slice(i, end), messages[i - 1]))
    const message = messages[end]
    if (message !== undefined) out.push(message)
    i = end + 1
  }
  return out
}

/** An answer's text and its reasoning, wherever the reasoning is written. */
const split = (message: Message): { readonly reasoning: string; readonly content: string } => {
  const content = Messages.text(message)
  if (typeof message.content !== "string" || !content.includes("</think>")) {
    return { reasoning: Messages.thinking(message), content }
  }
  return {
    reasoning: content.split("</think>")[0]?.split("<think>").at(-1) ?? "",
    content: content.split("</think>").at(-1) ?? ""
  }
}

/** Beginning of an answer before its text, and how much of it the prompt has written. */
const thought = (
  reasoning: string,
  isPast: boolean,
  options: Glm5Options
): { readonly given: ReadonlyArray<Piece>; readonly said: ReadonlyArray<Piece> } => {
  const shown = options.keepThinking || !isPast ? reasoning : ""
  if (options.version === "5.3") return { given: [tag("<think>")], said: [text(shown), tag("</think>")] }
  const inner = python.strip(shown, "both", undefined)
  return shown !== "" || (options.version === "5.1" && !isPast && options.thinking)
    ? { given: [tag("<think>")], said: [text(inner), tag("</think>")] }
    : { given: [tag("</think>")], said: [] }
}

const headers = new Map([
  ["system", "<|system|>"],
  ["user", "<|user|>"],
  ["assistant", "<|assistant|>"],
  ["tool", "<|observation|>"]
])

/** @internal */
export const glm5 = (options: Glm5Options): Format => ({
  name: options.name,
  bos: [
    control("[gMASK]"),
    control("<sop>"),
    ...(options.effort === undefined ? [] : [control("<|system|>"), text(`Reasoning Effort: ${options.effort}`)])
  ],
  prepare: options.version === "5.3" ? prepare : undefined,
  message: (message, context) => {
    const { previous } = context
    const isHeaded = previous?.role === "assistant" && terminator(previous, message) !== undefined
    const content = Messages.text(message)
    switch (message.role) {
      case "system":
        return { header: [control("<|system|>")], output: [text(content)] }
      case "user":
        return { header: isHeaded ? [] : [control("<|user|>")], output: [text(content)] }
      case "tool":
        return {
          header: isHeaded || previous?.role === "tool" ? [] : [control("<|observation|>")],
          output: [tag("<tool_response>"), text(content), tag("</tool_response>")]
        }
      case "assistant": {
        const said = split(message)
        const isPast = context.index <= lastIndex(context.messages, ({ role }) => role === "user")
        const { given, said: closed } = thought(said.reasoning, isPast, options)
        const end = terminator(message, context.next)
        const pieces = end === undefined ? [] : [control(end)]
        return {
          header: [control("<|assistant|>"), ...given],
          output: [
            ...closed,
            text(python.strip(said.content, "both", undefined)),
            ...calls(message),
            ...(context.isLast ? [] : pieces)
          ],
          overlap: pieces
        }
      }
      default:
        return new Refusal(`GLM has no role "${message.role}"`)
    }
  },
  suffix: (role) => [
    control(headers.get(role) ?? "<|system|>"),
    ...(role === "assistant" ? [tag(options.thinking ? "<think>" : "</think>")] : [])
  ],
  stops: ["<|user|>", "<|observation|>", "<|endoftext|>"],
  eos: "<|endoftext|>",
  closes: (answer, next) => terminator(answer, next),
  parsing: {
    _tag: "markers",
    markers: {
      thinkOpen: "<think>",
      thinkClose: "</think>",
      toolsOpen: "<tool_call>",
      toolsClose: "</tool_call>",
      framed: false,
      separator: ""
    },
    tools: readCalls,
    startsInThinking: options.thinking
  },
  extends: options.keepThinking && (options.version === "5.3" || !options.thinking),
  disablesThinking: !options.thinking,
  tools: (tools, system) => [
    ...(tools.length === 0 ? [] : [{
      role: "system",
      markup: true,
      content: [
        "\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n",
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
        ...tools.map((tool) => {
          const { description, name, parameters } = tool
          return `${toJson(options.version === "5" ? asFunction(tool) : { name, description, parameters })}\n`
        }),
        "</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n",
        "<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>",
        "<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>"
      ].join("")
    }]),
    ...(system === "" ? [] : [Messages.system(system)])
  ]
})
