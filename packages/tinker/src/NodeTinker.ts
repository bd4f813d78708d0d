/**
 * The entry point for Node: the transport on undici, with proxy, certificate authorities and HTTP/2 as its options, the
 * credentials file and credential commands.
 *
 * @since 0.1.0
 */
import "./requiresEffect3.js"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Credentials from "./Credentials.js"
import * as Connections from "./internal/node/connections.js"
import * as Undici from "./internal/node/undici.js"
import * as NodeCredentials from "./NodeCredentials.js"
import type * as TinkerError from "./TinkerError.js"
import * as TinkerTransport from "./TinkerTransport.js"
import type { Pool } from "./wire/Endpoint.js"

/**
 * Proxy settings, as the usual environment variables state them.
 *
 * @since 0.1.0
 * @category models
 */
export interface Proxy {
  /** For `http:` URLs. */
  readonly http?: string | undefined
  /** For `https:` URLs. */
  readonly https?: string | undefined
  /** For both, where there is no closer one. */
  readonly all?: string | undefined
  /** Hosts to reach directly: comma-separated names, suffixes, or `*`. */
  readonly no?: string | undefined
}

/**
 * How to reach a server.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  readonly proxy?: Proxy | undefined
  /** Certificate authorities to trust in addition to Node's own: a file (PEM), or a directory of such files. */
  readonly caFile?: string | undefined
  /**
   * HTTP/2 for sampling and polls, where the server offers it and no proxy is used. Defaults to false: it has not been
   * proven against the hosted service.
   */
  readonly http2?: boolean | undefined
  /** Longest time to open a connection. Defaults to 5 seconds. */
  readonly connectTimeout?: Duration.DurationInput | undefined
  /** Most connections per host, for each pool. Defaults to as many as requests are in flight (`poolLimits`). */
  readonly connections?: Partial<Record<Pool, number>> | undefined
}

/**
 * Options that Node adds: the transport, the credentials file and credential commands.
 *
 * @since 0.1.0
 * @category models
 */
export type Provided =
  | TinkerTransport.TinkerTransport
  | TinkerTransport.Tenants
  | Credentials.CommandRunner
  | Credentials.StoredKey

/**
 * The transport alone. Its connections close with the scope.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeTransport = (
  options: Options = {}
): Effect.Effect<TinkerTransport.Service, TinkerError.InvalidInput, Scope.Scope> =>
  Effect.flatMap(Connections.makeSettings(options), Undici.make)

const fromOptions = <E, R>(
  options: Effect.Effect<Options, E, R>
): Layer.Layer<Provided, TinkerError.InvalidInput | E, R> =>
  Layer.mergeAll(
    Layer.scoped(TinkerTransport.TinkerTransport, Effect.flatMap(options, makeTransport)),
    // Two transports in one program have nothing in common.
    Layer.fresh(TinkerTransport.layerTenants),
    NodeCredentials.layer
  )

/**
 * The transport with the given options; the environment is not looked at.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options = {}): Layer.Layer<Provided, TinkerError.InvalidInput> =>
  fromOptions(Effect.succeed(options))

/**
 * The transport with options described by `Config`s.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = (
  options: Config.Config.Wrap<Options>
): Layer.Layer<Provided, TinkerError.InvalidInput | ConfigError.ConfigError> => fromOptions(Config.unwrap(options))

/**
 * The transport as the environment describes it (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`,
 * `SSL_CERT_FILE`, `SSL_CERT_DIR`); what is given here wins.
 *
 * @example
 * ```ts
 * import { Layer } from "effect"
 * import { Tinker } from "effect-tinker"
 * import * as NodeTinker from "effect-tinker/NodeTinker"
 *
 * const Live = Tinker.layerFromEnv().pipe(Layer.provide(NodeTinker.layerFromEnv()))
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFromEnv = (
  options: Options = {}
): Layer.Layer<Provided, TinkerError.InvalidInput | ConfigError.ConfigError> =>
  fromOptions(
    Effect.map(Connections.fromEnv, (env) => ({
      ...env,
      ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
    }))
  )
