/**
 * How the server wants its clients to behave: asked for once when a client starts, and again while it runs.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lenient, optional, required, strict, withDefault } from "../internal/wire/json.js"

const flag = <const K extends string>(key: K, value: boolean) => withDefault(Schema.Boolean, key, () => value)
const int = <const K extends string>(key: K, value: number) => withDefault(Schema.Int, key, () => value)

/**
 * Asks how the server wants its clients to behave.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ClientConfigRequest extends Schema.Class<ClientConfigRequest>("effect-tinker/ClientConfig/Request")({
  sdkVersion: required(Schema.String, "sdk_version")
}, strict) {}

/**
 * The server's settings for the life of a client. Every one has a default, so an empty response is valid.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ClientConfig extends Schema.Class<ClientConfig>("effect-tinker/ClientConfig")({
  /** Exchange the credential for a short-lived token. Defaults to `false`. */
  pjwtAuthEnabled: flag("pjwt_auth_enabled", false),
  /** Where credentials come from: `api_key`, or `credential_cmd` to insist on the command. Defaults to `api_key`. */
  credentialDefaultSource: withDefault(Schema.String, "credential_default_source", () => "api_key"),
  /** Bytes of sample requests being dispatched at once. Defaults to 10 MiB. */
  sampleDispatchBytesSemaphoreSize: int("sample_dispatch_bytes_semaphore_size", 10 * 1024 * 1024),
  /** Bytes of large responses being fetched at once. Defaults to 50 MiB. */
  inflightResponseBytesSemaphoreSize: int("inflight_response_bytes_semaphore_size", 50 * 1024 * 1024),
  /** Send the chunks of one pass in parallel. Defaults to `true`. */
  parallelFwdbwdChunks: flag("parallel_fwdbwd_chunks", true),
  /** Send passes as protobuf: asked by servers from the time when that was a choice, before 0.25. */
  protoWriteFwdbwd: optional(Schema.Boolean, "proto_write_fwdbwd"),
  /** Send forward passes as protobuf as well, to the same place. From the same time. */
  fwdViaFwdbwd: optional(Schema.Boolean, "fwd_via_fwdbwd"),
  /** Compress forward/backward requests with zstd. Defaults to `false`. */
  protoCompressFwdbwd: flag("proto_compress_fwdbwd", false),
  /** Most datums in one chunk. Defaults to 1024. */
  fwdbwdMaxChunkLen: int("fwdbwd_max_chunk_len", 1024),
  /** Most bytes in one chunk. Defaults to 5 000 000. */
  fwdbwdMaxChunkBytesCount: int("fwdbwd_max_chunk_bytes_count", 5_000_000),
  /** Bytes of forward/backward requests being dispatched at once. Defaults to 50 000 000. */
  fwdbwdDispatchBytesSemaphoreSize: int("fwdbwd_dispatch_bytes_semaphore_size", 50_000_000),
  /** Longest pause, in seconds, while billing blocks the account. Defaults to 3600. */
  billingExceptionMaxPauseDurationSec: int("billing_exception_max_pause_duration_sec", 3600),
  /** Do not retry failed samples. Defaults to `false`. */
  sampleNoRetries: flag("sample_no_retries", false),
  /** Give up on samples that make no progress. Defaults to `true`. */
  sampleEnableStuckDetection: flag("sample_enable_stuck_detection", true),
  /** Most samples in flight. Defaults to 2000. */
  sampleMaxConcurrentRequests: int("sample_max_concurrent_requests", 2000),
  /** A transport of the Python SDK; without meaning here. Defaults to `true`. */
  usePyqwestTransport: flag("use_pyqwest_transport", true),
  /** Create models from checkpoints with one request: a choice of servers before 0.38. */
  createModelViaLoadWeights: optional(Schema.Boolean, "create_model_via_load_weights"),
  /** Wait for samples with one poll per sampler. Defaults to `false`. */
  sampleUseRetrieveFutures: flag("sample_use_retrieve_futures", false),
  /** The server runs traced custom losses itself. Defaults to `false`. */
  customLossServerSide: flag("custom_loss_server_side", false),
  /** Copies of a sampling client take their number from the server. Defaults to `false`. */
  sampleJoinSamplingSession: flag("sample_join_sampling_session", false)
}, lenient) {}

/**
 * The server's settings that may change while a client runs.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ClientDynamicConfig extends Schema.Class<ClientDynamicConfig>("effect-tinker/ClientConfig/Dynamic")({
  /** Seconds until the next refresh. Defaults to 300. */
  refreshIntervalSec: int("refresh_interval_sec", 300),
  /** Tell the server about samples that are no longer awaited. Defaults to `false`. */
  sampleCancelEnabled: flag("sample_cancel_enabled", false),
  /** Most cancellations sent at once. Defaults to 64. */
  sampleCancelMaxBatchSize: int("sample_cancel_max_batch_size", 64)
}, lenient) {}
