/**
 * A request as it goes to the server, and its options.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import * as GlobalValue from "effect/GlobalValue"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerConfig from "../../TinkerConfig.js"
import type * as TinkerTransport from "../../TinkerTransport.js"
import * as Endpoint from "../../wire/Endpoint.js"
import type { Pool } from "../../wire/Endpoint.js"
import type { Cancellation } from "./cancellation.js"
import type * as Errors from "./errors.js"

// -----------------------------------------------------------------------------
// Endpoints prepared once: everything that does not depend on the request.
// -----------------------------------------------------------------------------

interface Details {
  readonly attempt: number
  readonly secret: string | undefined
  readonly idempotencyKey: string | undefined
  readonly headers: Readonly<Record<string, string>> | undefined
  readonly timeout: Duration.DurationInput | undefined
  /** The public method it is sent for. */
  readonly sdkMethod: string | undefined
}

interface Prepared {
  readonly endpoint: Endpoint.Plain
  /** The problem with path values that would lead elsewhere. */
  readonly problem: (encoded: Endpoint.Encoded) => string | undefined
  readonly request: (encoded: Endpoint.Encoded, details: Details) => TinkerTransport.Request
}

const usual = Duration.seconds(60)

/** The configured timeout replaces the default of 60 seconds; an endpoint with a different timeout keeps it. */
const timeoutOf = (endpoint: Endpoint.Plain, config: TinkerConfig.Service): Duration.Duration => {
  if (endpoint.retry === "poll") return config.pollTimeout
  return Duration.equals(endpoint.timeout, usual) ? Option.getOrElse(config.timeout, () => usual) : endpoint.timeout
}

const escape = (value: string): string =>
  value.split("/").map((segment) => encodeURIComponent(segment).replaceAll("%3A", ":")).join("/")

const fill = (template: string, params: Readonly<Record<string, string>>): string =>
  template.replaceAll(/\{([a-z_]+)\}/g, (_, name: string) => escape(params[name] ?? ""))

const queryOf = (query: Readonly<Record<string, string>>): string => {
  if (query === Endpoint.noQuery) return ""
  const text = new URLSearchParams(query).toString()
  return text === "" ? "" : `?${text}`
}

/** Largest response of an endpoint that returns no results of training or sampling. */
const smallAnswer = 32 * 1024 * 1024

/**
 * @internal
 */
export const prepare = (
  config: TinkerConfig.Service
): <Request, Response>(endpoint: Endpoint.Endpoint<Request, Response>) => Prepared => {
  const known = new Map<unknown, Prepared>()
  const { origin, pathname } = new URL(config.baseUrl)
  const base = pathname.replace(/\/+$/, "")
  const own = Object.fromEntries(Object.entries(config.headers).map(([name, value]) => [name, Redacted.value(value)]))
  const userAgent = `effect-tinker/${TinkerConfig.version} (tinker ${TinkerConfig.wireVersion})`

  const prepare = <Request, Response>(endpoint: Endpoint.Endpoint<Request, Response>): Prepared => {
    const stated = config.paths[endpoint.name] ?? endpoint.path
    const template = stated.startsWith("/api/v1/") ? `${config.apiPrefix}${stated.slice(7)}` : stated
    const timeout = Duration.toMillis(timeoutOf(endpoint, config))
    const maxBytes = endpoint.large ? config.maxResponseBytes : Math.min(smallAnswer, config.maxResponseBytes)
    const fixed: Readonly<Record<string, string>> = {
      accept: endpoint.response.contentType ?? "application/json",
      "user-agent": userAgent,
      ...(endpoint.method === "GET" ? {} : { "content-type": "application/json" }),
      "x-sdk-version": TinkerConfig.wireVersion,
      "x-sdk-method": "",
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
    // Frequent callers add the same headers each time.
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
      problem: (encoded) => {
        for (const name of endpoint.params) {
          const value = encoded.params[name] ?? ""
          if (value === "") return `${name} must not be empty`
          if (value.split("/").some((segment) => segment === "" || segment === "." || segment === "..")) {
            return `${name} is not a valid identifier`
          }
        }
        return undefined
      },
      request: (encoded, details) => {
        const limit = details.timeout === undefined ? timeout : Duration.toMillis(details.timeout)
        // The usual request copies one finished object; nothing is added to it, so its shape stays known.
        const headers: Record<string, string> = { ...finished(details.headers) }
        if (details.secret === undefined) delete headers[credential]
        else headers[credential] = scheme + details.secret
        if (headers["x-sdk-method"] === "") {
          if (details.sdkMethod === undefined) {
            delete headers["x-sdk-version"]
            delete headers["x-sdk-method"]
          } else headers["x-sdk-method"] = details.sdkMethod
        }
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
          maxBytes
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

// -----------------------------------------------------------------------------
// Tells a cost ledger whether an operation has been sent: what was never sent costs nothing.
// -----------------------------------------------------------------------------

const sentListener: FiberRef.FiberRef<(() => void) | undefined> = GlobalValue.globalValue(
  "effect-tinker/internal/sent",
  () => FiberRef.unsafeMake<(() => void) | undefined>(undefined)
)

const paidPools: ReadonlySet<Pool> = new Set<Pool>(["training", "sampling"])

/**
 * Calls `onSent` when the effect, or a fiber it starts, sends a request of a kind that is paid for.
 *
 * @internal
 */
export const onSent = (onSent: () => void) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.locallyWith(self, sentListener, (outer) => () => {
    outer?.()
    onSent()
  })

/**
 * Says that the fiber sends such a request now.
 *
 * @internal
 */
export const notifySent = (pool: Pool, fiber: Pick<Fiber.RuntimeFiber<unknown, unknown>, "getFiberRef">): void => {
  if (paidPools.has(pool)) fiber.getFiberRef(sentListener)?.()
}

/** @internal */
export const markSent = <A, E, R>(pool: Pool, send: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  paidPools.has(pool)
    ? Effect.withFiberRuntime((fiber) => {
      notifySent(pool, fiber)
      return send
    })
    : send

// -----------------------------------------------------------------------------
// Requests and their options.
// -----------------------------------------------------------------------------

/** @internal */
export interface CallOptions {
  /** Module and method for errors. Defaults to the endpoint. */
  readonly from?: { readonly module: string; readonly method: string } | undefined
  /** Sent by a loop that serves many calls: for no public method. Defaults to false. */
  readonly background?: boolean | undefined
  /** Id of the server-side operation, for errors. */
  readonly requestId?: string | undefined
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** One for all attempts of a call. Defaults to a fresh one. */
  readonly idempotencyKey?: string | undefined
  /** Of one attempt. */
  readonly timeout?: Duration.DurationInput | undefined
  /** Instead of the endpoint's policy. */
  readonly retry?: RetryPolicy.Policy | undefined
  /** Presented instead of the tenant's own. */
  readonly credential?: Redacted.Redacted | undefined
  /** Of a caller that cancels the request itself when it is interrupted. Without it a call cleans up after itself. */
  readonly cancellation?: Cancellation | undefined
}

/**
 * A request as it goes to the server, the same for all its attempts.
 *
 * @internal
 */
export interface Call {
  readonly endpoint: Prepared
  readonly encoded: Endpoint.Encoded
  readonly origin: Errors.Origin
  readonly key: string | undefined
  /** The public method it is sent for. */
  readonly sdkMethod: string | undefined
  readonly options: CallOptions | undefined
}
