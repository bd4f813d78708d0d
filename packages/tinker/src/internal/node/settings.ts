/**
 * The options of Node's transport, checked when it is built.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import type { Pool } from "../../Endpoint.js"
import type { Options } from "../../NodeTinker.js"
import * as TinkerError from "../../TinkerError.js"
import { either, optional } from "../config/environment.js"

/** @internal */
export type Proxy = NonNullable<Options["proxy"]>

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
export const make = (options: Options): Either.Either<Settings, TinkerError.InvalidInput> => {
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
 * What the environment says, under the names other tools use.
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
