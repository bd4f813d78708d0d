/**
 * Where a server is, in the one form by which servers are told apart.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as TinkerError from "../TinkerError.js"

/** Where nobody else listens: the unspecified addresses lead to this machine too. */
const loopback = /^(localhost|127(\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\]|.*\.localhost)$/

/**
 * Normalises a base URL: default ports and trailing slashes go, a path prefix stays, `https` is required unless the
 * host is a loopback address or `allowInsecure` is set.
 *
 * @since 0.1.0
 * @category combinators
 */
export const normalizeBaseUrl = (
  input: string,
  allowInsecure = false
): Either.Either<string, TinkerError.InvalidInput> => {
  const refuse = (description: string) =>
    Either.left(new TinkerError.InvalidInput({ module: "TinkerConfig", method: "make", description }))
  let url: URL
  try {
    url = new URL(input.trim())
  } catch {
    return refuse("the base URL is not a URL")
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return refuse(`the base URL must be https, not ${url.protocol}`)
  }
  if (url.username !== "" || url.password !== "") {
    return refuse("the base URL must not contain credentials")
  }
  if (url.search !== "" || url.hash !== "") {
    return refuse("the base URL must not have a query or a fragment")
  }
  if (url.protocol === "http:" && !allowInsecure && !loopback.test(url.hostname)) {
    return refuse(
      `plain http to ${url.hostname} would expose the key: use https, or set allowInsecure (TINKER_ALLOW_INSECURE=1)`
    )
  }
  return Either.right(`${url.origin}${url.pathname.replace(/\/+$/, "")}`)
}
