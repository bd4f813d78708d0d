/**
 * Finding sessions by what is known about them.
 */
import { SessionId } from "effect-tinker/wire/Id"
import * as SessionSearch from "effect-tinker/wire/SessionSearch"
import * as DateTime from "effect/DateTime"
import type { Caller } from "./accounts.js"
import type { CheckpointRecord } from "./checkpoints.js"
import type { SessionRecord } from "./sessions.js"

/** The project of a session that was given none. */
const defaultProject = "default"

const statusOf = ({ ended }: SessionRecord): SessionSearch.SessionStatus | undefined => {
  if (ended === undefined) return new SessionSearch.SessionActive()
  // it neither finished nor is it known to be running
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

/** One page of the sessions that match, newest first. @internal */
export const search = (request: SessionSearch.SessionSearchRequest, state: {
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
