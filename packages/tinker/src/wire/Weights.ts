/**
 * Saving, loading and copying weights.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import {
  Count,
  Instant,
  JsonRecord,
  lenient,
  optional,
  required,
  responseTag,
  strict,
  StringRecord,
  tag,
  withDefault
} from "../internal/wire/json.js"
import { AdamOptimizerConfig, OptimizerConfig } from "../Optimizer.js"
import { ModelId, SamplingSessionId, SessionId } from "./Id.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Weights/${name}` as const

/**
 * Save a model's weights and optimizer state.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SaveWeightsRequest extends Schema.Class<SaveWeightsRequest>(id("SaveWeightsRequest"))({
  modelId: required(ModelId, "model_id"),
  /** Name of the checkpoint, not a path. The service numbers it when absent. */
  path: optional(Schema.String, "path"),
  seqId: optional(Count, "seq_id"),
  /** Seconds until the checkpoint expires. It never does when absent. */
  ttlSeconds: optional(Schema.Int, "ttl_seconds"),
  /** Replace a checkpoint of that name, its metadata included. Defaults to `false`. */
  overwrite: withDefault(Schema.Boolean, "overwrite", () => false),
  userMetadata: optional(StringRecord, "user_metadata"),
  type: tag("save_weights")
}, strict) {}

/**
 * Where weights were saved.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SaveWeightsResponse extends Schema.Class<SaveWeightsResponse>(id("SaveWeightsResponse"))({
  /** Where the checkpoint is, as a `tinker://` path. */
  path: Schema.String,
  type: responseTag("save_weights")
}, lenient) {}

/**
 * Which weights a sampler uses: those of its save, or those of the latest save.
 *
 * @since 0.2.0
 * @category schemas
 */
export const SamplingClientKind: Schema.Literal<["snapshot", "inflight"]> = Schema.Literal("snapshot", "inflight")

/**
 * Save a model's weights for sampling: under a name (`path`), or for one sampler only (`samplingSessionSeqId`).
 *
 * @since 0.1.0
 * @category schemas
 */
export class SaveWeightsForSamplerRequest
  extends Schema.Class<SaveWeightsForSamplerRequest>(id("SaveWeightsForSamplerRequest"))({
    modelId: required(ModelId, "model_id"),
    path: optional(Schema.String, "path"),
    samplingSessionSeqId: optional(Count, "sampling_session_seq_id"),
    /**
     * `snapshot`: weights that stay as they are. `inflight`: weights shared by all such samplers of the model, which every
     * later save of this kind replaces, also while a sample is generated. Defaults to `snapshot`; left out for servers that
     * do not know it.
     */
    kind: optional(SamplingClientKind, "kind"),
    seqId: optional(Count, "seq_id"),
    /** Seconds until the checkpoint expires. It never does when absent. */
    ttlSeconds: optional(Schema.Int, "ttl_seconds"),
    userMetadata: optional(StringRecord, "user_metadata"),
    type: tag("save_weights_for_sampler")
  }, strict)
{}

/**
 * The service's response to a save for sampling: a path for a named save, a sampler for an unnamed one.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SaveWeightsForSamplerResult
  extends Schema.Class<SaveWeightsForSamplerResult>(id("SaveWeightsForSamplerResult"))({
    path: optional(Schema.String, "path"),
    samplingSessionId: optional(SamplingSessionId, "sampling_session_id"),
    type: responseTag("save_weights_for_sampler")
  }, lenient)
{}

/**
 * A named save for sampling.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SaveWeightsForSamplerResponse
  extends Schema.Class<SaveWeightsForSamplerResponse>(id("SaveWeightsForSamplerResponse"))({
    /** Where the checkpoint is, as a `tinker://` path. */
    path: Schema.String
  }, lenient)
{}

/**
 * Save a model's weights in a format other tools read.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SaveWeightsExternalRequest
  extends Schema.Class<SaveWeightsExternalRequest>(id("SaveWeightsExternalRequest"))({
    modelId: required(ModelId, "model_id"),
    /** Name of the checkpoint, not a path. */
    path: Schema.String,
    seqId: optional(Count, "seq_id"),
    /** Seconds until the checkpoint expires. It never does when absent. */
    ttlSeconds: optional(Schema.Int, "ttl_seconds"),
    /** age or SSH public keys to encrypt the files to. */
    ageEncryptionRecipients: optional(Schema.Array(Schema.String), "age_encryption_recipients"),
    type: tag("save_weights_external")
  }, strict)
{}

/**
 * The service's response to an external save.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SaveWeightsExternalResult
  extends Schema.Class<SaveWeightsExternalResult>(id("SaveWeightsExternalResult"))({
    path: optional(Schema.String, "path"),
    sizeBytes: optional(Schema.Int, "size_bytes"),
    type: responseTag("save_weights_external")
  }, lenient)
{}

/**
 * An external save.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SaveWeightsExternalResponse
  extends Schema.Class<SaveWeightsExternalResponse>(id("SaveWeightsExternalResponse"))({
    /** Where the checkpoint is, as a `tinker://` path. */
    path: Schema.String,
    type: responseTag("save_weights_external")
  }, lenient)
{}

/**
 * Load weights into a model (`modelId`, `seqId`), or create the model from them (`sessionId`, `modelSeqId`).
 *
 * @since 0.1.0
 * @category schemas
 */
export class LoadWeightsRequest extends Schema.Class<LoadWeightsRequest>(id("LoadWeightsRequest"))({
  modelId: optional(ModelId, "model_id"),
  seqId: optional(Count, "seq_id"),
  sessionId: optional(SessionId, "session_id"),
  modelSeqId: optional(Count, "model_seq_id"),
  baseModel: optional(Schema.String, "base_model"),
  userMetadata: optional(JsonRecord, "user_metadata"),
  /** A `tinker://` path. */
  path: Schema.String,
  /** Load the optimizer's state too. */
  optimizer: Schema.Boolean,
  /** Only sent when set: older servers do not know it. */
  optimizerConfig: optional(OptimizerConfig, "optimizer_config"),
  /** A credential that may read the weights, when they belong to someone else. */
  weightsAccessToken: optional(Schema.String, "weights_access_token"),
  type: tag("load_weights")
}, strict) {}

/**
 * Which weights were loaded.
 *
 * @since 0.1.0
 * @category schemas
 */
export class LoadWeightsResponse extends Schema.Class<LoadWeightsResponse>(id("LoadWeightsResponse"))({
  path: optional(Schema.String, "path"),
  modelId: optional(ModelId, "model_id"),
  type: responseTag("load_weights")
}, lenient) {}

/**
 * Copy a checkpoint into a project, or into the slot (`modelSeqId`) of a session.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CopyWeightsRequest extends Schema.Class<CopyWeightsRequest>(id("CopyWeightsRequest"))({
  sessionId: optional(SessionId, "session_id"),
  modelSeqId: optional(Count, "model_seq_id"),
  destinationProjectId: optional(Schema.String, "destination_project_id"),
  /** A `tinker://` path. */
  sourcePath: required(Schema.String, "source_path"),
  /** Seconds until the copy expires; the source's expiry is not inherited. */
  ttlSeconds: optional(Schema.Int, "ttl_seconds"),
  weightsAccessToken: optional(Schema.String, "weights_access_token")
}, strict) {}

/**
 * Where the copy is.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CopyWeightsResponse extends Schema.Class<CopyWeightsResponse>(id("CopyWeightsResponse"))({
  tinkerPath: required(Schema.String, "tinker_path")
}, lenient) {}

/**
 * Ask what a checkpoint was trained from.
 *
 * @since 0.1.0
 * @category schemas
 */
export class WeightsInfoRequest extends Schema.Class<WeightsInfoRequest>(id("WeightsInfoRequest"))({
  tinkerPath: required(Schema.String, "tinker_path")
}, strict) {}

/**
 * Base of a checkpoint. Layers whose flag is absent were trained.
 *
 * @since 0.1.0
 * @category schemas
 */
export class WeightsInfoResponse extends Schema.Class<WeightsInfoResponse>(id("WeightsInfoResponse"))({
  baseModel: required(Schema.String, "base_model"),
  isLora: required(Schema.Boolean, "is_lora"),
  loraRank: optional(Schema.Int, "lora_rank"),
  trainUnembed: optional(Schema.Boolean, "train_unembed"),
  trainMlp: optional(Schema.Boolean, "train_mlp"),
  trainAttn: optional(Schema.Boolean, "train_attn"),
  /** Defaults to AdamW. */
  optimizerConfig: withDefault(OptimizerConfig, "optimizer_config", () => new AdamOptimizerConfig())
}, lenient) {}

/**
 * Signed addresses of the files of an external checkpoint, by relative path.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ExternalWeightsUrlsResponse
  extends Schema.Class<ExternalWeightsUrlsResponse>(id("ExternalWeightsUrlsResponse"))({
    urls: StringRecord,
    expires: Instant
  }, lenient)
{}
