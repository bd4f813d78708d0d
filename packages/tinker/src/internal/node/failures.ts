/**
 * Errors of Node's transports as `TransportError`s.
 *
 * @since 0.1.0
 */
import * as TinkerTransport from "../../TinkerTransport.js"

/** Why a chain of certificates ends in nobody we trust. */
const untrusted = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "CERT_UNTRUSTED",
  "CERT_SIGNATURE_FAILURE"
])

const code = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""

const message = (error: unknown): string => error instanceof Error ? error.message : "unknown"

/** @internal */
export const closed = new TinkerTransport.TransportError("closed", "the connections are closed", undefined)

/** @internal */
export const notAccepted = (cause: unknown) =>
  new TinkerTransport.TransportError("timeout", "the host did not accept the connection in time", cause)

/** @internal */
export const from = (error: unknown, timeout: number): TinkerTransport.TransportError => {
  const name = code(error)
  switch (name) {
    case "UND_ERR_HEADERS_TIMEOUT":
    case "UND_ERR_BODY_TIMEOUT":
      return TinkerTransport.TransportError.timeout(timeout)
    case "UND_ERR_CONNECT_TIMEOUT":
      return notAccepted(error)
    case "UND_ERR_DESTROYED":
    case "UND_ERR_CLOSED":
      return closed
    case "UND_ERR_INVALID_ARG":
    case "ERR_INVALID_URL":
    case "ERR_HTTP2_INVALID_CONNECTION_HEADERS":
      // Its cause may hold what it refuses, a proxy's password too.
      return new TinkerTransport.TransportError("setup", message(error), undefined)
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return new TinkerTransport.TransportError(
        "setup",
        `the certificate belongs to another host: ${message(error)}`,
        error
      )
    case "CERT_HAS_EXPIRED":
      return new TinkerTransport.TransportError("setup", "the server's certificate has expired", error)
  }
  if (message(error).startsWith("Proxy response (407)")) {
    return new TinkerTransport.TransportError("setup", "the proxy requires credentials: put them in its URL", undefined)
  }
  if (untrusted.has(name)) {
    const what = `the server's certificate is not trusted (${message(error)})`
    return new TinkerTransport.TransportError(
      "setup",
      `${what}: name its authority with caFile or SSL_CERT_FILE`,
      error
    )
  }
  return new TinkerTransport.TransportError("connection", message(error), error)
}
