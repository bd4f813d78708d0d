/**
 * Kimi K2 Thinking, K2.5 and K2.6: `<|im_user|>user<|im_middle|>…<|im_end|>`, reasoning in `<think>` right before the text.
 * Prompts of the later two open the reasoning, or open and close it, and their tools are declared as TypeScript.
 */
import type { ImagePart, Message } from "../../Message.js"
import * as Messages from "../../Message.js"
import type { Format, Piece } from "./format.js"
import {
  asFunction,
  content,
  control,
  cut,
  delimitedCalls,
  image,
  lastIndex,
  tag,
  text,
  toCompactSortedJson
} from "./format.js"
import type { ImageTokens } from "./images.js"
import { typescriptTools } from "./typescriptTools.js"

const defaultSystem = "You are Kimi, an AI assistant created by Moonshot AI."

const prepare = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const declared = messages[0]?.role === "tool_declare" ? 1 : 0
  return messages[declared]?.role === "system"
    ? messages
    : [...messages.slice(0, declared), Messages.system(defaultSystem), ...messages.slice(declared)]
}

const header = (role: string, name: string): ReadonlyArray<Piece> => [
  control(role === "user" ? "<|im_user|>" : role === "assistant" ? "<|im_assistant|>" : "<|im_system|>"),
  text(name),
  control("<|im_middle|>")
]

const calls = (message: Message): ReadonlyArray<Piece> =>
  message.toolCalls === undefined || message.toolCalls.length === 0 ? [] : [
    tag("<|tool_calls_section_begin|>"),
    ...message.toolCalls.flatMap((call, i) => [
      tag("<|tool_call_begin|>"),
      text(call.id ?? `functions.${call.name}:${i}`),
      tag("<|tool_call_argument_begin|>"),
      text(call.arguments),
      tag("<|tool_call_end|>")
    ]),
    tag("<|tool_calls_section_end|>")
  ]

const seen = (part: ImagePart): ReadonlyArray<Piece> => [
  control("<|media_begin|>"),
  text("image"),
  control("<|media_content|>"),
  image(part),
  control("<|media_end|>"),
  text("\n"),
  cut
]

const named = (id: string) => ({ id, name: id.replace(/^functions\./, "").replace(/:\d+$/, "") })

/** @internal */
export interface KimiOptions {
  readonly name: string
  readonly keepThinking: boolean
  /** Treatment of reasoning in a prompt. */
  readonly opens: "nothing" | "reasoning" | "answer"
  /** How many tokens an image takes, for models that see. */
  readonly images?: ImageTokens | undefined
}

/** @internal */
export const kimiK2 = (options: KimiOptions): Format => ({
  name: options.name,
  bos: [],
  prepare,
  message: (message, context) => {
    switch (message.role) {
      case "assistant": {
        const keeps = context.inLastTurn || options.keepThinking
        return {
          header: header("assistant", message.name ?? "assistant"),
          output: [
            tag("<think>"),
            text(keeps ? Messages.thinking(message) : ""),
            tag("</think>"),
            text(Messages.text(message)),
            ...calls(message),
            control("<|im_end|>")
          ]
        }
      }
      case "tool":
        return {
          header: [
            ...header("tool", message.name ?? "tool"),
            text(`## Return of ${message.toolCallId ?? ""}\n`)
          ],
          output: [...content(message, seen), control("<|im_end|>")]
        }
      default:
        return {
          header: header(message.role, message.name ?? message.role),
          output: [...content(message, seen), control("<|im_end|>")]
        }
    }
  },
  suffix: (role) => [
    ...header(role, role),
    ...(options.opens === "nothing" ? [] : [tag("<think>")]),
    ...(options.opens === "answer" ? [tag("</think>")] : [])
  ],
  // reasoning is kept after the last answer that called no tool
  turnStart: (messages) =>
    lastIndex(messages, (message) => message.role === "assistant" && (message.toolCalls?.length ?? 0) === 0) + 1,
  images: options.images,
  stops: ["<|im_end|>"],
  parsing: {
    _tag: "markers",
    markers: {
      thinkOpen: "<think>",
      thinkClose: "</think>",
      toolsOpen: "<|tool_calls_section_begin|>",
      toolsClose: "<|tool_calls_section_end|>",
      framed: false,
      separator: ""
    },
    tools: (block) =>
      delimitedCalls(block, {
        open: "<|tool_call_begin|>",
        separator: "<|tool_call_argument_begin|>",
        close: "<|tool_call_end|>"
      }, named),
    startsInThinking: options.opens === "reasoning"
  },
  extends: options.keepThinking,
  disablesThinking: options.opens === "answer",
  tools: (tools, system) => [
    ...(tools.length === 0
      ? []
      : [{
        role: "tool_declare",
        content: options.opens === "nothing" ? toCompactSortedJson(tools.map(asFunction)) : typescriptTools(tools),
        markup: true
      }]),
    Messages.system(system === "" ? defaultSystem : system)
  ]
})
