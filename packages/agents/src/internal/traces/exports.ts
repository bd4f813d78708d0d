/**
 * Records of Langfuse, Braintrust, LangSmith and OpenAI, as their clients send them and their exports have them.
 */
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import type { Fact, Score } from "./fact.js"
import { sessionKeys, time } from "./fact.js"
import type { Json } from "./messages.js"
import { number, parsed, record, string } from "./messages.js"
import * as Otlp from "./otlp.js"

type Facts = Either.Either<ReadonlyArray<Fact>, string>

const list = (u: unknown): ReadonlyArray<unknown> => Array.isArray(u) ? u : []

const records = (u: unknown): ReadonlyArray<Json> =>
  list(u).flatMap((item) => {
    const found = record(item)
    return found === undefined ? [] : [found]
  })

const strings = (u: unknown): ReadonlyArray<string> => list(u).filter(Predicate.isString)

const sessionIn = (metadata: unknown): string | undefined => {
  const fields = record(parsed(metadata))
  for (const key of sessionKeys) {
    const found = string(fields?.[key])
    if (found !== undefined) return found
  }
  return undefined
}

const truth = (u: unknown): number | undefined => typeof u === "boolean" ? Number(u) : number(u)

// =============================================================================
// Langfuse
// =============================================================================

const generation = (body: Json): Fact => {
  const usage = record(body["usageDetails"]) ?? record(body["usage"])
  return {
    source: "langfuse",
    trace: string(body["traceId"]),
    observation: string(body["id"]),
    session: string(body["sessionId"]),
    call: {
      isModel: true,
      prompt: body["input"],
      answer: body["output"],
      model: string(body["model"]),
      startedAt: time(body["startTime"]),
      endedAt: time(body["endTime"]),
      input: number(usage?.["input"] ?? usage?.["promptTokens"]),
      output: number(usage?.["output"] ?? usage?.["completionTokens"]),
      cost: number(record(body["costDetails"])?.["total"] ?? body["calculatedTotalCost"] ?? body["totalCost"])
    }
  }
}

const observation = (body: Json, type: string): Fact =>
  type.toLowerCase() === "generation"
    ? generation(body)
    : { source: "langfuse", trace: string(body["traceId"]), observation: string(body["id"]) }

const langfuseScore = (body: Json): Fact => ({
  source: "langfuse",
  trace: string(body["traceId"]),
  observation: string(body["observationId"]),
  scores: [{
    name: string(body["name"]) ?? "score",
    value: truth(body["value"]),
    comment: string(body["comment"]) ?? string(body["stringValue"])
  }]
})

const langfuseTrace = (body: Json): ReadonlyArray<Fact> => {
  const trace = string(body["id"])
  return [
    {
      source: "langfuse",
      trace,
      session: string(body["sessionId"]) ?? sessionIn(body["metadata"]),
      tags: strings(body["tags"])
    },
    ...records(body["observations"]).map((one) => observation({ ...one, traceId: trace }, string(one["type"]) ?? "")),
    ...records(body["scores"]).map((one) => langfuseScore({ ...one, traceId: trace }))
  ]
}

const langfuseEvent = (event: Json): ReadonlyArray<Fact> => {
  const type = string(event["type"]) ?? ""
  const body = record(event["body"]) ?? {}
  if (type.startsWith("trace")) return langfuseTrace(body)
  if (type.startsWith("score")) return [langfuseScore(body)]
  if (type.startsWith("generation")) return [generation(body)]
  if (type.startsWith("observation")) return [observation(body, string(body["type"]) ?? "")]
  return [{ source: "langfuse", trace: string(body["traceId"]), observation: string(body["id"]) }]
}

// =============================================================================
// Braintrust
// =============================================================================

const braintrust = (row: Json): ReadonlyArray<Fact> => {
  const origin = record(row["origin"])
  const comment = string(record(row["comment"])?.["text"]) ?? string(row["comment"])
  if (origin !== undefined && comment !== undefined && row["span_id"] === undefined) {
    return [{
      source: "braintrust",
      trace: string(row["root_span_id"]),
      observation: string(origin["id"]),
      scores: [{ name: "feedback", comment }]
    }]
  }
  const metrics = record(row["metrics"])
  const metadata = record(row["metadata"])
  const isModel = record(row["span_attributes"])?.["type"] === "llm"
  const scores: ReadonlyArray<Score> = Object.entries(record(row["scores"]) ?? {}).flatMap(([name, value]) => {
    const found = truth(value)
    return found === undefined ? [] : [{ name, value: found }]
  })
  return [{
    source: "braintrust",
    trace: string(row["root_span_id"]) ?? string(row["id"]),
    observation: string(row["id"]),
    session: sessionIn(metadata),
    tags: strings(row["tags"]),
    scores,
    // without attributes it continues a row that had them
    ...isModel || row["span_attributes"] === undefined
      ? {
        call: {
          ...isModel ? { isModel } : {},
          prompt: row["input"],
          answer: row["output"],
          tools: metadata?.["tools"],
          model: string(metadata?.["model"]),
          startedAt: time(metrics?.["start"]),
          endedAt: time(metrics?.["end"]),
          input: number(metrics?.["prompt_tokens"]),
          output: number(metrics?.["completion_tokens"]),
          cost: number(metrics?.["estimated_cost"])
        }
      }
      : {}
  }]
}

// =============================================================================
// LangSmith
// =============================================================================

const usageIn = (outputs: Json | undefined): Json | undefined =>
  record(outputs?.["usage_metadata"]) ?? record(record(outputs?.["llm_output"])?.["tokenUsage"])

const langsmith = (run: Json): Fact => {
  const metadata = record(record(run["extra"])?.["metadata"]) ?? record(run["metadata"])
  const invocation = record(record(run["extra"])?.["invocation_params"])
  const outputs = record(parsed(run["outputs"]))
  const usage = usageIn(outputs)
  const scores = Object.entries(record(run["feedback_stats"]) ?? {}).flatMap(([name, stats]) => {
    const value = truth(record(stats)?.["avg"])
    return value === undefined ? [] : [{ name, value }]
  })
  return {
    source: "langsmith",
    trace: string(run["trace_id"]) ?? string(run["id"]),
    observation: string(run["id"]),
    session: sessionIn(metadata),
    tags: strings(run["tags"]),
    scores,
    // an update may leave out what it is about
    ...run["run_type"] === "llm" || run["run_type"] === undefined
      ? {
        call: {
          ...run["run_type"] === "llm" ? { isModel: true } : {},
          prompt: run["inputs"],
          answer: run["outputs"],
          tools: invocation?.["tools"] ?? record(parsed(run["inputs"]))?.["tools"],
          model: string(metadata?.["ls_model_name"]) ?? string(invocation?.["model"]),
          startedAt: time(run["start_time"]),
          endedAt: time(run["end_time"]),
          input: number(usage?.["input_tokens"] ?? usage?.["promptTokens"] ?? run["prompt_tokens"]),
          output: number(usage?.["output_tokens"] ?? usage?.["completionTokens"] ?? run["completion_tokens"]),
          cost: number(run["total_cost"])
        }
      }
      : {}
  }
}

const langsmithFeedback = (feedback: Json): Fact => ({
  source: "langsmith",
  trace: string(feedback["trace_id"]),
  observation: string(feedback["run_id"]),
  scores: [{
    name: string(feedback["key"]) ?? "score",
    value: truth(feedback["score"]),
    comment: string(feedback["comment"])
  }]
})

// =============================================================================
// OpenAI
// =============================================================================

/** The prompt of a request: messages of chat completions, or input of responses. */
const promptOf = (body: Json): unknown =>
  body["messages"] ??
    (body["input"] === undefined ? undefined : { input: body["input"], instructions: body["instructions"] })

const answered = (body: Json) => {
  const usage = record(body["usage"])
  return {
    isModel: true,
    answer: body["choices"] ?? body["output"],
    model: string(body["model"]),
    startedAt: time(body["created"] ?? body["created_at"]),
    input: number(usage?.["prompt_tokens"] ?? usage?.["input_tokens"]),
    output: number(usage?.["completion_tokens"] ?? usage?.["output_tokens"])
  }
}

const batchLine = (line: Json): Facts => {
  const id = string(line["custom_id"])
  if (id === undefined) return Either.left("a line of a batch without custom_id")
  const request = record(line["body"])
  const response = record(line["response"])
  const body = record(response?.["body"])
  const status = number(response?.["status_code"])
  const error = record(line["error"]) ?? record(body?.["error"])
  if (error !== undefined || (status !== undefined && status >= 400)) {
    return Either.left(`the request failed: ${string(error?.["message"]) ?? `status ${status}`}`)
  }
  return Either.right([{
    source: "openai",
    trace: `batch-${id}`,
    observation: id,
    session: sessionIn(request?.["metadata"] ?? body?.["metadata"]),
    call: {
      isModel: true,
      ...request === undefined ? {} : { prompt: promptOf(request), tools: request["tools"] },
      ...body === undefined ? {} : answered(body)
    }
  }])
}

const stored = (completion: Json): Facts => {
  const id = string(completion["id"])
  const request = record(completion["request"]) ?? completion
  const prompt = completion["input_messages"] ?? promptOf(request) ?? completion["input"]
  return id === undefined ? Either.left("a stored completion without an id") : Either.right([{
    source: "openai",
    // calls that name their session are put together
    trace: sessionIn(completion["metadata"]) ?? id,
    observation: id,
    session: sessionIn(completion["metadata"]),
    call: { ...answered(completion), prompt, tools: completion["tools"] ?? request["tools"] }
  }])
}

/** Fields on a page of a stored completion's messages: `GET /chat/completions/ID/messages`. */
const storedMessages = (page: Json, id: string): Facts =>
  Either.right([{ source: "openai", trace: undefined, observation: id, call: { isModel: true, prompt: page["data"] } }])

// =============================================================================
// all of them
// =============================================================================

const all = (given: ReadonlyArray<Json>, read: (one: Json) => ReadonlyArray<Fact>): Facts =>
  Either.right(given.flatMap(read))

const nested = (given: ReadonlyArray<Json>): Facts => Either.map(Either.all(given.map(facts)), (found) => found.flat())

/**
 * Reads a record by the shape it has.
 *
 * @internal
 */
export const facts = (row: Json): Facts => {
  if (Array.isArray(row["resourceSpans"])) return Either.right(Otlp.facts(row))
  if (Array.isArray(row["batch"])) return all(records(row["batch"]), langfuseEvent)
  if (record(row["body"]) !== undefined && typeof row["type"] === "string" && row["timestamp"] !== undefined) {
    return Either.right(langfuseEvent(row))
  }
  if (typeof row["custom_id"] === "string") return batchLine(row)
  if (row["object"] === "chat.completion" || row["object"] === "response") return stored(row)
  const page = record(row["data"]) === undefined ? records(row["data"]) : []
  if (page.length > 0) {
    const of = /^(.+)-\d+$/.exec(string(page[0]?.["id"]) ?? "")
    return page[0]?.["role"] !== undefined && of?.[1] !== undefined ? storedMessages(row, of[1]) : nested(page)
  }
  if (Array.isArray(row["post"]) || Array.isArray(row["patch"])) {
    return all([...records(row["post"]), ...records(row["patch"])], (run) => [langsmith(run)])
  }
  if (typeof row["run_type"] === "string") return Either.right([langsmith(row)])
  if (typeof row["run_id"] === "string" && typeof row["key"] === "string") return Either.right([langsmithFeedback(row)])
  const rows = records(row["rows"] ?? row["events"])
  if (rows.length > 0) return all(rows, braintrust)
  if (
    row["root_span_id"] !== undefined || row["span_attributes"] !== undefined ||
    (record(row["origin"]) !== undefined && row["comment"] !== undefined)
  ) return Either.right(braintrust(row))
  if (typeof row["traceId"] === "string" && typeof row["type"] === "string") {
    return Either.right([observation(row, row["type"])])
  }
  if (
    typeof row["traceId"] === "string" && typeof row["name"] === "string" && ("value" in row || "stringValue" in row)
  ) {
    return Either.right([langfuseScore(row)])
  }
  if (Array.isArray(row["observations"]) && typeof row["id"] === "string") return Either.right(langfuseTrace(row))
  return Either.left(
    `no log that is known has such records: its fields are ${Object.keys(row).slice(0, 12).join(", ")}`
  )
}
