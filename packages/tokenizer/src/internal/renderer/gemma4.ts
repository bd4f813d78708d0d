/**
 * Gemma 4: `<|turn>role\n…<turn|>`, reasoning in a channel, and calls in a notation of their own. A round of tools is one turn
 * of the model: it stops with `<|tool_response>`, the answers follow, and it goes on.
 */
import type { ImagePart, Message, ToolCall, ToolSpec, UnparsedToolCall } from "../../Message.js"
import * as Messages from "../../Message.js"
import * as python from "../python.js"
import type { Format, MessageContext, Piece, ToolCalls } from "./format.js"
import { content, control, image, jsonProblem, lastIndex, Refusal, tag, text, toJson } from "./format.js"
import type { ImageTokens } from "./images.js"
import { lexemes } from "./json.js"

/** @internal */
export interface Gemma4Options {
  readonly name: string
  readonly thinking: boolean
  /** Whether turns that called tools keep their reasoning. */
  readonly keepThinking: boolean
  /** Whether a prompt that asks for no reasoning closes an empty channel, as the larger models' template does. */
  readonly closesChannel: boolean
  readonly images: ImageTokens
}

const quote = tag("<|\"|>")

const trim = (value: string): string => python.strip(value, "both", undefined)

const byKey = ([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number => {
  const [a, b] = [left.toLowerCase(), right.toLowerCase()]
  return a < b ? -1 : a > b ? 1 : 0
}

/** Arguments without quotes around keys, keys in order, and texts between tokens that nothing in them can forge. */
const writeArguments = (source: string): ReadonlyArray<Piece> => {
  const parts = lexemes(jsonProblem(source) === undefined ? source : "{}")
  let at = 0
  const items = <A>(close: string, read: () => A): ReadonlyArray<A> => {
    const found: Array<A> = []
    while (parts[at] !== close) {
      found.push(read())
      if (parts[at] === ",") at++
    }
    at++
    return found
  }
  const joined = (lists: ReadonlyArray<ReadonlyArray<Piece>>): ReadonlyArray<Piece> =>
    lists.flatMap((list, i) => i === 0 ? list : [text(","), ...list])
  const value = (): ReadonlyArray<Piece> => {
    const part = parts[at++] ?? ""
    if (part === "[") return [text("["), ...joined(items("]", value)), text("]")]
    if (part === "{") {
      const members = items("}", (): readonly [string, ReadonlyArray<Piece>] => {
        const key = String(JSON.parse(parts[at] ?? "\"\""))
        at += 2
        return [key, [text(`${key}:`), ...value()]]
      })
      return [text("{"), ...joined([...members].sort(byKey).map(([, pieces]) => pieces)), text("}")]
    }
    return part.startsWith("\"") ? [quote, text(String(JSON.parse(part))), quote] : [text(part)]
  }
  return value()
}

const calls = (message: Message): ReadonlyArray<Piece> =>
  (message.toolCalls ?? []).flatMap((call) => [
    tag("<|tool_call>"),
    text(`call:${call.name}`),
    ...writeArguments(call.arguments),
    tag("<tool_call|>")
  ])

/** The notation of calls as JSON; `undefined` where it is not that notation. */
const readArguments = (source: string): string | undefined => {
  const lexeme = /<\|"\|>([^]*?)<\|"\|>|([{}[\],:])|([^{}[\],:<\s](?:[^{}[\],:<]*[^{}[\],:<\s])?)|\s+/y
  const parts: Array<{ readonly mark?: string | undefined; readonly text?: string | undefined }> = []
  let end = 0
  for (let match = lexeme.exec(source); match !== null; match = lexeme.exec(source)) {
    end = lexeme.lastIndex
    const [, quoted, mark, bare] = match
    if (mark !== undefined) parts.push({ mark })
    else if (quoted !== undefined) parts.push({ text: JSON.stringify(quoted) })
    else if (bare !== undefined) parts.push({ text: bare })
  }
  if (end < source.length) return undefined
  const json = parts.map((part, i) => {
    if (part.mark !== undefined) return part.mark === "," || part.mark === ":" ? `${part.mark} ` : part.mark
    const written = part.text ?? ""
    const isKey = parts[i + 1]?.mark === ":"
    return !written.startsWith("\"") && (isKey || jsonProblem(written) !== undefined)
      ? JSON.stringify(written)
      : written
  }).join("")
  return jsonProblem(json) === undefined ? json : undefined
}

const readCall = (block: string): ToolCall | UnparsedToolCall => {
  const refuse = (error: string) => ({ rawText: `<|tool_call>${block}<tool_call|>`, error })
  const [, name, source] = /^\s*call:([^{]*)(\{[^]*\})\s*$/.exec(block) ?? []
  if (name === undefined || source === undefined) return refuse("the call is not call:name{…}")
  if (name.trim() === "") return refuse("the call has no name")
  const json = readArguments(source)
  return json === undefined ? refuse("the arguments cannot be read") : { name: name.trim(), arguments: json }
}

const readCalls = (block: string): ToolCalls => {
  const call = readCall(block)
  return "rawText" in call ? { calls: [], unparsed: [call] } : { calls: [call], unparsed: [] }
}

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> =>
  typeof u === "object" && u !== null && !Array.isArray(u)

const quoted = (value: unknown): string => `<|"|>${String(value)}<|"|>`

const plain = (value: unknown): string =>
  typeof value === "string"
    ? quoted(value)
    : Array.isArray(value)
    ? `[${value.map(plain).join(",")}]`
    : isRecord(value)
    ? `{${Object.entries(value).sort(byKey).map(([key, item]) => `${quoted(key)}:${plain(item)}`).join(",")}}`
    : toJson(value)

const required = (names: unknown): ReadonlyArray<string> =>
  Array.isArray(names) && names.length > 0 ? [`required:[${names.map(quoted).join(",")}]`] : []

const declareItems = (items: Readonly<Record<string, unknown>>): string =>
  Object.entries(items).sort(byKey).flatMap(([key, value]) => {
    if (value === null) return []
    if (key === "properties") return [`properties:{${isRecord(value) ? declareProperties(value) : ""}}`]
    if (key === "required") return [`required:[${Array.isArray(value) ? value.map(quoted).join(",") : ""}]`]
    if (key !== "type") return [`${key}:${plain(value)}`]
    return [
      `type:${
        plain(Array.isArray(value) ? value.map((one) => String(one).toUpperCase()) : String(value).toUpperCase())
      }`
    ]
  }).join(",")

/** Keywords of a schema that are not the format's own are its properties, where it names none. */
const ownWords = ["description", "type", "properties", "required", "nullable"]

const declareProperties = (
  properties: Readonly<Record<string, unknown>>,
  skipped: ReadonlyArray<string> = []
): string =>
  Object.entries(properties).sort(byKey).flatMap(([key, schema]) => {
    if (skipped.includes(key)) return []
    const value = isRecord(schema) ? schema : {}
    const type = String(value["type"] ?? "").toUpperCase()
    const { description, enum: values, items, nullable, properties: inner } = value
    return [`${key}:{${
      [
        ...(description === undefined || description === "" ? [] : [`description:${quoted(description)}`]),
        ...(type === "STRING" && Array.isArray(values) && values.length > 0 ? [`enum:${plain(values)}`] : []),
        ...(type === "ARRAY" && isRecord(items) && Object.keys(items).length > 0
          ? [`items:{${declareItems(items)}}`]
          : []),
        ...(nullable === true ? ["nullable:true"] : []),
        ...(type === "OBJECT"
          ? [
            `properties:{${isRecord(inner) ? declareProperties(inner) : declareProperties(value, ownWords)}}`,
            ...required(value["required"])
          ]
          : []),
        `type:${quoted(type)}`
      ].join(",")
    }}`]
  }).join(",")

const declare = ({ description, name, parameters }: ToolSpec): string => {
  const { properties, required: names, type } = parameters
  const fields = [
    ...(isRecord(properties) && Object.keys(properties).length > 0
      ? [`properties:{${declareProperties(properties)}}`]
      : []),
    ...required(names),
    ...(typeof type === "string" && type !== "" ? [`type:${quoted(type.toUpperCase())}`] : [])
  ]
  const written = Object.keys(parameters).length === 0 ? "" : `,parameters:{${fields.join(",")}}`
  return `<|tool>declaration:${name}{description:${quoted(description)}${written}}<tool|>`
}

const seen = (part: ImagePart): ReadonlyArray<Piece> => [tag("<|image>"), image(part), tag("<image|>")]

const hasCalls = (message: Message | undefined): boolean => (message?.toolCalls?.length ?? 0) > 0

/** The text of an answer, without reasoning that is written in it. */
const answerText = (message: Message): string =>
  trim(Messages.text(message).split("<channel|>").map((part) => part.split("<|channel>")[0] ?? "").join(""))

/** Who called the tool that answers at `index`. */
const caller = (messages: ReadonlyArray<Message>, index: number): Message | undefined => {
  let at = index
  while (messages[at]?.role === "tool") at--
  const message = messages[at]
  return message?.role === "assistant" && hasCalls(message) ? message : undefined
}

const nextSpeaker = (messages: ReadonlyArray<Message>, index: number): string | undefined =>
  messages.slice(index + 1).find(({ role }) => role !== "tool")?.role

/** Whether what is written for a message ends the turn. */
const endsTurn = (messages: ReadonlyArray<Message>, index: number): boolean => {
  const message = messages[index]
  const next = messages[index + 1]
  if (message?.role === "tool") {
    if (next?.role === "tool" || next?.role === "assistant") return false
    const calling = caller(messages, index)
    return next !== undefined || (calling !== undefined && answerText(calling) !== "")
  }
  return message?.role !== "assistant" || (!hasCalls(message) && nextSpeaker(messages, index) !== "assistant")
}

/** The line break between turns. */
const line = ({ index, messages }: MessageContext): ReadonlyArray<Piece> =>
  index > 0 && endsTurn(messages, index - 1) ? [text("\n")] : []

const start = (context: MessageContext, role: string): ReadonlyArray<Piece> => [
  ...line(context),
  control("<|turn>"),
  text(`${role}\n`)
]

/** @internal */
export const gemma4 = (options: Gemma4Options): Format => ({
  name: options.name,
  bos: [control("<bos>")],
  prepare: (messages) => {
    if (!options.thinking || messages[0]?.role === "system") return messages
    const trainable = messages[0]?.trainable === undefined ? {} : { trainable: false }
    return [{ ...Messages.system(""), ...trainable }, ...messages]
  },
  message: (message, context) => {
    const { index, messages, next, previous } = context
    const end = endsTurn(messages, index) ? [control("<turn|>")] : []
    switch (message.role) {
      case "assistant": {
        const earlier = lastIndex(messages.slice(0, index), ({ role }) => role !== "tool")
        const goesOn = messages[earlier]?.role === "assistant"
        const reasoning = Messages.thinking(message)
        const isPast = index < lastIndex(messages, ({ role }) => role === "user")
        const shows = reasoning !== "" && (!isPast || (options.keepThinking && hasCalls(message)))
        const isClosed = options.closesChannel && !options.thinking && !goesOn && reasoning === ""
        return {
          header: [
            ...(goesOn ? line(context) : start(context, "model")),
            ...(isClosed ? [tag("<|channel>"), text("thought\n"), tag("<channel|>")] : [])
          ],
          output: [
            ...(shows ? [tag("<|channel>"), text(`thought\n${reasoning}\n`), tag("<channel|>")] : []),
            ...calls(message),
            // what is said in a message that calls tools comes after their answers
            ...(next?.role === "tool" && hasCalls(message) ? [] : [text(answerText(message))]),
            ...(hasCalls(message) ? [control("<|tool_response>")] : end)
          ]
        }
      }
      case "tool": {
        const calling = caller(messages, index)
        if (calling === undefined) return new Refusal("an answer of a tool follows no call")
        const called = calling.toolCalls?.find((call) => call.id !== undefined && call.id === message.toolCallId)
        return {
          header: previous?.role === "tool" ? [control("<|tool_response>")] : [],
          output: [
            text(`response:${called?.name ?? message.name ?? "unknown"}{value:`),
            quote,
            text(Messages.text(message)),
            quote,
            text("}"),
            tag("<tool_response|>"),
            ...Messages.images(message).flatMap(seen),
            ...(next?.role === "tool" ? [] : [text(answerText(calling))]),
            ...end
          ]
        }
      }
      case "system":
        return {
          header: [
            ...start(context, "system"),
            ...(index === 0 && options.thinking ? [tag("<|think|>"), text("\n")] : [])
          ],
          output: [text(trim(Messages.text(message))), ...end]
        }
      default:
        return {
          header: start(context, message.role),
          output: [
            ...content(
              message,
              seen,
              (parts) => parts.map((part) => part.type === "text" ? { type: "text", text: trim(part.text) } : part)
            ),
            ...end
          ]
        }
    }
  },
  suffix: (role, context) => {
    const { previous } = context
    const opened = [tag("<|channel>"), text("thought\n")]
    if (previous?.role === "tool") return [...line(context), ...(options.thinking ? opened : [])]
    if (previous?.role === "assistant" && hasCalls(previous)) return []
    return [
      ...start(context, role === "assistant" ? "model" : role),
      ...(options.closesChannel && !options.thinking ? [...opened, tag("<channel|>")] : [])
    ]
  },
  images: options.images,
  stops: ["<turn|>", "<|tool_response>", "<eos>"],
  eos: "<eos>",
  closes: (answer, next) =>
    next.role === "tool"
      ? hasCalls(answer) ? "<|tool_response>" : undefined
      : hasCalls(answer)
      ? undefined
      : "<turn|>",
  // what it said before its calls is in the sampled tokens
  continued: (answer) =>
    hasCalls(answer)
      ? { ...answer, content: Messages.parts(answer).filter(({ type }) => type === "thinking") }
      : answer,
  parsing: {
    _tag: "markers",
    markers: {
      thinkOpen: "<|channel>thought",
      thinkClose: "<channel|>",
      toolsOpen: "<|tool_call>",
      toolsClose: "<tool_call|>",
      framed: true,
      separator: ""
    },
    tools: readCalls,
    // after answers of tools the prompt opens the channel, before them the model does
    startsInThinking: options.thinking ? "perhaps" : false
  },
  extends: false,
  disablesThinking: options.closesChannel && !options.thinking,
  tools: (tools, system) => [{ role: "system", markup: true, content: trim(system) + tools.map(declare).join("") }]
})
