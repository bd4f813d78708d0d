/**
 * Models in training: creating one, asking about it, unloading it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import {
  Count,
  JsonRecord,
  lenient,
  optional,
  required,
  responseTag,
  strict,
  tag,
  withDefault
} from "../internal/wire/json.js"
import { LoraConfig } from "../LoraConfig.js"
import { AdamOptimizerConfig, OptimizerConfig } from "../Optimizer.js"
import { ModelId, SessionId } from "./Id.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Model/${name}` as const

/**
 * Creates a model.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CreateModelRequest extends Schema.Class<CreateModelRequest>(id("CreateModelRequest"))({
  sessionId: required(SessionId, "session_id"),
  /** Number of the model within its session. */
  modelSeqId: required(Count, "model_seq_id"),
  baseModel: required(Schema.String, "base_model"),
  userMetadata: optional(JsonRecord, "user_metadata"),
  loraConfig: optional(LoraConfig, "lora_config"),
  /** Only sent when set: older servers do not know it. The service defaults to AdamW. */
  optimizerConfig: optional(OptimizerConfig, "optimizer_config"),
  type: tag("create_model")
}, strict) {}

/**
 * A model that is ready.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CreateModelResponse extends Schema.Class<CreateModelResponse>(id("CreateModelResponse"))({
  modelId: required(ModelId, "model_id"),
  type: responseTag("create_model")
}, lenient) {}

/**
 * Asks what a model is.
 *
 * @since 0.1.0
 * @category schemas
 */
export class GetInfoRequest extends Schema.Class<GetInfoRequest>(id("GetInfoRequest"))({
  modelId: required(ModelId, "model_id"),
  type: tag("get_info")
}, strict) {}

/**
 * Architecture of a model.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ModelData extends Schema.Class<ModelData>(id("ModelData"))({
  arch: optional(Schema.String, "arch"),
  modelName: optional(Schema.String, "model_name"),
  /** Name of its tokenizer. A suffix after `:` names a variant of the service's own. */
  tokenizerId: optional(Schema.String, "tokenizer_id")
}, lenient) {}

/**
 * Description of a model.
 *
 * @since 0.1.0
 * @category schemas
 */
export class GetInfoResponse extends Schema.Class<GetInfoResponse>(id("GetInfoResponse"))({
  modelId: required(ModelId, "model_id"),
  modelData: required(ModelData, "model_data"),
  /** Defaults to AdamW. */
  optimizerConfig: withDefault(OptimizerConfig, "optimizer_config", () => new AdamOptimizerConfig()),
  isLora: optional(Schema.Boolean, "is_lora"),
  loraRank: optional(Schema.Int, "lora_rank"),
  modelName: optional(Schema.String, "model_name"),
  type: responseTag("get_info")
}, lenient) {}

/**
 * Lets go of a model.
 *
 * @since 0.1.0
 * @category schemas
 */
export class UnloadModelRequest extends Schema.Class<UnloadModelRequest>(id("UnloadModelRequest"))({
  modelId: required(ModelId, "model_id"),
  type: tag("unload_model")
}, strict) {}

/**
 * A model that is gone.
 *
 * @since 0.1.0
 * @category schemas
 */
export class UnloadModelResponse extends Schema.Class<UnloadModelResponse>(id("UnloadModelResponse"))({
  modelId: required(ModelId, "model_id"),
  type: responseTag("unload_model")
}, lenient) {}
