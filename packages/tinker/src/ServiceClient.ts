/**
 * The door to a Tinker service: its configuration, one session, and what the other clients are made from.
 *
 * Building it sends nothing. The first operation asks for the server's configuration; the first one that needs a
 * session opens it. From then on the session is kept alive, and closing the scope finishes it: `success`, `errored` or
 * `interrupted`, as the scope ended.
 *
 * @since 0.1.0
 */
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import * as Api from "./Api.js"
import type { GetServerCapabilitiesResponse } from "./Capabilities.js"
import type { ClientConfig, ClientDynamicConfig } from "./ClientConfig.js"
import * as Credentials from "./Credentials.js"
import type { SessionId } from "./Id.js"
import type * as Heartbeat from "./internal/heartbeat.js"
import * as Observer from "./internal/observer.js"
import * as Session from "./internal/session.js"
import * as Startup from "./internal/startup.js"
import * as Telemetry from "./internal/telemetry.js"
import * as Transport from "./internal/transport.js"
import type { FinishReason } from "./Session.js"
import * as TinkerConfig from "./TinkerConfig.js"
import type * as TinkerError from "./TinkerError.js"

/**
 * What marks the values of this module.
 *
 * @since 0.1.0
 * @category models
 */
export const TypeId: unique symbol = Symbol.for("effect-tinker/ServiceClient")

/**
 * What marks the values of this module.
 *
 * @since 0.1.0
 * @category models
 */
export type TypeId = typeof TypeId

/**
 * What heartbeats say about the session: not opened yet, alive, not reachable for some time (with the last error), or
 * ended by the server.
 *
 * @since 0.1.0
 * @category models
 */
export type Health = Heartbeat.Health

/**
 * One session, and what the service says of itself.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** What the other clients are made from. */
  readonly [TypeId]: Internals
  /** The session; opened at first use. */
  readonly sessionId: Effect.Effect<SessionId, TinkerError.TinkerError>
  /** How the server wants its clients to behave. */
  readonly clientConfig: Effect.Effect<ClientConfig, TinkerError.TinkerError>
  /** The part of it that may change; refreshed while the session lasts. */
  readonly dynamicConfig: Effect.Effect<ClientDynamicConfig, TinkerError.TinkerError>
  /** What the server offers. Needs no session. */
  readonly serverCapabilities: Effect.Effect<GetServerCapabilitiesResponse, TinkerError.TinkerError>
  /** Whether the session is alive. */
  readonly health: Effect.Effect<Health>
  /** The current health, then every change. */
  readonly healthChanges: Stream.Stream<Health>
  /**
   * Finishes the session, if there is one: no operation is accepted afterwards. The first reason counts; closing the
   * scope does it too, with the reason its exit gives.
   */
  readonly finish: (reason: FinishReason, detail?: string) => Effect.Effect<void, TinkerError.TinkerError>
}

/**
 * For the other clients of this package; not for users.
 *
 * @since 0.1.0
 * @category models
 */
export interface Internals {
  /** @internal */
  readonly transport: Transport.Service
  /** @internal */
  readonly budgets: Startup.Budgets
  /** @internal */
  readonly nextModelSeqId: () => number
  /** @internal */
  readonly nextSamplingSessionSeqId: () => number
  /** @internal */
  readonly nextCustomLossSeqId: () => number
}

/**
 * The client as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class ServiceClient extends Context.Tag("effect-tinker/ServiceClient")<ServiceClient, Service>() {}

/**
 * What the session is opened with. Tags and project come from the configuration.
 *
 * @since 0.1.0
 * @category models
 */
export interface SessionOptions {
  /** Kept with the session. */
  readonly userMetadata?: Readonly<Record<string, string>> | undefined
  /** Shown in the console. */
  readonly displayName?: string | undefined
}

/**
 * Which service, with which credential, and what the session is opened with.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options extends TinkerConfig.Options {
  /** What the session is opened with. */
  readonly session?: SessionOptions | undefined
}

const from = (method: string) => ({ module: "ServiceClient", method })

/**
 * A client over the transport in the context.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (
  options?: SessionOptions
) => Effect.Effect<Service, never, Transport.Transport | Scope.Scope> = Effect.fnUntraced(function*(options) {
  const transport = yield* Transport.Transport
  // Before anything with a finalizer: what goes wrong at the end is reported too.
  const telemetry = yield* Telemetry.make(transport)
  const session = yield* Session.make(transport, telemetry, options)
  let models = 0
  let samplers = 0
  let losses = 0
  return ServiceClient.of({
    ...session,
    [TypeId]: {
      transport,
      budgets: Startup.budgets(transport),
      nextModelSeqId: () => models++,
      nextSamplingSessionSeqId: () => samplers++,
      nextCustomLossSeqId: () => losses++
    },
    serverCapabilities: Effect.zipRight(
      session.clientConfig,
      transport.call(Api.capabilities, {}, { from: from("serverCapabilities") })
    ).pipe((self) => Observer.reported(transport.emit, self))
  })
})

/**
 * A client over a transport of one's own making.
 *
 * @internal
 */
export const layerTransport = (options?: SessionOptions): Layer.Layer<ServiceClient, never, Transport.Transport> =>
  Layer.scoped(ServiceClient, make(options))

const withConfig = <E, R>(
  config: Layer.Layer<TinkerConfig.TinkerConfig, E, R>,
  options: SessionOptions | undefined
): Layer.Layer<ServiceClient, E | TinkerError.TinkerError, R | HttpClient.HttpClient> =>
  layerTransport(options).pipe(
    Layer.provide(Transport.layer),
    Layer.provide(Credentials.layer),
    Layer.provide(config)
  )

/**
 * A client with the given configuration; the environment is not looked at.
 *
 * @example
 * ```ts
 * import { FetchHttpClient } from "@effect/platform"
 * import { Layer } from "effect"
 * import { ServiceClient, TrainingClient } from "effect-tinker"
 *
 * const Training = TrainingClient.layerLora({ baseModel: "Qwen/Qwen3-8B", rank: 32 }).pipe(
 *   Layer.provide(ServiceClient.layer({ apiKey: "tml-…", tags: ["experiment-7"] })),
 *   Layer.provide(FetchHttpClient.layer)
 * )
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<ServiceClient, TinkerError.TinkerError, HttpClient.HttpClient> =>
  withConfig(TinkerConfig.layer(options), options.session)

/**
 * A client whose configuration is described by `Config`s.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = (
  options: Config.Config.Wrap<TinkerConfig.Options>,
  session?: SessionOptions
): Layer.Layer<ServiceClient, TinkerError.TinkerError | ConfigError.ConfigError, HttpClient.HttpClient> =>
  withConfig(TinkerConfig.layerConfig(options), session)

/**
 * A client configured from the environment (`TINKER_API_KEY`, `TINKER_BASE_URL`, …), with what is given on top.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerEnv = (
  options: Options = {}
): Layer.Layer<ServiceClient, TinkerError.TinkerError | ConfigError.ConfigError, HttpClient.HttpClient> =>
  withConfig(TinkerConfig.layerEnv(options), options.session)
