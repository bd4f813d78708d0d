/**
 * Host names that a server on this machine answers to. A web page can make a name of its own resolve to this machine (DNS
 * rebinding) and then counts as the same origin; so only names that nobody else controls are accepted: loopback, those the
 * server was started with, and, where it listens beyond loopback, IP addresses, which cannot be rebound.
 *
 * @since 0.2.0
 */
import * as Option from "effect/Option"

/**
 * Whether a name or address is of the loopback interface. Browsers resolve `*.localhost` themselves, without DNS.
 *
 * @since 0.2.0
 * @category predicates
 */
export const isLoopback = (name: string): boolean =>
  name === "localhost" || name.endsWith(".localhost") || name === "::1" || /^127(\.\d{1,3}){3}$/.test(name)

/**
 * Whether a name is an IP address.
 *
 * @since 0.2.0
 * @category predicates
 */
export const isAddress = (name: string): boolean => /^\d{1,3}(\.\d{1,3}){3}$/.test(name) || name.includes(":")

/**
 * The name in a `Host` header in lower case, without port and brackets; none where the header is missing or malformed.
 *
 * @since 0.2.0
 * @category combinators
 */
export const nameOf = (header: string | undefined): Option.Option<string> => {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(header ?? "")
  return Option.map(Option.fromNullable(match?.[1] ?? match?.[2]), (name) => name.toLowerCase())
}

/**
 * Whether a name, as {@link nameOf} gives it, may be used to reach a server.
 *
 * @since 0.2.0
 * @category constructors
 */
export const make = (options?: {
  /** The address the server listens on. Defaults to `127.0.0.1`. */
  readonly host?: string | undefined
  /** Further names; `*` is every name. Defaults to none. */
  readonly allow?: ReadonlyArray<string> | undefined
}): (name: string) => boolean => {
  const host = (options?.host ?? "127.0.0.1").toLowerCase()
  const names = new Set([host, ...(options?.allow ?? []).map((name) => name.toLowerCase())])
  if (names.has("*")) return () => true
  return (name) => isLoopback(name) || names.has(name) || (!isLoopback(host) && isAddress(name))
}
