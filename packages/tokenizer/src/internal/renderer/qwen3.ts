/**
 * Qwen3: `<|im_start|>role\n…<|im_end|>`, reasoning in `<think>`, calls as JSON in `<tool_call>`.
 */
import type { ImagePart, Message, ToolCall, UnparsedToolCall } from "../../Message.js"
import * as Messages from "../../Message.js"
import type { Format, Piece, ToolCalls } from "./format.js"
import { asFunction, content, control, cut, image, jsonProblem, lastIndex, tag, text, toJson } from "./format.js"
import type { ImageTokens } from "./images.js"

/** @internal */
export interface Qwen3Options {
  readonly name: string
  readonly mode: "thinking" | "disabled" | "instruct"
  readonly keepThinking: boolean
  /** How many tokens an image takes, for models that see. */
  readonly images?: ImageTokens | undefined
}

const newlines = /^\n+/

/**
 * The template reads reasoning out of the text when it is there.
 *
 * @internal
 */
export const split = (
  content: string,
  reasoning: string
): { readonly reasoning: string; readonly content: string } => {
  if (reasoning !== "" || !content.includes("</think>")) return { reasoning, content }
  const [before = ""] = content.split("</think>")
  return {
    reasoning: (before.replace(/\n+$/, "").split("<think>").at(-1) ?? "").replace(newlines, ""),
    content: (content.split("</think>").at(-1) ?? "").replace(newlines, "")
  }
}

/** @internal */
export const framed = (reasoning: string, content: string): ReadonlyArray<Piece> => {
  const inner = reasoning.replace(/^\n+|\n+$/g, "")
  return [
    tag("<think>"),
    text(`\n${inner}\n`),
    tag("</think>"),
    text("\n\n"),
    cut,
    text(content.replace(newlines, ""))
  ]
}

/** @internal */
export const calls = (
  message: Message,
  hasText: boolean,
  write: (json: string) => string = (json) => json
): ReadonlyArray<Piece> =>
  (message.toolCalls ?? []).flatMap((call, i) => [
    text(i > 0 || hasText ? "\n" : ""),
    tag("<tool_call>"),
    text(`\n{"name": ${JSON.stringify(call.name)}, "arguments": ${write(call.arguments)}}\n`),
    tag("</tool_call>")
  ])

/** The arguments as written, when they are the last field; otherwise as they would be written. */
const argumentsOf = (source: string, value: unknown): string => {
  const at = source.search(/"arguments"\s*:/)
  const raw = source.slice(source.indexOf(":", at) + 1, source.lastIndexOf("}")).trim()
  return jsonProblem(raw) === undefined && raw.startsWith("{") ? raw : toJson(value)
}

const readCall = (source: string): ToolCall | UnparsedToolCall => {
  const rawText = `<tool_call>${source}</tool_call>`
  const problem = jsonProblem(source)
  if (problem !== undefined) return { rawText, error: problem }
  const value: unknown = JSON.parse(source)
  if (typeof value !== "object" || value === null) return { rawText, error: "the call is not an object" }
  const call: { readonly name?: unknown; readonly arguments?: unknown } = value
  if (typeof call.name !== "string") return { rawText, error: "the call has no name" }
  if (typeof call.arguments !== "object" || call.arguments === null) {
    return { rawText, error: "the call has no arguments" }
  }
  return { name: call.name, arguments: argumentsOf(source, call.arguments) }
}

/** @internal */
export const readCalls = (block: string): ToolCalls => {
  const call = readCall(block)
  return "rawText" in call ? { calls: [], unparsed: [call] } : { calls: [call], unparsed: [] }
}

/**
 * A user's message that only carries a tool's answer is not a question.
 *
 * @internal
 */
export const isQuery = (message: Message): boolean =>
  message.role === "user" &&
  !(Messages.text(message).startsWith("<tool_response>") && Messages.text(message).endsWith("</tool_response>"))

/** @internal */
export const seen = (part: ImagePart): ReadonlyArray<Piece> => [
  control("<|vision_start|>"),
  image(part),
  control("<|vision_end|>")
]

/** @internal */
export const qwen3 = (options: Qwen3Options): Format => ({
  name: options.name,
  bos: [],
  message: (message, context) => {
    const line = text(context.index > 0 ? "\n" : "")
    if (message.role === "tool") {
      // the answers of one round share a user block
      return {
        header: context.previous?.role === "tool" ? [text("\n")] : [line, control("<|im_start|>"), text("user\n")],
        output: [
          tag("<tool_response>"),
          text("\n"),
          ...content(message, seen),
          text("\n"),
          tag("</tool_response>"),
          ...(context.next?.role === "tool" ? [] : [control("<|im_end|>")])
        ]
      }
    }
    const header = [line, control("<|im_start|>"), text(`${message.role}\n`)]
    if (message.role !== "assistant") {
      return { header, output: [...content(message, seen), control("<|im_end|>")] }
    }
    const { content: said, reasoning } = split(Messages.text(message), Messages.thinking(message))
    const lastQuery = lastIndex(context.messages, isQuery)
    const afterQuery = lastQuery >= 0 && context.index > lastQuery
    const frames = options.mode !== "instruct" && lastQuery >= 0 &&
      (options.keepThinking || (afterQuery && (context.isLast || reasoning !== "")))
    const body = frames
      ? framed(reasoning, said)
      : options.mode === "instruct" && reasoning !== "" && (options.keepThinking || context.isLast)
      ? [tag("<think>"), text(reasoning), tag("</think>"), text(said)]
      : [text(said)]
    return { header, output: [...body, ...calls(message, said !== ""), control("<|im_end|>")] }
  },
  suffix: (role, context) => [
    text(context.index > 0 ? "\n" : ""),
    control("<|im_start|>"),
    text(`${role}\n`),
    ...(options.mode === "disabled" ? [tag("<think>"), text("\n\n"), tag("</think>"), text("\n\n")] : [])
  ],
  images: options.images,
  stops: ["<|im_end|>"],
  parsing: {
    _tag: "markers",
    markers: {
      thinkOpen: "<think>",
      thinkClose: "</think>",
      toolsOpen: "<tool_call>",
      toolsClose: "</tool_call>",
      framed: options.mode !== "instruct",
      separator: "\n"
    },
    tools: readCalls,
    startsInThinking: false
  },
  extends: options.keepThinking || options.mode === "instruct",
  disablesThinking: options.mode === "disabled",
  tools: (tools, system) => [{
    role: "system",
    markup: true,
    content: [
      ...(system === "" ? [] : [`${system}\n\n`]),
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n",
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>",
      ...tools.map((tool) => `\n${toJson(asFunction(tool))}`),
      "\n</tools>\n\nFor each function call, return a json object with function name and arguments within ",
      "<tool_call></tool_call> XML tags:\n<tool_call>\n",
      "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
    ].join("")
  }]
})
