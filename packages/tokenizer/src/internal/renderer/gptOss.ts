/**
 * gpt-oss: the harmony format. An assistant's turn is a chain of messages, each in a channel.
 */
import type { Message, ToolCall, ToolSpec, UnparsedToolCall } from "../../Message.js"
import * as Messages from "../../Message.js"
import type { Format, Piece, ToolCalls } from "./format.js"
import { control, jsonProblem, tag, text } from "./format.js"

/** @internal */
export interface GptOssOptions {
  readonly name: string
  /** Text of the system message; without it there is none. */
  readonly system: { readonly effort: string; readonly date: string } | undefined
}

/** The role of the system message the format writes itself; `system` is the developer's. */
const ownSystem = "gpt_oss_system"

const systemText = (options: { readonly effort: string; readonly date: string }): string =>
  [
    "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n",
    `Current date: ${options.date}\n\nReasoning: ${options.effort}\n\n`,
    "# Valid channels: analysis, commentary, final. Channel must be included for every message."
  ].join("")

const channel = (name: string, body: string): ReadonlyArray<Piece> => [
  control("<|channel|>"),
  text(name),
  control("<|message|>"),
  text(body)
]

const next: ReadonlyArray<Piece> = [control("<|end|>"), control("<|start|>"), text("assistant")]

const calls = (list: ReadonlyArray<ToolCall>): ReadonlyArray<Piece> =>
  list.flatMap((call, i) => [
    ...(i === 0 ? [] : [control("<|start|>"), text("assistant")]),
    text(` to=functions.${call.name}`),
    control("<|channel|>"),
    text("commentary "),
    tag("<|constrain|>"),
    text("json"),
    control("<|message|>"),
    text(call.arguments),
    control("<|call|>")
  ])

/** Reasoning is shown in the turn being produced, and before a call whose answer is still to come. */
const showsReasoning = (
  message: Message,
  isLast: boolean,
  rest: ReadonlyArray<Message>,
  generating: boolean
): boolean =>
  (message.toolCalls?.length ?? 0) > 0
    ? !rest.some((later) => later.role === "assistant" && (later.toolCalls?.length ?? 0) === 0)
    : isLast && !generating

const typescript = (schema: unknown): string => {
  if (typeof schema !== "object" || schema === null) return "any"
  const spec: {
    readonly type?: unknown
    readonly enum?: unknown
    readonly items?: unknown
    readonly properties?: unknown
    readonly required?: unknown
    readonly nullable?: unknown
  } = schema
  const orNull = spec.nullable === true ? " | null" : ""
  if (Array.isArray(spec.type)) return spec.type.join(" | ")
  switch (spec.type) {
    case "string":
      return Array.isArray(spec.enum) && spec.enum.length > 0
        ? spec.enum.map((value) => `"${String(value)}"`).join(" | ")
        : `string${orNull}`
    case "number":
    case "integer":
      return "number"
    case "boolean":
      return "boolean"
    case "array": {
      const item = spec.items === undefined ? "any" : typescript(spec.items)
      return `${item.length > 50 ? "any" : item}[]${orNull}`
    }
    case "object": {
      const properties = Object.entries(spec.properties ?? {})
      return properties.length === 0
        ? "object"
        : `{\n${
          properties.map(([name, value]) => `${name}${isRequired(spec, name) ? "" : "?"}: ${typescript(value)}`).join(
            ", "
          )
        }}`
    }
    default:
      return "any"
  }
}

const isRequired = (schema: { readonly required?: unknown }, name: string): boolean =>
  Array.isArray(schema.required) && schema.required.includes(name)

const parameter = (name: string, value: unknown, required: boolean): string => {
  const spec: { readonly description?: unknown; readonly default?: unknown } =
    typeof value === "object" && value !== null ? value : {}
  const note = spec.description === undefined ? "" : `// ${String(spec.description)}\n`
  const fallback = spec.default === undefined ? "" : `, // default: ${JSON.stringify(spec.default)}`
  return `${note}${name}${required ? "" : "?"}: ${typescript(value)}${fallback},\n`
}

const namespace = (tools: ReadonlyArray<ToolSpec>): string =>
  [
    "# Tools\n\n## functions\n\nnamespace functions {\n\n",
    ...tools.map((tool) => {
      const properties = Object.entries(tool.parameters["properties"] ?? {})
      const args = properties.length === 0
        ? "()"
        : `(_: {\n${
          properties.map(([name, value]) => parameter(name, value, isRequired(tool.parameters, name))).join("")
        }})`
      return `// ${tool.description}\ntype ${tool.name} = ${args} => any;\n\n`
    }),
    "} // namespace functions"
  ].join("")

/** @internal */
export const readCall = (recipient: string, body: string, rawText: string): ToolCalls => {
  const problem = jsonProblem(body)
  const call: ToolCall = { name: recipient.replace(/^functions\./, ""), arguments: body.trim() }
  const unparsed: UnparsedToolCall = { rawText, error: problem ?? "" }
  return problem === undefined ? { calls: [call], unparsed: [] } : { calls: [], unparsed: [unparsed] }
}

/** @internal */
export const gptOss = (options: GptOssOptions): Format => ({
  name: options.name,
  bos: [],
  prepare: (messages) =>
    options.system === undefined || messages[0]?.role === ownSystem
      ? messages
      : [{ role: ownSystem, content: systemText(options.system) }, ...messages],
  message: (message, context) => {
    const content = Messages.text(message)
    switch (message.role) {
      case ownSystem:
        return {
          header: [control("<|start|>"), text("system")],
          output: [control("<|message|>"), text(content), control("<|end|>")]
        }
      case "system":
        return {
          header: [control("<|start|>"), text("developer")],
          output: [control("<|message|>"), text(`# Instructions\n\n${content}\n\n`), control("<|end|>")]
        }
      case "tool":
        return {
          header: [control("<|start|>"), text(`functions.${message.name ?? "unknown"} to=assistant`)],
          output: [...channel("commentary", content), control("<|end|>")]
        }
      case "assistant": {
        const list = message.toolCalls ?? []
        const rest = context.messages.slice(context.index + 1)
        const reasoning = showsReasoning(message, context.isLast, rest, context.generating)
          ? Messages.thinking(message)
          : ""
        return {
          header: [control("<|start|>"), text("assistant")],
          output: [
            ...(reasoning === "" ? [] : [...channel("analysis", reasoning), ...next]),
            ...(list.length === 0
              ? [
                ...channel("final", content),
                control(context.isLast && !context.generating ? "<|return|>" : "<|end|>")
              ]
              : [...(content === "" ? [] : [...channel("commentary", content), ...next]), ...calls(list)])
          ]
        }
      }
      default:
        return {
          header: [control("<|start|>"), text(message.role)],
          output: [control("<|message|>"), text(content), control("<|end|>")]
        }
    }
  },
  suffix: (role) => [control("<|start|>"), text(role)],
  stops: ["<|return|>", "<|call|>"],
  roles: ["system", "developer", "user", "tool"],
  close: "<|end|>",
  parsing: { _tag: "harmony" },
  extends: false,
  disablesThinking: false,
  tools: (tools, system) => [
    ...(tools.length === 0 ? [] : [{
      role: ownSystem,
      content: options.system === undefined
        ? "Calls to these tools must go to the commentary channel: 'functions'."
        : `${systemText(options.system)}\nCalls to these tools must go to the commentary channel: 'functions'.`
    }]),
    {
      role: "developer",
      content: `${system === "" ? "" : `# Instructions\n\n${system}\n\n`}${tools.length === 0 ? "" : namespace(tools)}`
    }
  ]
})
