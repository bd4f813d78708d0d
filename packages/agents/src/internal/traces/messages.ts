/**
 * Messages and tools as other programs write them: OpenAI (chat and Responses), Anthropic, the AI SDK, LangChain, and the
 * parts of OpenTelemetry's conventions for generative AI.
 */
import type * as Message from "@effect-tinker/tokenizer/Message"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"

/** @internal */
export type Json = Readonly<Record<string, unknown>>

/** @internal */
export const record = (u: unknown): Json | undefined => Predicate.isRecord(u) && !Array.isArray(u) ? u : undefined

/** @internal */
export const string = (u: unknown): string | undefined => typeof u === "string" && u !== "" ? u : undefined

/** @internal */
export const number = (u: unknown): number | undefined =>
  typeof u === "number" && Number.isFinite(u)
    ? u
    : typeof u === "string" && u.trim() !== "" && Number.isFinite(Number(u))
    ? Number(u)
    : undefined

/** Value that a text holds, where it is JSON; the text otherwise. @internal */
export const parsed = (u: unknown): unknown =>
  typeof u === "string" && /^\s*[[{]/.test(u) ? Either.getOrElse(Either.try((): unknown => JSON.parse(u)), () => u) : u

const text = (u: unknown): string => typeof u === "string" ? u : u === undefined || u === null ? "" : JSON.stringify(u)

const roles: Readonly<Record<string, string>> = {
  human: "user",
  ai: "assistant",
  model: "assistant",
  developer: "system",
  function: "tool",
  HumanMessage: "user",
  AIMessage: "assistant",
  SystemMessage: "system",
  ToolMessage: "tool",
  HumanMessageChunk: "user",
  AIMessageChunk: "assistant"
}

const roleOf = (name: string): string => roles[name] ?? name

interface Draft {
  text: string
  thinking: string
  readonly calls: Array<Message.ToolCall>
  readonly results: Array<Message.Message>
}

const call = (id: unknown, name: unknown, args: unknown): Message.ToolCall => ({
  ...(string(id) === undefined ? {} : { id: string(id) }),
  name: string(name) ?? "unknown",
  arguments: typeof args === "string" ? args : JSON.stringify(args ?? {})
})

const result = (id: unknown, name: unknown, content: unknown): Message.Message => ({
  role: "tool",
  content: text(content),
  ...(string(id) === undefined ? {} : { toolCallId: string(id) }),
  ...(string(name) === undefined ? {} : { name: string(name) })
})

/** The result of a tool as the AI SDK and Anthropic wrap it. */
const unwrapped = (content: unknown): unknown => {
  const output = record(content)
  if (output !== undefined && "value" in output && typeof output["type"] === "string") return output["value"]
  if (Array.isArray(content) && content.every((part) => typeof record(part)?.["text"] === "string")) {
    return content.map((part) => record(part)?.["text"]).join("")
  }
  return content
}

/** Adds a part; says what it is where it cannot be used. */
const addPart = (draft: Draft, part: Json): string | undefined => {
  const type = string(part["type"]) ?? (typeof part["text"] === "string" ? "text" : "")
  switch (type) {
    case "text":
    case "input_text":
    case "output_text":
    case "refusal":
      draft.text += text(part["text"] ?? part["content"] ?? part["refusal"])
      return
    case "thinking":
    case "reasoning":
      draft.thinking += text(part["thinking"] ?? part["text"] ?? part["content"] ?? part["reasoning"])
      return
    case "redacted_thinking":
      return
    case "tool-call":
      draft.calls.push(call(part["toolCallId"], part["toolName"], part["input"] ?? part["args"]))
      return
    case "tool_use":
      draft.calls.push(call(part["id"], part["name"], part["input"]))
      return
    case "tool_call":
      draft.calls.push(call(part["id"], part["name"], part["arguments"] ?? part["args"]))
      return
    case "tool-result":
      draft.results.push(
        result(part["toolCallId"], part["toolName"], unwrapped(part["output"] ?? part["result"]))
      )
      return
    case "tool_result":
      draft.results.push(result(part["tool_use_id"], undefined, unwrapped(part["content"])))
      return
    case "tool_call_response":
      draft.results.push(result(part["id"], part["name"], unwrapped(part["response"] ?? part["result"])))
      return
    default:
      return type === "" ? "a part without a type" : `a part of type ${type}`
  }
}

/** Calls beside the content: OpenAI's, the AI SDK's, LangChain's. */
const callsOf = (list: unknown): ReadonlyArray<Message.ToolCall> =>
  Array.isArray(list)
    ? list.flatMap((item) => {
      const one = record(item)
      if (one === undefined) return []
      const inner = record(one["function"])
      return [
        inner === undefined
          ? call(
            one["id"] ?? one["toolCallId"],
            one["name"] ?? one["toolName"],
            one["args"] ?? one["input"] ?? one["arguments"]
          )
          : call(one["id"], inner["name"], inner["arguments"])
      ]
    })
    : []

/** The messages of one value; a message of Anthropic's or the AI SDK's may be several of ours. */
const one = (u: unknown): Either.Either<ReadonlyArray<Message.Message>, string> => {
  const whole = record(u)
  if (whole === undefined) return Either.left("a message is not an object")
  // LangChain's constructors, and its `{ type, data }`
  const fields = record(whole["kwargs"]) ?? record(whole["data"]) ?? whole
  const constructor = Array.isArray(whole["id"]) ? string(whole["id"].at(-1)) : undefined
  switch (whole["type"]) {
    case "function_call":
      return Either.right([{
        role: "assistant",
        content: "",
        toolCalls: [call(whole["call_id"], whole["name"], whole["arguments"])]
      }])
    case "function_call_output":
      return Either.right([result(whole["call_id"], undefined, unwrapped(whole["output"]))])
    case "reasoning":
      if (Array.isArray(whole["summary"])) {
        const thinking = whole["summary"].map((part) => text(record(part)?.["text"])).join("")
        return Either.right(thinking === "" ? [] : [{ role: "assistant", content: [{ type: "thinking", thinking }] }])
      }
  }
  const named = string(fields["role"]) ?? constructor ?? string(fields["type"]) ?? string(whole["type"])
  if (named === undefined) {
    return Either.left(`a message without a role: its fields are ${Object.keys(fields).join(", ")}`)
  }
  const role = roleOf(named)
  const draft: Draft = { text: "", thinking: "", calls: [], results: [] }
  const content = fields["parts"] ?? fields["content"]
  if (typeof content === "string") draft.text = content
  else if (Array.isArray(content)) {
    for (const part of content) {
      if (typeof part === "string") draft.text += part
      else {
        const fields = record(part)
        const problem = fields === undefined ? "a part that is not an object" : addPart(draft, fields)
        if (problem !== undefined) return Either.left(`${problem} cannot be trained on`)
      }
    }
  } else if (content !== undefined && content !== null) draft.text = JSON.stringify(content)
  const extra = record(fields["additional_kwargs"])
  const thinking = draft.thinking ||
    text(fields["reasoning_content"] ?? fields["reasoning"] ?? extra?.["reasoning_content"])
  const beside = callsOf(fields["tool_calls"] ?? fields["toolCalls"] ?? extra?.["tool_calls"])
  const calls = [...draft.calls, ...draft.calls.length === 0 ? beside : []]
  const id = string(fields["tool_call_id"]) ?? string(fields["toolCallId"])
  const empty = draft.text === "" && thinking === "" && calls.length === 0
  if (draft.results.length > 0) {
    // results of tools in a message of the user or of the tool: each is a message, what else is said comes after them
    return Either.right([
      ...draft.results,
      ...empty ? [] : [{ role: role === "tool" ? "user" : role, content: draft.text }]
    ])
  }
  return Either.right([{
    role,
    content: thinking === ""
      ? draft.text
      : [{ type: "thinking", thinking }, ...draft.text === "" ? [] : [{ type: "text" as const, text: draft.text }]],
    ...calls.length === 0 ? {} : { toolCalls: calls },
    ...role === "tool" && id !== undefined ? { toolCallId: id } : {},
    ...role === "tool" && string(fields["name"]) !== undefined ? { name: string(fields["name"]) } : {}
  }])
}

/** Messages of the assistant in a row are one: Responses and Anthropic write a turn in pieces. */
const joined = (messages: ReadonlyArray<Message.Message>): ReadonlyArray<Message.Message> => {
  const out: Array<Message.Message> = []
  for (const message of messages) {
    const last = out.at(-1)
    if (last?.role !== "assistant" || message.role !== "assistant") {
      out.push(message)
      continue
    }
    const parts = [last, message].flatMap(({ content }) =>
      typeof content === "string" ? content === "" ? [] : [{ type: "text" as const, text: content }] : content
    )
    const calls = [...last.toolCalls ?? [], ...message.toolCalls ?? []]
    const plain = parts.every((part) => part.type === "text")
    out[out.length - 1] = {
      role: "assistant",
      content: plain ? parts.map((part) => part.type === "text" ? part.text : "").join("") : parts,
      ...calls.length === 0 ? {} : { toolCalls: calls }
    }
  }
  return out
}

/**
 * The messages of what stands in a log: a text of the role, a message, a list, or what holds one of them.
 *
 * @internal
 */
export const read = (
  given: unknown,
  role: "user" | "assistant"
): Either.Either<ReadonlyArray<Message.Message>, string> => {
  const value = parsed(given)
  if (value === undefined || value === null || value === "") return Either.right([])
  if (typeof value === "string") return Either.right([{ role, content: value }])
  if (Array.isArray(value)) {
    // LangChain logs a batch of conversations
    if (value.length === 1 && Array.isArray(value[0])) return read(value[0], role)
    // choices of a completion
    const choices = value.flatMap((item) => {
      const message = record(item)?.["message"]
      return message === undefined ? [] : [message]
    })
    // of several choices, the first is what the application went on with
    if (choices.length > 0) return read(choices[0], role)
    if (value.length > 0 && value.every((part) => record(part) !== undefined && !isMessage(part))) {
      // content blocks without a message around them
      return Either.map(one({ role, content: value }), joined)
    }
    return Either.map(
      Either.all(value.map((item) => typeof item === "string" ? one({ role, content: item }) : one(item))),
      (all) => joined(all.flat())
    )
  }
  const fields = record(value)
  if (fields === undefined) return Either.right([{ role, content: String(value) }])
  const generations = fields["generations"]
  if (Array.isArray(generations)) {
    const first: unknown = Array.isArray(generations[0]) ? generations[0][0] : generations[0]
    const generation = record(first)
    return read(generation?.["message"] ?? generation?.["text"], role)
  }
  if (Array.isArray(fields["choices"])) return read(fields["choices"], role)
  const held = fields["messages"] ?? (fields["role"] === undefined ? fields["message"] : undefined)
  if (held !== undefined) {
    const system = fields["system"]
    return Either.map(
      read(held, role),
      (messages) => string(system) === undefined ? messages : [{ role: "system", content: text(system) }, ...messages]
    )
  }
  if (fields["output"] !== undefined && fields["role"] === undefined) return read(fields["output"], role)
  if (fields["input"] !== undefined && fields["role"] === undefined && fields["type"] === undefined) {
    const instructions = string(fields["instructions"])
    return Either.map(
      read(fields["input"], role),
      (messages) => instructions === undefined ? messages : [{ role: "system", content: instructions }, ...messages]
    )
  }
  if (!isMessage(fields)) {
    const said = string(fields["text"]) ?? string(fields["content"])
    if (said !== undefined) return Either.right([{ role, content: said }])
    if (Array.isArray(fields["content"])) return Either.map(one({ ...fields, role }), joined)
    return Either.left(`no messages in it: its fields are ${Object.keys(fields).slice(0, 12).join(", ")}`)
  }
  return Either.map(one(fields), joined)
}

const items: ReadonlyArray<string> = [
  "function_call",
  "function_call_output",
  "message",
  "human",
  "ai",
  "system",
  "constructor"
]

const isMessage = (u: unknown): boolean => {
  const fields = record(u)
  return fields !== undefined && (typeof fields["role"] === "string" || fields["lc"] !== undefined ||
    items.includes(text(fields["type"])) || (fields["type"] === "reasoning" && Array.isArray(fields["summary"])) ||
    (fields["type"] === "tool" && fields["content"] !== undefined))
}

/**
 * Tools in the spellings of OpenAI, Anthropic and the AI SDK; what is none is left out.
 *
 * @internal
 */
export const tools = (given: unknown): ReadonlyArray<Message.ToolSpec> => {
  const value = parsed(given)
  const list: ReadonlyArray<unknown> = Array.isArray(value) ? value : Object.values(record(value) ?? {})
  return list.flatMap((item) => {
    const whole = record(parsed(item))
    const fields = record(whole?.["function"]) ?? whole
    const name = string(fields?.["name"])
    if (fields === undefined || name === undefined) return []
    const parameters = record(fields["parameters"] ?? fields["inputSchema"] ?? fields["input_schema"]) ?? {}
    return [{ name, description: text(fields["description"]), parameters }]
  })
}
