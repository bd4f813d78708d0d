/**
 * Parts that the endpoints of OpenAI's API share: refusals in its shape, tools and schemas in its words, server-sent events.
 */
import * as JsonText from "@effect-tinker/cookbook/JsonText"
import * as OpenAiWire from "@effect-tinker/platform/OpenAiWire"
import * as ServerSentEvents from "@effect-tinker/platform/ServerSentEvents"
import type * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as TinkerError from "effect-tinker/TinkerError"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as AgentModel from "../../AgentModel.js"

// =============================================================================
// refusals
// =============================================================================

/**
 * A response that is not what was asked for.
 *
 * @internal
 */
export class Refused extends Data.TaggedError("Refused")<{
  readonly status: number
  readonly message: string
  /** As OpenAI names it: what its clients map to error classes goes by the status. */
  readonly type: "invalid_request_error" | "rate_limit_error" | "server_error"
  readonly code: string | null
  readonly param: string | null
  readonly retryAfter?: number | undefined
}> {}

/** @internal */
export const invalid = (
  message: string,
  options?: { readonly status?: number; readonly code?: string; readonly param?: string }
): Refused =>
  new Refused({
    status: options?.status ?? 400,
    message,
    type: "invalid_request_error",
    code: options?.code ?? null,
    param: options?.param ?? null
  })

/** @internal */
export const unsupported = (param: string, message: string): Refused =>
  invalid(message, { code: "unsupported_parameter", param })

/** @internal */
export const busy = (message: string, code: string): Refused =>
  new Refused({ status: 429, message, type: "rate_limit_error", code, param: null, retryAfter: 1 })

/** @internal */
export const broken = (status: number, message: string, code: string): Refused =>
  new Refused({ status, message, type: "server_error", code, param: null })

/**
 * A failed call as a response. Clients retry 408, 409, 429 and 5xx by themselves.
 *
 * @internal
 */
export const fromModelError = (error: AgentModel.AgentModelError): Refused => {
  switch (error._tag) {
    case "ContextOverflow":
      return invalid(error.message, { code: "context_length_exceeded", param: "messages" })
    case "RenderFailed":
    case "ChatTemplateFailed":
      return invalid(error.message, { param: "messages" })
    case "ReplyRejected":
      // it was sampled several times already: a status that clients do not retry by themselves
      return invalid(error.message, { status: 422, code: "reply_rejected" })
    case "RecorderFull":
      return busy(error.message, "recorder_full")
    case "RecordingFailed":
      return broken(500, error.message, "store_failed")
    case "InvalidInput":
    case "BadRequest":
      return invalid(error.message)
    case "RateLimited":
      return busy(error.message, "rate_limited")
    default:
      return broken(TinkerError.isRetryable(error) ? 503 : 502, error.message, "upstream_failed")
  }
}

/** @internal */
export const refuse = ({ code, message, param, retryAfter, status, type }: Refused) =>
  HttpServerResponse.unsafeJson({ error: { message, type, param, code } }, {
    status,
    headers: retryAfter === undefined ? {} : { "retry-after": String(retryAfter) }
  })

// =============================================================================
// requests
// =============================================================================

interface Fault {
  readonly path: ReadonlyArray<string>
  readonly message: string
  /** Discriminators of a union: a member that fails elsewhere is more likely to be the one that was meant. */
  readonly tag: boolean
}

const tags = new Set(["type", "role"])

/** A value in a few words: bodies may be megabytes long, and hold what nobody wants in a log. */
const brief = (value: unknown): string => {
  if (typeof value === "string") {
    return value.length > 40 ? `a string of ${value.length} characters` : JSON.stringify(value)
  }
  if (Array.isArray(value)) return `an array of ${value.length}`
  if (!Predicate.isRecord(value)) return String(value)
  return `an object with ${Object.keys(value).slice(0, 5).join(", ") || "no keys"}`
}

/** The first field that is wrong; in a union, that of the member which the value comes closest to. */
const faultOf = (issue: ParseResult.ParseIssue, path: ReadonlyArray<string>): Fault => {
  const at = (message: string): Fault => ({ path, message, tag: tags.has(path.at(-1) ?? "") })
  switch (issue._tag) {
    case "Pointer": {
      const keys: ReadonlyArray<PropertyKey> = typeof issue.path === "object" ? issue.path : [issue.path]
      return faultOf(issue.issue, [...path, ...keys.map(String)])
    }
    case "Composite": {
      const issues: ReadonlyArray<ParseResult.ParseIssue> = "_tag" in issue.issues ? [issue.issues] : issue.issues
      const faults = issues.map((inner) => faultOf(inner, path))
      if (issue.ast._tag !== "Union") return faults[0] ?? at("unexpected")
      const deepest = Math.max(...faults.map((fault) => fault.path.length))
      const closest = faults.filter((fault) => fault.path.length === deepest)
      // every member refuses the value as a whole
      if (deepest === path.length) return at(`expected ${String(issue.ast)}, got ${brief(issue.actual)}`)
      return closest.find(({ tag }) => !tag) ?? closest[0] ?? at("unexpected")
    }
    case "Refinement":
      return issue.kind === "From"
        ? faultOf(issue.issue, path)
        : at(`expected ${String(issue.ast)}, got ${brief(issue.actual)}`)
    case "Transformation":
      return issue.kind === "Transformation" && issue.issue._tag === "Type"
        ? at(issue.issue.message ?? "unexpected")
        : faultOf(issue.issue, path)
    case "Missing":
      return at("is missing")
    case "Unexpected":
      return at("is unexpected")
    case "Forbidden":
      return at(issue.message ?? "is forbidden")
    case "Type":
      return at(`expected ${String(issue.ast)}, got ${brief(issue.actual)}`)
  }
}

/**
 * Reads JSON, and names the first field that is wrong.
 *
 * @internal
 */
export const decoder = <A, I>(schema: Schema.Schema<A, I>) => {
  const decode = ParseResult.decodeUnknown(Schema.parseJson(schema))
  return (text: string): Effect.Effect<A, Refused> =>
    JsonText.isTooDeep(text) ?
      invalid(`the body is nested more than ${JsonText.maxNesting} levels deep`) :
      Effect.mapError(decode(text), (issue) => {
        const { message, path } = faultOf(issue, [])
        const param = path.join(".")
        return param === "" ? invalid(message) : invalid(`${param}: ${message}`, { param })
      })
}

/** @internal */
export const Json = Schema.Record({ key: Schema.String, value: Schema.Unknown })

/** @internal */
export const sampling = {
  model: OpenAiWire.maybe(Schema.String),
  temperature: OpenAiWire.maybe(Schema.Number.pipe(Schema.between(0, 100))),
  top_p: OpenAiWire.maybe(Schema.Number.pipe(Schema.greaterThan(0), Schema.lessThanOrEqualTo(1))),
  top_k: OpenAiWire.maybe(Schema.Int),
  stream: OpenAiWire.maybe(Schema.Boolean),
  metadata: OpenAiWire.maybe(Json)
}

/** @internal */
export const TextPart = Schema.Struct({
  type: Schema.Literal("text", "input_text", "output_text", "refusal"),
  text: OpenAiWire.maybe(Schema.String),
  refusal: OpenAiWire.maybe(Schema.String)
})

/** Content as clients write it: text, parts of text, or nothing. @internal */
export const Content = Schema.Union(Schema.String, Schema.Array(TextPart), Schema.Null)

/** @internal */
export const textOf = (content: typeof Content.Type | undefined): string =>
  typeof content === "string"
    ? content
    : (content ?? []).map(({ refusal, text }) => text ?? refusal ?? "").join("")

/** The roles of the API in the words of renderers. @internal */
export const roleOf = (role: string): string => role === "developer" ? "system" : role === "function" ? "tool" : role

/** @internal */
export const toolSpec = (
  tool: {
    readonly name: string
    readonly description?: string | null | undefined
    readonly parameters?: Readonly<Record<string, unknown>> | null | undefined
  }
): Message.ToolSpec => ({
  name: tool.name,
  description: tool.description ?? "",
  parameters: tool.parameters ?? { type: "object", properties: {} }
})

// =============================================================================
// responses
// =============================================================================

/** The text and bytes of a token. @internal */
export const tokenOf = ({ tokenizer }: Renderer.Renderer, id: number) => {
  const text = tokenizer.decode([id])
  return {
    token: text,
    bytes: Option.match(tokenizer.tokenBytes(id), {
      onNone: () => Array.from(new TextEncoder().encode(text)),
      onSome: (bytes) => Array.from(bytes)
    })
  }
}

const encoder = new TextEncoder()

/** @internal */
export const sse = (events: Iterable<string>) =>
  HttpServerResponse.stream(
    Stream.map(Stream.fromIterable(events), (text) => encoder.encode(text)),
    { contentType: `${ServerSentEvents.contentType}; charset=utf-8`, headers: { "cache-control": "no-cache" } }
  )
