/**
 * Operations in two phases on the wire: what is accepted, what a poll returns, and what the poll of a whole sampler
 * returns.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import type { Open } from "../internal/wire/json.js"
import { Count, lenient, open, optional, required, strict, tag, withDefault } from "../internal/wire/json.js"
import { ModelId, RequestId, SamplingSessionId, SequenceId } from "./Id.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Future/${name}` as const

/**
 * An operation the server accepted.
 *
 * @since 0.1.0
 * @category schemas
 */
export class UntypedFuture extends Schema.Class<UntypedFuture>(id("UntypedFuture"))({
  requestId: required(RequestId, "request_id"),
  modelId: optional(ModelId, "model_id"),
  /** Ids of the sequences to come, in order, when the operation samples. */
  sampleSequenceIds: optional(Schema.Array(SequenceId), "sample_sequence_ids")
}, lenient) {}

/**
 * Ask for the result of an operation.
 *
 * @since 0.1.0
 * @category schemas
 */
export class FutureRetrieveRequest extends Schema.Class<FutureRetrieveRequest>(id("FutureRetrieveRequest"))({
  requestId: required(RequestId, "request_id"),
  /** A large result may be announced by its size first. Defaults to `false`. */
  allowMetadataOnly: withDefault(Schema.Boolean, "allow_metadata_only", () => false)
}, strict) {}

/**
 * Tell the server that an operation is no longer awaited.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CancelFutureRequest extends Schema.Class<CancelFutureRequest>(id("CancelFutureRequest"))({
  requestId: required(RequestId, "request_id")
}, strict) {}

/**
 * Whether the server works on an operation or holds it back. A newer server may know more states.
 *
 * @since 0.1.0
 * @category models
 */
export type QueueState = Open<"active" | "paused_capacity" | "paused_rate_limit" | "unknown">

/**
 * The operation is not done yet.
 *
 * @since 0.1.0
 * @category schemas
 */
export class TryAgain extends Schema.Class<TryAgain>(id("TryAgain"))({
  type: Schema.Literal("try_again").pipe(
    Schema.propertySignature,
    Schema.withConstructorDefault(() => "try_again" as const)
  ),
  requestId: optional(Schema.String, "request_id"),
  /** Defaults to `unknown`. */
  queueState: withDefault(
    open("active", "paused_capacity", "paused_rate_limit", "unknown"),
    "queue_state",
    (): QueueState => "unknown"
  ),
  /** Why it is held back, in the server's words. */
  queueStateReason: optional(Schema.String, "queue_state_reason")
}, lenient) {}

/**
 * The operation is done and its result is large: fetch it with `allowMetadataOnly` off.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CompleteMetadata extends Schema.Class<CompleteMetadata>(id("CompleteMetadata"))({
  status: Schema.Literal("complete_metadata").pipe(
    Schema.propertySignature,
    Schema.withConstructorDefault(() => "complete_metadata" as const)
  ),
  /** Size of the result. Defaults to `0`. */
  responsePayloadSize: withDefault(Schema.Int, "response_payload_size", () => 0)
}, lenient) {}

/**
 * Whom the server blames for a failure.
 *
 * @since 0.1.0
 * @category models
 */
export type ErrorCategory = "unknown" | "server" | "user"

/**
 * Read in any casing; what is not known is `unknown`.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ErrorCategory: Schema.Schema<ErrorCategory, string> = Schema.transform(
  Schema.String,
  Schema.Literal("unknown", "server", "user"),
  {
    strict: true,
    decode: (text): ErrorCategory => {
      const category = text.toLowerCase()
      return category === "server" || category === "user" ? category : "unknown"
    },
    encode: (category) => category
  }
)

/**
 * The operation failed.
 *
 * @since 0.1.0
 * @category schemas
 */
export class RequestFailed extends Schema.Class<RequestFailed>(id("RequestFailed"))({
  /** Message of the server. */
  error: Schema.transform(Schema.Unknown, Schema.String, {
    strict: true,
    decode: (error) => typeof error === "string" ? error : JSON.stringify(error) ?? "",
    encode: (error): unknown => error
  }),
  /** Defaults to `unknown`. */
  category: withDefault(ErrorCategory, "category", (): ErrorCategory => "unknown")
}, lenient) {}

/**
 * Envelope of a poll's JSON, before the result itself is decoded.
 *
 * @since 0.1.0
 * @category models
 */
export type PollAnswer =
  | { readonly _tag: "TryAgain"; readonly json: unknown }
  | { readonly _tag: "CompleteMetadata"; readonly json: unknown }
  | { readonly _tag: "RequestFailed"; readonly json: unknown }
  | { readonly _tag: "Completed"; readonly json: unknown }

/**
 * Tells the four responses of a poll apart. A failure is known by the mere presence of `error`, whatever its value.
 *
 * @since 0.1.0
 * @category constructors
 */
export const classify = (json: unknown): PollAnswer => {
  if (typeof json === "object" && json !== null) {
    if ("type" in json && json.type === "try_again") return { _tag: "TryAgain", json }
    if ("status" in json && json.status === "complete_metadata") return { _tag: "CompleteMetadata", json }
    if ("error" in json) return { _tag: "RequestFailed", json }
  }
  return { _tag: "Completed", json }
}

/**
 * The sampler, or the numbered copy of it, whose results a poll waits for.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SamplingSessionTarget extends Schema.Class<SamplingSessionTarget>(id("SamplingSessionTarget"))({
  type: tag("sampling_session"),
  samplingSessionId: required(SamplingSessionId, "sampling_session_id"),
  /** Defaults to `0`, the original. */
  clonedSamplerId: withDefault(Count, "cloned_sampler_id", () => 0)
}, strict) {}

/**
 * Wait for whichever operations of a sampler finish next.
 *
 * @since 0.1.0
 * @category schemas
 */
export class FuturesRetrieveRequest extends Schema.Class<FuturesRetrieveRequest>(id("FuturesRetrieveRequest"))({
  target: SamplingSessionTarget,
  /** The cursor of the previous answer: what lies before it is acknowledged. Defaults to `0`. */
  prevCursor: withDefault(Schema.Int, "prev_cursor", () => 0),
  /** Seconds the server may hold the request. */
  timeout: optional(Schema.JsonNumber, "timeout"),
  /** Results already fetched, which the server may delete. Only sent when set: older servers do not know it. */
  retrievedRequestIds: optional(Schema.Array(RequestId), "retrieved_request_ids")
}, strict) {}

/**
 * One operation that ended.
 *
 * @since 0.1.0
 * @category schemas
 */
export class FutureCompletion extends Schema.Class<FutureCompletion>(id("FutureCompletion"))({
  state: Schema.Literal("finished", "failed"),
  requestId: required(RequestId, "request_id"),
  /** Size of the result, when it finished and the server knows it. */
  responsePayloadUncompressedSize: optional(Schema.Int, "response_payload_uncompressed_size")
}, lenient) {}

const isCompletion = Schema.is(Schema.encodedSchema(FutureCompletion))

/**
 * Operations that ended. Those in a state only a newer server knows are skipped: they must not hold up the others.
 *
 * @since 0.1.0
 * @category schemas
 */
export const FutureCompletions: Schema.Schema<ReadonlyArray<FutureCompletion>, ReadonlyArray<unknown>> = Schema
  .transform(
    Schema.Array(Schema.Unknown),
    Schema.Array(FutureCompletion),
    {
      strict: true,
      decode: (items) => items.filter(isCompletion),
      encode: (items): ReadonlyArray<unknown> => items
    }
  )

/**
 * Futures that ended since the given cursor.
 *
 * @since 0.1.0
 * @category schemas
 */
export class FuturesRetrieveResponse extends Schema.Class<FuturesRetrieveResponse>(id("FuturesRetrieveResponse"))({
  completions: FutureCompletions,
  /** To be given back as `prevCursor`. */
  cursor: Schema.Int
}, lenient) {}
