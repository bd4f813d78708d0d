/**
 * DeepSeek V4 and V4.1: `<｜User｜>…<｜Assistant｜><think>…</think>…<｜end▁of▁sentence｜>`, how hard to think before everything,
 * and calls in blocks of DSML. Answers of tools and the questions around them are one turn of the user. V4.1 writes a token
 * before what the system says, and a space after the token of DSML.
 */
import type { Message, ToolCall, UnparsedToolCall } from "../../Message.js"
import * as Messages from "../../Message.js"
import type { Format, MessageContext, Piece, ToolCalls } from "./format.js"
import { control, jsonProblem, lastIndex, Refusal, tag, text, toJson } from "./format.js"
import { fields } from "./json.js"

/** @internal */
export interface DeepSeekV4Options {
  readonly name: string
  readonly version: "4" | "4.1"
  /** Instruction about reasoning effort, before everything else; without it the model does not reason. */
  readonly effort: string | undefined
  readonly keepThinking: boolean
}

const end = control("<｜end▁of▁sentence｜>")

/** Text with the one token in it that marks calls. */
const dsml = (content: string): ReadonlyArray<Piece> =>
  content.split("｜DSML｜").flatMap((part, i) => i === 0 ? [text(part)] : [tag("｜DSML｜"), text(part)])

/** How a version spells its tags and the block of calls. */
interface Spelling {
  readonly mark: string
  readonly block: string
}

const spellings: Readonly<Record<DeepSeekV4Options["version"], Spelling>> = {
  "4": { mark: "｜DSML｜", block: "｜DSML｜tool_calls" },
  "4.1": { mark: "｜DSML｜ ", block: "｜DSML｜ calls" }
}

const writeCall = (call: ToolCall, mark: string): string => {
  const list = fields(call.arguments) ?? [{ name: "arguments", text: call.arguments, json: "" }]
  return [
    `<${mark}invoke name="${call.name}">`,
    list.map(({ json, name, text }) =>
      `<${mark}parameter name="${name}" string="${text !== undefined}">${text ?? json}</${mark}parameter>`
    ).join("\n"),
    `</${mark}invoke>`
  ].join("\n")
}

const calls = (message: Message, { block, mark }: Spelling): ReadonlyArray<Piece> =>
  message.toolCalls === undefined || message.toolCalls.length === 0
    ? []
    : dsml(`\n\n<${block}>\n${message.toolCalls.map((call) => writeCall(call, mark)).join("\n")}\n</${block}>`)

const readInvoke = (rawText: string, name: string, body: string): ToolCall | UnparsedToolCall => {
  const found = new Map<string, string>()
  const parameter = /<｜DSML｜ ?parameter name="([\s\S]*?)" string="(true|false)">([\s\S]*?)<\/｜DSML｜ ?parameter>/g
  if (name.trim() === "") return { rawText, error: "the call has no name" }
  for (const [, key = "", isText, value = ""] of body.matchAll(parameter)) {
    const problem = isText === "true" ? undefined : jsonProblem(value)
    if (key.trim() === "" || found.has(key)) {
      return { rawText, error: `the argument "${key}" has no name, or comes twice` }
    }
    if (problem !== undefined) return { rawText, error: problem }
    found.set(key, isText === "true" ? JSON.stringify(value) : value)
  }
  if (body.replace(parameter, "").trim() !== "") return { rawText, error: "between the arguments is something else" }
  return { name, arguments: `{${Array.from(found, ([key, value]) => `${JSON.stringify(key)}: ${value}`).join(", ")}}` }
}

const readCalls = (block: string): ToolCalls => {
  const invoke = /<｜DSML｜ ?invoke name="([\s\S]*?)">\n([\s\S]*?)<\/｜DSML｜ ?invoke>/g
  const found = Array.from(block.matchAll(invoke), ([raw, name = "", body = ""]) => readInvoke(raw, name, body))
  if (found.length === 0 || block.replace(invoke, "").trim() !== "") {
    return {
      calls: [],
      unparsed: [{ rawText: block, error: "the block is not a list of calls" }]
    }
  }
  return {
    calls: found.flatMap((call) => "rawText" in call ? [] : [call]),
    unparsed: found.flatMap((call) => "rawText" in call ? [call] : [])
  }
}

const isUserTurn = (message: Message | undefined): boolean => message?.role === "user" || message?.role === "tool"

/** The role and name of the message that declares tools, once it is part of the system message. */
const declares = "tool_declare"

/** Each turn of a user in its first message; the others stay, empty, so that indices mean what they meant. */
const joinTurns = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const out = [...messages]
  let order = new Map<string, number>()
  for (let i = 0; i < out.length; i++) {
    const message = out[i]
    if (message?.toolCalls !== undefined && message.toolCalls.length > 0) {
      order = new Map(message.toolCalls.flatMap((call, at) => call.id === undefined ? [] : [[call.id, at] as const]))
    }
    if (message === undefined || !isUserTurn(message)) continue
    let last = i
    while (isUserTurn(out[last + 1])) last++
    const turn = out.slice(i, last + 1)
    const answers = turn.filter(({ role }) => role === "tool")
    const rank = (answer: Message) => order.get(answer.toolCallId ?? "") ?? 0
    answers.sort((left, right) => rank(left) - rank(right))
    const blocks = turn.map((member) =>
      member.role === "tool"
        ? `<tool_result>${Messages.text(answers.shift() ?? member)}</tool_result>`
        : Messages.text(member)
    )
    turn.forEach((member, at) => {
      out[i + at] = { ...member, content: at === 0 ? blocks.join("\n\n") : "" }
    })
    i = last
  }
  return out
}

const prepare = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const [first, second] = messages
  if (first?.role === declares) {
    return joinTurns([
      { ...first, role: "system", name: declares, content: `\n\n${Messages.text(first)}` },
      ...messages.slice(1)
    ])
  }
  if (first?.role === "system" && second?.role === declares) {
    return joinTurns([
      { ...first, markup: true, content: `${Messages.text(first)}\n\n${Messages.text(second)}` },
      { ...second, content: "" },
      ...messages.slice(2)
    ])
  }
  return joinTurns(messages)
}

const hasTools = (messages: ReadonlyArray<Message>): boolean =>
  messages.slice(0, 2).some(({ name, role }) => role === declares || name === declares)

/** @internal */
export const deepseekV4 = (options: DeepSeekV4Options): Format => {
  const thinking = options.effort !== undefined
  const spelling = spellings[options.version]
  const system: ReadonlyArray<Piece> = options.version === "4" ? [] : [control("<｜System｜>")]
  const opening = (role: string): ReadonlyArray<Piece> =>
    options.effort !== undefined ? [...system, text(options.effort)] : role === "system" ? system : []
  // a system message in the middle asks for an answer in V4.1
  const asks = (message: Message | undefined, index: number): boolean =>
    isUserTurn(message) || (options.version === "4.1" && message?.role === "system" && index > 0)
  const lastTurn = (messages: ReadonlyArray<Message>): number => {
    for (let i = messages.length - 1; i >= 0; i--) {
      const message = messages[i]
      if (asks(message, i)) return i
    }
    return -1
  }
  const keeps = (context: MessageContext): boolean =>
    thinking && (options.keepThinking || hasTools(context.messages) || context.index > lastTurn(context.messages))
  const header = (context: MessageContext): ReadonlyArray<Piece> => {
    const { index, previous } = context
    const follows = asks(previous, index - 1)
    return [
      ...(index === 0 ? opening("assistant") : []),
      ...(follows ? [control("<｜Assistant｜>"), tag(keeps(context) ? "<think>" : "</think>")] : [])
    ]
  }
  return {
    name: options.name,
    bos: [control("<｜begin▁of▁sentence｜>")],
    prepare,
    message: (message, context) => {
      const content = Messages.text(message)
      const before = context.index === 0 ? opening(message.role) : []
      switch (message.role) {
        case "system": {
          // line breaks at its beginning are one token with those of the effort line
          const breaks = thinking && context.index === 0 ? /^[\r\n]*/.exec(content)?.[0] ?? "" : ""
          return {
            header: [...(context.index === 0 ? before : system), text(breaks)],
            output: dsml(content.slice(breaks.length))
          }
        }
        case declares:
          return context.index === 1
            ? { header: [], output: [] }
            : new Refusal("tools are declared first, or right after the first system message")
        case "user":
        case "tool":
          return isUserTurn(context.previous)
            ? { header: [], output: [] }
            : { header: [...before, control("<｜User｜>")], output: [text(content)] }
        case "assistant":
          return {
            header: header(context),
            output: [
              ...(keeps(context) ? [text(Messages.thinking(message)), tag("</think>")] : []),
              text(content),
              ...calls(message, spelling),
              end
            ]
          }
        default:
          return new Refusal(`DeepSeek has no role "${message.role}"`)
      }
    },
    suffix: (_role, context) => header(context),
    turnStart: (messages) =>
      Math.max(
        lastIndex(messages, ({ role }) => role === "user"),
        options.version === "4"
          ? -1
          : lastIndex(messages.slice(1), ({ role }) => role === "system") + (messages.length > 1 ? 1 : 0)
      ) + 1,
    stops: ["<｜end▁of▁sentence｜>"],
    parsing: {
      _tag: "markers",
      markers: {
        thinkOpen: "<think>",
        thinkClose: "</think>",
        toolsOpen: `<${spelling.block}>`,
        toolsClose: `</${spelling.block}>`,
        framed: false,
        separator: "\n\n"
      },
      tools: readCalls,
      startsInThinking: thinking
    },
    extends: !thinking || options.keepThinking,
    disablesThinking: false,
    tools: (tools, system) => [
      ...(system === "" ? [] : [Messages.system(system)]),
      ...(tools.length === 0 ? [] : [{ role: declares, markup: true, content: toolText(tools.map(toJson), spelling) }])
    ]
  }
}

const toolText = (schemas: ReadonlyArray<string>, { block, mark }: Spelling): string =>
  [
    "## Tools\n\nYou have access to a set of tools to help answer the user's question. ",
    `You can invoke tools by writing a "<${block}>" block like the following:\n\n`,
    `<${block}>\n<${mark}invoke name="$TOOL_NAME">\n`,
    `<${mark}parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</${mark}parameter>\n...\n`,
    `</${mark}invoke>\n<${mark}invoke name="$TOOL_NAME2">\n...\n</${mark}invoke>\n</${block}>\n\n`,
    "String parameters should be specified as is and set `string=\"true\"`. For all other types ",
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set `string=\"false\"`.\n\n",
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside ",
    "<think>...</think> BEFORE any tool calls or final response.\n\n",
    "Otherwise, output directly after </think> with tool calls or final response.\n\n",
    `### Available Tool Schemas\n\n${schemas.join("\n")}\n\n`,
    "You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n"
  ].join("")

/**
 * How V4's encoder words a reasoning effort; nothing for the lowest.
 *
 * @internal
 */
export const deepseekV4Efforts = {
  none: undefined,
  low: "",
  high: [
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n",
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, ",
    "rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.\n",
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered ",
    "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n"
  ].join(""),
  max: [
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n",
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the ",
    "problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying ",
    "cause rather than any surface symptom.\n",
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are certain ",
    "that no assumption remains unchecked and no error remains undiscovered.\n\n"
  ].join("")
}
