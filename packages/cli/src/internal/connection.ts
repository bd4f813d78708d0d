/**
 * The clients behind a command: configuration from flags and environment, credentials, transport.
 *
 * @since 0.1.0
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as Path from "@effect/platform/Path"
import * as Credentials from "effect-tinker/Credentials"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as OpenAiCompat from "effect-tinker/OpenAiCompat"
import * as RestClient from "effect-tinker/RestClient"
import * as RetryPolicy from "effect-tinker/RetryPolicy"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as Tinker from "effect-tinker/Tinker"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as TinkerError from "effect-tinker/TinkerError"
import type * as TinkerTransport from "effect-tinker/TinkerTransport"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as prompt from "../terminal/prompt.js"
import { Stdio } from "../terminal/Stdio.js"
import { CliFailure, usage } from "./CliFailure.js"

/**
 * The server a command talks to, and how.
 *
 * @since 0.1.0
 * @category services
 */
export class Connection extends Context.Tag("@effect-tinker/cli/Connection")<Connection, {
  /** `@FILE`, `-` for stdin, or `prompt`. */
  readonly apiKey: Option.Option<string>
  /** An address, or `local`. */
  readonly baseUrl: Option.Option<string>
  readonly project: Option.Option<string>
  readonly timeout: Option.Option<Duration.Duration>
}>() {}

/**
 * How long a request may take unless `--timeout` says otherwise.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaultTimeout: Duration.Duration = Duration.seconds(30)

/** @internal */
export type Failure = TinkerError.TinkerError | CliFailure | ConfigError.ConfigError

/** @internal */
export type Environment = Connection | Stdio | FileSystem.FileSystem | Path.Path

/**
 * A secret that an option names the place of.
 *
 * @internal
 */
export const readSecret = Effect.fnUntraced(function*(option: string, source: string) {
  const fs = yield* FileSystem.FileSystem
  const { stdin } = yield* Stdio
  if (source === "prompt") return yield* prompt.secret("API key: ")
  if (source === "-") return (yield* stdin.text).trim()
  if (source.startsWith("@")) {
    return yield* fs.readFileString(source.slice(1)).pipe(
      Effect.map((text) => text.trim()),
      Effect.mapError((cause) =>
        new CliFailure({ what: `The key file ${source.slice(1)} cannot be read`, advice: "Check the path.", cause })
      )
    )
  }
  return yield* usage(
    "A key on the command line would be visible to everyone on this machine",
    `Write ${option} @FILE, ${option} - (stdin) or ${option} prompt.`
  )
})

/**
 * Settings of the environment whose values mean nothing.
 *
 * @internal
 */
export const misunderstoodSettings: Effect.Effect<ReadonlyArray<string>> = Effect.orElseSucceed(
  TinkerConfig.misunderstoodSettings,
  () => []
)

/** Whether commands use the embedded backend in this process. @internal */
export const isLocal: Effect.Effect<boolean, ConfigError.ConfigError, Connection> = Effect.gen(function*() {
  const { baseUrl } = yield* Connection
  const fromEnv = yield* Config.string("TINKER_BASE_URL").pipe(Config.withDefault(""))
  return Option.getOrElse(baseUrl, () => fromEnv) === "local"
})

/** Loaded on demand: it brings in the engine. */
const embedded = Effect.promise(() => import("./localBackend.js"))

/** Where requests go: to a server, or to the embedded backend, in this process or in one that has its directory open. */
type Target =
  | { readonly _tag: "Server" }
  | { readonly _tag: "Embedded" }
  | { readonly _tag: "Neighbour"; readonly baseUrl: string; readonly apiKey: Redacted.Redacted }

const server: Target = { _tag: "Server" }

const target = Effect.gen(function*() {
  if (!(yield* isLocal)) return server
  const found = yield* (yield* embedded).neighbour
  return Option.match(found, {
    onNone: (): Target => ({ _tag: "Embedded" }),
    onSome: (neighbour): Target => ({ _tag: "Neighbour", ...neighbour })
  })
})

/** Loaded on demand: it brings in undici, which the embedded backend does without. */
const remote = Effect.map(
  Effect.promise(() => import("effect-tinker/NodeTinker")),
  ({ layerFromEnv }) => layerFromEnv()
)

/** A `tinker local` on this machine keeps its key in its data directory, where only its user can read it. */
const neighbourKey = Effect.gen(function*() {
  const { baseUrl } = yield* Connection
  const env = yield* Effect.all([
    Config.string("TINKER_BASE_URL").pipe(Config.withDefault("")),
    Config.string("TINKER_API_KEY").pipe(Config.withDefault("")),
    Config.string("TINKER_CREDENTIAL_CMD").pipe(Config.withDefault(""))
  ])
  const url = Option.getOrElse(baseUrl, () => env[0])
  if (env[1] !== "" || env[2] !== "" || !/^http:\/\/(localhost|127\.|\[::1\])/.test(url)) return undefined
  return Option.getOrUndefined(yield* (yield* embedded).keyOf(url))
})

const addressOf = (to: Exclude<Target, { readonly _tag: "Server" }>) =>
  to._tag === "Neighbour"
    ? Effect.succeed(to)
    : Effect.flatMap(embedded, ({ apiKey, baseUrl }) => Effect.map(apiKey, (apiKey) => ({ apiKey, baseUrl })))

/** Configuration by the flags; a request may take that long unless they say otherwise. */
const given = (timeout: Duration.Duration | undefined) =>
  Effect.gen(function*() {
    const flags = yield* Connection
    const to = yield* target
    const here = to._tag === "Server" ? undefined : yield* addressOf(to)
    const level = yield* FiberRef.get(FiberRef.currentMinimumLogLevel)
    const key = Option.isSome(flags.apiKey) ? yield* readSecret("--api-key", flags.apiKey.value) : undefined
    return {
      baseUrl: here === undefined ? Option.getOrUndefined(flags.baseUrl) : here.baseUrl,
      apiKey: here?.apiKey ?? key ?? (yield* neighbourKey),
      // Its requests never leave this machine; elsewhere the environment says what is allowed.
      allowInsecure: here === undefined ? undefined : true,
      projectId: Option.getOrUndefined(flags.project),
      timeout: Option.getOrElse(flags.timeout, () => timeout),
      // `--log-level debug` asks what the command does, which is what it sends.
      log: LogLevel.lessThanEqual(level, LogLevel.Debug) ? "debug" as const : undefined,
      // A person is waiting: report an account without credit immediately.
      billingPause: Duration.zero,
      tags: ["tinker-cli"]
    } satisfies TinkerConfig.Options
  })

/** The command itself has warned of settings that are not understood. */
const quietly = Logger.withMinimumLogLevel(LogLevel.None)

/** @internal */
export const config: Layer.Layer<TinkerConfig.TinkerConfig, Failure, Environment> = Layer.effect(
  TinkerConfig.TinkerConfig,
  Effect.flatMap(given(defaultTimeout), (options) => quietly(TinkerConfig.fromEnv(options)))
)

/** The transport, and an `HttpClient` for what lies elsewhere: signed URLs, the hub. */
type Network = TinkerTransport.TinkerTransport | TinkerTransport.Tenants | HttpClient.HttpClient

/** @internal */
export const network: Layer.Layer<Network, Failure, Environment> = Layer.unwrapEffect(
  Effect.gen(function*(): Effect.fn.Return<
    Layer.Layer<Network, Failure, FileSystem.FileSystem | Path.Path>,
    Failure,
    Connection | FileSystem.FileSystem | Path.Path
  > {
    return (yield* target)._tag === "Embedded"
      ? (yield* embedded).layer()
      : Layer.merge(yield* remote, FetchHttpClient.layer)
  })
)

/** A person is waiting: give up on a server that does not respond after seconds, not minutes. */
const interactive = (timeout: Duration.Duration): Partial<RetryPolicy.Policies> => {
  const policy = RetryPolicy.backoff({ budget: Duration.min(timeout, Duration.seconds(8)), times: 3 })
  return { restRead: policy, restWrite: policy, startup: policy }
}

/** @internal */
export const policies: Layer.Layer<RetryPolicy.RetryPolicy, never, Connection> = Layer.effect(
  RetryPolicy.RetryPolicy,
  Effect.map(Connection, ({ timeout }) => ({
    ...RetryPolicy.defaults,
    ...interactive(Option.getOrElse(timeout, () => defaultTimeout))
  }))
)

/** @internal */
export const base: Layer.Layer<
  TinkerConfig.TinkerConfig | Credentials.Credentials | RetryPolicy.RetryPolicy | Network,
  Failure,
  Environment
> = Credentials.layer.pipe(
  Layer.provide(NodeCredentials.layer),
  Layer.provideMerge(Layer.mergeAll(config, network, policies))
)

/**
 * Where a credential came from, for people.
 *
 * @internal
 */
export const sources: Readonly<Record<Credentials.Service["source"], string>> = {
  apiKey: "an API key from the environment or --api-key",
  command: "from TINKER_CREDENTIAL_CMD",
  stored: "the stored login",
  anonymous: "none needed"
}

/** @internal */
export const rest: Layer.Layer<
  RestClient.RestClient | TinkerConfig.TinkerConfig | Credentials.Credentials | Network,
  Failure,
  Environment
> = Layer.scoped(RestClient.RestClient, RestClient.make).pipe(Layer.provideMerge(base))

/**
 * Sampling goes through the OpenAI-compatible endpoint, with the same credentials.
 *
 * @internal
 */
export const sampling: Layer.Layer<
  OpenAiCompat.OpenAiCompat | RestClient.RestClient | TinkerConfig.TinkerConfig,
  Failure,
  Environment
> = Layer.unwrapEffect(Effect.map(TinkerConfig.TinkerConfig, (config) =>
  OpenAiCompat.layerFromEnv({
    baseUrl: config.baseUrl,
    apiKey: Option.getOrUndefined(config.apiKey),
    // The URL was checked when the configuration was read.
    allowInsecure: true
  }))).pipe(
    Layer.provide(NodeCredentials.layer),
    Layer.provideMerge(rest)
  )

/**
 * Sampling token by token, and through the OpenAI-compatible endpoint where the server must write the prompt.
 *
 * @internal
 */
export const conversation: Layer.Layer<
  ServiceClient.ServiceClient | OpenAiCompat.OpenAiCompat | RestClient.RestClient | TinkerConfig.TinkerConfig,
  Failure,
  Environment
> = Layer.scoped(ServiceClient.ServiceClient, ServiceClient.make()).pipe(
  Layer.provide(base),
  Layer.merge(sampling)
)

/**
 * Clients for work of hours: requests wait and are retried as the SDK has it, and the embedded backend uses all cores.
 *
 * @internal
 */
export const training: Layer.Layer<
  ServiceClient.ServiceClient | RestClient.RestClient | TinkerConfig.TinkerConfig,
  Failure,
  Environment
> = Layer.unwrapEffect(
  Effect.gen(function*() {
    // Without credit a run waits, visibly, instead of losing the steps since its last checkpoint.
    const options = { ...yield* given(undefined), billingPause: undefined }
    const transport: Layer.Layer<TinkerTransport.TinkerTransport, Failure, FileSystem.FileSystem | Path.Path> =
      (yield* target)._tag === "Embedded"
        ? (yield* embedded).layer({ threads: true })
        : yield* remote
    return Tinker.layerFromEnv(options).pipe(Layer.provide(NodeCredentials.layer), Layer.provide(transport))
  })
)

/**
 * A request that a person is waiting for: bounded by `--timeout`, whatever it waits for.
 *
 * @internal
 */
export const bounded = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | TinkerError.TimedOut, R | Connection> =>
  Effect.flatMap(Connection, ({ timeout }) => {
    const duration = Option.getOrElse(timeout, () => defaultTimeout)
    return Effect.timeoutFail(effect, {
      duration,
      onTimeout: () =>
        new TinkerError.TimedOut({
          module: "Cli",
          method: "bounded",
          description: `gave up after ${Duration.format(duration)}`
        })
    })
  })
