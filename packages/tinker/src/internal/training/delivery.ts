/**
 * Whether the server has seen the sequence number of a request that failed.
 *
 * @since 0.2.0
 */
import * as TinkerError from "../../TinkerError.js"

/**
 * - `unseen`: the server never read the number, and waits for it.
 * - `refused`: the server read the request and rejected it; the number is used.
 * - `unknown`: the server may have accepted the request, or never received it.
 *
 * @internal
 */
export type Delivery = "unseen" | "refused" | "unknown"

const unsent = new Set<string>([
  "InvalidInput",
  "Closed",
  "MissingCredential",
  "MalformedCredential",
  "CredentialCommandFailed"
])

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> => typeof u === "object" && u !== null

/**
 * Whether the server read the request before rejecting it. An HTML page, plain text or an empty body comes from a proxy
 * or a gateway. Authentication, routing and validation errors come before the sequence number is looked at.
 */
const wasRead = (status: number, body: unknown): boolean => {
  // A body too large or too deep to be parsed is kept as text.
  if (typeof body === "string") return /^\s*\{\s*"(?:detail|error)"/.test(body)
  if (!isRecord(body) || !("detail" in body || "error" in body)) return false
  switch (status) {
    case 401:
    case 405:
      return false
    case 404:
      return body["detail"] !== "Not Found"
    case 422:
      return !Array.isArray(body["detail"])
    default:
      return true
  }
}

const afterAttempt = (error: TinkerError.TinkerError): Delivery => {
  if (unsent.has(error._tag)) return "unseen"
  const { status } = error
  if (status === undefined) {
    // As things are configured, no connection can be made.
    return error._tag === "TransportFailed" && error.shouldRetry === false ? "unseen" : "unknown"
  }
  // Advice of the server about trying again does not say what became of this request.
  if (status < 300 || status >= 500 || status === 402 || status === 408 || status === 429) return "unknown"
  if (TinkerError.isRetryable(error)) return "unknown"
  return wasRead(status, error.body) ? "refused" : "unseen"
}

/**
 * The delivery of a request, from its final error and those of all its attempts: an earlier one may have arrived
 * although the last one did not.
 *
 * @internal
 */
export const of = (error: TinkerError.TinkerError, attempts: ReadonlyArray<TinkerError.TinkerError>): Delivery => {
  const delivery = afterAttempt(error)
  return delivery === "unseen" && attempts.some((attempt) => afterAttempt(attempt) === "unknown") ? "unknown" : delivery
}
