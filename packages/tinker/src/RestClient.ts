/**
 * What the service knows: runs, checkpoints, sessions, samplers, billing and the audit log. Needs no session.
 *
 * @since 0.1.0
 */
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Stream from "effect/Stream"
import type * as Account from "./Account.js"
import * as Api from "./Api.js"
import type * as Audit from "./Audit.js"
import type * as Billing from "./Billing.js"
import type * as Capabilities from "./Capabilities.js"
import type * as Checkpoint from "./Checkpoint.js"
import type * as Credentials from "./Credentials.js"
import type * as Endpoint from "./Endpoint.js"
import type * as Id from "./Id.js"
import { paginate, paginateByCursor } from "./internal/paging.js"
import { archiveUrl } from "./internal/rest/archiveUrl.js"
import * as Caller from "./internal/rest/caller.js"
import { exportTrace } from "./internal/rest/traceExport.js"
import { whoami } from "./internal/rest/whoami.js"
import * as Telemetry from "./internal/telemetry.js"
import * as transport from "./internal/transport.js"
import type * as Sampler from "./Sampler.js"
import * as Session from "./Session.js"
import * as SessionSearch from "./SessionSearch.js"
import type * as TinkerConfig from "./TinkerConfig.js"
import * as TinkerError from "./TinkerError.js"
import type * as TrainingRun from "./TrainingRun.js"
import * as Weights from "./Weights.js"

type Call<A> = Caller.Call<A>
type Pages<A> = Stream.Stream<A, TinkerError.TinkerError>

/**
 * Which page of a list.
 *
 * @since 0.1.0
 * @category models
 */
export interface Page {
  readonly limit?: number | undefined
  /** Defaults to 0. */
  readonly offset?: number | undefined
}

/**
 * Whose things to look at.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scoped {
  /** Defaults to `owned`. */
  readonly accessScope?: TrainingRun.AccessScope | undefined
}

/**
 * How a list is read page by page.
 *
 * @since 0.1.0
 * @category models
 */
export interface Paging {
  /** Items asked for at once. Defaults to 100, for checkpoints to 1000. */
  readonly pageSize?: number | undefined
  /** Where in the list to begin. Defaults to 0. */
  readonly offset?: number | undefined
  /** Told after each page how many items there are in all, where the server says so. */
  readonly onTotal?: ((total: number) => Effect.Effect<void>) | undefined
}

/**
 * What can be asked and told without a session.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly getTrainingRun: (trainingRunId: string, options?: Scoped) => Call<TrainingRun.TrainingRun>
  /** The run a `tinker://` path belongs to. */
  readonly getTrainingRunByPath: (tinkerPath: string, options?: Scoped) => Call<TrainingRun.TrainingRun>
  /** One page, 20 runs unless told otherwise. */
  readonly listTrainingRuns: (
    options?: Page & Scoped & { readonly projectId?: string | undefined }
  ) => Call<TrainingRun.TrainingRunsResponse>
  /** All runs, newest first; a page is fetched when it is needed. */
  readonly streamTrainingRuns: (
    options?: Paging & Scoped & { readonly projectId?: string | undefined }
  ) => Pages<TrainingRun.TrainingRun>
  /** Works for anyone's public checkpoint too. */
  readonly getWeightsInfo: (tinkerPath: string) => Call<Weights.WeightsInfoResponse>
  /** All checkpoints of a run. */
  readonly listCheckpoints: (trainingRunId: string) => Call<Checkpoint.CheckpointsListResponse>
  /** The record of one checkpoint. */
  readonly getCheckpoint: (tinkerPath: string) => Call<Checkpoint.Checkpoint>
  /** One page of the checkpoints of all runs, 100 unless told otherwise. */
  readonly listUserCheckpoints: (options?: Page) => Call<Checkpoint.CheckpointsListResponse>
  /** The checkpoints of all runs, newest first; a page is fetched when it is needed. */
  readonly streamUserCheckpoints: (options?: Paging) => Pages<Checkpoint.Checkpoint>
  /**
   * A signed address of the checkpoint's archive; fetch it without any credential. While the server builds the
   * archive, it is asked again every half minute, six times in all.
   */
  readonly getCheckpointArchiveUrl: (tinkerPath: string) => Call<Checkpoint.CheckpointArchiveUrlResponse>
  /** Signed addresses of the files of an external checkpoint. */
  readonly getExternalWeightsUrls: (tinkerPath: string) => Call<Weights.ExternalWeightsUrlsResponse>
  readonly deleteCheckpoint: (tinkerPath: string) => Call<void>
  /** `Conflict` when it is public already. */
  readonly publishCheckpoint: (tinkerPath: string) => Call<void>
  /** `Conflict` when it is private already. */
  readonly unpublishCheckpoint: (tinkerPath: string) => Call<void>
  /** Counted from now; `null` removes the expiry. */
  readonly setCheckpointTtl: (tinkerPath: string, ttl: Duration.DurationInput | null) => Call<void>
  /** Copies a checkpoint into a project and yields the path of the copy. */
  readonly copyWeights: (tinkerPath: string, options?: {
    /** Defaults to the configured project. */
    readonly projectId?: string | undefined
    /** The copy never expires unless given. */
    readonly ttl?: Duration.DurationInput | undefined
    /** Who may read the source, when that is not the caller. */
    readonly weightsAccessToken?: Redacted.Redacted | undefined
  }) => Call<string>
  readonly getSession: (sessionId: string, options?: Scoped) => Call<Session.GetSessionResponse>
  /** One page, 20 sessions unless told otherwise. */
  readonly listSessions: (options?: Page & Scoped) => Call<Session.ListSessionsResponse>
  readonly streamSessions: (options?: Omit<Paging, "onTotal"> & Scoped) => Pages<Id.SessionId>
  /** One page of a search; experimental on the service's side. */
  readonly searchSessions: (
    request: SessionSearch.SessionSearchRequest
  ) => Call<SessionSearch.SessionSearchResponse>
  /** All sessions a search finds. */
  readonly streamSessionSearch: (request: SessionSearch.SessionSearchRequest) => Pages<SessionSearch.SessionSummary>
  /** Moves a session, its runs and its samplers. It cannot be undone, only moved on. */
  readonly assignSessionProject: (sessionId: string, projectId: string) => Call<void>
  /** Waits until the trace is built and yields its signed address. */
  readonly exportSessionTrace: (sessionId: string, options?: {
    /** Between two looks. Defaults to 5 seconds. */
    readonly interval?: Duration.DurationInput | undefined
    /** Defaults to 30 minutes. */
    readonly timeout?: Duration.DurationInput | undefined
    readonly onPending?: ((elapsed: Duration.Duration) => Effect.Effect<void>) | undefined
  }) => Call<string>
  readonly getSampler: (samplerId: string) => Call<Sampler.GetSamplerResponse>
  /** One UTC day, today unless told otherwise. */
  readonly getAuditLog: (options?: {
    readonly eventType?: Audit.AuditEventType | undefined
    readonly day?: DateTime.Utc | undefined
  }) => Call<Audit.AuditLogResponse>
  /** Usage by the hour; both ends on full UTC hours, at most 14 days apart. */
  readonly getBillingUsage: (window: {
    readonly startingOn: DateTime.Utc
    readonly endingBefore: DateTime.Utc
  }) => Call<Billing.BillingUsageResponse>
  readonly getCheckpointStorageUsage: (options?: {
    readonly projectId?: string | undefined
  }) => Call<Billing.CurrentCheckpointStorageUsageResponse>
  /** Who the credential belongs to, read from the token the server gives for it. */
  readonly whoami: Call<Account.WhoamiResponse>
  /** The API key that is presented: its name and owner. */
  readonly getApiKey: Call<Account.ApiKeyResponse>
  /** Deletes the API key that is presented, for good. */
  readonly deleteApiKey: Call<void>
  readonly getServerCapabilities: Call<Capabilities.GetServerCapabilitiesResponse>
}

/**
 * The client as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class RestClient extends Context.Tag("effect-tinker/RestClient")<RestClient, Service>() {}

/** @internal */
export const fromTransport = (via: transport.Service): Service => {
  const caller = Caller.make(via)
  const { call } = caller

  const onCheckpoint = (
    method: string,
    endpoint: Endpoint.Endpoint<Api.CheckpointRequest, void>
  ) =>
  (tinkerPath: string): Call<void> =>
    Effect.flatMap(
      Caller.checkpointPath(method, tinkerPath),
      ({ checkpointId, trainingRunId }) => call(method, endpoint, { checkpointId, trainingRunId })
    )

  const getTrainingRun = (method: string, trainingRunId: Id.ModelId, options?: Scoped, from?: transport.CallOptions) =>
    call(method, Api.getTrainingRun, { trainingRunId, accessScope: options?.accessScope ?? "owned" }, from)

  const listTrainingRuns: Service["listTrainingRuns"] = (options = {}) =>
    call("listTrainingRuns", Api.listTrainingRuns, {
      limit: options.limit ?? 20,
      offset: options.offset ?? 0,
      accessScope: options.accessScope ?? "owned",
      projectId: options.projectId
    })

  const listCheckpoints: Service["listCheckpoints"] = (trainingRunId) =>
    Effect.flatMap(
      Caller.runId("listCheckpoints", trainingRunId),
      (trainingRunId) => call("listCheckpoints", Api.listCheckpoints, { trainingRunId })
    )

  const listUserCheckpoints: Service["listUserCheckpoints"] = (options = {}) =>
    call("listUserCheckpoints", Api.listUserCheckpoints, { limit: options.limit ?? 100, offset: options.offset ?? 0 })

  const listSessions: Service["listSessions"] = (options = {}) =>
    call("listSessions", Api.listSessions, {
      limit: options.limit ?? 20,
      offset: options.offset ?? 0,
      accessScope: options.accessScope ?? "owned"
    })

  const searchSessions: Service["searchSessions"] = (request) => call("searchSessions", Api.searchSessions, request)

  return RestClient.of({
    getTrainingRun: (trainingRunId, options) =>
      Effect.flatMap(
        Caller.runId("getTrainingRun", trainingRunId),
        (trainingRunId) => getTrainingRun("getTrainingRun", trainingRunId, options)
      ),
    getTrainingRunByPath: (tinkerPath, options) =>
      Effect.flatMap(
        Caller.checkpointPath("getTrainingRunByPath", tinkerPath),
        ({ trainingRunId }) =>
          getTrainingRun("getTrainingRunByPath", trainingRunId, options, {
            headers: { "x-sdk-method": "get_training_run_by_tinker_path" }
          })
      ),
    listTrainingRuns,
    streamTrainingRuns: (options = {}) =>
      paginate(
        { ...options, pageSize: options.pageSize ?? 100 },
        (limit, offset) =>
          Effect.map(listTrainingRuns({ ...options, limit, offset }), ({ cursor, trainingRuns }) => ({
            items: trainingRuns,
            total: cursor.totalCount
          }))
      ),
    getWeightsInfo: (tinkerPath) =>
      call("getWeightsInfo", Api.weightsInfo, new Weights.WeightsInfoRequest({ tinkerPath })),
    listCheckpoints,
    getCheckpoint: Effect.fnUntraced(function*(tinkerPath) {
      const { trainingRunId } = yield* Caller.checkpointPath("getCheckpoint", tinkerPath)
      const { checkpoints } = yield* listCheckpoints(trainingRunId)
      const found = checkpoints.find((checkpoint) => checkpoint.tinkerPath === tinkerPath)
      return found ?? (yield* new TinkerError.NotFound({
        module: Caller.module,
        method: "getCheckpoint",
        description: `${tinkerPath} is not among the ${checkpoints.length} checkpoints of its run`
      }))
    }),
    listUserCheckpoints,
    streamUserCheckpoints: (options = {}) =>
      paginate(
        { ...options, pageSize: options.pageSize ?? 1000 },
        (limit, offset) =>
          Effect.map(listUserCheckpoints({ limit, offset }), ({ checkpoints, cursor }) => ({
            items: checkpoints,
            total: cursor?.totalCount
          }))
      ),
    getCheckpointArchiveUrl: (tinkerPath) =>
      Effect.flatMap(
        Caller.checkpointPath("getCheckpointArchiveUrl", tinkerPath),
        (path) => archiveUrl(caller, path)
      ),
    getExternalWeightsUrls: Effect.fnUntraced(function*(tinkerPath) {
      const method = "getExternalWeightsUrls"
      const parsed = yield* Caller.checkpointPath(method, tinkerPath)
      if (parsed.checkpointType !== "external") {
        return yield* Caller.invalid(method, `${tinkerPath} is not external: tinker://RUN/external_weights/NAME`)
      }
      return yield* call(method, Api.externalWeightsUrls, {
        checkpointId: parsed.checkpointId,
        trainingRunId: parsed.trainingRunId
      })
    }),
    deleteCheckpoint: onCheckpoint("deleteCheckpoint", Api.deleteCheckpoint),
    publishCheckpoint: onCheckpoint("publishCheckpoint", Api.publishCheckpoint),
    unpublishCheckpoint: onCheckpoint("unpublishCheckpoint", Api.unpublishCheckpoint),
    setCheckpointTtl: Effect.fnUntraced(function*(tinkerPath, ttl) {
      const method = "setCheckpointTtl"
      const { checkpointId, trainingRunId } = yield* Caller.checkpointPath(method, tinkerPath)
      const ttlSeconds = ttl === null ? null : Math.round(Duration.toSeconds(ttl))
      if (ttlSeconds !== null && ttlSeconds <= 0) {
        return yield* Caller.invalid(method, "the time to live must be positive")
      }
      return yield* call(method, Api.setCheckpointTtl, { checkpointId, trainingRunId, ttlSeconds })
    }),
    copyWeights: Effect.fnUntraced(function*(tinkerPath, options = {}) {
      const method = "copyWeights"
      yield* Caller.checkpointPath(method, tinkerPath)
      const projectId = options.projectId ?? Option.getOrUndefined(via.config.projectId)
      if (projectId === undefined) {
        return yield* Caller.invalid(method, "give the project of the copy, or configure one (TINKER_PROJECT_ID)")
      }
      const request = new Weights.CopyWeightsRequest({
        sourcePath: tinkerPath,
        destinationProjectId: projectId,
        ttlSeconds: options.ttl === undefined ? undefined : Math.round(Duration.toSeconds(options.ttl))
      })
      const headers = options.weightsAccessToken === undefined
        ? {}
        : { "x-tinker-weights-access-token": Redacted.value(options.weightsAccessToken) }
      return (yield* call(method, Api.copyWeights, request, { headers })).tinkerPath
    }),
    getSession: (sessionId, options) =>
      Effect.flatMap(
        Caller.sessionId("getSession", sessionId),
        (sessionId) => call("getSession", Api.getSession, { sessionId, accessScope: options?.accessScope ?? "owned" })
      ),
    listSessions,
    streamSessions: (options = {}) =>
      paginate({ ...options, pageSize: options.pageSize ?? 100 }, (limit, offset) =>
        Effect.map(
          listSessions({ ...options, limit, offset }),
          ({ sessions }) => ({ items: sessions, total: undefined })
        )),
    searchSessions,
    streamSessionSearch: (request) =>
      paginateByCursor(request.cursor, (cursor) =>
        Effect.map(
          searchSessions(new SessionSearch.SessionSearchRequest({ ...request, cursor })),
          ({ nextCursor, sessions }) => ({ items: sessions, next: nextCursor })
        )),
    assignSessionProject: (sessionId, projectId) =>
      Effect.flatMap(
        Caller.sessionId("assignSessionProject", sessionId),
        (sessionId) =>
          call("assignSessionProject", Api.assignProject, {
            ...new Session.AssignProjectRequest({ projectId }),
            sessionId
          })
      ),
    exportSessionTrace: (sessionId, options = {}) =>
      Effect.flatMap(
        Caller.sessionId("exportSessionTrace", sessionId),
        (sessionId) => exportTrace(caller, sessionId, options)
      ),
    getSampler: (samplerId) =>
      Effect.flatMap(
        Caller.samplerId("getSampler", samplerId),
        (samplerId) => call("getSampler", Api.getSampler, { samplerId })
      ),
    getAuditLog: (options = {}) =>
      call("getAuditLog", Api.audit, {
        eventType: options.eventType ?? "all",
        day: options.day === undefined ? undefined : DateTime.formatIsoDateUtc(options.day)
      }),
    getBillingUsage: (window) => call("getBillingUsage", Api.billingUsage, window),
    getCheckpointStorageUsage: (options = {}) =>
      call("getCheckpointStorageUsage", Api.checkpointStorage, { projectId: options.projectId }),
    whoami: whoami(caller),
    getApiKey: via.call(Api.apiKeyInfo, {}, { from: { module: Caller.module, method: "getApiKey" } }),
    deleteApiKey: via.call(Api.deleteApiKey, {}, { from: { module: Caller.module, method: "deleteApiKey" } }),
    getServerCapabilities: call("getServerCapabilities", Api.capabilities, {})
  })
}

/**
 * A client of the configured server.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<
  RestClient,
  never,
  TinkerConfig.TinkerConfig | Credentials.Credentials | HttpClient.HttpClient
> = Layer.scoped(
  RestClient,
  Effect.flatMap(transport.Transport, (via) => Effect.as(Telemetry.make(via), fromTransport(via)))
).pipe(Layer.provide(transport.layer))
