/**
 * Reports to the service: the official SDK's event names and fields, made of facts only.
 *
 * Sentences that came from a server or from the caller's input can repeat a prompt, so none is passed on: an error is
 * described by its kind, status, ids and operation.
 *
 * @since 0.1.0
 */
import type * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerError from "../../TinkerError.js"
import type { Severity } from "../../wire/TelemetryEvent.js"
import type * as Observer from "./observer.js"

/**
 * An event before it has its id.
 *
 * @internal
 */
export type Content =
  | { readonly _tag: "SessionStart" }
  | { readonly _tag: "SessionEnd"; readonly duration: string }
  | { readonly _tag: "Exception"; readonly type: string; readonly message: string }
  | {
    readonly _tag: "Generic"
    readonly severity: Severity
    readonly name: string
    readonly data: Readonly<Record<string, unknown>>
  }

const statusNames: Readonly<Record<number, string>> = {
  400: "BadRequestError",
  401: "AuthenticationError",
  403: "PermissionDeniedError",
  404: "NotFoundError",
  409: "ConflictError",
  422: "UnprocessableEntityError",
  429: "RateLimitError"
}

/**
 * The name under which the official SDK reports the same failure, where it has one.
 *
 * @internal
 */
export const typeOf = (error: TinkerError.TinkerError): string => {
  if (error._tag === "RequestFailed") return "RequestFailedError"
  if (error._tag === "TimedOut") return "APITimeoutError"
  if (error._tag === "TransportFailed") return "APIConnectionError"
  if (error.status === undefined || error._tag === "MalformedResponse") return error._tag
  return statusNames[error.status] ?? (error.status >= 500 ? "InternalServerError" : "APIStatusError")
}

/**
 * The error in one line, without text from the server or the caller.
 *
 * @internal
 */
export const summaryOf = (error: TinkerError.TinkerError): string => {
  const facts: Array<string> = []
  if (error.status !== undefined) facts.push(`status ${error.status}`)
  if (error.requestId !== undefined) facts.push(`request ${error.requestId.slice(0, 128)}`)
  return `${error.module}.${error.method}: ${error._tag}${facts.length === 0 ? "" : ` (${facts.join(", ")})`}`
}

/** The fields we pass on, each a number, a flag or one of a few words. */
const known = new Set([
  "request_id",
  "request_type",
  "status_code",
  "kind",
  "should_retry",
  "is_user_error",
  "iteration",
  "elapsed_time",
  "bad_request_retries",
  "connection_error_retries",
  "error_category",
  "proto_bytes_len",
  "attempt_count"
])

const maxText = 256

const fieldsOf = (data: Readonly<Record<string, unknown>>): Record<string, unknown> => {
  const kept: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(data)) {
    if (!known.has(name)) continue
    if (typeof value === "string") kept[name] = value.slice(0, maxText)
    else if (typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value))) kept[name] = value
  }
  return kept
}

/** Not reported here: the next heartbeat or report follows anyway, and polls and lost samples have separate events. */
const silent = new Set<RetryPolicy.Class>(["heartbeat", "poll", "telemetry", "resubmit"])

/** Fields of both of the service's events about a failure. */
const failureOf = (
  { elapsed, error, retrying }: Extract<Observer.Event, { readonly _tag: "AttemptFailed" | "SampleFailed" }>,
  now: number
) => {
  const user = TinkerError.isUserError(error)
  return {
    severity: retrying || user ? "WARNING" : "ERROR",
    data: {
      func: `${error.module}.${error.method}`,
      exception: summaryOf(error),
      exception_type: typeOf(error),
      status_code: error.status ?? null,
      is_user_error: user,
      start_time: (now - elapsed) / 1000,
      current_time: now / 1000,
      elapsed_time: elapsed / 1000
    }
  } as const
}

const failedAttempt = (
  event: Extract<Observer.Event, { readonly _tag: "AttemptFailed" }>,
  now: number
): Content | undefined => {
  if (silent.has(event.class)) return undefined
  const { data, severity } = failureOf(event, now)
  return {
    _tag: "Generic",
    name: "InternalClientHolder.execute_with_retries.exception",
    severity,
    data: { ...data, is_retryable: event.retrying, attempt_count: event.attempt }
  }
}

const failedSample = (
  event: Extract<Observer.Event, { readonly _tag: "SampleFailed" }>,
  now: number
): Content => {
  const { data, severity } = failureOf(event, now)
  return {
    _tag: "Generic",
    name: "RetryHandler.execute.exception",
    severity,
    data: {
      ...data,
      // The official SDK's retry handler sees a different exception here; the status is in the future's event.
      ...(event.error._tag === "FutureExpired" ? { exception_type: "RetryableException", status_code: null } : {}),
      should_retry: event.retrying,
      attempt_count: event.attempt
    }
  }
}

/**
 * A failure that reached a caller.
 */
const failure = (error: TinkerError.TinkerError): Content =>
  TinkerError.isUserError(error)
    ? {
      _tag: "Generic",
      name: "user_error",
      severity: "WARNING",
      data: {
        error_type: typeOf(error),
        message: summaryOf(error),
        ...(error.status === undefined ? {} : { status_code: error.status })
      }
    }
    : { _tag: "Exception", type: typeOf(error), message: summaryOf(error) }

/**
 * The service's event for one below the clients; `undefined` where it does not concern the service.
 *
 * @internal
 */
export const content = (event: Observer.Event, now: number): Content | undefined => {
  switch (event._tag) {
    case "AttemptFailed":
      return failedAttempt(event, now)
    case "SampleFailed":
      return failedSample(event, now)
    case "OperationFailed":
      return failure(event.error)
    case "FutureFailed": {
      const { error } = event
      return {
        _tag: "Generic",
        name: `APIFuture.result_async.${event.name}`,
        severity: event.severity,
        data: event.name === "application_error"
          ? fieldsOf(event.data)
          : { ...fieldsOf(event.data), exception: summaryOf(error), exception_type: typeOf(error) }
      }
    }
    default:
      return undefined
  }
}
