/**
 * Searching the sessions of an organization, and the state a session is in.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { SessionId } from "./Id.js"
import { Instant, lenient, optional, parseInstant, required, strict, StringRecord, withDefault } from "./internal/wire/wire.js"
import { OwnSearchOwner, SearchOwner, SessionStatusQuery } from "./SessionSearch/Query.js"
import { SessionStatus } from "./SessionSearch/Status.js"

/**
 * @since 0.1.0
 */
export * from "./SessionSearch/Query.js"

/**
 * @since 0.1.0
 */
export * from "./SessionSearch/Status.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/SessionSearch/${name}` as const

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
