/**
 * The embedded backend as a function from requests to answers, free of sockets. `TinkerLocal` puts it behind an
 * `HttpClient`, `NodeTinkerLocal` behind a port.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type * as Stream from "effect/Stream"
import { Engine } from "./Engine.js"
import { Faults } from "./Faults.js"
import * as accounts from "./internal/server/accounts.js"
import * as auditLog from "./internal/server/auditLog.js"
import * as checkpoints from "./internal/server/checkpoints.js"
import * as customLosses from "./internal/server/customLosses.js"
import * as downloads from "./internal/server/downloads.js"
import * as futures from "./internal/server/futures.js"
import * as gate from "./internal/server/gate.js"
import { routes } from "./internal/server/handlers/routes.js"
import * as ledger from "./internal/server/ledger.js"
import type { Dropped } from "./internal/server/message.js"
import * as models from "./internal/server/models.js"
import * as runs from "./internal/server/runs.js"
import * as samplePool from "./internal/server/samplePool.js"
import * as samplers from "./internal/server/samplers.js"
import { makeHandle } from "./internal/server/serve.js"
import * as serverInfo from "./internal/server/serverInfo.js"
import * as sessions from "./internal/server/sessions.js"
import * as settings from "./internal/server/settings.js"
import * as trace from "./internal/server/trace.js"
import type { Storage, StorageFailed } from "./Storage.js"

/**
 * A request as it arrives.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request {
  readonly method: string
  readonly url: URL
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Uint8Array
}

/**
 * The connection breaks off, because a fault says so.
 *
 * @since 0.1.0
 * @category errors
 */
export type ConnectionDropped = Dropped

/**
 * An answer as it leaves.
 *
 * @since 0.1.0
 * @category models
 */
export interface Response {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | Stream.Stream<Uint8Array, ConnectionDropped> | undefined
}

/**
 * Someone who may call.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface ApiKey {
  /** Starts with `tml-`, or clients will not send it. */
  readonly key: Redacted.Redacted
  /** What it is called in listings. Defaults to its number. */
  readonly name?: string | undefined
  /** Keys with the same address belong to the same user. Defaults to one user for all. */
  readonly email?: string | undefined
}

/**
 * How a server treats its clients.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** Who may call. Defaults to anyone with a key that starts with `tml-`. */
  readonly apiKeys?: ReadonlyArray<ApiKey> | undefined
  /** How long a poll is held before it is told to try again. Defaults to 30 seconds. */
  readonly hold?: Duration.DurationInput | undefined
  /** How long a session lives without a sign of its client. Defaults to 5 minutes. */
  readonly sessionTimeout?: Duration.DurationInput | undefined
  /** How long results can be fetched; once fetched, two minutes more. Defaults to 1 hour. */
  readonly resultRetention?: Duration.DurationInput | undefined
  /** Results larger than this are announced by their size first. Defaults to 1 MiB. */
  readonly inlineResultBytes?: number | undefined
  /** Sample requests computed side by side. Defaults to 4. */
  readonly sampleConcurrency?: number | undefined
  /** Sample requests waiting before more are refused with 429. Defaults to 4096. */
  readonly maxQueuedSamples?: number | undefined
  /** What clients are told about how to talk to the server. Defaults to what they assume anyway. */
  readonly clientConfig?: serverInfo.ConfigFlags | undefined
  /** The same for what they ask about from time to time. */
  readonly dynamicConfig?: serverInfo.DynamicFlags | undefined
}

/**
 * The server, and what a test may do to it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly handle: (request: Request) => Effect.Effect<Response, ConnectionDropped>
  /** Lets the event loop turn if it is due: no socket does so between a caller in the same process and the server. */
  readonly breathe: Effect.Effect<void>
  /** The names of the endpoints it serves. */
  readonly endpoints: ReadonlyArray<string>
  /** Stops working on what it accepted; polls say why. */
  readonly pause: (options: {
    readonly state: "paused_capacity" | "paused_rate_limit"
    readonly reason?: string | undefined
  }) => Effect.Effect<void>
  readonly resume: Effect.Effect<void>
  readonly setClientConfig: (flags: serverInfo.ConfigFlags) => Effect.Effect<void>
  readonly setDynamicConfig: (flags: serverInfo.DynamicFlags) => Effect.Effect<void>
}

/**
 * The server as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class LocalServer extends Context.Tag("@effect-tinker/local/LocalServer")<LocalServer, Service>() {}

const state = (options: Options) => {
  const { defaults } = settings
  const duration = (input: Duration.DurationInput | undefined, or: Duration.Duration) =>
    input === undefined ? or : Duration.decode(input)
  return Layer.empty.pipe(
    Layer.provideMerge(Layer.mergeAll(models.layer, samplers.layer, samplePool.layer)),
    Layer.provideMerge(Layer.mergeAll(sessions.layer, checkpoints.layer, runs.layer, futures.layer)),
    Layer.provideMerge(Layer.mergeAll(
      ledger.layer,
      auditLog.layer,
      gate.layer,
      downloads.layer,
      trace.layer,
      customLosses.layer,
      accounts.layer(options.apiKeys),
      serverInfo.layer(options.clientConfig ?? {}, options.dynamicConfig ?? {}),
      Layer.succeed(settings.Settings, {
        hold: duration(options.hold, defaults.hold),
        sessionTimeout: duration(options.sessionTimeout, defaults.sessionTimeout),
        retention: duration(options.resultRetention, defaults.retention),
        inlineResultBytes: options.inlineResultBytes ?? defaults.inlineResultBytes,
        sampleConcurrency: options.sampleConcurrency ?? defaults.sampleConcurrency,
        maxQueuedSamples: options.maxQueuedSamples ?? defaults.maxQueuedSamples
      })
    ))
  )
}

/**
 * A server over an engine and a storage.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options = {}): Layer.Layer<LocalServer, StorageFailed, Engine | Storage> =>
  Layer.effect(
    LocalServer,
    Effect.gen(function*() {
      const context = yield* Effect.context<Effect.Effect.Context<ReturnType<typeof routes[number]["handle"]>>>()
      const { pause, resume } = yield* gate.Gate
      const { setConfig, setDynamic } = yield* serverInfo.ServerInfo
      const { breathe } = yield* Engine
      const handle = makeHandle({ routes, accounts: yield* accounts.Accounts, faults: yield* Faults })
      return LocalServer.of({
        handle: (request) => Effect.provide(handle(request), context),
        breathe,
        endpoints: routes.map(({ name }) => name),
        pause,
        resume,
        setClientConfig: setConfig,
        setDynamicConfig: setDynamic
      })
    })
  ).pipe(Layer.provide(state(options)))
