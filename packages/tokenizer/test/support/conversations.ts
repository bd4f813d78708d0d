/**
 * The golden conversations as messages of ours.
 */
import type { Message } from "@effect-tinker/tokenizer"
import { cases } from "./golden.js"

const json = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(json).join(", ")}]`
  if (typeof value === "object" && value !== null) {
    return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${json(item)}`).join(", ")}}`
  }
  // as Python prints it
  return value === 1e-7 ? "1e-07" : JSON.stringify(value)
}

interface Golden {
  readonly role: string
  readonly content: string | null
  readonly reasoning_content?: string
  readonly tool_calls?: ReadonlyArray<
    { readonly id: string; readonly function: { readonly name: string; readonly arguments: unknown } }
  >
  readonly tool_call_id?: string
  readonly name?: string
}

const toMessage = (golden: Golden): Message.Message => ({
  role: golden.role,
  content: golden.reasoning_content === undefined
    ? golden.content ?? ""
    : [{ type: "thinking", thinking: golden.reasoning_content }, { type: "text", text: golden.content ?? "" }],
  ...(golden.tool_calls === undefined ? {} : {
    toolCalls: golden.tool_calls.map(({ function: call, id }) => ({
      id,
      name: call.name,
      arguments: typeof call.arguments === "string" ? call.arguments : json(call.arguments)
    }))
  }),
  ...(golden.tool_call_id === undefined ? {} : { toolCallId: golden.tool_call_id }),
  ...(golden.name === undefined ? {} : { name: golden.name })
})

export const names: ReadonlyArray<string> = Object.keys(cases.conversations)

export const conversation = (
  name: string
): { readonly messages: ReadonlyArray<Message.Message>; readonly tools: ReadonlyArray<Message.ToolSpec> } => {
  const given: {
    readonly messages: ReadonlyArray<Golden>
    readonly tools?: ReadonlyArray<{ function: Message.ToolSpec }>
  } = JSON.parse(JSON.stringify(cases.conversations[name]))
  return { messages: given.messages.map(toMessage), tools: (given.tools ?? []).map((tool) => tool.function) }
}
