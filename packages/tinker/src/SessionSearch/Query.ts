/**
 * Whose sessions are searched, and in which state.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { optional, required, strict, tag } from "../internal/wire/wire.js"
import { FinishReason } from "../Session.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/SessionSearch/${name}` as const

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
