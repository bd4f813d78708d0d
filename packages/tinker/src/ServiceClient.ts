/**
 * Entry point to a Tinker service: one session, and the clients made from it.
 *
 * Building it sends nothing. The first operation asks for the server's configuration; the first one that needs a
 * session opens it. From then on the session is kept alive, and closing the scope finishes it: `success`, `errored` or
 * `interrupted`, as the scope ended.
 *
 * @since 0.1.0
 */
import type * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type * as Credentials from "./Credentials.js"
import * as Observer from "./internal/observability/observer.js"
import * as Telemetry from "./internal/observability/telemetry.js"
import * as Samplers from "./internal/sampling/samplers.js"
import * as Session from "./internal/session/session.js"
import * as Creation from "./internal/training/creation.js"
import * as Losses from "./internal/training/losses.js"
import * as Operations from "./internal/training/operations.js"
import * as ApiClient from "./internal/transport/apiClient.js"
import * as Errors from "./internal/transport/errors.js"
import type { SamplerHandle } from "./SamplerHandle.js"
import type * as SamplingClient from "./SamplingClient.js"
import * as TinkerConfig from "./TinkerConfig.js"
import type * as TinkerError from "./TinkerError.js"
import * as TinkerFuture from "./TinkerFuture.js"
import type * as TinkerTransport from "./TinkerTransport.js"
import type * as TrainingClient from "./TrainingClient.js"
import type * as UploadedLoss from "./UploadedLoss.js"
import * as Api from "./wire/Api.js"
import type { GetServerCapabilitiesResponse } from "./wire/Capabilities.js"
import type { ClientConfig, ClientDynamicConfig } from "./wire/ClientConfig.js"
import type { ModelId, SessionId } from "./wire/Id.js"
import type { FinishReason } from "./wire/Session.js"

/**
 * State of the session by its heartbeats: not opened yet, alive, not reachable for some time (with the last error), or
 * ended by the server.
 *
 * @since 0.1.0
 * @category models
 */
export type Health = Session.Health

/**
 * One session, and what the service says of itself.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** The session; opened at first use. */
  readonly sessionId: Effect.Effect<SessionId, TinkerError.TinkerError>
  /** How the server wants its clients to behave. */
  readonly clientConfig: Effect.Effect<ClientConfig, TinkerError.TinkerError>
  /** The part of it that may change; refreshed while the session lasts. */
  readonly dynamicConfig: Effect.Effect<ClientDynamicConfig, TinkerError.TinkerError>
  /** Models and limits of the server. Needs no session. */
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
  /** A new model with a LoRA adapter, once it is ready. */
  readonly createLoraTrainingClient: (
    options: TrainingClient.LoraOptions
  ) => Effect.Effect<TrainingClient.Service, TinkerError.StartupError, Scope.Scope>
  /** A model that continues from a checkpoint, once it is loaded. */
  readonly createTrainingClientFromState: (
    options: TrainingClient.StateOptions
  ) => Effect.Effect<TrainingClient.Service, TinkerError.StartupError, Scope.Scope>
  /** A sampler of a base model or a checkpoint. */
  readonly createSamplingClient: (
    options: SamplingClient.Options
  ) => Effect.Effect<SamplingClient.Service, TinkerError.StartupError, Scope.Scope>
  /** A client of a sampler opened elsewhere; it opens no session. */
  readonly samplingClientFromHandle: (
    handle: SamplerHandle,
    settings?: SamplingClient.Settings
  ) => Effect.Effect<SamplingClient.Service, TinkerError.StartupError, Scope.Scope>
  /** Uploads a custom loss to the server. */
  readonly uploadLoss: (
    options: UploadedLoss.Options
  ) => Effect.Effect<UploadedLoss.UploadedLoss, TinkerError.TinkerError>
}

/**
 * The client as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class ServiceClient extends Context.Tag("effect-tinker/ServiceClient")<ServiceClient, Service>() {}

/**
 * Metadata of the session. Tags and project come from the configuration.
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
  /** Metadata of the session. */
  readonly session?: SessionOptions | undefined
}

const from = (method: string) => ({ module: "ServiceClient", method })

/** @internal */
export const fromApi: (
  api: ApiClient.Service,
  options?: SessionOptions
) => Effect.Effect<Service, never, Scope.Scope> = Effect.fnUntraced(function*(api, options) {
  // Before anything with a finalizer: what goes wrong at the end is reported too.
  const telemetry = yield* Telemetry.make(api)
  const models = new Set<ModelId>()
  const session = yield* Session.make(api, telemetry, options, models)
  const context = Session.makeServiceContext(api, session)
  const created = (creation: Effect.Effect<Creation.Created, TinkerError.TinkerError>) =>
    Effect.flatMap(Observer.reported(api.emit, creation), (model) => {
      models.add(model.modelId)
      return Operations.make({ service: context, ...model })
    })
  return ServiceClient.of({
    ...session,
    serverCapabilities: Effect.zipRight(
      session.clientConfig,
      api.call(Api.capabilities, {}, { from: from("serverCapabilities") })
    ).pipe((self) => Observer.reported(api.emit, self)),
    createLoraTrainingClient: (options) => Errors.toStartupError(created(Creation.lora(context, options))),
    createTrainingClientFromState: Effect.fnUntraced(function*(options) {
      yield* session.sessionId
      if (api.serverFacts.createsByLoading()) {
        const loaded = yield* Effect.either(created(Creation.viaLoadWeights(context, options)))
        if (Either.isRight(loaded)) return loaded.right
        // A server before 0.38 misses the id of the model. Everything else is about this checkpoint.
        if (loaded.left._tag !== "BadRequest" || loaded.left.status !== 422) return yield* loaded.left
        api.serverFacts.refusedToCreateByLoading()
      }
      const training = yield* created(Creation.likeCheckpoint(context, options))
      const load = options.withOptimizer === true ? training.loadStateWithOptimizer : training.loadState
      yield* TinkerFuture.await(load(options.path, options))
      return training
    }, Errors.toStartupError),
    createSamplingClient: (options) => Errors.toStartupError(Samplers.make(context, options)),
    samplingClientFromHandle: (handle, settings) =>
      Errors.toStartupError(Samplers.fromHandle(context, handle, settings)),
    uploadLoss: (options) => Losses.upload(context, options)
  })
})

/**
 * A client with the configuration and credential in the context. Building it sends nothing.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options?: SessionOptions
): Effect.Effect<
  Service,
  never,
  TinkerConfig.TinkerConfig | Credentials.Credentials | TinkerTransport.TinkerTransport | Scope.Scope
> => Effect.flatMap(ApiClient.make, (api) => fromApi(api, options))

const withConfig = <E, R>(
  config: Effect.Effect<TinkerConfig.Service, E, R>,
  options: SessionOptions | undefined
): Layer.Layer<ServiceClient, E | TinkerError.ConfigurationError, R | TinkerTransport.TinkerTransport> =>
  Layer.scoped(ServiceClient, Effect.flatMap(ApiClient.connect(config), ({ api }) => fromApi(api, options)))

/**
 * A client with the given configuration; the environment is not looked at. `Tinker.layer` brings the other clients of
 * the same service along.
 *
 * @example
 * ```ts
 * import { Layer } from "effect"
 * import { ServiceClient, TinkerTransport, TrainingClient } from "effect-tinker"
 *
 * const Training = TrainingClient.layerLora({ baseModel: "Qwen/Qwen3-8B", rank: 32 }).pipe(
 *   Layer.provide(ServiceClient.layer({ apiKey: "tml-…", tags: ["experiment-7"] })),
 *   Layer.provide(TinkerTransport.layerFetch)
 * )
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<ServiceClient, TinkerError.ConfigurationError, TinkerTransport.TinkerTransport> =>
  withConfig(Effect.suspend(() => TinkerConfig.make(options)), options.session)

/**
 * A client whose configuration is described by `Config`s.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = (
  options: Config.Config.Wrap<TinkerConfig.Options>,
  session?: SessionOptions
): Layer.Layer<
  ServiceClient,
  TinkerError.ConfigurationError | ConfigError.ConfigError,
  TinkerTransport.TinkerTransport
> => withConfig(TinkerConfig.fromConfig(options), session)

/**
 * A client configured from the environment (`TINKER_API_KEY`, `TINKER_BASE_URL`, …), with what is given on top.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFromEnv = (
  options: Options = {}
): Layer.Layer<
  ServiceClient,
  TinkerError.ConfigurationError | ConfigError.ConfigError,
  TinkerTransport.TinkerTransport
> => withConfig(TinkerConfig.fromEnv(options), options.session)
