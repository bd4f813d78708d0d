/**
 * Nemotron 3 and 3.5: Qwen3.5's frame and calls, a system message that is always there, tools declared as tags, and an empty
 * block of reasoning before every answer that shows none. Ultra and the 3.5 models write no newline around `</think>`.
 */
import type { Message, ToolSpec } from "../../Message.js"
import * as Messages from "../../Message.js"
import * as python from "../python.js"
import type { Format, MessageContext, Piece } from "./format.js"
import { control, image, lastIndex, tag, text, toJson } from "./format.js"
import type { ImageTokens } from "./images.js"
import { callInstructions, readCalls, writeCall } from "./qwen35.js"

/** @internal */
export interface Nemotron3Options {
  readonly name: string
  readonly ultra: boolean
  readonly thinking: boolean
  readonly keepThinking: boolean
  /** Reasoning effort that the last question asks for. */
  readonly effort?: string | undefined
  /** How many tokens an image takes, for models that see. */
  readonly images?: ImageTokens | undefined
}

/** Text in one piece is trimmed, text in parts is not. */
const contentOf = (message: Message): string =>
  typeof message.content === "string"
    ? python.strip(message.content, "both", undefined)
    : Messages.text(message)

/** Images start on a line of their own, and are numbered where there are several. */
const shown = (message: Message): ReadonlyArray<Piece> => {
  const several = Messages.images(message).length > 1
  const pieces: Array<Piece> = []
  let count = 0
  let before = ""
  for (const part of Messages.parts(message)) {
    if (part.type === "text") {
      pieces.push(text(part.text))
      before = part.text || before
    } else if (part.type === "image") {
      count++
      const line = before === "" || before.endsWith("\n") ? "" : "\n"
      pieces.push(text(`${line}${several ? `<image ${count}>` : ""}`), tag("<img>"), image(part), tag("</img>"))
      before = ""
    }
  }
  return pieces
}

const contentPieces = (message: Message): ReadonlyArray<Piece> =>
  Messages.images(message).length === 0 ? [text(contentOf(message))] : shown(message)

const reasons = (message: Message): boolean => Messages.parts(message).some((part) => part.type === "thinking")

const lastUser = (messages: ReadonlyArray<Message>): number => lastIndex(messages, ({ role }) => role === "user")

const printed = (value: unknown): string =>
  typeof value === "string"
    ? value
    : value === true
    ? "True"
    : value === false
    ? "False"
    : value === null
    ? "None"
    : toJson(value)

const tags = (value: Readonly<Record<string, unknown>>, written: ReadonlyArray<string>): ReadonlyArray<string> =>
  Object.entries(value).flatMap(([key, item]) => written.includes(key) ? [] : [`<${key}>${printed(item)}</${key}>`])

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> =>
  typeof u === "object" && u !== null && !Array.isArray(u)

const declareParameter = ([name, schema]: readonly [string, unknown]): ReadonlyArray<string> => {
  const { description, enum: values, type } = isRecord(schema) ? schema : {}
  return [
    "<parameter>",
    `<name>${name}</name>`,
    ...(type === undefined ? [] : [`<type>${Array.isArray(type) ? list(type) : String(type)}</type>`]),
    ...(typeof description === "string" ? [`<description>${description.trim()}</description>`] : []),
    ...(values === undefined ? [] : [`<enum>${toJson(values)}</enum>`]),
    ...tags(isRecord(schema) ? schema : {}, ["name", "type", "description", "enum"]),
    "</parameter>"
  ]
}

/** A list of names as Python prints it. */
const list = (items: ReadonlyArray<unknown>): string => `[${items.map((item) => `'${String(item)}'`).join(", ")}]`

const declare = (tool: ToolSpec): string => {
  const { properties, required } = tool.parameters
  return [
    "<function>",
    `<name>${tool.name}</name>`,
    ...(tool.description.trim() === "" ? [] : [`<description>${tool.description.trim()}</description>`]),
    "<parameters>",
    ...(isRecord(properties) ? Object.entries(properties).flatMap(declareParameter) : []),
    ...tags(tool.parameters, ["type", "properties", "required"]),
    ...(required === undefined ? [] : [`<required>${toJson(required)}</required>`]),
    "</parameters>",
    "</function>"
  ].join("\n")
}

const answer = (message: Message, context: MessageContext, options: Nemotron3Options): {
  readonly opened: ReadonlyArray<Piece>
  readonly body: ReadonlyArray<Piece>
} => {
  const content = contentOf(message)
  const calls = message.toolCalls ?? []
  const isPast = context.index < lastUser(context.messages)
  const reasoned = reasons(message)
  const shows = reasoned && (!isPast || options.keepThinking)
  const empty: ReadonlyArray<Piece> = [
    tag("<think>"),
    tag("</think>"),
    // what was left of the block, which a template that calls tools trims away
    text(!options.ultra && isPast && reasoned && content !== "" && calls.length === 0 ? "\n" : "")
  ]
  const block: ReadonlyArray<Piece> = [
    tag("<think>"),
    text(`\n${Messages.thinking(message)}${options.ultra ? "" : "\n"}`),
    tag("</think>"),
    text(options.ultra ? "" : "\n")
  ]
  const separator = options.ultra || content !== "" || !reasoned ? "\n" : ""
  return {
    opened: shows ? [] : empty,
    body: [
      ...(shows ? block : []),
      text(content),
      ...calls.flatMap((call, i) => [
        text(i === 0 ? separator : ""),
        tag("<tool_call>"),
        text(writeCall(call, true)),
        tag("</tool_call>"),
        text("\n")
      ])
    ]
  }
}

/** @internal */
export const nemotron3 = (options: Nemotron3Options): Format => ({
  name: options.name,
  bos: [],
  prepare: (messages) => messages[0]?.role === "system" ? messages : [Messages.system(""), ...messages],
  message: (message, context) => {
    const start = (role: string): ReadonlyArray<Piece> => [
      text(context.index > 0 ? "\n" : ""),
      control("<|im_start|>"),
      text(`${role}\n`)
    ]
    switch (message.role) {
      case "tool":
        return {
          header: context.previous?.role === "tool" ? [] : start("user"),
          output: [
            tag("<tool_response>"),
            text("\n"),
            ...contentPieces(message),
            text("\n"),
            tag("</tool_response>"),
            text("\n"),
            ...(context.next?.role === "tool" ? [] : [control("<|im_end|>")])
          ]
        }
      case "assistant": {
        const { body, opened } = answer(message, context, options)
        return { header: [...start("assistant"), ...opened], output: [...body, control("<|im_end|>")] }
      }
      default: {
        const isLastQuestion = options.effort !== undefined && message.role === "user" &&
          context.index === lastUser(context.messages)
        const effort = isLastQuestion ? `\n\n{reasoning effort: ${options.effort}}` : ""
        // with the effort appended the text is trimmed as a whole
        return { header: start(message.role), output: [...contentPieces(message), text(effort), control("<|im_end|>")] }
      }
    }
  },
  suffix: (role, context) => [
    text(context.index > 0 ? "\n" : ""),
    control("<|im_start|>"),
    text(`${role}\n`),
    tag("<think>"),
    ...(options.thinking ? [text("\n")] : [tag("</think>")])
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
      separator: "\n"
    },
    tools: readCalls,
    startsInThinking: options.thinking
  },
  extends: options.keepThinking,
  disablesThinking: !options.thinking,
  tools: (tools, system) => [{
    role: "system",
    markup: true,
    content: [
      ...(system === "" ? [] : [system]),
      ...(tools.length === 0 ? [] : [
        `# Tools\n\nYou have access to the following functions:\n\n<tools>\n${
          tools.map(declare).join("\n")
        }${callInstructions}`
      ])
    ].join("\n\n")
  }]
})
