/**
 * The service's record of a model in training.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Checkpoint } from "../Checkpoint.js"
import { Instant, lenient, optional, required, StringRecord, withDefault } from "../internal/wire/json.js"
import { Cursor } from "./Cursor.js"
import { ModelId } from "./Id.js"

/**
 * The record of a training run.
 *
 * @since 0.1.0
 * @category schemas
 */
export class TrainingRun extends Schema.Class<TrainingRun>("effect-tinker/TrainingRun")({
  trainingRunId: required(ModelId, "training_run_id"),
  baseModel: required(Schema.String, "base_model"),
  modelOwner: required(Schema.String, "model_owner"),
  isLora: required(Schema.Boolean, "is_lora"),
  /** Whether the run can no longer be continued. Defaults to `false`. */
  corrupted: withDefault(Schema.Boolean, "corrupted", () => false),
  loraRank: optional(Schema.Int, "lora_rank"),
  lastRequestTime: required(Instant, "last_request_time"),
  lastCheckpoint: optional(Checkpoint, "last_checkpoint"),
  lastSamplerCheckpoint: optional(Checkpoint, "last_sampler_checkpoint"),
  userMetadata: optional(StringRecord, "user_metadata")
}, lenient) {}

/**
 * One page of runs.
 *
 * @since 0.1.0
 * @category schemas
 */
export class TrainingRunsResponse
  extends Schema.Class<TrainingRunsResponse>("effect-tinker/TrainingRun/TrainingRunsResponse")({
    trainingRuns: required(Schema.Array(TrainingRun), "training_runs"),
    cursor: Cursor
  }, lenient)
{}

/**
 * Whose runs and sessions to look at: one's own, or all one may see.
 *
 * @since 0.1.0
 * @category schemas
 */
export const AccessScope: Schema.Literal<["owned", "accessible"]> = Schema.Literal("owned", "accessible")

/**
 * Whose runs: one's own, or all one may read.
 *
 * @since 0.1.0
 * @category models
 */
export type AccessScope = typeof AccessScope.Type
