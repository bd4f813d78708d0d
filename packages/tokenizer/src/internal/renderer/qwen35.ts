/**
 * Qwen3.5 and Qwen3.8: Qwen3's frame around trimmed texts, a prompt that opens the reasoning, and calls as tags with a
 * block for each argument. Qwen3.8 keeps reasoning in the history, reads none out of texts, writes plain values as JSON,
 * and says in the system message how hard to think.
 */
import type { ContentPart, Message, ToolCall, UnparsedToolCall } from "../../Message.js"
import * as Messages from "../../Message.js"
import * as python from "../python.js"
import type { Format, Piece, ToolCalls } from "./format.js"
import { asFunction, content, control, cut, jsonProblem, lastIndex, Refusal, tag, text, toJson } from "./format.js"
import type { ImageTokens } from "./images.js"
import { fields } from "./json.js"
import { isQuery, seen, split } from "./qwen3.js"

/**
 * Instructions for calling tools, after their list.
 *
 * @internal
 */
export const callInstructions = [
  "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n",
  "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n",
  "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n",
  "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n",
  "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested ",
  "within <tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n",
  "- You may provide optional reasoning for your function call in natural language BEFORE the function call, ",
  "but NOT after\n- If there is no function call available, answer the question like normal with your current ",
  "knowledge and do not tell the user about function calls\n</IMPORTANT>"
].join("")

/** @internal */
export interface Qwen35Options {
  readonly name: string
  readonly thinking: boolean
  readonly keepThinking: boolean
  readonly version: "3.5" | "3.6" | "3.8"
  /** How much to reason: Qwen3.8 reads it before its system message. */
  readonly effort?: "low" | "medium" | "xhigh" | undefined
  /** How many tokens an image takes. */
  readonly images: ImageTokens
}

const efforts = {
  xhigh:
    "Reasoning effort is set to xhigh. Please think carefully through the task, validate key assumptions, consider " +
    "plausible alternatives, and prioritize correctness, consistency, and clarity in the final answer.",
  medium: "",
  low:
    "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to the conclusion without " +
    "unnecessary elaboration."
}

const trim = (text: string): string => python.strip(text, "both", undefined)

/** Trims a message as a whole: its first text up to what it says or shows, and its last. */
const trimmed = (parts: ReadonlyArray<ContentPart>): ReadonlyArray<ContentPart> => {
  const out = [...parts]
  for (const side of ["left", "right"] as const) {
    for (let i = 0; i < out.length; i++) {
      const at = side === "left" ? i : out.length - 1 - i
      const part = out[at]
      if (part?.type !== "text") break
      const rest = python.strip(part.text, side, undefined)
      out[at] = { type: "text", text: rest }
      if (rest !== "") break
    }
  }
  return out
}

const constants: ReadonlyMap<string, string> = new Map([["True", "true"], ["False", "false"], ["None", "null"]])

const printedConstants = new Map(Array.from(constants, ([printed, json]) => [json, printed]))

/**
 * A call as tags with a block for each argument: text as it is, everything else as JSON, and constants by Python's `str`
 * where asked.
 *
 * @internal
 */
export const writeCall = (call: ToolCall, constantsByName: boolean): string =>
  [
    `\n<function=${call.name}>\n`,
    ...(fields(call.arguments) ?? []).map(({ json, name, text }) =>
      `<parameter=${name}>\n${
        text ?? ((constantsByName ? printedConstants.get(json) : undefined) ?? json)
      }\n</parameter>\n`
    ),
    "</function>\n"
  ].join("")

const calls = (message: Message, hasText: boolean, version: Qwen35Options["version"]): ReadonlyArray<Piece> =>
  (message.toolCalls ?? []).flatMap((call, i) => [
    text(i > 0 ? "\n" : hasText ? "\n\n" : ""),
    tag("<tool_call>"),
    text(writeCall(call, version === "3.5")),
    tag("</tool_call>")
  ])

/** Meaning of a value: JSON that is not a string, a constant of Python's, or else the text itself. */
const valueOf = (written: string): string => {
  const plain = written.trim()
  return constants.get(plain) ??
    (plain.startsWith("\"") || jsonProblem(plain) !== undefined ? JSON.stringify(written) : plain)
}

const readCall = (source: string): ToolCall | UnparsedToolCall => {
  const refuse = (error: string) => ({ rawText: `<tool_call>${source}</tool_call>`, error })
  const [, name, body] = /^\s*<function=([^>\n]+)>([\s\S]*)<\/function>\s*$/.exec(source) ?? []
  if (name === undefined || body === undefined) return refuse("the call is not one <function=…> block")
  // an argument may speak of </parameter> itself: it ends at the one that is followed by another argument, or by nothing
  const argument = /\s*<parameter=([^>\n]+)>\n?([\s\S]*?)\n?<\/parameter>(?=\s*(?:<parameter=|$))/y
  const found: Array<string> = []
  let end = 0
  for (let match = argument.exec(body); match !== null; match = argument.exec(body)) {
    found.push(`${JSON.stringify(match[1]?.trim())}: ${valueOf(match[2] ?? "")}`)
    end = argument.lastIndex
  }
  return body.slice(end).trim() === ""
    ? { name: name.trim(), arguments: `{${found.join(", ")}}` }
    : refuse("between the arguments is something else")
}

/** @internal */
export const readCalls = (block: string): ToolCalls => {
  const call = readCall(block)
  return "rawText" in call ? { calls: [], unparsed: [call] } : { calls: [call], unparsed: [] }
}

/** Qwen3.8 writes a turn that did not reason as its template does, in one token more than it is sampled in. */
const staysAsSampled = (options: Qwen35Options): boolean => options.keepThinking && options.version !== "3.8"

/** The conversation with the instructions of Qwen3.8 in its system message, and without an empty system message. */
const instructed = (messages: ReadonlyArray<Message>, instructions: string): ReadonlyArray<Message> => {
  const [first] = messages
  const given = first?.role === "system" ? first : undefined
  const content = [instructions, given === undefined ? "" : trim(Messages.text(given))].filter((part) => part !== "")
  const system: Message = {
    role: "system",
    // a mode that asks every message whether it is trained asks this one too
    ...(first?.trainable === undefined ? {} : { trainable: false }),
    ...given,
    content: content.join("\n\n")
  }
  return [...(content.length === 0 ? [] : [system]), ...messages.slice(given === undefined ? 0 : 1)]
}

/** @internal */
export const qwen35 = (options: Qwen35Options): Format => ({
  name: options.name,
  bos: [],
  prepare: options.version === "3.5"
    ? undefined
    : (messages) => instructed(messages, efforts[options.effort ?? "medium"]),
  message: (message, context) => {
    const line = text(context.index > 0 ? "\n" : "")
    const whole = trim(Messages.text(message))
    const header = [line, control("<|im_start|>"), text(`${message.role}\n`)]
    switch (message.role) {
      case "system":
        return context.index === 0
          ? { header, output: [text(whole), control("<|im_end|>")] }
          : new Refusal(`Qwen${options.version} knows a system message only as the first message`)
      case "tool":
        // the answers of one round share a user block
        return {
          header: context.previous?.role === "tool" ? [text("\n")] : [line, control("<|im_start|>"), text("user\n")],
          output: [
            tag("<tool_response>"),
            text("\n"),
            ...content(message, seen, trimmed),
            text("\n"),
            tag("</tool_response>"),
            ...(context.next?.role === "tool" ? [] : [control("<|im_end|>")])
          ]
        }
      case "assistant": {
        const thought = Messages.thinking(message)
        const { content: said, reasoning } = options.version !== "3.8"
          ? split(whole, thought)
          : { content: whole, reasoning: thought }
        const frames = options.keepThinking || context.index > lastIndex(context.messages, isQuery)
        // what the prompt has opened is apart from what is written after it; templates write history in one piece
        const opened = options.thinking && (staysAsSampled(options) || (!context.generating && context.isLast))
          ? [cut]
          : []
        const open = [tag("<think>"), text("\n"), ...opened]
        const close = [text(`${trim(reasoning)}\n`), tag("</think>"), text("\n\n"), cut]
        // an empty block is given to the model, as far as it is not its to close
        const isGiven = frames && reasoning === ""
        const closes = isGiven && options.thinking && context.isLast && !context.generating
        return {
          header: [...header, ...(isGiven ? open : []), ...(isGiven && !closes ? close : [])],
          output: [
            ...(frames && !isGiven ? open : []),
            ...(frames && (!isGiven || closes) ? close : []),
            text(said),
            ...calls(message, trim(said) !== "", options.version),
            control("<|im_end|>")
          ]
        }
      }
      default:
        return { header, output: [...content(message, seen, trimmed), control("<|im_end|>")] }
    }
  },
  suffix: (role, context) => [
    text(context.index > 0 ? "\n" : ""),
    control("<|im_start|>"),
    text(`${role}\n`),
    tag("<think>"),
    ...(options.thinking ? [text("\n")] : [text("\n\n"), tag("</think>"), text("\n\n")])
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
      framed: true,
      separator: "\n\n"
    },
    tools: readCalls,
    startsInThinking: options.thinking
  },
  extends: staysAsSampled(options),
  disablesThinking: !options.thinking,
  tools: (tools, system) => [{
    role: "system",
    markup: true,
    content: [
      ...(tools.length === 0 ? [] : [[
        "# Tools\n\nYou have access to the following functions:\n\n<tools>",
        ...tools.map((tool) => `\n${toJson(asFunction(tool))}`),
        callInstructions
      ].join("")]),
      ...(system === "" ? [] : [system])
    ].join("\n\n")
  }]
})
