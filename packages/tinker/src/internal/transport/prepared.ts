/**
 * An endpoint joined with the configuration, as far as that can be done before there is a request.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { Encoded, Endpoint, Plain } from "../../Endpoint.js"
import { noQuery } from "../../Endpoint.js"
import * as TinkerConfig from "../../TinkerConfig.js"
import type * as TinkerTransport from "../../TinkerTransport.js"

/** @internal */
export interface Details {
  readonly attempt: number
  readonly secret: string | undefined
  readonly idempotencyKey: string | undefined
  readonly headers: Readonly<Record<string, string>> | undefined
  readonly timeout: Duration.DurationInput | undefined
}

/** @internal */
export interface Prepared {
  readonly endpoint: Plain
  /** Refuses path values that would lead elsewhere. */
  readonly check: (encoded: Encoded) => Either.Either<Encoded, string>
  readonly request: (encoded: Encoded, details: Details) => TinkerTransport.Request
}

const usual = Duration.seconds(60)

/** An endpoint that keeps to the usual time takes that of the configuration; one that has reasons of its own does not. */
const timeoutOf = (endpoint: Plain, config: TinkerConfig.Service): Duration.Duration => {
  if (endpoint.retry === "poll") return config.pollTimeout
  return Duration.equals(endpoint.timeout, usual) ? Option.getOrElse(config.timeout, () => usual) : endpoint.timeout
}

const escape = (value: string): string =>
  value.split("/").map((segment) => encodeURIComponent(segment).replaceAll("%3A", ":")).join("/")

const fill = (template: string, params: Readonly<Record<string, string>>): string =>
  template.replaceAll(/\{([a-z_]+)\}/g, (_, name: string) => escape(params[name] ?? ""))

const queryOf = (query: Readonly<Record<string, string>>): string => {
  if (query === noQuery) return ""
  const text = new URLSearchParams(query).toString()
  return text === "" ? "" : `?${text}`
}

/**
 * @internal
 */
export const make = (
  config: TinkerConfig.Service
): <Request, Response>(endpoint: Endpoint<Request, Response>) => Prepared => {
  const known = new Map<unknown, Prepared>()
  const { origin, pathname } = new URL(config.baseUrl)
  const base = pathname.replace(/\/+$/, "")
  const own = Object.fromEntries(Object.entries(config.headers).map(([name, value]) => [name, Redacted.value(value)]))
  const userAgent = `effect-tinker/${TinkerConfig.version} (tinker ${TinkerConfig.wireVersion})`

  const prepare = <Request, Response>(endpoint: Endpoint<Request, Response>): Prepared => {
    const stated = config.paths[endpoint.name] ?? endpoint.path
    const template = stated.startsWith("/api/v1/") ? `${config.apiPrefix}${stated.slice(7)}` : stated
    const timeout = Duration.toMillis(timeoutOf(endpoint, config))
    const fixed: Readonly<Record<string, string>> = {
      accept: endpoint.response.contentType ?? "application/json",
      "user-agent": userAgent,
      ...(endpoint.method === "GET" ? {} : { "content-type": "application/json" }),
      ...endpoint.headers,
      ...own
    }
    const credential = endpoint.auth === "bearer" ? "authorization" : "x-api-key"
    const scheme = endpoint.auth === "bearer" ? "Bearer " : ""
    const usualHeaders: Readonly<Record<string, string>> = {
      ...fixed,
      "x-stainless-retry-count": "0",
      "x-stainless-read-timeout": String(timeout / 1000),
      [credential]: "",
      ...(endpoint.method === "GET" ? {} : { "x-idempotency-key": "" })
    }
    const path = endpoint.params.length === 0 ? `${base}${template}` : undefined
    // Those who call often add the same headers each time.
    let added: Details["headers"]
    let withAdded = usualHeaders
    const finished = (headers: Details["headers"]): Readonly<Record<string, string>> => {
      if (headers !== added) {
        added = headers
        withAdded = { ...usualHeaders, ...headers }
      }
      return withAdded
    }

    return {
      endpoint,
      check: (encoded) => {
        for (const name of endpoint.params) {
          const value = encoded.params[name] ?? ""
          if (value === "") return Either.left(`${name} must not be empty`)
          if (value.split("/").some((segment) => segment === "" || segment === "." || segment === "..")) {
            return Either.left(`${name} is not a valid identifier`)
          }
        }
        return Either.right(encoded)
      },
      request: (encoded, details) => {
        const limit = details.timeout === undefined ? timeout : Duration.toMillis(details.timeout)
        // The usual request copies one finished object; nothing is added to it, so its shape stays known.
        const headers: Record<string, string> = { ...finished(details.headers) }
        if (details.secret === undefined) delete headers[credential]
        else headers[credential] = scheme + details.secret
        if (details.idempotencyKey !== undefined) headers["x-idempotency-key"] = details.idempotencyKey
        if (details.attempt > 0) headers["x-stainless-retry-count"] = String(details.attempt)
        if (limit !== timeout) headers["x-stainless-read-timeout"] = String(limit / 1000)
        return {
          method: endpoint.method,
          origin,
          path: `${path ?? base + fill(template, encoded.params)}${queryOf(encoded.query)}`,
          headers,
          body: encoded.body,
          pool: endpoint.pool,
          timeout: limit,
          maxBytes: config.maxResponseBytes
        }
      }
    }
  }

  return (endpoint) => {
    const found = known.get(endpoint)
    if (found !== undefined) return found
    const prepared = prepare(endpoint)
    known.set(endpoint, prepared)
    return prepared
  }
}
