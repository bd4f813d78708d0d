/**
 * One session: opened at first use, kept alive by heartbeats, its configuration kept fresh, finished with its scope.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Scope from "effect/Scope"
import * as SubscriptionRef from "effect/SubscriptionRef"
import * as Api from "../../Api.js"
import { ClientConfigRequest, ClientDynamicConfig } from "../../ClientConfig.js"
import type { SessionId } from "../../Id.js"
import * as RetryPolicy from "../../RetryPolicy.js"
import type * as ServiceClient from "../../ServiceClient.js"
import type { FinishReason } from "../../Session.js"
import { CreateSessionRequest } from "../../Session.js"
import * as TinkerConfig from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
import * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import type * as Telemetry from "../observability/telemetry.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as Input from "../transport/input.js"
import * as Startup from "../transport/startup.js"
import * as Turnstile from "../transport/turnstile.js"
import * as Heartbeat from "./heartbeat.js"

/** @internal */
export type Session = Pick<
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

/** The scope's end must not wait for a server that does not answer. */
const finishWithin = Duration.seconds(5)

const shortestRefresh = Duration.seconds(10)

const reasonOf = (exit: Exit.Exit<unknown, unknown>): FinishReason =>
  Exit.isSuccess(exit) ? "success" : Cause.isInterruptedOnly(exit.cause) ? "interrupted" : "errored"

/** @internal */
export const make: (
  api: ApiClient.Service,
  telemetry: Telemetry.Telemetry,
  options: ServiceClient.SessionOptions | undefined
) => Effect.Effect<Session, never, Scope.Scope> = Effect.fnUntraced(function*(api, telemetry, options) {
  const background = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
  const health = yield* SubscriptionRef.make<Heartbeat.Health>({ _tag: "NotStarted" })
  const dynamic = yield* Ref.make(Option.none<ClientDynamicConfig>())
  // One at a time, and a caller who leaves does not leave half a session behind.
  const line = yield* Turnstile.make(finished)
  let session: SessionId | undefined
  let outcome: Outcome | undefined
  let reported = false

  const clientConfig = Startup.configure(api, { from: from("clientConfig") })

  const fetchDynamic = (retry: boolean) =>
    api.call(Api.dynamicConfig, new ClientConfigRequest({ sdkVersion: TinkerConfig.wireVersion }), {
      from: from("dynamicConfig"),
      ...(retry ? {} : { retry: RetryPolicy.never })
    })

  const firstDynamic = Effect.gen(function*() {
    yield* clientConfig
    const known = yield* Ref.get(dynamic)
    if (Option.isSome(known)) return known.value
    const config = api.config.compatibility.dynamicConfig
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
    if (outcome !== undefined) return yield* finished
    if (session !== undefined) return session
    yield* firstDynamic
    const request = yield* Input.request(from("sessionId"), () =>
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
      if (answer.infoMessage !== undefined) yield* Effect.logInfo(answer.infoMessage)
      if (answer.warningMessage !== undefined) yield* Effect.logWarning(answer.warningMessage)
      if (answer.errorMessage !== undefined) yield* Effect.logError(answer.errorMessage)
    }).pipe(Logs.of("ServiceClient", { sessionId: session }))
    yield* SubscriptionRef.set(health, { _tag: "Alive" })
    yield* Effect.forkIn(Heartbeat.run(api, session, health), background)
    if (api.config.compatibility.dynamicConfig) yield* Effect.forkIn(refresh, background)
    return session
  })

  const sessionId = Effect.suspend(() => {
    if (outcome !== undefined) return finished
    return session === undefined ? line.take(open) : Effect.succeed(session)
  })

  const report = (sessionId: SessionId, { detail, reason }: Outcome) =>
    Effect.tap(
      api.call(Api.finishSession, { sessionId, reason: { type: reason }, detail }, { from: from("finish") }),
      () => {
        reported = true
        telemetry.sessionEnded()
      }
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
