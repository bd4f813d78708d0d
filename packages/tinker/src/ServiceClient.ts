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
import * as Cause from "effect/Cause"
import type * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import * as Api from "./Api.js"
import type { GetServerCapabilitiesResponse } from "./Capabilities.js"
import { type ClientConfig, ClientConfigRequest, ClientDynamicConfig } from "./ClientConfig.js"
import * as Credentials from "./Credentials.js"
import type { SessionId } from "./Id.js"
import * as Heartbeat from "./internal/heartbeat.js"
import * as Logs from "./internal/logs.js"
import * as Observer from "./internal/observer.js"
import * as Startup from "./internal/startup.js"
import * as Telemetry from "./internal/telemetry.js"
import * as Transport from "./internal/transport.js"
import * as Turnstile from "./internal/turnstile.js"
import * as RetryPolicy from "./RetryPolicy.js"
import type { FinishReason } from "./Session.js"
import { CreateSessionRequest } from "./Session.js"
import * as TinkerConfig from "./TinkerConfig.js"
import * as TinkerError from "./TinkerError.js"

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

const closedError = new TinkerError.Closed({ ...from("sessionId"), description: "the session is finished" })

/** The scope's end must not wait for a server that does not answer. */
const finishWithin = Duration.seconds(5)

const shortestRefresh = Duration.seconds(10)

const reasonOf = (exit: Exit.Exit<unknown, unknown>): FinishReason =>
  Exit.isSuccess(exit) ? "success" : Cause.isInterruptedOnly(exit.cause) ? "interrupted" : "errored"

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
  const background = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
  const health = yield* SubscriptionRef.make<Health>({ _tag: "NotStarted" })
  const dynamic = yield* Ref.make(Option.none<ClientDynamicConfig>())
  // One at a time, and a caller who leaves does not leave half a session behind.
  const line = yield* Turnstile.make(closedError)
  let session: SessionId | undefined
  let outcome: { readonly reason: FinishReason; readonly detail: string | null } | undefined
  let reported = false
  let models = 0
  let samplers = 0
  let losses = 0

  const clientConfig = Startup.configure(transport, { from: from("clientConfig") })

  const fetchDynamic = (retry: boolean) =>
    transport.call(Api.dynamicConfig, new ClientConfigRequest({ sdkVersion: TinkerConfig.wireVersion }), {
      from: from("dynamicConfig"),
      ...(retry ? {} : { retry: RetryPolicy.never })
    })

  const firstDynamic = Effect.gen(function*() {
    yield* clientConfig
    const known = yield* Ref.get(dynamic)
    if (Option.isSome(known)) return known.value
    const config = transport.config.compatibility.dynamicConfig
      ? yield* Effect.catchTag(fetchDynamic(true), "NotFound", () => Effect.succeed(new ClientDynamicConfig()))
      : new ClientDynamicConfig()
    yield* Ref.set(dynamic, Option.some(config))
    return config
  })

  const refresh = Effect.gen(function*() {
    while (true) {
      const current = Option.getOrElse(yield* Ref.get(dynamic), () => new ClientDynamicConfig())
      yield* Effect.sleep(Duration.max(Duration.seconds(current.refreshIntervalSec), shortestRefresh))
      yield* Effect.matchEffect(fetchDynamic(false), {
        onFailure: (error) => Effect.logDebug("The dynamic configuration was not refreshed", error.message),
        onSuccess: (config) => Ref.set(dynamic, Option.some(config))
      })
    }
  }).pipe(
    Effect.withTracerEnabled(false),
    Logs.of("ServiceClient")
  )

  const open = Effect.gen(function*() {
    if (outcome !== undefined) return yield* closedError
    if (session !== undefined) return session
    yield* firstDynamic
    const answer = yield* transport.call(
      Api.createSession,
      new CreateSessionRequest({
        tags: transport.config.tags,
        userMetadata: options?.userMetadata ?? {},
        sdkVersion: TinkerConfig.wireVersion,
        projectId: Option.getOrUndefined(transport.config.projectId),
        displayName: options?.displayName
      }),
      { from: from("sessionId") }
    )
    session = answer.sessionId
    telemetry.sessionStarted(session)
    yield* Effect.gen(function*() {
      if (answer.infoMessage !== undefined) yield* Effect.logInfo(answer.infoMessage)
      if (answer.warningMessage !== undefined) yield* Effect.logWarning(answer.warningMessage)
      if (answer.errorMessage !== undefined) yield* Effect.logError(answer.errorMessage)
    }).pipe(Logs.of("ServiceClient", { sessionId: session }))
    yield* SubscriptionRef.set(health, { _tag: "Alive" })
    yield* Effect.forkIn(Heartbeat.run(transport, session, health), background)
    if (transport.config.compatibility.dynamicConfig) yield* Effect.forkIn(refresh, background)
    return session
  })

  const sessionId = Effect.suspend(() => {
    if (outcome !== undefined) return closedError
    return session === undefined ? line.take(open) : Effect.succeed(session)
  })

  const finish: Service["finish"] = (reason, detail) =>
    Effect.suspend(() => {
      outcome ??= { reason, detail: detail ?? null }
      if (session === undefined || reported) return Effect.void
      const request = { sessionId: session, reason: { type: outcome.reason }, detail: outcome.detail }
      return Scope.close(background, Exit.void).pipe(
        Effect.zipRight(SubscriptionRef.set(health, { _tag: "Ended" })),
        Effect.zipRight(transport.call(Api.finishSession, request, { from: from("finish") })),
        Effect.tap(() => {
          reported = true
          telemetry.sessionEnded()
        }),
        (self) => Observer.reported(transport.emit, self)
      )
    })

  yield* Effect.addFinalizer((exit) =>
    finish(reasonOf(exit)).pipe(
      Effect.interruptible,
      Effect.timeoutOption(finishWithin),
      Effect.catchAll((error) => Effect.logDebug("The session could not be finished", error.message)),
      Logs.of("ServiceClient", { sessionId: session })
    )
  )

  return ServiceClient.of({
    [TypeId]: {
      transport,
      budgets: Startup.budgets(transport),
      nextModelSeqId: () => models++,
      nextSamplingSessionSeqId: () => samplers++,
      nextCustomLossSeqId: () => losses++
    },
    sessionId,
    clientConfig,
    dynamicConfig: Effect.flatMap(
      Ref.get(dynamic),
      Option.match({ onNone: () => firstDynamic, onSome: Effect.succeed })
    ),
    serverCapabilities: Effect.zipRight(
      clientConfig,
      transport.call(Api.capabilities, {}, { from: from("serverCapabilities") })
    ).pipe((self) => Observer.reported(transport.emit, self)),
    health: SubscriptionRef.get(health),
    healthChanges: health.changes,
    finish
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
