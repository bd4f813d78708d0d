/**
 * Usage and its costs.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import {
  Instant,
  Key,
  lenient,
  optional,
  required,
  strict,
  StringRecord,
  tag,
  taggedJson,
  withDefault
} from "../internal/wire/json.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Billing/${name}` as const

/**
 * The hours to report on, as query parameters.
 *
 * @since 0.1.0
 * @category schemas
 */
export class GetBillingUsageRequest extends Schema.Class<GetBillingUsageRequest>(id("GetBillingUsageRequest"))({
  /** First hour, on a UTC hour. */
  startingOn: required(Instant, "starting_on"),
  /** Hour after the last one to show, in UTC, at most 14 days after the first. */
  endingBefore: required(Instant, "ending_before")
}, strict) {}

/**
 * Tokens trained on.
 *
 * @since 0.1.0
 * @category schemas
 */
export class TrainingBillingEvent extends Schema.Class<TrainingBillingEvent>(id("TrainingBillingEvent"))({
  type: tag("training"),
  tokenCount: required(Schema.Int, "token_count")
}, lenient) {}

/**
 * Prompt tokens read.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SamplingPrefillBillingEvent
  extends Schema.Class<SamplingPrefillBillingEvent>(id("SamplingPrefillBillingEvent"))({
    type: tag("sampling_prefill"),
    /** Whether the tokens came from the cache. */
    cached: Schema.Boolean,
    tokenCount: required(Schema.Int, "token_count")
  }, lenient)
{}

/**
 * Tokens generated.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SamplingSampleBillingEvent
  extends Schema.Class<SamplingSampleBillingEvent>(id("SamplingSampleBillingEvent"))({
    type: tag("sampling_sample"),
    tokenCount: required(Schema.Int, "token_count")
  }, lenient)
{}

/**
 * Checkpoints saved.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CheckpointBillingEvent extends Schema.Class<CheckpointBillingEvent>(id("CheckpointBillingEvent"))({
  type: tag("checkpoint"),
  count: Schema.Int
}, lenient) {}

/**
 * Space used over time.
 *
 * @since 0.1.0
 * @category schemas
 */
export class StorageBillingEvent extends Schema.Class<StorageBillingEvent>(id("StorageBillingEvent"))({
  type: tag("storage"),
  /** Whether nothing is charged for it. Defaults to `false`. */
  free: withDefault(Schema.Boolean, "free", () => false),
  gigabyteHours: required(Schema.JsonNumber, "gigabyte_hours")
}, lenient) {}

/**
 * A kind of usage this version does not know, as the wire has it.
 *
 * @since 0.1.0
 * @category models
 */
export interface UnrecognizedBillingEvent {
  readonly type: string
  readonly [key: string]: unknown
}

/**
 * An event of a kind this version does not know.
 *
 * @since 0.1.0
 * @category schemas
 */
export const UnrecognizedBillingEvent: Schema.Schema<UnrecognizedBillingEvent> = taggedJson("UnrecognizedBillingEvent")

/**
 * Kind of usage.
 *
 * @since 0.1.0
 * @category schemas
 */
export const BillingEventInfo: Schema.Union<[
  typeof TrainingBillingEvent,
  typeof SamplingPrefillBillingEvent,
  typeof SamplingSampleBillingEvent,
  typeof CheckpointBillingEvent,
  typeof StorageBillingEvent,
  typeof UnrecognizedBillingEvent
]> = Schema.Union(
  TrainingBillingEvent,
  SamplingPrefillBillingEvent,
  SamplingSampleBillingEvent,
  CheckpointBillingEvent,
  StorageBillingEvent,
  UnrecognizedBillingEvent
)

/**
 * Unit that was counted.
 *
 * @since 0.1.0
 * @category models
 */
export type BillingEventInfo = typeof BillingEventInfo.Type

/**
 * The use of one thing by one user in one hour. Amounts are before credits, and absent where nothing is priced.
 *
 * @since 0.1.0
 * @category schemas
 */
export class BillingUsageEvent extends Schema.Class<BillingUsageEvent>(id("BillingUsageEvent"))({
  bucketStart: required(Instant, "bucket_start"),
  bucketEnd: required(Instant, "bucket_end"),
  baseModel: optional(Schema.String, "base_model"),
  userId: optional(Schema.String, "user_id"),
  userName: optional(Schema.String, "user_name"),
  sessionId: optional(Schema.String, "session_id"),
  projectId: optional(Schema.String, "project_id"),
  estimatedCostUsd: optional(Schema.JsonNumber, "estimated_cost_usd"),
  effectiveRateUsdPerMillionTokens: optional(Schema.JsonNumber, "effective_rate_usd_per_million_tokens"),
  effectiveRateUsdPerGigabyteMonth: optional(Schema.JsonNumber, "effective_rate_usd_per_gigabyte_month"),
  eventInfo: required(BillingEventInfo, "event_info")
}, lenient) {}

/**
 * The usage of one session.
 *
 * @since 0.1.0
 * @category schemas
 */
export class BillingUsageSession extends Schema.Class<BillingUsageSession>(id("BillingUsageSession"))({
  userMetadata: optional(StringRecord, "user_metadata")
}, lenient) {}

/**
 * Usage by the hour.
 *
 * @since 0.1.0
 * @category schemas
 */
export class BillingUsageResponse extends Schema.Class<BillingUsageResponse>(id("BillingUsageResponse"))({
  data: Schema.Array(BillingUsageEvent),
  /** The sessions the events belong to, by id. Defaults to none. */
  sessions: Schema.optionalWith(Schema.Record({ key: Key, value: BillingUsageSession }), {
    default: () => ({}),
    nullable: true
  }),
  /** Costs before this instant come from invoices, those after it from published prices. */
  costDataThrough: optional(Instant, "cost_data_through")
}, lenient) {}

/**
 * Which project to report on, as query parameters; all of them when absent.
 *
 * @since 0.1.0
 * @category schemas
 */
export class GetCurrentCheckpointStorageUsageRequest
  extends Schema.Class<GetCurrentCheckpointStorageUsageRequest>(id("GetCurrentCheckpointStorageUsageRequest"))({
    projectId: optional(Schema.String, "project_id")
  }, strict)
{}

/**
 * The space one user's checkpoints take in one project.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CurrentCheckpointStorageUsageItem
  extends Schema.Class<CurrentCheckpointStorageUsageItem>(id("CurrentCheckpointStorageUsageItem"))({
    projectId: optional(Schema.String, "project_id"),
    orgUserUrn: optional(Schema.String, "org_user_urn"),
    userEmail: optional(Schema.String, "user_email"),
    userName: optional(Schema.String, "user_name"),
    checkpointCount: required(Schema.Int, "checkpoint_count"),
    sizeBytes: required(Schema.Int, "size_bytes"),
    sizeGigabytes: required(Schema.JsonNumber, "size_gigabytes"),
    estimatedMonthlyCostUsd: optional(Schema.JsonNumber, "estimated_monthly_cost_usd")
  }, lenient)
{}

/**
 * The space checkpoints take now, an hour or two late.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CurrentCheckpointStorageUsageResponse
  extends Schema.Class<CurrentCheckpointStorageUsageResponse>(id("CurrentCheckpointStorageUsageResponse"))({
    effectiveRateUsdPerGigabyteMonth: optional(Schema.JsonNumber, "effective_rate_usd_per_gigabyte_month"),
    data: Schema.Array(CurrentCheckpointStorageUsageItem)
  }, lenient)
{}
