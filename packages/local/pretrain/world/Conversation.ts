/**
 * A conversation as plain data, and its text in the model's format.
 */

/** JSON values, as tools take and return them. */
export type Json = string | number | boolean | null | ReadonlyArray<Json> | { readonly [key: string]: Json }

export interface ToolSpec {
  readonly name: string
  readonly description: string
  readonly parameters: {
    readonly type: "object"
    readonly properties: { readonly [name: string]: { readonly type: string } }
    readonly required: ReadonlyArray<string>
  }
}

export interface ToolCall {
  readonly name: string
  readonly arguments: { readonly [name: string]: Json }
}

export type Message =
  | { readonly role: "user" | "tool"; readonly content: string }
  | {
    readonly role: "assistant"
    readonly content: string
    readonly reasoning?: string | undefined
    readonly toolCalls?: ReadonlyArray<ToolCall> | undefined
  }

export interface Conversation {
  /** The skill its last turn shows. */
  readonly skill: string
  readonly system?: string | undefined
  readonly tools?: ReadonlyArray<ToolSpec> | undefined
  readonly messages: ReadonlyArray<Message>
  /** What each turn asks for, the value and whose it is, if training shows where to look for it. */
  readonly pairs?: ReadonlyArray<readonly [value: string, subject: string]> | undefined
}

/** JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it. */
export const dumps = (value: Json): string => {
  if (Array.isArray(value)) return `[${value.map(dumps).join(", ")}]`
  if (typeof value === "object" && value !== null) {
    return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${dumps(item)}`).join(", ")}}`
  }
  return JSON.stringify(value)
}

const toolLine = ({ description, name, parameters }: ToolSpec): string => {
  const list = Object.entries(parameters.properties).map(([key, { type }]) =>
    `${key}${parameters.required.includes(key) ? "" : "?"}: ${type}`
  )
  return `${name}(${list.join(", ")})${description === "" ? "" : ` ${description}`}\n`
}

const systemTurn = ({ system, tools }: Conversation): string => {
  const parts: Array<string> = []
  if (system !== undefined) parts.push(system)
  if (tools !== undefined && tools.length > 0) parts.push(`<tools>\n${tools.map(toolLine).join("")}</tools>`)
  return parts.length === 0 ? "" : `<|im_start|>system\n${parts.join("\n\n")}<|im_end|>\n`
}

const assistantText = (message: Extract<Message, { readonly role: "assistant" }>): string => {
  const calls = (message.toolCalls ?? []).map((call) =>
    `<tool_call>\n${dumps({ name: call.name, arguments: call.arguments })}\n</tool_call>`
  )
  const said = message.content === "" ? calls : [message.content, ...calls]
  const thought = message.reasoning === undefined ? "" : `<think>\n${message.reasoning}\n</think>\n\n`
  return thought + said.join("\n")
}

/** A piece of a conversation's text, and whether the model wrote it. */
export interface Segment {
  readonly text: string
  readonly own: boolean
}

/** The text of a conversation; the newline after the last turn is left out, as nothing follows it. */
export const segments = (conversation: Conversation): Array<Segment> => {
  const result: Array<Segment> = []
  let pending = systemTurn(conversation)
  const { messages } = conversation
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]
    if (message === undefined) break
    if (message.role === "assistant") {
      result.push({ text: `${pending}<|im_start|>assistant\n`, own: false })
      result.push({ text: `${assistantText(message)}<|im_end|>`, own: true })
      pending = "\n"
    } else if (message.role === "user") {
      pending += `<|im_start|>user\n${message.content}<|im_end|>\n`
    } else {
      const responses: Array<string> = []
      for (;;) {
        const next = messages[i]
        if (next?.role !== "tool") break
        responses.push(`<tool_response>\n${next.content}\n</tool_response>`)
        i++
      }
      i--
      pending += `<|im_start|>user\n${responses.join("\n")}<|im_end|>\n`
    }
  }
  return result
}

/** What the model is given before its last turn, and what it should then write (without the end of turn). */
export const lastTurn = (conversation: Conversation): { readonly prompt: string; readonly answer: string } => {
  const parts = segments(conversation)
  return {
    prompt: parts.slice(0, -1).map(({ text }) => text).join(""),
    answer: parts.at(-1)?.text.replace(/<\|im_end\|>$/, "") ?? ""
  }
}
