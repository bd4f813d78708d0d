/**
 * One session: opened at first use, kept alive by heartbeats, its configuration kept fresh, finished with its scope.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Scope from "effect/Scope"
import * as SubscriptionRef from "effect/SubscriptionRef"
import * as RetryPolicy from "../../RetryPolicy.js"
import type * as ServiceClient from "../../ServiceClient.js"
import * as TinkerConfig from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import { ClientConfigRequest, ClientDynamicConfig } from "../../wire/ClientConfig.js"
import type { ModelId, SessionId } from "../../wire/Id.js"
import { UnloadModelRequest } from "../../wire/Model.js"
import type { FinishReason } from "../../wire/Session.js"
import { CreateSessionRequest, SessionHeartbeatRequest } from "../../wire/Session.js"
import * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import type * as Telemetry from "../observability/telemetry.js"
import * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as Errors from "../transport/errors.js"
import * as SharedConfig from "./clientConfig.js"

// -----------------------------------------------------------------------------
// Heartbeats that keep a session alive, and its health.
// -----------------------------------------------------------------------------

/** @internal */
export type Health =
  | { readonly _tag: "NotStarted" }
  | { readonly _tag: "Alive" }
  | { readonly _tag: "Failing"; readonly duration: Duration.Duration; readonly error: TinkerError.TinkerError }
  | { readonly _tag: "Ended" }

const period = Duration.seconds(10)

/** A single missed beat may be a coincidence; from the second one on it is logged, at most once a minute. */
const warnAfter = 15_000
const warnEvery = 60_000

/** A server that refuses is a different problem from one that does not respond. */
const heartbeatProblem = (error: TinkerError.TinkerError, since: string): string => {
  const answer = error.description === undefined ? "" : `: ${error.description}`
  switch (error._tag) {
    case "NotFound":
      return `the server does not know it (status ${error.status}${answer}), as after a restart with an empty database; ` +
        "models in training there are lost, resume from a checkpoint"
    case "Unsupported":
      return "the server takes no heartbeats and may end it at any time"
    default:
      return `no heartbeat succeeded for ${since} (${
        error.status === undefined ? error._tag : `status ${error.status}`
      }${answer}); the server ends it if this continues`
  }
}

/**
 * Beats until the server says that the session has ended.
 *
 * @internal
 */
export const runHeartbeat = Effect.fnUntraced(function*(
  api: ApiClient.Service,
  sessionId: SessionId,
  health: SubscriptionRef.SubscriptionRef<Health>
) {
  const beat = api.call(Api.heartbeat, new SessionHeartbeatRequest({ sessionId }), {
    from: { module: "ServiceClient", method: "heartbeat" }
  })
  let alive = yield* Clock.currentTimeMillis
  let warned = Number.NEGATIVE_INFINITY
  let failing = false
  while (true) {
    yield* Effect.sleep(period)
    const answer = yield* Effect.either(beat)
    const now = yield* Clock.currentTimeMillis
    if (Either.isRight(answer)) {
      if (warned > alive) yield* Effect.logInfo(`Session ${sessionId} is reachable again`)
      if (failing) yield* SubscriptionRef.set(health, { _tag: "Alive" })
      failing = false
      alive = now
      continue
    }
    const error = answer.left
    if (error.status === 410) {
      yield* SubscriptionRef.set(health, { _tag: "Ended" })
      return yield* Effect.logInfo(`Session ${sessionId} has ended: no more heartbeats`)
    }
    failing = true
    yield* SubscriptionRef.set(health, { _tag: "Failing", duration: Duration.millis(now - alive), error })
    if (now - alive > warnAfter && now - warned >= warnEvery) {
      warned = now
      const since = Duration.format(Duration.seconds(Math.round((now - alive) / 1000)))
      yield* Effect.logWarning(`Session ${sessionId}: ${heartbeatProblem(error, since)}`)
    }
  }
}, (beating) =>
  // A beat every ten seconds is noise among spans.
  Effect.withTracerEnabled(beating, false).pipe(
    Logs.of("Heartbeat")
  ))

// -----------------------------------------------------------------------------
// What the clients of one `ServiceClient` share: its session, the API client, and the numbers the session
// hands out.
// -----------------------------------------------------------------------------

/** @internal */
export interface ServiceContext extends Pick<Session, "sessionId" | "clientConfig" | "dynamicConfig"> {
  readonly api: ApiClient.Service
  readonly budgets: SharedConfig.Budgets
  readonly nextModelSeqId: () => number
  readonly nextSamplingSessionSeqId: () => number
  readonly nextCustomLossSeqId: () => number
}

/** @internal */
export const makeServiceContext = (api: ApiClient.Service, session: Session): ServiceContext => {
  let models = 0
  let samplers = 0
  let losses = 0
  return {
    sessionId: session.sessionId,
    clientConfig: session.clientConfig,
    dynamicConfig: session.dynamicConfig,
    api,
    budgets: SharedConfig.budgets(api),
    nextModelSeqId: () => models++,
    nextSamplingSessionSeqId: () => samplers++,
    nextCustomLossSeqId: () => losses++
  }
}

// -----------------------------------------------------------------------------
// Sessions.
// -----------------------------------------------------------------------------

type Session = Pick<
  ServiceClient.Service,
  "sessionId" | "clientConfig" | "dynamicConfig" | "health" | "healthChanges" | "finish"
>

interface Outcome {
  readonly reason: FinishReason
  readonly detail: string | null
}

const from = (method: string) => ({ module: "ServiceClient", method })

const finished = Effect.failSync(() =>
  new TinkerError.Closed({ ...from("sessionId"), description: "the session is finished" })
)

/** Closing the scope must not wait for a server that does not respond. */
const finishWithin = Duration.seconds(5)

const shortestRefresh = Duration.seconds(10)

const reasonOf = (exit: Exit.Exit<unknown, unknown>): FinishReason =>
  Exit.isSuccess(exit) ? "success" : Cause.isInterruptedOnly(exit.cause) ? "interrupted" : "errored"

/** @internal */
export const make: (
  api: ApiClient.Service,
  telemetry: Telemetry.Telemetry,
  options: ServiceClient.SessionOptions | undefined,
  /** Those created in the session. */
  models: ReadonlySet<ModelId>
) => Effect.Effect<Session, never, Scope.Scope> = Effect.fnUntraced(function*(api, telemetry, options, models) {
  const background = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
  const health = yield* SubscriptionRef.make<Health>({ _tag: "NotStarted" })
  const dynamic = yield* Ref.make(Option.none<ClientDynamicConfig>())
  // One at a time, and an interrupted caller does not leave half a session behind.
  const line = yield* Admission.makeTurnstile(finished)
  let session: SessionId | undefined
  let outcome: Outcome | undefined
  let reported = false

  const clientConfig = SharedConfig.configure(api, { from: from("clientConfig") })

  const fetchDynamic = (retry: boolean) =>
    api.call(Api.dynamicConfig, new ClientConfigRequest({ sdkVersion: TinkerConfig.wireVersion }), {
      from: from("dynamicConfig"),
      ...(retry ? {} : { retry: RetryPolicy.never })
    })

  const askDynamic = Effect.suspend(() => {
    const found = (present: boolean, config: ClientDynamicConfig) => {
      api.serverFacts.foundDynamicConfig(present)
      return config
    }
    const absent = () => Effect.sync(() => found(false, new ClientDynamicConfig()))
    return fetchDynamic(true).pipe(
      Effect.map((config) => found(true, config)),
      Effect.catchTags({ NotFound: absent, Unsupported: absent })
    )
  })

  const firstDynamic = Effect.gen(function*() {
    yield* clientConfig
    const known = yield* Ref.get(dynamic)
    if (Option.isSome(known)) return known.value
    const config = api.serverFacts.asksDynamicConfig() ? yield* askDynamic : new ClientDynamicConfig()
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
    if (outcome !== undefined) return yield* finished
    if (session !== undefined) return session
    yield* firstDynamic
    const request = yield* Errors.buildRequest(from("sessionId"), () =>
      new CreateSessionRequest({
        tags: api.config.tags,
        userMetadata: options?.userMetadata ?? {},
        sdkVersion: TinkerConfig.wireVersion,
        projectId: Option.getOrUndefined(api.config.projectId),
        displayName: options?.displayName
      }))
    const answer = yield* api.call(Api.createSession, request, { from: from("sessionId") })
    session = answer.sessionId
    if (outcome !== undefined) {
      // Finished before there was a session to finish.
      yield* Effect.ignore(report(session, outcome))
      return yield* finished
    }
    telemetry.sessionStarted(session)
    yield* Effect.gen(function*() {
      if (answer.infoMessage !== undefined) yield* Effect.logInfo(yield* api.said(answer.infoMessage))
      if (answer.warningMessage !== undefined) yield* Effect.logWarning(yield* api.said(answer.warningMessage))
      if (answer.errorMessage !== undefined) yield* Effect.logError(yield* api.said(answer.errorMessage))
    }).pipe(Logs.of("ServiceClient", { sessionId: session }))
    yield* SubscriptionRef.set(health, { _tag: "Alive" })
    yield* Effect.forkIn(runHeartbeat(api, session, health), background)
    if (api.serverFacts.asksDynamicConfig()) yield* Effect.forkIn(refresh, background)
    return session
  })

  const sessionId = Effect.suspend(() => {
    if (outcome !== undefined) return finished
    return session === undefined ? line.take(open) : Effect.succeed(session)
  })

  /** A server that cannot finish a session keeps its models, and their memory, until the session times out. */
  const unload = Effect.suspend(() =>
    api.serverFacts.unloadsModels()
      ? Effect.forEach(
        models,
        (modelId) =>
          Effect.ignore(
            api.call(Api.unloadModel, new UnloadModelRequest({ modelId }), {
              from: from("finish"),
              retry: RetryPolicy.never
            })
          ),
        { concurrency: 8, discard: true }
      )
      : Effect.void
  )

  const report = (sessionId: SessionId, { detail, reason }: Outcome) =>
    api.call(Api.finishSession, { sessionId, reason: { type: reason }, detail }, { from: from("finish") }).pipe(
      Effect.catchTag("Unsupported", () => unload),
      Effect.tap(() => {
        reported = true
        telemetry.sessionEnded()
      })
    )

  const finish: Session["finish"] = (reason, detail) =>
    Effect.suspend(() => {
      outcome ??= { reason, detail: detail ?? null }
      if (session === undefined || reported) return Effect.void
      return Scope.close(background, Exit.void).pipe(
        Effect.zipRight(SubscriptionRef.set(health, { _tag: "Ended" })),
        Effect.zipRight(report(session, outcome)),
        (self) => Observer.reported(api.emit, self)
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

  return {
    sessionId,
    clientConfig,
    dynamicConfig: Effect.flatMap(
      Ref.get(dynamic),
      Option.match({ onNone: () => firstDynamic, onSome: Effect.succeed })
    ),
    health: SubscriptionRef.get(health),
    healthChanges: health.changes,
    finish
  }
})
