/**
 * Reports of a client about itself.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Count, Instant, JsonRecord, lenient, optional, required, strict, withDefault } from "../internal/wire/json.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/TelemetryEvent/${name}` as const

/**
 * Kinds of events.
 *
 * @since 0.1.0
 * @category schemas
 */
export const EventType: Schema.Literal<["SESSION_START", "SESSION_END", "UNHANDLED_EXCEPTION", "GENERIC_EVENT"]> =
  Schema.Literal("SESSION_START", "SESSION_END", "UNHANDLED_EXCEPTION", "GENERIC_EVENT")

/**
 * Kinds of events.
 *
 * @since 0.1.0
 * @category models
 */
export type EventType = typeof EventType.Type

/**
 * How bad an event is.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Severity: Schema.Literal<["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]> = Schema.Literal(
  "DEBUG",
  "INFO",
  "WARNING",
  "ERROR",
  "CRITICAL"
)

/**
 * How bad an event is.
 *
 * @since 0.1.0
 * @category models
 */
export type Severity = typeof Severity.Type

const common = {
  /** A UUID. */
  eventId: required(Schema.String, "event_id"),
  /** Number of the event within its session, from 0. */
  eventSessionIndex: required(Count, "event_session_index"),
  severity: Severity,
  timestamp: Instant
}

const event = <const T extends EventType>(type: T) =>
  Schema.Literal(type).pipe(Schema.propertySignature, Schema.withConstructorDefault(() => type))

/**
 * A session began.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionStartEvent extends Schema.Class<SessionStartEvent>(id("SessionStartEvent"))({
  event: event("SESSION_START"),
  ...common
}, lenient) {}

/**
 * A session ended.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SessionEndEvent extends Schema.Class<SessionEndEvent>(id("SessionEndEvent"))({
  event: event("SESSION_END"),
  ...common,
  /** As `[N day(s), ]H:MM:SS[.ffffff]`. */
  duration: Schema.String
}, lenient) {}

/**
 * An unexpected failure.
 *
 * @since 0.1.0
 * @category schemas
 */
export class UnhandledExceptionEvent extends Schema.Class<UnhandledExceptionEvent>(id("UnhandledExceptionEvent"))({
  event: event("UNHANDLED_EXCEPTION"),
  ...common,
  errorMessage: required(Schema.String, "error_message"),
  errorType: required(Schema.String, "error_type"),
  traceback: optional(Schema.String, "traceback")
}, lenient) {}

/**
 * Anything else, by name.
 *
 * @since 0.1.0
 * @category schemas
 */
export class GenericEvent extends Schema.Class<GenericEvent>(id("GenericEvent"))({
  event: event("GENERIC_EVENT"),
  ...common,
  eventName: required(Schema.String, "event_name"),
  /** Defaults to nothing. */
  eventData: withDefault(JsonRecord, "event_data", () => ({}))
}, lenient) {}

/**
 * Something worth reporting.
 *
 * @since 0.1.0
 * @category schemas
 */
export const TelemetryEvent: Schema.Union<
  [typeof SessionStartEvent, typeof SessionEndEvent, typeof UnhandledExceptionEvent, typeof GenericEvent]
> = Schema.Union(SessionStartEvent, SessionEndEvent, UnhandledExceptionEvent, GenericEvent)

/**
 * Events that can be reported.
 *
 * @since 0.1.0
 * @category models
 */
export type TelemetryEvent = typeof TelemetryEvent.Type

/**
 * A batch of events.
 *
 * @since 0.1.0
 * @category schemas
 */
export class TelemetrySendRequest extends Schema.Class<TelemetrySendRequest>(id("TelemetrySendRequest"))({
  events: Schema.Array(TelemetryEvent),
  /** `Linux`, `Darwin` or `Windows`. */
  platform: Schema.String,
  sdkVersion: required(Schema.String, "sdk_version"),
  sessionId: required(Schema.String, "session_id"),
  processUuid: required(Schema.String, "process_uuid")
}, strict) {}

/**
 * Whether a batch was taken.
 *
 * @since 0.1.0
 * @category schemas
 */
export class TelemetryResponse extends Schema.Class<TelemetryResponse>(id("TelemetryResponse"))({
  status: Schema.Literal("accepted")
}, lenient) {}

/**
 * A duration as the service's dashboards expect it: `H:MM:SS`, with days and microseconds where there are any.
 *
 * @since 0.1.0
 * @category constructors
 */
export const formatDuration = (millis: number): string => {
  const total = Math.max(0, Math.round(millis))
  const days = Math.floor(total / 86_400_000)
  const two = (n: number) => String(n).padStart(2, "0")
  const fraction = total % 1000 === 0 ? "" : `.${String(total % 1000).padStart(3, "0")}000`
  const clock = `${Math.floor(total / 3_600_000) % 24}:${two(Math.floor(total / 60_000) % 60)}:${
    two(Math.floor(total / 1000) % 60)
  }${fraction}`
  return days === 0 ? clock : `${days} day${days === 1 ? "" : "s"}, ${clock}`
}
