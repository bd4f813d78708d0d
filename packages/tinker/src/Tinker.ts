/**
 * Everything for one Tinker service from one configuration and one credential: the service client, the REST client and
 * the OpenAI-compatible client, over the transport in the context. Hosted or self-hosted differ by `baseUrl` only;
 * `TinkerLocal.layer` of `@effect-tinker/local` provides the same clients over the embedded backend.
 *
 * @since 0.1.0
 */
import type * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Credentials from "./Credentials.js"
import * as Rest from "./internal/rest/client.js"
import * as ApiClient from "./internal/transport/apiClient.js"
import * as OpenAiCompat from "./OpenAiCompat.js"
import * as RestClient from "./RestClient.js"
import * as ServiceClient from "./ServiceClient.js"
import * as TinkerConfig from "./TinkerConfig.js"
import type * as TinkerError from "./TinkerError.js"
import type * as TinkerTransport from "./TinkerTransport.js"

/**
 * The clients of one service, and the configuration and credential they share.
 *
 * @since 0.1.0
 * @category models
 */
export type Tinker =
  | ServiceClient.ServiceClient
  | RestClient.RestClient
  | OpenAiCompat.OpenAiCompat
  | TinkerConfig.TinkerConfig
  | Credentials.Credentials

/**
 * Which service, with which credential, and what its session is opened with.
 *
 * @since 0.1.0
 * @category models
 */
export type Options = ServiceClient.Options

const withConfig = <E, R>(
  config: Effect.Effect<TinkerConfig.Service, E, R>,
  session: ServiceClient.SessionOptions | undefined
): Layer.Layer<Tinker, E | TinkerError.ConfigurationError, R | TinkerTransport.TinkerTransport> =>
  Layer.scopedContext(Effect.gen(function*() {
    const { api, config: built, credentials } = yield* ApiClient.connect(config)
    // The service client's telemetry covers all of them: they share one API client.
    return Context.empty().pipe(
      Context.add(ServiceClient.ServiceClient, yield* ServiceClient.fromApi(api, session)),
      Context.add(RestClient.RestClient, Rest.make(api)),
      Context.add(OpenAiCompat.OpenAiCompat, OpenAiCompat.fromApi(api)),
      Context.add(TinkerConfig.TinkerConfig, built),
      Context.add(Credentials.Credentials, credentials)
    )
  }))

/**
 * The clients with the given configuration; the environment is not looked at.
 *
 * @example
 * ```ts
 * import { Layer } from "effect"
 * import { Tinker } from "effect-tinker"
 * import * as NodeTinker from "effect-tinker/NodeTinker"
 *
 * const Hosted = Tinker.layer({ apiKey: "tml-…" }).pipe(Layer.provide(NodeTinker.layer()))
 * const SelfHosted = Tinker.layer({ baseUrl: "http://localhost:8000", apiKey: "tml-dummy" }).pipe(
 *   Layer.provide(NodeTinker.layer())
 * )
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<Tinker, TinkerError.ConfigurationError, TinkerTransport.TinkerTransport> =>
  withConfig(Effect.suspend(() => TinkerConfig.make(options)), options.session)

/**
 * The clients with a configuration described by `Config`s.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = (
  options: Config.Config.Wrap<TinkerConfig.Options>,
  session?: ServiceClient.SessionOptions
): Layer.Layer<Tinker, TinkerError.ConfigurationError | ConfigError.ConfigError, TinkerTransport.TinkerTransport> =>
  withConfig(TinkerConfig.fromConfig(options), session)

/**
 * The clients configured from the environment (`TINKER_API_KEY`, `TINKER_BASE_URL`, …), with what is given on top.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFromEnv = (
  options: Options = {}
): Layer.Layer<Tinker, TinkerError.ConfigurationError | ConfigError.ConfigError, TinkerTransport.TinkerTransport> =>
  withConfig(TinkerConfig.fromEnv(options), options.session)
