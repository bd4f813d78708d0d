/**
 * Searching the sessions of an organization, and the state a session is in.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  Instant,
  lenient,
  open,
  optional,
  parseInstant,
  required,
  strict,
  StringRecord,
  tag,
  taggedJson,
  withDefault
} from "../internal/wire/json.js"
import { SessionId } from "./Id.js"
import { FinishReason } from "./Session.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/SessionSearch/${name}` as const

// -----------------------------------------------------------------------------
// Whose sessions are searched, and in which state.
// -----------------------------------------------------------------------------

/**
 * Only one's own sessions.
 *
 * @since 0.1.0
 * @category schemas
 */
export class OwnSearchOwner extends Schema.Class<OwnSearchOwner>(id("OwnSearchOwner"))({
  type: tag("own")
}, strict) {}

/**
 * Every session one may see.
 *
 * @since 0.1.0
 * @category schemas
 */
export class AccessibleSearchOwner extends Schema.Class<AccessibleSearchOwner>(id("AccessibleSearchOwner"))({
  type: tag("accessible")
}, strict) {}

/**
 * The sessions of one to ten users.
 *
 * @since 0.1.0
 * @category schemas
 */
export class UserSearchOwner extends Schema.Class<UserSearchOwner>(id("UserSearchOwner"))({
  type: tag("user"),
  ownerUrns: required(Schema.Array(Schema.String).pipe(Schema.minItems(1), Schema.maxItems(10)), "owner_urns")
}, strict) {}

/**
 * Whose sessions to search.
 *
 * @since 0.1.0
 * @category schemas
 */
export const SearchOwner: Schema.Union<
  [typeof OwnSearchOwner, typeof AccessibleSearchOwner, typeof UserSearchOwner]
> = Schema.Union(OwnSearchOwner, AccessibleSearchOwner, UserSearchOwner)

/**
 * Whose sessions to search.
 *
 * @since 0.1.0
 * @category models
 */
export type SearchOwner = typeof SearchOwner.Type

/**
 * Sessions that are alive.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ActiveSessionStatusQuery extends Schema.Class<ActiveSessionStatusQuery>(id("ActiveSessionStatusQuery"))({
  type: tag("active")
}, strict) {}

/**
 * Sessions that were cancelled.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CancelledSessionStatusQuery
  extends Schema.Class<CancelledSessionStatusQuery>(id("CancelledSessionStatusQuery"))({
    type: tag("cancelled")
  }, strict)
{}

/**
 * Sessions that failed.
 *
 * @since 0.1.0
 * @category schemas
 */
export class FailedSessionStatusQuery extends Schema.Class<FailedSessionStatusQuery>(id("FailedSessionStatusQuery"))({
  type: tag("failed")
}, strict) {}

/**
 * Sessions that their clients finished.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ClientFinishedSessionStatusQuery
  extends Schema.Class<ClientFinishedSessionStatusQuery>(id("ClientFinishedSessionStatusQuery"))({
    type: tag("client_finished"),
    /** Any reason when absent. */
    reasons: optional(Schema.Array(FinishReason).pipe(Schema.minItems(1)), "reasons")
  }, strict)
{}

/**
 * A state to search for.
 *
 * @since 0.1.0
 * @category schemas
 */
export const SessionStatusQuery: Schema.Union<[
  typeof ActiveSessionStatusQuery,
  typeof CancelledSessionStatusQuery,
  typeof FailedSessionStatusQuery,
  typeof ClientFinishedSessionStatusQuery
]> = Schema.Union(
  ActiveSessionStatusQuery,
  CancelledSessionStatusQuery,
  FailedSessionStatusQuery,
  ClientFinishedSessionStatusQuery
)

/**
 * Which states to search for.
 *
 * @since 0.1.0
 * @category models
 */
export type SessionStatusQuery = typeof SessionStatusQuery.Type

// -----------------------------------------------------------------------------
// The state a session is in, and why.
// -----------------------------------------------------------------------------

/**
 * The session is in use.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionActive extends Schema.Class<SessionActive>(id("SessionActive"))({
  type: tag("active")
}, lenient) {}

/**
 * The session was cancelled.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionCancelled extends Schema.Class<SessionCancelled>(id("SessionCancelled"))({
  type: tag("cancelled"),
  detail: optional(Schema.String, "detail")
}, lenient) {}

/**
 * Why a client finished its session, as the server reports it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ClientSessionFinishReason
  extends Schema.Class<ClientSessionFinishReason>(id("ClientSessionFinishReason"))({
    type: open("success", "errored", "interrupted")
  }, lenient)
{}

/**
 * The client finished the session, and said why.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ClientSessionFinished extends Schema.Class<ClientSessionFinished>(id("ClientSessionFinished"))({
  type: tag("client_finished"),
  reason: ClientSessionFinishReason,
  detail: optional(Schema.String, "detail")
}, lenient) {}

/**
 * A request that failed brought the session down.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionFailedRequestReason
  extends Schema.Class<SessionFailedRequestReason>(id("SessionFailedRequestReason"))({
    type: tag("request"),
    requestId: required(Schema.String, "request_id"),
    requestType: required(Schema.String, "request_type")
  }, lenient)
{}

/**
 * A training run that failed brought the session down.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionFailedTrainingRunReason
  extends Schema.Class<SessionFailedTrainingRunReason>(id("SessionFailedTrainingRunReason"))({
    type: tag("training_run"),
    trainingRunId: required(Schema.String, "training_run_id")
  }, lenient)
{}

/**
 * A sampler that failed brought the session down.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionFailedSamplingSessionReason
  extends Schema.Class<SessionFailedSamplingSessionReason>(id("SessionFailedSamplingSessionReason"))({
    type: tag("sampling_session"),
    samplingSessionId: required(Schema.String, "sampling_session_id")
  }, lenient)
{}

/**
 * A variant this version does not know, as the wire has it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Unrecognized {
  readonly type: string
  readonly [key: string]: unknown
}

/**
 * Something this version does not know.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Unrecognized: Schema.Schema<Unrecognized> = taggedJson("Unrecognized")

/**
 * Cause of a session's end.
 *
 * @since 0.1.0
 * @category schemas
 */
export const SessionFailedReason: Schema.Union<[
  typeof SessionFailedRequestReason,
  typeof SessionFailedTrainingRunReason,
  typeof SessionFailedSamplingSessionReason,
  typeof Unrecognized
]> = Schema.Union(
  SessionFailedRequestReason,
  SessionFailedTrainingRunReason,
  SessionFailedSamplingSessionReason,
  Unrecognized
)

/**
 * Why a session failed.
 *
 * @since 0.1.0
 * @category models
 */
export type SessionFailedReason = typeof SessionFailedReason.Type

/**
 * The session failed.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionFailed extends Schema.Class<SessionFailed>(id("SessionFailed"))({
  type: tag("failed"),
  category: open("user", "internal"),
  reason: SessionFailedReason,
  message: Schema.String
}, lenient) {}

/**
 * The state a session is in.
 *
 * @since 0.1.0
 * @category schemas
 */
export const SessionStatus: Schema.Union<[
  typeof SessionFailed,
  typeof SessionCancelled,
  typeof ClientSessionFinished,
  typeof SessionActive,
  typeof Unrecognized
]> = Schema.Union(SessionFailed, SessionCancelled, ClientSessionFinished, SessionActive, Unrecognized)

/**
 * Where a session stands.
 *
 * @since 0.1.0
 * @category models
 */
export type SessionStatus = typeof SessionStatus.Type

// -----------------------------------------------------------------------------
// Searching sessions.
// -----------------------------------------------------------------------------

/**
 * A session as a search finds it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionSummary extends Schema.Class<SessionSummary>(id("SessionSummary"))({
  sessionId: required(SessionId, "session_id"),
  createdAt: required(Instant, "created_at"),
  owner: Schema.String,
  projectId: required(Schema.String, "project_id"),
  status: optional(SessionStatus, "status"),
  checkpointsCount: required(Schema.Int, "checkpoints_count"),
  displayName: optional(Schema.String, "display_name"),
  userMetadata: optional(StringRecord, "user_metadata"),
  checkpointStorageBytes: optional(Schema.Int, "checkpoint_storage_bytes")
}, lenient) {}

const InstantText = Schema.String.pipe(
  Schema.filter((text) => Option.isSome(parseInstant(text)), {
    title: "text of an instant",
    arbitrary: () => (fc) =>
      fc.nat().map((seconds) => `${DateTime.formatIso(DateTime.unsafeMake(seconds * 1000)).slice(0, 19)}.123456Z`)
  })
)

/**
 * Where a page of a search ends. Its instant has more digits than a JavaScript date, so it stays the text it came as.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionSearchCursor extends Schema.Class<SessionSearchCursor>(id("SessionSearchCursor"))({
  lastCreatedAt: required(InstantText, "last_created_at"),
  lastSessionId: required(Schema.String, "last_session_id")
}, lenient) {}

/**
 * Find sessions, newest first.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionSearchRequest extends Schema.Class<SessionSearchRequest>(id("SessionSearchRequest"))({
  /** Exactly this session; with `displayName`, sessions that match either. */
  sessionId: optional(Schema.String, "session_id"),
  /** Every project one may list when absent. */
  projectIds: optional(Schema.Array(Schema.String), "project_ids"),
  /** Pairs that must all be there. Defaults to none. */
  userMetadata: withDefault(StringRecord, "user_metadata", () => ({})),
  /** Words that must all occur in the name, in any casing. */
  displayName: optional(Schema.NonEmptyString, "display_name"),
  /** Defaults to one's own. */
  owner: withDefault(SearchOwner, "owner", (): SearchOwner => new OwnSearchOwner()),
  /** Any of these; every state when absent. */
  statuses: optional(Schema.Array(SessionStatusQuery).pipe(Schema.minItems(1)), "statuses"),
  /** Size of a page, 1 to 200. Defaults to 50. */
  limit: withDefault(Schema.Int.pipe(Schema.between(1, 200)), "limit", () => 50),
  /** The `nextCursor` of the page before. */
  cursor: optional(SessionSearchCursor, "cursor")
}, strict) {}

/**
 * One page of what was found.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionSearchResponse extends Schema.Class<SessionSearchResponse>(id("SessionSearchResponse"))({
  sessions: Schema.Array(SessionSummary),
  /** Absent on the last page. */
  nextCursor: optional(SessionSearchCursor, "next_cursor")
}, lenient) {}
