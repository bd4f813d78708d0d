/**
 * What became of a request that carries a number, in the eyes of a server that keeps the order of numbers.
 *
 * @since 0.1.0
 */
import * as TinkerError from "../../TinkerError.js"

/**
 * - `unseen`: the server never read the number, and waits for it.
 * - `refused`: it read the request and turned it down; the number is used.
 * - `unknown`: it may have accepted it, or never have heard of it.
 *
 * @internal
 */
export type Fate = "unseen" | "refused" | "unknown"

const unsent = new Set<string>([
  "InvalidInput",
  "Closed",
  "MissingCredential",
  "MalformedCredential",
  "CredentialCommandFailed"
])

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> => typeof u === "object" && u !== null

/**
 * Whether an operation was looked at before it was turned down. A page, a plain word or silence is the answer of a proxy
 * or a gateway. And a server says who you are not, that it has no such path, and that a body is not of the right shape
 * before it asks what the request is about.
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

/** @internal */
export const of = (error: TinkerError.TinkerError): Fate => {
  if (unsent.has(error._tag)) return "unseen"
  const { status } = error
  if (status === undefined) {
    // As things are configured, no connection can be made.
    return error._tag === "TransportFailed" && error.shouldRetry === false ? "unseen" : "unknown"
  }
  // What the server says about trying again does not say what became of this one.
  if (status < 300 || status >= 500 || status === 402 || status === 408 || status === 429) return "unknown"
  if (TinkerError.isRetryable(error)) return "unknown"
  return wasRead(status, error.body) ? "refused" : "unseen"
}
