/**
 * From what the transport returned to the tagged error the caller gets. The one place where statuses have a meaning.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as TinkerError from "../../TinkerError.js"
import type { Response, ResponseHead, TransportError } from "../../TinkerTransport.js"
import type { Plain } from "../../wire/Endpoint.js"
import { saidLines } from "../observability/logs.js"

// -----------------------------------------------------------------------------
// From every error the transport's type allows to those an operation can really fail with. What an operation cannot fail
// with would be a bug of ours, so it becomes a defect instead of being hidden by a cast. Only failures pay for it.
// -----------------------------------------------------------------------------

const isSampling = (error: TinkerError.TinkerError): error is TinkerError.SamplingError =>
  error._tag !== "UnobservedFailure"

const isStartup = (error: TinkerError.TinkerError): error is TinkerError.StartupError =>
  isSampling(error) && error._tag !== "BudgetExceeded"

const isRequest = (error: TinkerError.TinkerError): error is TinkerError.RequestError => {
  switch (error._tag) {
    case "RequestFailed":
    case "FutureExpired":
    case "Stuck":
      return false
    default:
      return isStartup(error)
  }
}

const narrow =
  <E extends TinkerError.TinkerError>(is: (error: TinkerError.TinkerError) => error is E) =>
  (cause: Cause.Cause<TinkerError.TinkerError>): Cause.Cause<E> =>
    Cause.flatMap(cause, (error) => is(error) ? Cause.fail(error) : Cause.die(error))

/** @internal */
export const toSamplingCause: (cause: Cause.Cause<TinkerError.TinkerError>) => Cause.Cause<TinkerError.SamplingError> =
  narrow(isSampling)

/** @internal */
export const toStartupError = <A, R>(
  self: Effect.Effect<A, TinkerError.TinkerError, R>
): Effect.Effect<A, TinkerError.StartupError, R> => Effect.mapErrorCause(self, narrow(isStartup))

/** @internal */
export const toRequestError = <A, R>(
  self: Effect.Effect<A, TinkerError.TinkerError, R>
): Effect.Effect<A, TinkerError.RequestError, R> => Effect.mapErrorCause(self, narrow(isRequest))

// -----------------------------------------------------------------------------
// Requests from the caller's input.
// -----------------------------------------------------------------------------

/**
 * Builds a request whose schema may refuse what it is built from: that is the caller's mistake, not a defect.
 *
 * @internal
 */
export const buildRequest = <A>(
  from: { readonly module: string; readonly method: string },
  build: () => A
): Effect.Effect<A, TinkerError.InvalidInput> =>
  Effect.try({
    try: build,
    catch: (cause) =>
      new TinkerError.InvalidInput({
        ...from,
        description: cause instanceof Error ? cause.message : String(cause),
        cause
      })
  })

// -----------------------------------------------------------------------------
// From responses and transport errors to tagged errors.
// -----------------------------------------------------------------------------

/**
 * Who asked, for the error.
 *
 * @internal
 */
export interface Origin {
  readonly module: string
  readonly method: string
  readonly requestId?: string | undefined
}

const number = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\s*$/i

/** `Wed, 21 Oct 2026 07:28:00 GMT` and its two obsolete forms; other zones as names or offsets. */
const httpDate = /^\s*(?:[a-z]{3,9},?\s+)?(?:\d{1,2}[ -][a-z]{3}[ -]\d{2,4}|[a-z]{3}\s+\d{1,2})\s+\d{1,2}:\d{2}/i

const parseHint = (headers: ResponseHead["headers"], now: number): number | undefined => {
  const millis = headers["retry-after-ms"]
  // One that can be read but not obeyed still hides `retry-after`.
  if (millis !== undefined && number.test(millis)) return Number(millis)
  const after = headers["retry-after"]
  if (after === undefined) return undefined
  if (number.test(after)) return Number(after) * 1000
  return httpDate.test(after) ? Date.parse(after) - now : undefined
}

/**
 * How long the server asks us to wait, if that is more than nothing and at most a minute.
 */
const retryAfter = (headers: ResponseHead["headers"], now: number): Duration.Duration | undefined => {
  const hint = parseHint(headers, now)
  return hint !== undefined && hint > 0 && hint <= 60_000 ? Duration.millis(hint) : undefined
}

const shouldRetryHeader = (headers: ResponseHead["headers"]): boolean | undefined => {
  const value = headers["x-should-retry"]
  return value === "true" ? true : value === "false" ? false : undefined
}

/** Submits meet a 409 while an earlier copy of themselves is being accepted; for the others it is final. */
const conflictPasses = new Set<string>(["submit", "sample", "startup"])

const maxText = 2_000

const clip = (text: string): string => saidLines(text.length > maxText ? `${text.slice(0, maxText)}…` : text)

/** Nesting beyond what a logger can walk without overflowing the stack. */
const isDeep = (text: string): boolean => {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x5b || code === 0x7b) {
      if (++depth > 64) return true
    } else if (code === 0x5d || code === 0x7d) depth--
  }
  return false
}

const parseBody = (text: string): unknown => {
  if (text === "") return undefined
  if (text.length > 65_536 || isDeep(text)) return clip(text)
  try {
    return JSON.parse(text)
  } catch {
    return clip(text)
  }
}

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> =>
  typeof u === "object" && u !== null && !Array.isArray(u)

/** `body.path: Field required` from `{"loc":["body","path"],"msg":"Field required"}`, as FastAPI refuses a body. */
const refusal = (u: unknown): string | undefined =>
  isRecord(u) && typeof u["msg"] === "string" && Array.isArray(u["loc"])
    ? `${u["loc"].join(".")}: ${u["msg"]}`
    : undefined

/** The sentence meant for people, wherever the server put it. */
const describe = (body: unknown): string | undefined => {
  if (body === undefined || body === null) return undefined
  if (typeof body === "string") {
    return /^\s*<(!doctype|html)/i.test(body)
      ? "an HTML page instead of an API response"
      : clip(body)
  }
  if (!isRecord(body)) return clip(JSON.stringify(body))
  const inner = body["detail"] ?? body["message"] ?? body["error"] ?? body
  if (typeof inner === "string") return clip(inner)
  if (isRecord(inner) && typeof inner["message"] === "string") return clip(inner["message"])
  if (Array.isArray(inner)) {
    const refusals = inner.map(refusal)
    if (refusals.length > 0 && refusals.every((one) => one !== undefined)) return clip(refusals.join("; "))
  }
  return clip(JSON.stringify(inner))
}

const text = new TextDecoder()

/**
 * Whether a proxy dropped the request: a 400 that says nothing at all.
 *
 * @internal
 */
export const isEmpty400 = (response: Response): boolean => {
  const length = response.headers["content-length"]
  return response.status === 400 && response.body.length === 0 && (length === undefined || length === "0")
}

// -----------------------------------------------------------------------------
// Endpoints a server does not have.
// -----------------------------------------------------------------------------

/** Advice where an endpoint is absent, by its name. */
const alternatives: Readonly<Record<string, string>> = {
  listUserCheckpoints: "List the runs, and the checkpoints of each: listTrainingRuns and listCheckpoints.",
  listSessions: "Sessions are not listed there; listTrainingRuns shows the runs.",
  getSession: "Sessions are not recorded there; listTrainingRuns shows the runs.",
  searchSessions: "Sessions are not recorded there; listTrainingRuns shows the runs.",
  checkpointArchive: "Save external weights and download those; on SkyRL, ask for a sampler checkpoint.",
  publishCheckpoint: "Checkpoints cannot be shared there.",
  unpublishCheckpoint: "Checkpoints cannot be shared there.",
  setCheckpointTtl: "Checkpoints do not expire there.",
  deleteCheckpoint: "Remove the files where the server keeps them.",
  saveWeightsExternal: "Save for a sampler and download the archive instead.",
  createCustomLoss: "Pass a function to forwardBackwardCustom instead.",
  apiKeyInfo: "Keys are not managed there.",
  deleteApiKey: "Keys are not managed there.",
  audit: "No audit log is kept there.",
  billingUsage: "Usage is not billed there.",
  checkpointStorage: "Usage is not billed there.",
  oaiModels: "Sample with a SamplingClient instead.",
  oaiChatCompletions: "Sample with a SamplingClient instead.",
  oaiCompletions: "Sample with a SamplingClient instead."
}

/** The words of a router that found no route, as opposed to a handler that found no object. */
const isRouteMissing = (status: number, body: unknown): boolean => {
  if (status === 501) return true
  const detail = isRecord(body) ? body["detail"] : undefined
  return status === 404
    ? detail === "Not Found"
    : status === 405 && (body === undefined || detail === "Method Not Allowed")
}

/**
 * @internal
 */
export const fromResponse = (
  endpoint: Pick<Plain, "name" | "retry">,
  origin: Origin,
  response: Response,
  now: number,
  scrub: (text: string) => string,
  context: {
    readonly failedFutureIsBadRequest: boolean
    /** There can be no earlier copy, and the server means what it says. */
    readonly conflictIsFinal: boolean
  }
): TinkerError.TinkerError => {
  const { headers, status } = response
  const body = parseBody(scrub(text.decode(response.body).trim()))
  const fields = {
    module: origin.module,
    method: origin.method,
    description: describe(body),
    status,
    requestId: origin.requestId ?? headers["x-request-id"] ?? headers["cf-ray"],
    retryAfter: retryAfter(headers, now),
    shouldRetry: shouldRetryHeader(headers),
    body
  }
  if (isRouteMissing(status, body)) {
    return new TinkerError.Unsupported({ ...fields, shouldRetry: false, advice: alternatives[endpoint.name] })
  }
  switch (status) {
    case 400:
      return context.failedFutureIsBadRequest && endpoint.retry === "poll" && isRecord(body) && "detail" in body
        ? new TinkerError.RequestFailed({ ...fields, category: "unknown" })
        : new TinkerError.BadRequest(fields)
    case 401:
      return new TinkerError.Authentication(fields)
    case 402:
      return new TinkerError.BillingBlocked(fields)
    case 403:
      return new TinkerError.PermissionDenied(fields)
    case 404:
      return new TinkerError.NotFound(fields)
    case 408:
      return new TinkerError.Unavailable(fields)
    case 409:
      return new TinkerError.Conflict({
        ...fields,
        shouldRetry: fields.shouldRetry ??
          (!context.conflictIsFinal && conflictPasses.has(endpoint.retry) ? true : undefined)
      })
    case 410:
      return endpoint.retry === "poll" ? new TinkerError.FutureExpired(fields) : new TinkerError.NotFound(fields)
    case 429:
      return new TinkerError.RateLimited(fields)
  }
  if (status >= 500) return new TinkerError.Unavailable(fields)
  if (status >= 300 && status < 400) {
    return new TinkerError.BadRequest({ ...fields, description: "unexpected redirect" })
  }
  return new TinkerError.BadRequest(fields)
}

/**
 * @internal
 */
export const fromTransport = (origin: Origin, error: TransportError): TinkerError.TinkerError => {
  const fields = {
    module: origin.module,
    method: origin.method,
    requestId: origin.requestId,
    description: error.description,
    cause: error.cause
  }
  switch (error.reason) {
    case "timeout":
      return new TinkerError.TimedOut(fields)
    case "connection":
      return new TinkerError.TransportFailed(fields)
    case "setup":
      return new TinkerError.TransportFailed({ ...fields, shouldRetry: false })
    case "tooLarge":
      return new TinkerError.MalformedResponse(fields)
    case "closed":
      return new TinkerError.Closed(fields)
  }
}
