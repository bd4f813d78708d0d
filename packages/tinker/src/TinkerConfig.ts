/**
 * The configuration of the SDK: the only one, and the only place where the environment is read.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Environment from "./internal/config.js"
import * as Logs from "./internal/observability/logs.js"
import * as TinkerError from "./TinkerError.js"
import type { Name } from "./wire/Api.js"
import type { Pool } from "./wire/Endpoint.js"

// -----------------------------------------------------------------------------
// Base URLs, normalised so that equal servers compare equal.
// -----------------------------------------------------------------------------

/** Addresses of this machine; the unspecified addresses are among them. */
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

// -----------------------------------------------------------------------------
// How servers that speak the same wire differ.
// -----------------------------------------------------------------------------

/**
 * How a compatible server differs from the hosted service. What is not stated is detected from the server's behaviour:
 * one without `client/dynamic_config` is of the era before 0.25 of the official SDK, and the defaults below for such a
 * server apply. State something where a server is of neither kind.
 *
 * @since 0.1.0
 * @category models
 */
export interface Compatibility {
  /**
   * The form of forward and backward passes. Defaults to `protobuf`, and to `json` for an early server that does not ask
   * for protobuf. A form that the server refuses is replaced by the other one at once, whatever is stated.
   */
  readonly passes?: "protobuf" | "json" | undefined
  /** A poll that gets HTTP 400 and `{"detail"}` is a failed operation, not a bad poll. Defaults to early servers. */
  readonly failedFutureIsBadRequest?: boolean | undefined
  /**
   * A 409 on the first attempt of an operation, which cannot be about a copy of itself, is final: a name is taken. The
   * hosted service also means locks by it, which pass. Defaults to early servers.
   */
  readonly firstConflictIsFinal?: boolean | undefined
  /** `POST /client/dynamic_config` exists. Defaults to asking for it. */
  readonly dynamicConfig?: boolean | undefined
  /** Longest time of one poll, where `Options` name none. Defaults to 45 seconds, and to 330 for an early server. */
  readonly pollTimeout?: Duration.DurationInput | undefined
  /** Compare the base model with `get_server_capabilities` before training, once. Defaults to early servers. */
  readonly checkBaseModel?: boolean | undefined
  /** Where a session cannot be finished, unload its models at the end of the scope instead. Defaults to true. */
  readonly unloadModels?: boolean | undefined
  /**
   * Sizes of vocabularies, by base model: tokens beyond are refused here, for servers that compute NaN from them.
   * Defaults to none.
   */
  readonly vocabularySizes?: Readonly<Record<string, number>> | undefined
}

/**
 * The hosted service.
 *
 * @since 0.1.0
 * @category configuration
 */
export const hosted: Compatibility = { passes: "protobuf", failedFutureIsBadRequest: false, dynamicConfig: true }

/**
 * A self-hosted SkyRL server. All of it is detected automatically; stating it saves the detection.
 *
 * @since 0.1.0
 * @category configuration
 */
export const skyrl: Compatibility = {
  passes: "json",
  failedFutureIsBadRequest: true,
  firstConflictIsFinal: true,
  dynamicConfig: false,
  pollTimeout: "330 seconds",
  checkBaseModel: true
}

// -----------------------------------------------------------------------------
// The configuration.
// -----------------------------------------------------------------------------

/**
 * Where the hosted service lives.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaultBaseUrl = "https://tinker.thinkingmachines.dev/services/tinker-prod"

/**
 * The version of the Python SDK whose wire we speak. The service keys its flags on it, so this is what we send as
 * `sdk_version`; our own name and version are in the user agent.
 *
 * @since 0.1.0
 * @category configuration
 */
export const wireVersion = "0.38.0"

/**
 * The version of this package.
 *
 * @since 0.1.0
 * @category configuration
 */
export const version = "0.1.0"

/**
 * How many requests may be in flight at once, for each pool.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaultPoolLimits: Readonly<Record<Pool, number>> = {
  session: 50,
  training: 64,
  sampling: 400,
  // Each open long poll owns a socket, and there is one for every operation in flight.
  futures: 2048,
  completions: 50,
  rest: 50,
  telemetry: 4
}

/**
 * A configuration that is complete.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** Normalised: no trailing slash, no default port, path prefix kept. */
  readonly baseUrl: string
  readonly apiKey: Option.Option<Redacted.Redacted>
  readonly credentialCommand: Option.Option<string>
  readonly credentialsPath: Option.Option<string>
  readonly projectId: Option.Option<string>
  readonly tags: ReadonlyArray<string>
  readonly telemetry: boolean
  /** `debug` or `info`: how much the SDK logs of what it does on the wire. */
  readonly log: Option.Option<"debug" | "info">
  /** Sent with every request, names in lower case. They count as secrets. */
  readonly headers: Readonly<Record<string, Redacted.Redacted>>
  readonly poolLimits: Readonly<Record<Pool, number>>
  /** Longest time of one attempt, for endpoints without a specific one. */
  readonly timeout: Option.Option<Duration.Duration>
  /** Longest time of one poll for results: a connection that has gone silent is given up after it. */
  readonly pollTimeout: Duration.Duration
  /** Largest result we accept, in bytes. Of everything else at most 32 MiB are read. */
  readonly maxResponseBytes: number
  /** How long operations wait for a 402 to go away, unless the server says otherwise. */
  readonly billingPause: Duration.Duration
  /** Whether to open spans; where it is not said, there are some if a tracer is installed. */
  readonly tracing: Option.Option<boolean>
  /** Whether requests carry the W3C trace context. */
  readonly traceContext: boolean
  readonly compatibility: Compatibility
  /** Replaces the path template of an endpoint, by endpoint name. */
  readonly paths: Readonly<Record<string, string>>
  /** Replaces `/api/v1` at the beginning of every path. */
  readonly apiPrefix: string
}

/**
 * The configuration in force.
 *
 * @since 0.1.0
 * @category services
 */
export class TinkerConfig extends Context.Tag("effect-tinker/TinkerConfig")<TinkerConfig, Service>() {}

/**
 * Options of the configuration.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Defaults to the hosted service. An empty string counts as absent. */
  readonly baseUrl?: string | undefined
  /** `tml-…`, or a token `eyJ…`. */
  readonly apiKey?: Redacted.Redacted | string | undefined
  /** Shell command that prints a credential; it needs a runtime with processes (`NodeCredentials`). */
  readonly credentialCommand?: string | undefined
  /** Credentials file. Defaults to `~/.tinker/credentials.json` where there is a file system. */
  readonly credentialsPath?: string | undefined
  /** Project of the sessions we create. */
  readonly projectId?: string | undefined
  /** Tags of the sessions we create. */
  readonly tags?: ReadonlyArray<string> | undefined
  /** Defaults to true. */
  readonly telemetry?: boolean | undefined
  readonly log?: "debug" | "info" | undefined
  /** Extra headers of every request. */
  readonly headers?: Readonly<Record<string, Redacted.Redacted | string>> | undefined
  /** Defaults to `defaultPoolLimits`. */
  readonly poolLimits?: Partial<Record<Pool, number>> | undefined
  /** Replaces the time limit of every endpoint that keeps to the usual 60 seconds. */
  readonly timeout?: Duration.DurationInput | undefined
  /**
   * Longest time of one poll for results, after which a connection that has gone silent is given up and another poll
   * begins. Keep it above the time for which the server holds a poll. Defaults to that of `compatibility`.
   */
  readonly pollTimeout?: Duration.DurationInput | undefined
  /** The largest result to accept. Defaults to 512 MiB. Of everything else at most 32 MiB are read. */
  readonly maxResponseBytes?: number | undefined
  /** Defaults to 1 hour. */
  readonly billingPause?: Duration.DurationInput | undefined
  /** Open spans. Defaults to whether a tracer (`@effect/opentelemetry`) is installed where the client is built. */
  readonly tracing?: boolean | undefined
  /** Send a W3C `traceparent` with every request, so that a server's spans join yours. Defaults to false. */
  readonly traceContext?: boolean | undefined
  /** Defaults to what the server shows. */
  readonly compatibility?: Compatibility | undefined
  /** Replaces the path of an endpoint, by its name in `Api`. */
  readonly paths?: Readonly<Partial<Record<Name, string>>> | undefined
  /** Defaults to `/api/v1`. */
  readonly apiPrefix?: string | undefined
  /** Allow plain `http:` beyond loopback addresses. Defaults to false; the variable is `TINKER_ALLOW_INSECURE`. */
  readonly allowInsecure?: boolean | undefined
}

const filled = <A extends string>(value: A | undefined): Option.Option<A> =>
  value === undefined || value === "" ? Option.none() : Option.some(value)

const secret = (value: Redacted.Redacted | string): Redacted.Redacted =>
  typeof value === "string" ? Redacted.make(value) : value

/**
 * Builds a configuration by hand: what is not given has its default, and the environment is not looked at.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options): Either.Either<Service, TinkerError.InvalidInput> =>
  Either.map(
    Either.all({
      baseUrl: normalizeBaseUrl(
        options.baseUrl === undefined || options.baseUrl === "" ? defaultBaseUrl : options.baseUrl,
        options.allowInsecure
      ),
      headers: Environment.headers(options.headers ?? {}),
      numbers: Environment.numbers(options)
    }),
    ({ baseUrl, headers }): Service => ({
      baseUrl,
      apiKey: options.apiKey === undefined
        ? Option.none()
        : Option.filter(Option.some(secret(options.apiKey)), (key) => Redacted.value(key) !== ""),
      credentialCommand: filled(options.credentialCommand),
      credentialsPath: filled(options.credentialsPath),
      projectId: filled(options.projectId),
      tags: options.tags ?? [],
      telemetry: options.telemetry ?? true,
      log: filled(options.log),
      headers,
      poolLimits: { ...defaultPoolLimits, ...options.poolLimits },
      timeout: Option.map(Option.fromNullable(options.timeout), Duration.decode),
      pollTimeout: Duration.decode(options.pollTimeout ?? options.compatibility?.pollTimeout ?? "45 seconds"),
      maxResponseBytes: options.maxResponseBytes ?? 512 * 1024 * 1024,
      billingPause: Duration.decode(options.billingPause ?? "1 hour"),
      tracing: Option.fromNullable(options.tracing),
      traceContext: options.traceContext ?? false,
      compatibility: {
        ...options.compatibility,
        pollTimeout: options.pollTimeout ?? options.compatibility?.pollTimeout
      },
      paths: { ...options.paths },
      apiPrefix: options.apiPrefix ?? "/api/v1"
    })
  )

/**
 * Builds a configuration from the environment (through Effect's `ConfigProvider`), with what is given on top.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromEnv: (
  given?: Options
) => Effect.Effect<Service, TinkerError.InvalidInput | ConfigError.ConfigError> = Effect.fnUntraced(
  function*(given = {}) {
    const env = yield* Environment.options
    for (const sentence of yield* misunderstoodSettings) {
      yield* Logs.of("TinkerConfig")(Effect.logWarning(Logs.said(sentence)))
    }
    return yield* make(Environment.over(given, env))
  }
)

/**
 * Settings in the environment whose value means nothing, such as `TINKER_LOG=loud`, as sentences. {@link fromEnv} logs
 * them.
 *
 * @since 0.1.0
 * @category configuration
 */
export const misunderstoodSettings: Effect.Effect<ReadonlyArray<string>, ConfigError.ConfigError> =
  Environment.misunderstood

/**
 * Builds a configuration described by `Config`s.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromConfig = (
  options: Config.Config.Wrap<Options>
): Effect.Effect<Service, TinkerError.InvalidInput | ConfigError.ConfigError> =>
  Effect.flatMap(Config.unwrap(options), make)

/**
 * The configuration given here; the environment is not looked at.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options): Layer.Layer<TinkerConfig, TinkerError.InvalidInput> =>
  Layer.effect(TinkerConfig, Effect.suspend(() => make(options)))

/**
 * A configuration described by `Config`s.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = (
  options: Config.Config.Wrap<Options>
): Layer.Layer<TinkerConfig, TinkerError.InvalidInput | ConfigError.ConfigError> =>
  Layer.effect(TinkerConfig, fromConfig(options))

/**
 * The configuration of the environment, with what is given on top.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFromEnv = (
  given: Options = {}
): Layer.Layer<TinkerConfig, TinkerError.InvalidInput | ConfigError.ConfigError> =>
  Layer.effect(TinkerConfig, fromEnv(given))
