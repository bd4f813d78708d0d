/**
 * Runs, sessions and samplers over REST.
 */
import * as Api from "effect-tinker/wire/Api"
import { Cursor } from "effect-tinker/wire/Cursor"
import { ModelId, SamplingSessionId, SessionId } from "effect-tinker/wire/Id"
import { GetSamplerResponse } from "effect-tinker/wire/Sampler"
import { GetSessionResponse, ListSessionsResponse, TraceExportResponse } from "effect-tinker/wire/Session"
import * as SessionSearch from "effect-tinker/wire/SessionSearch"
import { TrainingRun, TrainingRunsResponse } from "effect-tinker/wire/TrainingRun"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Caller } from "../accounts.js"
import { AuditLog } from "../auditLog.js"
import type { CheckpointRecord } from "../checkpoints.js"
import { Checkpoints, toWire } from "../checkpoints.js"
import { Downloads } from "../downloads.js"
import { badRequest, notFound } from "../message.js"
import { route } from "../router.js"
import type { RunRecord } from "../runs.js"
import { Runs } from "../runs.js"
import { Samplers } from "../samplers.js"
import type { SessionRecord } from "../sessions.js"
import { Sessions } from "../sessions.js"
import { Trace } from "../trace.js"
import { page } from "./checkpoints.js"

const toRun = (run: RunRecord, checkpoints: ReadonlyArray<CheckpointRecord>): TrainingRun => {
  // newest first
  const last = (kind: CheckpointRecord["kind"]) => checkpoints.find((c) => c.runId === run.id && c.kind === kind)
  const training = last("weights")
  const sampler = last("sampler_weights")
  return new TrainingRun({
    trainingRunId: ModelId.make(run.id),
    baseModel: run.baseModel,
    modelOwner: run.owner,
    isLora: true,
    loraRank: run.rank,
    lastRequestTime: DateTime.unsafeMake(run.lastRequestAt),
    ...(training === undefined ? {} : { lastCheckpoint: toWire(training) }),
    ...(sampler === undefined ? {} : { lastSamplerCheckpoint: toWire(sampler) }),
    ...(run.userMetadata === undefined ? {} : { userMetadata: run.userMetadata })
  })
}

/** The project of a session that was given none. */
const defaultProject = "default"

const statusOf = ({ ended }: SessionRecord): SessionSearch.SessionStatus | undefined => {
  if (ended === undefined) return new SessionSearch.SessionActive()
  // it neither finished nor is known to be running
  if (ended.reason === "silent") return undefined
  return new SessionSearch.ClientSessionFinished({
    reason: new SessionSearch.ClientSessionFinishReason({ type: ended.reason }),
    ...(ended.detail === undefined ? {} : { detail: ended.detail })
  })
}

const hasStatus = (session: SessionRecord, query: SessionSearch.SessionStatusQuery): boolean => {
  const { ended } = session
  switch (query.type) {
    case "active":
      return ended === undefined
    case "client_finished":
      return ended !== undefined && ended.reason !== "silent" &&
        (query.reasons === undefined || query.reasons.includes(ended.reason))
    // nothing here fails or cancels a session as a whole
    case "cancelled":
    case "failed":
      return false
  }
}

const matches = (session: SessionRecord, request: SessionSearch.SessionSearchRequest, caller: Caller): boolean => {
  const { displayName, owner, projectIds, sessionId, statuses, userMetadata } = request
  const isOwner = owner.type === "user" ? owner.ownerUrns.includes(session.owner) : session.owner === caller.urn
  const words = displayName?.toLowerCase().split(/\s+/) ?? []
  const named = displayName !== undefined && words.every((word) => session.displayName?.toLowerCase().includes(word))
  const wanted = (sessionId === undefined && displayName === undefined) || session.id === sessionId || named
  return isOwner && wanted &&
    (projectIds === undefined || projectIds.includes(session.projectId ?? defaultProject)) &&
    Object.entries(userMetadata).every(([key, value]) => session.userMetadata?.[key] === value) &&
    (statuses === undefined || statuses.some((query) => hasStatus(session, query)))
}

/** One page of the sessions that match, newest first. */
const search = (request: SessionSearch.SessionSearchRequest, state: {
  readonly caller: Caller
  readonly sessions: ReadonlyArray<SessionRecord>
  readonly checkpoints: ReadonlyArray<CheckpointRecord>
}): SessionSearch.SessionSearchResponse => {
  const found = state.sessions.filter((session) => matches(session, request, state.caller))
  const after = request.cursor === undefined
    ? 0
    : found.findIndex(({ id }) => id === request.cursor?.lastSessionId) + 1
  const sessions = found.slice(after, after + request.limit)
  const last = sessions[sessions.length - 1]
  const more = last !== undefined && after + sessions.length < found.length
  return new SessionSearch.SessionSearchResponse({
    sessions: sessions.map((session) => {
      const saved = state.checkpoints.filter(({ sessionId }) => sessionId === session.id)
      const status = statusOf(session)
      return new SessionSearch.SessionSummary({
        sessionId: SessionId.make(session.id),
        createdAt: DateTime.unsafeMake(session.createdAt),
        owner: session.owner,
        projectId: session.projectId ?? defaultProject,
        checkpointsCount: saved.length,
        checkpointStorageBytes: saved.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
        ...(status === undefined ? {} : { status }),
        ...(session.displayName === undefined ? {} : { displayName: session.displayName }),
        ...(session.userMetadata === undefined ? {} : { userMetadata: session.userMetadata })
      })
    }),
    ...(more
      ? {
        nextCursor: new SessionSearch.SessionSearchCursor({
          lastCreatedAt: DateTime.formatIso(DateTime.unsafeMake(last.createdAt)),
          lastSessionId: last.id
        })
      }
      : {})
  })
}

/** @internal */
export const restRoutes = [
  route(Api.listTrainingRuns, (request, { caller }) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const runs = yield* Runs
      const cut = yield* page(request)
      const saved = yield* checkpoints.list
      const own = runs.all().filter(({ owner, projectId }) =>
        owner === caller.urn && (request.projectId === undefined || request.projectId === projectId)
      )
      return new TrainingRunsResponse({
        trainingRuns: cut(own).map((run) => toRun(run, saved)),
        cursor: new Cursor({ offset: request.offset, limit: request.limit, totalCount: own.length })
      })
    })),
  route(Api.getTrainingRun, (request, { caller }) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const runs = yield* Runs
      const run = runs.get(request.trainingRunId)
      if (run === undefined || run.owner !== caller.urn) {
        return yield* notFound(`Training run ${request.trainingRunId} not found`)
      }
      return toRun(run, yield* checkpoints.list)
    })),
  route(Api.getSampler, (request, { caller }) =>
    Effect.gen(function*() {
      const samplers = yield* Samplers
      const { baseModel, modelPath } = yield* samplers.require(request.samplerId, caller.urn)
      return new GetSamplerResponse({
        samplerId: request.samplerId,
        baseModel,
        ...(modelPath === undefined ? {} : { modelPath })
      })
    })),
  route(Api.listSessions, (request, { caller }) =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      const cut = yield* page(request)
      const own = sessions.all().filter(({ owner }) => owner === caller.urn)
      return new ListSessionsResponse({ sessions: cut(own).map(({ id }) => SessionId.make(id)) })
    })),
  route(Api.getSession, (request, { caller }) =>
    Effect.gen(function*() {
      const runs = yield* Runs
      const samplers = yield* Samplers
      const sessions = yield* Sessions
      const { displayName, id, userMetadata } = yield* sessions.require(request.sessionId, caller.urn)
      return new GetSessionResponse({
        trainingRunIds: runs.all().filter(({ sessionId }) => sessionId === id).map((run) => ModelId.make(run.id)),
        samplerIds: samplers.ofSession(id).map((sampler) => SamplingSessionId.make(sampler.id)),
        ...(userMetadata === undefined ? {} : { userMetadata }),
        ...(displayName === undefined ? {} : { displayName })
      })
    })),
  route(Api.searchSessions, (request, { caller }) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const sessions = yield* Sessions
      return search(request, { caller, sessions: sessions.all(), checkpoints: yield* checkpoints.list })
    })),
  route(Api.assignProject, (request, { caller }) =>
    Effect.gen(function*() {
      const audit = yield* AuditLog
      const runs = yield* Runs
      const sessions = yield* Sessions
      const { projectId } = request
      const { id } = yield* sessions.require(request.sessionId, caller.urn)
      if (projectId === "") return yield* badRequest("project_id must not be empty")
      yield* sessions.assignProject(id, projectId)
      yield* runs.assignProject(id, projectId)
      yield* audit.note(caller, { resource: "project", action: "session_assign", projectId, sessionId: id })
    })),
  route(Api.traceExport, (request, { base, caller }) =>
    Effect.gen(function*() {
      const downloads = yield* Downloads
      const sessions = yield* Sessions
      const trace = yield* Trace
      const { id } = yield* sessions.require(request.sessionId, caller.urn)
      const { path } = yield* downloads.offer({
        contentType: "application/octet-stream",
        content: Effect.succeed(trace.export(id))
      })
      return new TraceExportResponse({ status: "ready", url: base + path })
    }))
]
