/**
 * Spans of OpenTelemetry: the conventions for generative AI, the AI SDK's, Langfuse's, OpenLLMetry's and OpenInference's.
 */
import * as Predicate from "effect/Predicate"
import type { Call, Fact, Score } from "./fact.js"
import { sessionKeys, time } from "./fact.js"
import type { Json } from "./messages.js"
import { number, parsed, record, string } from "./messages.js"

const list = (u: unknown): ReadonlyArray<unknown> => Array.isArray(u) ? u : []

const maxDepth = 64

const anyValue = (u: unknown, depth = 0): unknown => {
  const value = record(u)
  if (value === undefined || depth > maxDepth) return undefined
  if ("stringValue" in value) return value["stringValue"]
  if ("intValue" in value) return number(value["intValue"])
  if ("doubleValue" in value) return value["doubleValue"]
  if ("boolValue" in value) return value["boolValue"]
  if ("arrayValue" in value) {
    return list(record(value["arrayValue"])?.["values"]).map((item) => anyValue(item, depth + 1))
  }
  if ("kvlistValue" in value) return attributesOf(record(value["kvlistValue"])?.["values"], depth + 1)
  return undefined
}

const attributesOf = (u: unknown, depth = 0): Json =>
  Object.fromEntries(
    list(u).flatMap((item) => {
      const pair = record(item)
      const key = string(pair?.["key"])
      return key === undefined ? [] : [[key, anyValue(pair?.["value"], depth)]]
    })
  )

const first = (attributes: Json, ...keys: ReadonlyArray<string>): unknown => {
  for (const key of keys) if (attributes[key] !== undefined && attributes[key] !== "") return attributes[key]
  return undefined
}

/** Attributes whose names are paths with numbers in them, as a list: `gen_ai.prompt.0.role`. */
const indexed = (attributes: Json, prefix: string): ReadonlyArray<Json> | undefined => {
  const found: Array<Record<string, unknown>> = []
  const calls: Array<Array<Record<string, unknown>>> = []
  for (const [key, value] of Object.entries(attributes)) {
    if (!key.startsWith(prefix)) continue
    const match = /^(\d{1,4})\.(?:message\.)?(.+)$/.exec(key.slice(prefix.length))
    if (match === null) continue
    const at = Number(match[1])
    const name = match[2] ?? ""
    const call = /^tool_calls\.(\d{1,3})\.(?:tool_call\.)?(?:function\.)?(id|name|arguments)$/.exec(name)
    if (call === null) (found[at] ??= {})[name] = value
    else {
      const of = calls[at] ??= []
      ;(of[Number(call[1])] ??= {})[call[2] ?? ""] = value
      found[at] ??= {}
    }
  }
  const messages = found.map((message, at) =>
    calls[at] === undefined ? message : { ...message, tool_calls: calls[at].filter(Boolean) }
  )
    .filter(Predicate.isNotUndefined)
  return messages.length === 0 ? undefined : messages
}

/** The answer of the AI SDK stands in attributes of its own. */
const aiAnswer = (attributes: Json): unknown => {
  const [said, object, calls, thought] = [
    first(attributes, "ai.response.text"),
    first(attributes, "ai.response.object"),
    first(attributes, "ai.response.toolCalls"),
    first(attributes, "ai.response.reasoning")
  ]
  if (said === undefined && object === undefined && calls === undefined && thought === undefined) return undefined
  return {
    role: "assistant",
    content: said ?? object ?? "",
    ...calls === undefined ? {} : { toolCalls: parsed(calls) },
    ...thought === undefined ? {} : { reasoning: thought }
  }
}

/** Messages as the older conventions log them: an event each. */
const eventMessages = (events: ReadonlyArray<{ readonly name: string; readonly attributes: Json }>) => {
  const prompt: Array<unknown> = []
  let answer: unknown
  for (const { attributes, name } of events) {
    const match = /^gen_ai\.(system|user|assistant|tool)\.message$/.exec(name)
    if (match !== null) {
      prompt.push({
        role: match[1],
        ...attributes,
        tool_calls: parsed(attributes["tool_calls"]),
        tool_call_id: attributes["id"]
      })
    } else if (name === "gen_ai.choice") {
      answer = parsed(attributes["message"]) ??
        { role: "assistant", ...attributes, tool_calls: parsed(attributes["tool_calls"]) }
    } else if (name === "gen_ai.content.prompt") prompt.push(...list(parsed(attributes["gen_ai.prompt"])))
    else if (name === "gen_ai.content.completion") answer = parsed(attributes["gen_ai.completion"])
  }
  return { prompt: prompt.length === 0 ? undefined : prompt, answer }
}

const isModelSpan = (name: string, attributes: Json): boolean => {
  const operation = string(attributes["gen_ai.operation.name"])
  if (string(attributes["ai.operationId"]) !== undefined) return /\.do(Generate|Stream)$/.test(name)
  const langfuse = string(attributes["langfuse.observation.type"])
  if (langfuse !== undefined) return langfuse === "generation"
  const kind = string(attributes["openinference.span.kind"])
  if (kind !== undefined) return kind === "LLM"
  const traceloop = string(attributes["llm.request.type"])
  return operation !== undefined
    ? ["chat", "text_completion", "generate_content"].includes(operation)
    : traceloop !== undefined
}

const instructionsOf = (u: unknown): string | undefined => {
  const value = parsed(u)
  return Array.isArray(value)
    ? string(value.map((part) => string(record(part)?.["content"]) ?? string(record(part)?.["text"]) ?? "").join("\n"))
    : string(value)
}

const scoresOf = (events: ReadonlyArray<{ readonly name: string; readonly attributes: Json }>): ReadonlyArray<Score> =>
  events.flatMap(({ attributes, name }) =>
    name !== "gen_ai.evaluation.result" ? [] : [{
      name: string(attributes["gen_ai.evaluation.name"]) ?? "score",
      value: number(attributes["gen_ai.evaluation.score.value"]),
      comment: string(attributes["gen_ai.evaluation.explanation"])
    }]
  )

const sessionOf = (attributes: Json): string | undefined => {
  for (const key of sessionKeys) {
    for (const prefix of ["", "ai.telemetry.metadata.", "langfuse.trace.metadata.", "langfuse."]) {
      const found = string(attributes[`${prefix}${key}`])
      if (found !== undefined) return found
    }
  }
  return undefined
}

const sumOfDetails = (u: unknown, name: string): number | undefined => number(record(parsed(u))?.[name])

const factOf = (span: Json): Fact | undefined => {
  const trace = string(span["traceId"])
  const observation = string(span["spanId"])
  if (trace === undefined || observation === undefined) return undefined
  const attributes = attributesOf(span["attributes"])
  const events = list(span["events"]).flatMap((item) => {
    const event = record(item)
    return event === undefined
      ? []
      : [{ name: string(event["name"]) ?? "", attributes: attributesOf(event["attributes"]) }]
  })
  const told = eventMessages(events)
  const call: Call | undefined = isModelSpan(string(span["name"]) ?? "", attributes)
    ? {
      isModel: true,
      system: instructionsOf(attributes["gen_ai.system_instructions"]),
      prompt: first(attributes, "gen_ai.input.messages", "ai.prompt.messages", "langfuse.observation.input") ??
        indexed(attributes, "gen_ai.prompt.") ?? indexed(attributes, "llm.input_messages.") ?? told.prompt ??
        first(attributes, "input.value"),
      answer: first(attributes, "gen_ai.output.messages") ?? aiAnswer(attributes) ??
        first(attributes, "langfuse.observation.output") ?? indexed(attributes, "gen_ai.completion.") ??
        indexed(attributes, "llm.output_messages.") ?? told.answer ?? first(attributes, "output.value"),
      tools: first(attributes, "gen_ai.tool.definitions", "ai.prompt.tools"),
      model: string(
        first(
          attributes,
          "gen_ai.response.model",
          "ai.response.model",
          "gen_ai.request.model",
          "ai.model.id",
          "langfuse.observation.model.name",
          "llm.model_name"
        )
      ),
      startedAt: time(span["startTimeUnixNano"]),
      endedAt: time(span["endTimeUnixNano"]),
      input: number(
        first(
          attributes,
          "gen_ai.usage.input_tokens",
          "ai.usage.inputTokens",
          "gen_ai.usage.prompt_tokens",
          "llm.token_count.prompt"
        )
      ) ?? sumOfDetails(attributes["langfuse.observation.usage_details"], "input"),
      output: number(
        first(
          attributes,
          "gen_ai.usage.output_tokens",
          "ai.usage.outputTokens",
          "gen_ai.usage.completion_tokens",
          "llm.token_count.completion"
        )
      ) ?? sumOfDetails(attributes["langfuse.observation.usage_details"], "output"),
      cost: sumOfDetails(attributes["langfuse.observation.cost_details"], "total") ??
        number(attributes["gen_ai.usage.cost"])
    }
    : undefined
  const tags = list(parsed(attributes["langfuse.trace.tags"])).filter(Predicate.isString)
  const service = string(attributes["ai.telemetry.functionId"])
  const isLangfuse = Object.keys(attributes).some((name) => name.startsWith("langfuse.observation."))
  return {
    source: isLangfuse ? "langfuse" : "otel",
    trace,
    observation,
    call,
    session: sessionOf(attributes),
    tags: [...tags, ...service === undefined ? [] : [service]],
    scores: scoresOf(events)
  }
}

/** The spans of an export. @internal */
export const facts = (request: Json): ReadonlyArray<Fact> =>
  list(request["resourceSpans"]).flatMap((resource) =>
    list(record(resource)?.["scopeSpans"]).flatMap((scope) =>
      list(record(scope)?.["spans"]).flatMap((item) => {
        const span = record(item)
        const fact = span === undefined ? undefined : factOf(span)
        return fact === undefined ? [] : [fact]
      })
    )
  )
