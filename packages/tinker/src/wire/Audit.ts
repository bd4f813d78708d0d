/**
 * The audit log of an organization.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Instant, JsonRecord, lenient, optional, withDefault } from "../internal/wire/json.js"

/**
 * Filter of the log.
 *
 * @since 0.1.0
 * @category schemas
 */
export const AuditEventType: Schema.Literal<["all", "checkpoints", "projects", "teams", "organizations"]> = Schema
  .Literal("all", "checkpoints", "projects", "teams", "organizations")

/**
 * Kind of event.
 *
 * @since 0.1.0
 * @category models
 */
export type AuditEventType = typeof AuditEventType.Type

/**
 * One event of the audit log.
 *
 * @since 0.1.0
 * @category schemas
 */
export class AuditLogEntry extends Schema.Class<AuditLogEntry>("effect-tinker/Audit/AuditLogEntry")({
  timestamp: Instant,
  /** The resource and what happened to it, e.g. `checkpoint_read`. */
  event: Schema.String,
  /** Who did what to which resource. Defaults to nothing. */
  eventDetails: withDefault(JsonRecord, "event_details", () => ({})),
  modelId: optional(Schema.String, "model_id"),
  tinkerPath: optional(Schema.String, "tinker_path"),
  purpose: optional(Schema.String, "purpose")
}, lenient) {}

/**
 * One day's entries, in order.
 *
 * @since 0.1.0
 * @category schemas
 */
export class AuditLogResponse extends Schema.Class<AuditLogResponse>("effect-tinker/Audit/AuditLogResponse")({
  entries: Schema.Array(AuditLogEntry)
}, lenient) {}
