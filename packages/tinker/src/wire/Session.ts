/**
 * Sessions: opened by a client, kept alive by heartbeats, finished with a reason.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import type { Open } from "../internal/wire/json.js"
import {
  JsonRecord,
  lenient,
  open,
  optional,
  required,
  responseTag,
  strict,
  StringRecord,
  tag,
  withDefault
} from "../internal/wire/json.js"
import { ModelId, SamplingSessionId, SessionId } from "./Id.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Session/${name}` as const

/**
 * Opens a session.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CreateSessionRequest extends Schema.Class<CreateSessionRequest>(id("CreateSessionRequest"))({
  tags: Schema.Array(Schema.String),
  /** Always sent: servers insist on it. Defaults to nothing. */
  userMetadata: withDefault(JsonRecord, "user_metadata", () => ({})),
  sdkVersion: required(Schema.String, "sdk_version"),
  /** Project the session is charged to. */
  projectId: optional(Schema.String, "project_id"),
  /** Name shown in the console. */
  displayName: optional(Schema.String, "display_name"),
  type: tag("create_session")
}, strict) {}

/**
 * A session that is open.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CreateSessionResponse extends Schema.Class<CreateSessionResponse>(id("CreateSessionResponse"))({
  sessionId: required(SessionId, "session_id"),
  /** Something the service wants logged. */
  infoMessage: optional(Schema.String, "info_message"),
  /** Something the service wants logged as a warning. */
  warningMessage: optional(Schema.String, "warning_message"),
  /** Something the service wants logged as an error. */
  errorMessage: optional(Schema.String, "error_message"),
  type: responseTag("create_session")
}, lenient) {}

/**
 * Keeps a session alive.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionHeartbeatRequest extends Schema.Class<SessionHeartbeatRequest>(id("SessionHeartbeatRequest"))({
  sessionId: required(SessionId, "session_id"),
  type: tag("session_heartbeat")
}, strict) {}

/**
 * A heartbeat that arrived.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionHeartbeatResponse extends Schema.Class<SessionHeartbeatResponse>(id("SessionHeartbeatResponse"))({
  type: responseTag("session_heartbeat")
}, lenient) {}

/**
 * Why a client finished its session.
 *
 * @since 0.1.0
 * @category schemas
 */
export const FinishReason: Schema.Literal<["success", "errored", "interrupted"]> = Schema.Literal(
  "success",
  "errored",
  "interrupted"
)

/**
 * How a session ended.
 *
 * @since 0.1.0
 * @category models
 */
export type FinishReason = typeof FinishReason.Type

/**
 * Finish a session. `detail` is written even when there is none, as `null`.
 *
 * @since 0.1.0
 * @category schemas
 */
export class FinishSessionRequest extends Schema.Class<FinishSessionRequest>(id("FinishSessionRequest"))({
  reason: Schema.Struct({ type: FinishReason }),
  detail: Schema.optionalWith(Schema.NullOr(Schema.String), { default: () => null })
}, strict) {}

/**
 * Models and samplers of a session.
 *
 * @since 0.1.0
 * @category schemas
 */
export class GetSessionResponse extends Schema.Class<GetSessionResponse>(id("GetSessionResponse"))({
  trainingRunIds: required(Schema.Array(ModelId), "training_run_ids"),
  samplerIds: required(Schema.Array(SamplingSessionId), "sampler_ids"),
  userMetadata: optional(StringRecord, "user_metadata"),
  displayName: optional(Schema.String, "display_name")
}, lenient) {}

/**
 * One page of session ids, newest first. The service reports no total.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ListSessionsResponse extends Schema.Class<ListSessionsResponse>(id("ListSessionsResponse"))({
  sessions: Schema.Array(SessionId)
}, lenient) {}

/**
 * Move a session, its runs and its samplers to a project.
 *
 * @since 0.1.0
 * @category schemas
 */
export class AssignProjectRequest extends Schema.Class<AssignProjectRequest>(id("AssignProjectRequest"))({
  projectId: required(Schema.String, "project_id")
}, strict) {}

/**
 * State of a session's trace export.
 *
 * @since 0.1.0
 * @category models
 */
export type TraceExportStatus = Open<"pending" | "ready" | "failed">

/**
 * A session's trace being built: `url` when it is ready, `error` when it failed.
 *
 * @since 0.1.0
 * @category schemas
 */
export class TraceExportResponse extends Schema.Class<TraceExportResponse>(id("TraceExportResponse"))({
  status: open("pending", "ready", "failed"),
  url: optional(Schema.String, "url"),
  error: optional(Schema.String, "error")
}, lenient) {}
