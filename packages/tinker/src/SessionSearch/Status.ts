/**
 * The state a session is in, and why.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lenient, open, optional, required, tag, taggedJson } from "../internal/wire/wire.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/SessionSearch/${name}` as const

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
 * What brought a session down.
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
