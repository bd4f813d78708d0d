/**
 * The REST client over a transport: each method checks what it was given, and calls its endpoint.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Api from "../../Api.js"
import type * as Endpoint from "../../Endpoint.js"
import type * as Id from "../../Id.js"
import type { Scoped, Service } from "../../RestClient.js"
import * as Session from "../../Session.js"
import * as SessionSearch from "../../SessionSearch.js"
import * as TinkerError from "../../TinkerError.js"
import * as Weights from "../../Weights.js"
import * as Creation from "../training/creation.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as ErrorChannel from "../transport/errorChannel.js"
import { archiveUrl } from "./archiveUrl.js"
import * as Caller from "./caller.js"
import { paginate, paginateByCursor } from "./paging.js"
import { exportTrace } from "./traceExport.js"
import { whoami } from "./whoami.js"

type Call<A> = Caller.Call<A>

const secondsOf = (method: string, ttl: Duration.DurationInput): Call<number> => {
  const seconds = Math.round(Duration.toSeconds(ttl))
  return seconds > 0 && Number.isSafeInteger(seconds)
    ? Effect.succeed(seconds)
    : Caller.invalid(method, "the time to live must be positive, and finite")
}

/** @internal */
export const make = (via: ApiClient.Service): Service => {
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

  const getTrainingRun = (method: string, trainingRunId: Id.ModelId, options?: Scoped, from?: ApiClient.CallOptions) =>
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

  return {
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
      Effect.flatMap(
        Caller.request("getWeightsInfo", () => new Weights.WeightsInfoRequest({ tinkerPath })),
        (request) => call("getWeightsInfo", Api.weightsInfo, request)
      ),
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
      const ttlSeconds = ttl === null ? null : yield* secondsOf(method, ttl)
      return yield* call(method, Api.setCheckpointTtl, { checkpointId, trainingRunId, ttlSeconds })
    }),
    copyWeights: Effect.fnUntraced(function*(tinkerPath, options = {}) {
      const method = "copyWeights"
      yield* Caller.checkpointPath(method, tinkerPath)
      const projectId = options.projectId ?? Option.getOrUndefined(via.config.projectId)
      if (projectId === undefined) {
        return yield* Caller.invalid(method, "give the project of the copy, or configure one (TINKER_PROJECT_ID)")
      }
      const ttlSeconds = options.ttl === undefined ? undefined : yield* secondsOf(method, options.ttl)
      const request = yield* Caller.request(
        method,
        () => new Weights.CopyWeightsRequest({ sourcePath: tinkerPath, destinationProjectId: projectId, ttlSeconds })
      )
      const token = Creation.token(options.weightsAccessToken)
      const headers = token === undefined ? {} : { "x-tinker-weights-access-token": token }
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
    assignSessionProject: Effect.fnUntraced(function*(given, projectId) {
      const method = "assignSessionProject"
      const sessionId = yield* Caller.sessionId(method, given)
      const request = yield* Caller.request(method, () => new Session.AssignProjectRequest({ projectId }))
      return yield* call(method, Api.assignProject, { ...request, sessionId })
    }),
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
    getApiKey: ErrorChannel.request(
      via.call(Api.apiKeyInfo, {}, { from: { module: Caller.module, method: "getApiKey" } })
    ),
    deleteApiKey: ErrorChannel.request(
      via.call(Api.deleteApiKey, {}, { from: { module: Caller.module, method: "deleteApiKey" } })
    ),
    getServerCapabilities: call("getServerCapabilities", Api.capabilities, {})
  }
}
