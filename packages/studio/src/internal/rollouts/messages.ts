/**
 * Messages of rollouts as they are shown, and as they are searched.
 */
import type { Message } from "../../Rollouts.js"
import * as Json from "../json.js"

/** Content as text or as parts, tool calls flat as ours or nested as OpenAI's. @internal */
export const messageOf = (u: unknown): Message | undefined => {
  if (!Json.isObject(u)) return undefined
  const role = Json.textOf(u["role"])
  const content = u["content"]
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : Json.arrayOf(content)
  if (role === undefined) return undefined
  const pick = (key: string) => parts.map((part) => Json.textOf(Json.objectOf(part)[key]) ?? "").join("")
  const calls = [...Json.arrayOf(u["toolCalls"]), ...Json.arrayOf(u["tool_calls"])].map((call) => {
    const raw = Json.objectOf(call)
    const inner = Json.isObject(raw["function"]) ? raw["function"] : raw
    const given = inner["arguments"]
    return {
      name: Json.textOf(inner["name"]) ?? "?",
      arguments: typeof given === "string" ? given : JSON.stringify(given ?? {})
    }
  })
  const broken = [...Json.arrayOf(u["unparsedToolCalls"]), ...Json.arrayOf(u["unparsed_tool_calls"])].map((call) => ({
    name: "unreadable call",
    arguments: Json.textOf(Json.objectOf(call)["rawText"]) ?? Json.textOf(Json.objectOf(call)["raw_text"]) ?? ""
  }))
  return { role, text: pick("text"), reasoning: pick("thinking"), toolCalls: [...calls, ...broken] }
}

/** @internal */
export const textOf = (message: Message): string =>
  [message.reasoning, message.text, ...message.toolCalls.map((call) => `${call.name} ${call.arguments}`)]
    .filter((text) => text !== "").join("\n")

/** The text around what was searched for. @internal */
export const excerptOf = (text: string, needle: string): string | undefined => {
  const at = text.toLowerCase().indexOf(needle)
  if (at < 0) return undefined
  const from = Math.max(0, at - 60)
  const to = Math.min(text.length, at + needle.length + 60)
  return `${from > 0 ? "…" : ""}${text.slice(from, to)}${to < text.length ? "…" : ""}`
}
