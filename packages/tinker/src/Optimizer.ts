/**
 * Optimizers: the family a model is created with, and the parameters of one step.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import {
  Count,
  lenient,
  Metrics,
  optional,
  required,
  strict,
  tag,
  taggedJson,
  withDefault
} from "./internal/wire/json.js"
import { ModelId } from "./wire/Id.js"

const Float = Schema.JsonNumber

/**
 * Parameters of one AdamW step.
 *
 * @since 0.1.0
 * @category schemas
 */
export class AdamParams extends Schema.Class<AdamParams>("effect-tinker/Optimizer/AdamParams")({
  /** Defaults to `1e-4`. */
  learningRate: withDefault(Float, "learning_rate", () => 1e-4),
  /** Decay of the mean of gradients. Defaults to `0.9`. */
  beta1: withDefault(Float, "beta1", () => 0.9),
  /** Decay of the mean of squared gradients. Defaults to `0.95`. */
  beta2: withDefault(Float, "beta2", () => 0.95),
  /** Keeps the division finite. Defaults to `1e-12`. */
  eps: withDefault(Float, "eps", () => 1e-12),
  /** Decoupled weight decay. Defaults to `0`. */
  weightDecay: withDefault(Float, "weight_decay", () => 0),
  /** Largest global norm of the gradient; `0` does not clip. Defaults to `0`. */
  gradClipNorm: withDefault(Float, "grad_clip_norm", () => 0)
}, strict) {}

/**
 * Parameters of one Dimuon step, for models created with {@link DimuonOptimizerConfig}.
 *
 * @since 0.1.0
 * @category schemas
 */
export class DimuonParams extends Schema.Class<DimuonParams>("effect-tinker/Optimizer/DimuonParams")({
  type: tag("dimuon"),
  learningRate: required(Float.pipe(Schema.nonNegative()), "learning_rate"),
  /** Largest global norm of the gradient; `0` or less does not clip. Defaults to `0`. */
  gradClipNorm: withDefault(Float, "grad_clip_norm", () => 0),
  /** Defaults to `0.9`. */
  beta1: withDefault(Float.pipe(Schema.nonNegative(), Schema.lessThan(1)), "beta1", () => 0.9)
}, strict) {}

/**
 * Parameters of an optimizer this version does not know: sent as they are, wire names and all.
 *
 * @since 0.1.0
 * @category models
 */
export interface OtherOptimizerParams {
  readonly type: string
  readonly [name: string]: unknown
}

/**
 * Parameters of an optimizer this version does not know.
 *
 * @since 0.1.0
 * @category schemas
 */
export const OtherOptimizerParams: Schema.Schema<OtherOptimizerParams> = taggedJson(
  "OtherOptimizerParams",
  new Set(["dimuon"])
)

/**
 * Parameters of one optimizer step.
 *
 * @since 0.1.0
 * @category models
 */
export type OptimizerParams = AdamParams | DimuonParams | OtherOptimizerParams

/**
 * The AdamW family, which models have by default.
 *
 * @since 0.1.0
 * @category schemas
 */
export class AdamOptimizerConfig
  extends Schema.Class<AdamOptimizerConfig>("effect-tinker/Optimizer/AdamOptimizerConfig")({
    type: tag("adamw")
  }, strict)
{}

/**
 * The Dimuon family.
 *
 * @since 0.1.0
 * @category schemas
 */
export class DimuonOptimizerConfig
  extends Schema.Class<DimuonOptimizerConfig>("effect-tinker/Optimizer/DimuonOptimizerConfig")({
    type: tag("dimuon"),
    /** Defaults to `1`. */
    version: Schema.optionalWith(Schema.Literal(1), { default: () => 1 as const })
  }, strict)
{}

/**
 * An optimizer family this version does not know, as the wire has it.
 *
 * @since 0.1.0
 * @category models
 */
export interface OtherOptimizerConfig {
  readonly type: string
  readonly [name: string]: unknown
}

/**
 * An optimizer family this version does not know.
 *
 * @since 0.1.0
 * @category schemas
 */
export const OtherOptimizerConfig: Schema.Schema<OtherOptimizerConfig> = taggedJson("OtherOptimizerConfig")

/**
 * The optimizer family of a model.
 *
 * @since 0.1.0
 * @category models
 */
export type OptimizerConfig = AdamOptimizerConfig | DimuonOptimizerConfig | OtherOptimizerConfig

/**
 * The optimizer family of a model.
 *
 * @since 0.1.0
 * @category schemas
 */
export const OptimizerConfig: Schema.Union<
  [typeof AdamOptimizerConfig, typeof DimuonOptimizerConfig, typeof OtherOptimizerConfig]
> = Schema.Union(AdamOptimizerConfig, DimuonOptimizerConfig, OtherOptimizerConfig)

/**
 * Apply the accumulated gradients. Exactly one of `adamParams` and `optimizerParams` is there: AdamW keeps the key older
 * servers know, every other family has its own.
 *
 * @since 0.1.0
 * @category schemas
 */
export class OptimStepRequest extends Schema.Class<OptimStepRequest>("effect-tinker/Optimizer/OptimStepRequest")(
  Schema.Struct({
    modelId: required(ModelId, "model_id"),
    seqId: optional(Count, "seq_id"),
    adamParams: optional(AdamParams, "adam_params"),
    optimizerParams: optional(Schema.Union(DimuonParams, OtherOptimizerParams), "optimizer_params"),
    type: tag("optim_step")
  }).pipe(
    Schema.filter((request) =>
      (request.adamParams === undefined) !== (request.optimizerParams === undefined) ||
      "exactly one of adam_params and optimizer_params is needed"
    )
  ),
  strict
) {}

/**
 * The request of one step, under the key its optimizer has on the wire.
 *
 * @since 0.1.0
 * @category constructors
 */
export const optimStepRequest = (options: {
  readonly modelId: ModelId
  readonly seqId?: number | undefined
  readonly params: OptimizerParams
}): OptimStepRequest =>
  new OptimStepRequest({
    modelId: options.modelId,
    seqId: options.seqId,
    ...(options.params instanceof AdamParams ? { adamParams: options.params } : { optimizerParams: options.params })
  })

/**
 * The result of a step.
 *
 * @since 0.1.0
 * @category schemas
 */
export class OptimStepResponse extends Schema.Class<OptimStepResponse>("effect-tinker/Optimizer/OptimStepResponse")({
  /** Measurements of the server, e.g. the gradient's norm. */
  metrics: optional(Metrics, "metrics")
}, lenient) {}
