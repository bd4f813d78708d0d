/**
 * The options of Node's transport, checked when it is built.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import type { SecureContext } from "node:tls"
import { createSecureContext, rootCertificates } from "node:tls"
import type { Dispatcher } from "undici"
import { Agent, EnvHttpProxyAgent } from "undici"
import type { Options } from "../../NodeTinker.js"
import * as TinkerError from "../../TinkerError.js"
import * as TinkerTransport from "../../TinkerTransport.js"
import type { Pool } from "../../wire/Endpoint.js"
import { either, optional } from "../config.js"

// -----------------------------------------------------------------------------
// Errors of Node's transports as `TransportError`s.
// -----------------------------------------------------------------------------

/** Codes of a certificate chain that ends in no trusted authority. */
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
export const closed = new TinkerTransport.TransportError({
  reason: "closed",
  description: "the connections are closed"
})

/** @internal */
export const notAccepted = (cause: unknown) =>
  new TinkerTransport.TransportError({
    reason: "timeout",
    description: "the host did not accept the connection in time",
    cause
  })

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
      // Its cause may contain the rejected value, such as a proxy's password.
      return new TinkerTransport.TransportError({ reason: "setup", description: message(error) })
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return new TinkerTransport.TransportError({
        reason: "setup",
        description: `the certificate belongs to another host: ${message(error)}`,
        cause: error
      })
    case "CERT_HAS_EXPIRED":
      return new TinkerTransport.TransportError({
        reason: "setup",
        description: "the server's certificate has expired",
        cause: error
      })
  }
  if (message(error).startsWith("Proxy response (407)")) {
    return new TinkerTransport.TransportError({
      reason: "setup",
      description: "the proxy requires credentials: put them in its URL"
    })
  }
  if (untrusted.has(name)) {
    const what = `the server's certificate is not trusted (${message(error)})`
    return new TinkerTransport.TransportError({
      reason: "setup",
      description: `${what}: name its authority with caFile or SSL_CERT_FILE`,
      cause: error
    })
  }
  return new TinkerTransport.TransportError({ reason: "connection", description: message(error), cause: error })
}

// -----------------------------------------------------------------------------
// Certificate authorities to trust in addition to those Node ships with.
// -----------------------------------------------------------------------------

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

const read = (path: string): ReadonlyArray<string> => {
  const files = statSync(path).isDirectory()
    ? readdirSync(path, { withFileTypes: true }).filter((entry) => !entry.isDirectory()).map(({ name }) =>
      join(path, name)
    )
    : [path]
  return files.flatMap((file) => readFileSync(file, "utf8").match(certificate) ?? [])
}

/** @internal */
export interface Authorities {
  /**
   * Options of TLS connections. Throws a `TransportError`: the callers are undici callbacks, which have no error channel.
   */
  readonly tls: () => { readonly secureContext?: SecureContext }
}

/**
 * One context for all connections: reading a hundred certificates costs more than a handshake.
 *
 * @internal
 */
export const makeAuthorities = (caFile: string | undefined): Authorities => {
  let known: { readonly secureContext?: SecureContext } | undefined
  const load = (path: string) => {
    let found: ReadonlyArray<string>
    try {
      found = read(path)
    } catch (error) {
      throw new TinkerTransport.TransportError({
        reason: "setup",
        description: `the authorities in ${path} cannot be read`,
        cause: error
      })
    }
    if (found.length === 0) {
      throw new TinkerTransport.TransportError({
        reason: "setup",
        description: `${path} contains no certificate (PEM)`
      })
    }
    return { secureContext: createSecureContext({ ca: [...rootCertificates, ...found] }) }
  }
  return { tls: () => known ??= caFile === undefined ? {} : load(caFile) }
}

// -----------------------------------------------------------------------------
// One undici dispatcher for each pool, made when the pool is first used.
// -----------------------------------------------------------------------------

interface Dispatchers {
  readonly get: (pool: Pool) => Dispatcher
  /** Drops a pool's connections; requests in flight on them complete. */
  readonly reset: (pool: Pool) => void
  readonly destroy: () => Promise<void>
}

/**
 * Slightly less than servers and load balancers usually keep an idle connection, in milliseconds.
 *
 * @internal
 */
export const keepAlive = 15_000

const options = (settings: Settings, authorities: Authorities, pool: Pool) => {
  const tls = { timeout: settings.connectTimeout, ...authorities.tls() }
  return {
    // The tenant's limits already bound what is in flight.
    connections: settings.connections[pool] ?? null,
    pipelining: 1,
    keepAliveTimeout: keepAlive,
    connect: tls,
    // Through a proxy: the connection to the host, and that to the proxy itself.
    requestTls: tls,
    proxyTls: tls
  }
}

/** @internal */
export const hasProxy = ({ all, http, https }: Proxy): boolean =>
  [all, http, https].some((url) => url !== undefined && url !== "")

const open = (settings: Settings, authorities: Authorities, pool: Pool): Dispatcher => {
  const { proxy } = settings
  if (!hasProxy(proxy)) return new Agent(options(settings, authorities, pool))
  const all = proxy.all ?? ""
  return new EnvHttpProxyAgent({
    ...options(settings, authorities, pool),
    // Every option is explicit, so undici does not read the environment itself.
    httpProxy: proxy.http || all,
    httpsProxy: proxy.https || all,
    noProxy: proxy.no ?? ""
  })
}

/**
 * @internal
 */
export const makeDispatchers = (settings: Settings, authorities: Authorities): Dispatchers => {
  const known = new Map<Pool, Dispatcher>()
  const leaving = new Set<Dispatcher>()
  return {
    get: (pool) => {
      const found = known.get(pool)
      if (found !== undefined) return found
      const dispatcher = open(settings, authorities, pool)
      known.set(pool, dispatcher)
      return dispatcher
    },
    reset: (pool) => {
      const dispatcher = known.get(pool)
      if (dispatcher === undefined) return
      known.delete(pool)
      leaving.add(dispatcher)
      const gone = () => leaving.delete(dispatcher)
      dispatcher.close().then(gone, gone)
    },
    destroy: () => {
      const all = [...known.values(), ...leaving]
      known.clear()
      return Promise.all(all.map((dispatcher) => dispatcher.destroy())).then(() => undefined, () => undefined)
    }
  }
}

// -----------------------------------------------------------------------------
// Options.
// -----------------------------------------------------------------------------

type Proxy = NonNullable<Options["proxy"]>

/** @internal */
export interface Settings {
  readonly proxy: Proxy
  readonly caFile: string | undefined
  readonly http2: boolean
  /** Milliseconds. */
  readonly connectTimeout: number
  readonly connections: Partial<Record<Pool, number>>
}

const refuse = (description: string) =>
  Either.left(new TinkerError.InvalidInput({ module: "NodeTinker", method: "layer", description }))

const schemes = new Set(["http:", "https:", "socks:", "socks5:"])

/** `host:port` means `http://host:port`, as it does for other tools. Errors do not quote it: it may hold a password. */
const checkedProxy = (given: Proxy): Either.Either<Proxy, TinkerError.InvalidInput> => {
  const result: { http?: string; https?: string; all?: string; no?: string | undefined } = { no: given.no }
  for (const name of ["http", "https", "all"] as const) {
    const value = given[name]
    if (value === undefined || value === "") continue
    const url = value.includes("://") ? value : `http://${value}`
    if (!URL.canParse(url)) return refuse(`the ${name} proxy is not a URL`)
    const { protocol } = new URL(url)
    if (!schemes.has(protocol)) return refuse(`the ${name} proxy must be http, https or socks5, not ${protocol}`)
    result[name] = url
  }
  return Either.right(result)
}

/** @internal */
export const makeSettings = (options: Options): Either.Either<Settings, TinkerError.InvalidInput> => {
  for (const [pool, limit] of Object.entries(options.connections ?? {})) {
    if (limit !== undefined && !(Number.isInteger(limit) && limit > 0)) {
      return refuse(`the connections of the pool ${pool} must be a positive integer`)
    }
  }
  const connectTimeout = Duration.toMillis(options.connectTimeout ?? "5 seconds")
  if (connectTimeout <= 0) return refuse("connectTimeout must be above 0")
  return Either.map(checkedProxy(options.proxy ?? {}), (proxy) => ({
    proxy,
    caFile: options.caFile === "" ? undefined : options.caFile,
    http2: options.http2 ?? false,
    connectTimeout,
    connections: options.connections ?? {}
  }))
}

/**
 * Proxy settings of the environment, under the names other tools use.
 *
 * @internal
 */
export const fromEnv: Config.Config<Options> = Config.all({
  http: either("HTTP_PROXY"),
  https: either("HTTPS_PROXY"),
  all: either("ALL_PROXY"),
  no: either("NO_PROXY"),
  caFile: optional("SSL_CERT_FILE"),
  caDirectory: optional("SSL_CERT_DIR")
}).pipe(Config.map((env): Options => ({
  proxy: { http: env.http, https: env.https, all: env.all, no: env.no },
  caFile: env.caFile || env.caDirectory
})))
