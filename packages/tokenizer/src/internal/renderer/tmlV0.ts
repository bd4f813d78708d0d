/**
 * Inkling: every message is `<|message_WHO|>name<|content_KIND|>…<|end_message|>`, an answer is a chain of them that the model
 * begins itself, and nothing of the history is ever written differently.
 */
import type { Message } from "../../Message.js"
import * as Messages from "../../Message.js"
import type { Format, Piece } from "./format.js"
import { control, image, Refusal, text, toCompactSortedJson } from "./format.js"
import type { ImageTokens } from "./images.js"
import { compactSortedJson } from "./json.js"

const end = control("<|end_message|>")

const said = (who: string, name: string, kind: string, body: string): ReadonlyArray<Piece> => [
  control(`<|message_${who}|>`),
  text(name),
  control(`<|content_${kind}|>`),
  text(body),
  end
]

/** Messages of people and tools; where they have images, each part is a message. */
const parts = (message: Message): ReadonlyArray<Piece> => {
  const name = message.role === "tool" ? message.name ?? "" : ""
  return Messages.images(message).length === 0
    ? said(message.role, name, "text", Messages.text(message))
    : Messages.parts(message).flatMap((part) =>
      part.type === "image"
        ? [control(`<|message_${message.role}|>`), text(name), control("<|content_image|>"), image(part), end]
        : part.type === "text"
        ? said(message.role, name, "text", part.text)
        : []
    )
}

const answer = (message: Message): ReadonlyArray<Piece> => {
  const calls = message.toolCalls ?? []
  const content = Messages.text(message)
  const thought = Messages.thinking(message)
  return [
    ...(thought === "" ? [] : said("model", "", "thinking", thought)),
    ...(content === "" && (thought !== "" || calls.length > 0) ? [] : said("model", "", "text", content)),
    ...calls.flatMap((call) =>
      said(
        "model",
        call.name,
        "invoke_tool_json",
        `{"name":${JSON.stringify(call.name)},"args":${compactSortedJson(call.arguments)}}`
      )
    ),
    control("<|content_model_end_sampling|>")
  ]
}

/** @internal */
export const tmlV0 = (options: { readonly effort: number; readonly images: ImageTokens }): Format => ({
  name: "tml_v0",
  bos: [],
  // how hard to think is said after everything the system says first
  prepare: (messages) => {
    const first = messages.findIndex(({ role }) => role !== "system" && role !== "tool_declare")
    const at = first < 0 ? messages.length : first
    const effort: Message = {
      ...Messages.system(`Thinking effort level: ${Math.round(options.effort * 1000) / 1000}`),
      ...(messages[0]?.trainable === undefined ? {} : { trainable: false })
    }
    return [...messages.slice(0, at), effort, ...messages.slice(at)]
  },
  message: (message) => {
    const content = Messages.text(message)
    switch (message.role) {
      case "assistant":
        return { header: [], output: answer(message) }
      case "tool_declare":
        return { header: [], output: said("system", "tool_declare", "xml", content) }
      case "system":
      case "user":
      case "tool":
        return { header: [], output: parts(message) }
      default:
        return new Refusal(`Inkling has no role "${message.role}"`)
    }
  },
  suffix: () => [],
  images: options.images,
  stops: ["<|content_model_end_sampling|>"],
  parsing: { _tag: "tml" },
  extends: true,
  disablesThinking: false,
  tools: (tools, system) => [
    ...(system === "" ? [] : [Messages.system(system)]),
    ...(tools.length === 0 ? [] : [{
      role: "tool_declare",
      markup: true,
      content: toCompactSortedJson(
        tools.map(({ description, name, parameters }) => ({ description, name, parameters, type: "function" }))
      )
    }])
  ]
})
