/**
 * The embedded backend as a function from requests to responses, without a socket. `TinkerLocal` puts it behind an
 * `HttpClient`, `NodeTinkerLocal` behind a port.
 *
 * @since 0.1.0
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Engine } from "./Engine.js"
import { Faults } from "./Faults.js"
import * as accounts from "./internal/server/accounts.js"
import * as auditLog from "./internal/server/auditLog.js"
import * as checkpoints from "./internal/server/checkpoints.js"
import * as customLosses from "./internal/server/customLosses.js"
import * as downloads from "./internal/server/downloads.js"
import * as futures from "./internal/server/futures.js"
import { accountRoutes } from "./internal/server/handlers/account.js"
import { checkpointRoutes } from "./internal/server/handlers/checkpoints.js"
import { hubRoutes } from "./internal/server/handlers/hub.js"
import { openAiRoutes } from "./internal/server/handlers/openai.js"
import { restRoutes } from "./internal/server/handlers/rest.js"
import { samplingRoutes } from "./internal/server/handlers/sampling.js"
import { sessionRoutes } from "./internal/server/handlers/session.js"
import { trainingRoutes } from "./internal/server/handlers/training.js"
import { checkpointName, weightRoutes } from "./internal/server/handlers/weights.js"
import * as ledger from "./internal/server/ledger.js"
import type { Dropped } from "./internal/server/message.js"
import { concat } from "./internal/server/message.js"
import * as models from "./internal/server/models.js"
import * as profile from "./internal/server/profile.js"
import type { Route } from "./internal/server/router.js"
import { makeHandle } from "./internal/server/router.js"
import * as runs from "./internal/server/runs.js"
import * as samplers from "./internal/server/samplers.js"
import * as sessions from "./internal/server/sessions.js"
import * as settings from "./internal/server/settings.js"
import * as trace from "./internal/server/trace.js"
import type * as LocalAdapter from "./LocalAdapter.js"
import type { LocalModel } from "./LocalModel.js"
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
  /** A stream is read after the caller has been authenticated, up to `maxBodyBytes`. */
  readonly body: Uint8Array | Stream.Stream<Uint8Array, ConnectionDropped>
}

/**
 * The connection broke: a client left, or a fault says so.
 *
 * @since 0.1.0
 * @category errors
 */
export type ConnectionDropped = Dropped

/**
 * A response as it leaves.
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
  /** Its name in listings. Defaults to its number. */
  readonly name?: string | undefined
  /** Keys with the same address belong to the same user. Defaults to one user for all. */
  readonly email?: string | undefined
}

/**
 * An era of the wire. `0.36` is today's. `0.24` is that of `tinker` 0.24.1, which most self-hosted servers implement:
 * passes and results in JSON alone, no dynamic configuration, no end of a session.
 *
 * @since 0.1.0
 * @category configuration
 */
export type Profile = profile.Profile

/**
 * How a server treats its clients.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** The era of the wire to play, for clients of that time. Defaults to `0.36`. */
  readonly profile?: Profile | undefined
  /** Who may call; an empty list lets nobody in. Defaults to any key that starts with `tml-`. */
  readonly apiKeys?: ReadonlyArray<ApiKey> | undefined
  /** Largest request body, also after decompression; larger ones are refused with 413. Defaults to 16 MiB. */
  readonly maxBodyBytes?: number | undefined
  /** How long a poll is held before the client is asked to try again. Defaults to 30 seconds. */
  readonly hold?: Duration.DurationInput | undefined
  /** How long a session lives without a heartbeat. Defaults to 5 minutes. */
  readonly sessionTimeout?: Duration.DurationInput | undefined
  /** How long results can be fetched; once fetched, two minutes more. Defaults to 1 hour. */
  readonly resultRetention?: Duration.DurationInput | undefined
  /** Results larger than this are announced by their size first. Defaults to 1 MiB. */
  readonly inlineResultBytes?: number | undefined
  /** Sample requests computed at a time: tokens of all are drawn in step. Defaults to 32. */
  readonly sampleConcurrency?: number | undefined
  /** Sample requests waiting before more are refused with 429. Defaults to 4096. */
  readonly maxQueuedSamples?: number | undefined
  /** Settings the server asks its clients to use. Defaults to those they assume anyway. */
  readonly clientConfig?: settings.ConfigFlags | undefined
  /** The part of it that clients refresh from time to time. */
  readonly dynamicConfig?: settings.DynamicFlags | undefined
}

/**
 * Counters of a server since its start.
 *
 * @since 0.1.0
 * @category models
 */
export interface Activity {
  readonly requests: number
  /** Models in memory. */
  readonly models: number
  /** Tokens trained on, read and sampled. */
  readonly tokens: number
}

/**
 * The checkpoints of an imported adapter.
 *
 * @since 0.1.0
 * @category models
 */
export interface Imported {
  /** For `TrainingClient.makeFromState`; it has no optimizer state. */
  readonly training: string
  /** For `SamplingClient.make`. */
  readonly sampler: string
}

/**
 * The adapter was not imported: its name cannot be one, the key is unknown, or the model is not served.
 *
 * @since 0.1.0
 * @category errors
 */
export class ImportRefused extends Schema.TaggedError<ImportRefused>("@effect-tinker/local/LocalServer/ImportRefused")(
  "ImportRefused",
  { description: Schema.String }
) {
  override get message(): string {
    return this.description
  }
}

/**
 * The server, and what a test may do to it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly handle: (request: Request) => Effect.Effect<Response, ConnectionDropped>
  /** Yields to the event loop if a slice is over: a caller in the same process has no socket that would do so. */
  readonly yieldIfDue: Effect.Effect<void>
  /** The models it serves. */
  readonly models: ReadonlyArray<LocalModel>
  /**
   * Makes checkpoints of an adapter that was trained elsewhere (`PeftAdapter.read`), to be trained further and to be
   * sampled from. They belong to the user of `apiKey`, by default to the one of any key.
   */
  readonly importAdapter: (
    snapshot: LocalAdapter.Snapshot,
    options: { readonly name: string; readonly apiKey?: Redacted.Redacted | undefined }
  ) => Effect.Effect<Imported, ImportRefused | StorageFailed>
  /** The names of the endpoints it serves. */
  readonly endpoints: ReadonlyArray<string>
  /** Stops working on what it accepted; polls say why. */
  readonly pause: (options: {
    readonly state: "paused_capacity" | "paused_rate_limit"
    readonly reason?: string | undefined
  }) => Effect.Effect<void>
  readonly resume: Effect.Effect<void>
  /** Counters since its start. */
  readonly activity: Effect.Effect<Activity>
  readonly setClientConfig: (flags: settings.ConfigFlags) => Effect.Effect<void>
  readonly setDynamicConfig: (flags: settings.DynamicFlags) => Effect.Effect<void>
}

/**
 * The whole body of a request, for what stands in front of a server and looks at requests: pass the bytes on in its place.
 *
 * @since 0.1.0
 * @category combinators
 */
export const readBody = (request: Request): Effect.Effect<Uint8Array, ConnectionDropped> =>
  request.body instanceof Uint8Array
    ? Effect.succeed(request.body)
    : Effect.map(Stream.runCollect(request.body), concat)

/**
 * The server as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class LocalServer extends Context.Tag("@effect-tinker/local/LocalServer")<LocalServer, Service>() {}

const table = [
  ...sessionRoutes,
  ...trainingRoutes,
  ...weightRoutes,
  ...samplingRoutes,
  ...checkpointRoutes,
  ...restRoutes,
  ...accountRoutes,
  ...openAiRoutes,
  ...hubRoutes
]

type Services = Effect.Effect.Context<ReturnType<typeof table[number]["handle"]>>

const routes: ReadonlyArray<Route<Services>> = table

/** Every route with a path that it answers, and the credentials it asks for: a test asks each of them. @internal */
export const accesses: ReadonlyArray<{
  readonly name: string
  readonly method: string
  readonly path: string
  readonly auth: Route<never>["auth"]
}> = routes.map(({ auth, method, name, pattern }) => ({
  name,
  method,
  path: pattern.source.replace(/^\^|\\\/\?\$$/g, "").replace(/\([^()]*(?:\([^()]*\)\?)?\)/g, "x").replaceAll(
    "\\/",
    "/"
  ),
  auth
}))

const layerState = (options: Options) => {
  const { defaults } = settings
  const duration = (input: Duration.DurationInput | undefined, or: Duration.Duration) =>
    input === undefined ? or : Duration.decode(input)
  const bodyBytes = options.maxBodyBytes ?? defaults.limits.bodyBytes
  return Layer.empty.pipe(
    Layer.provideMerge(Layer.mergeAll(models.layer, samplers.layer, samplers.layerPool)),
    Layer.provideMerge(Layer.mergeAll(sessions.layer, checkpoints.layer, runs.layer, futures.layer)),
    Layer.provideMerge(Layer.mergeAll(
      ledger.layer,
      auditLog.layer,
      futures.layerGate,
      downloads.layer,
      trace.layer,
      customLosses.layer,
      accounts.layer(options.apiKeys),
      settings.layerServerInfo(options.clientConfig ?? {}, options.dynamicConfig ?? {}),
      Layer.succeed(settings.Settings, {
        hold: duration(options.hold, defaults.hold),
        sessionTimeout: duration(options.sessionTimeout, defaults.sessionTimeout),
        retention: duration(options.resultRetention, defaults.retention),
        inlineResultBytes: options.inlineResultBytes ?? defaults.inlineResultBytes,
        sampleConcurrency: options.sampleConcurrency ?? defaults.sampleConcurrency,
        maxQueuedSamples: options.maxQueuedSamples ?? defaults.maxQueuedSamples,
        limits: {
          ...defaults.limits,
          bodyBytes,
          bufferedBytes: Math.max(defaults.limits.bufferedBytes, bodyBytes)
        }
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
      const context = yield* Effect.context<Services>()
      const { pause, resume } = yield* futures.Gate
      const { setConfig, setDynamic } = yield* settings.ServerInfo
      const { limits } = yield* settings.Settings
      const engine = yield* Engine
      const { tokens } = yield* ledger.Ledger
      const { count } = yield* models.Models
      let requests = 0
      const owners = yield* accounts.Accounts
      const saved = yield* checkpoints.Checkpoints
      const trained = yield* runs.Runs
      const importAdapter: Service["importAdapter"] = Effect.fnUntraced(function*(snapshot, options) {
        const refuse = (description: string) => new ImportRefused({ description })
        if (!checkpointName.test(options.name)) {
          return yield* refuse(`${JSON.stringify(options.name)} cannot be the name of a checkpoint`)
        }
        const { apiKey = Redacted.make("tml-local"), name } = options
        const { urn } = yield* Effect.mapError(
          owners.authenticate(Redacted.value(apiKey)),
          () => refuse("the API key is not one of this server")
        )
        // Nothing is saved that the engine would refuse to load.
        const adapter = yield* Effect.mapError(engine.restoreAdapter(snapshot), (error) => refuse(error.message))
        const { baseModel, rank, trainAttn, trainMlp, trainUnembed } = adapter
        const id = yield* Entropy.uuid
        const userMetadata = { imported_as: name }
        yield* trained.create({ id, owner: urn, baseModel, rank, trainAttn, trainMlp, trainUnembed, userMetadata })
        const save = (kind: checkpoints.Kind) =>
          Effect.map(saved.save(snapshot, { runId: id, kind, name, owner: urn, userMetadata }), ({ path }) => path)
        return { training: yield* save("weights"), sampler: yield* save("sampler_weights") }
      })
      const served = profile.apply(options.profile ?? "0.36", routes)
      const handle = makeHandle({ routes: served, accounts: owners, faults: yield* Faults, limits })
      return LocalServer.of({
        handle: (request) =>
          Effect.suspend(() => {
            requests++
            return Effect.provide(handle(request), context)
          }),
        activity: Effect.sync(() => ({ requests, models: count(), tokens: tokens() })),
        yieldIfDue: engine.yieldIfDue,
        models: engine.models,
        importAdapter,
        endpoints: served.map(({ name }) => name),
        pause,
        resume,
        setClientConfig: setConfig,
        setDynamicConfig: setDynamic
      })
    })
  ).pipe(Layer.provide(layerState(options)))
