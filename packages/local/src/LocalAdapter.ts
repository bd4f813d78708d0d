/**
 * A LoRA adapter in training: what goes in, what comes out, and what is kept of it.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as EngineError from "./EngineError.js"

/**
 * Numbers with a shape, stored by rows.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tensor {
  readonly data: Float32Array | Float64Array | Int32Array | BigInt64Array | ReadonlyArray<number>
  readonly shape: ReadonlyArray<number>
}

/**
 * A tensor of results.
 *
 * @since 0.1.0
 * @category models
 */
export interface FloatTensor {
  readonly data: Float32Array
  readonly shape: ReadonlyArray<number>
}

/**
 * How an adapter is made.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Config {
  readonly baseModel: string
  /** Width of the factors, 1 to 128. Defaults to 32. */
  readonly rank?: number | undefined
  /** Seed of the initial weights. Defaults to a random one. */
  readonly seed?: number | undefined
  /** Defaults to true. */
  readonly trainAttn?: boolean | undefined
  /** Defaults to true. */
  readonly trainMlp?: boolean | undefined
  /** Defaults to true. */
  readonly trainUnembed?: boolean | undefined
  /** The optimizer family. Defaults to `adamw`, the only one there is. */
  readonly optimizer?: string | undefined
}

/**
 * One training example: the tokens the model reads, and what its loss needs for each of them.
 *
 * @since 0.1.0
 * @category models
 */
export interface Datum {
  readonly tokens: Int32Array | ReadonlyArray<number>
  /** `target_tokens` and, depending on the loss, `weights`, `logprobs`, `advantages`, `sequence_ratio_mask`. */
  readonly lossInputs: Readonly<Record<string, Tensor>>
}

/**
 * A forward pass over some data, and a backward pass unless `forwardOnly` is set.
 *
 * @since 0.1.0
 * @category models
 */
export interface PassRequest {
  readonly data: ReadonlyArray<Datum>
  /** `cross_entropy`, `importance_sampling`, `ppo`, `cispo`, `dro` or `gspo`. */
  readonly loss: string
  readonly config?: Readonly<Record<string, number | string>> | undefined
  /** Compute, but leave the gradient alone. Defaults to false. */
  readonly forwardOnly?: boolean | undefined
}

/**
 * Result of a pass.
 *
 * @since 0.1.0
 * @category models
 */
export interface PassResult {
  /** For each datum `logprobs`, shaped like its targets, and for cross entropy `elementwise_loss`. */
  readonly outputs: ReadonlyArray<Readonly<Record<string, FloatTensor>>>
  /** `loss:sum`. */
  readonly metrics: Readonly<Record<string, number>>
  /** Tokens read. */
  readonly tokens: number
}

/**
 * One step of AdamW. Defaults are those of the service.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface StepParams {
  /** The optimizer family the parameters are for. Defaults to `adamw`. */
  readonly type?: string | undefined
  /** Defaults to 1e-4. */
  readonly learningRate?: number | undefined
  /** Defaults to 0.9. */
  readonly beta1?: number | undefined
  /** Defaults to 0.95. */
  readonly beta2?: number | undefined
  /** Defaults to 1e-12. */
  readonly eps?: number | undefined
  /** Decoupled from the gradient. Defaults to 0. */
  readonly weightDecay?: number | undefined
  /** Largest norm of the whole gradient, 0 for no limit. Defaults to 0. */
  readonly gradClipNorm?: number | undefined
}

/**
 * A tensor of a snapshot under its name.
 *
 * @since 0.1.0
 * @category models
 */
export interface NamedTensor extends FloatTensor {
  readonly name: string
}

/**
 * Everything needed to make the adapter again. Its arrays are copies: later steps do not change them.
 *
 * @since 0.1.0
 * @category models
 */
export interface Snapshot {
  readonly baseModel: string
  readonly rank: number
  /** Factor of the product of the factors: PEFT's `lora_alpha` over the rank. */
  readonly scale: number
  readonly trainAttn: boolean
  readonly trainMlp: boolean
  readonly trainUnembed: boolean
  /** The factors under PEFT's names: `base_model.model.<module>.lora_A.weight` and `….lora_B.weight`. */
  readonly weights: ReadonlyArray<NamedTensor>
  /** The state of the optimizer, with the names of the factors it belongs to. */
  readonly optimizer?: {
    readonly steps: number
    readonly first: ReadonlyArray<NamedTensor>
    readonly second: ReadonlyArray<NamedTensor>
  } | undefined
}

/**
 * An adapter. Its operations run one after the other; several adapters share the processor in turns.
 *
 * @since 0.1.0
 * @category models
 */
export interface Adapter {
  readonly baseModel: string
  readonly rank: number
  readonly trainAttn: boolean
  readonly trainMlp: boolean
  readonly trainUnembed: boolean
  /** Adds the gradient of this pass to what earlier passes left. A pass that fails or is interrupted adds nothing. */
  readonly forwardBackward: (request: PassRequest) => Effect.Effect<PassResult, EngineError.EngineError>
  /** Moves the weights against the gradient and clears it. Metrics: `grad_norm`, before clipping. */
  readonly optimStep: (
    params?: StepParams
  ) => Effect.Effect<{ readonly metrics: Readonly<Record<string, number>> }, EngineError.EngineError>
  readonly snapshot: (
    options?: { readonly optimizer?: boolean | undefined }
  ) => Effect.Effect<Snapshot>
  /** Replaces the weights, and the optimizer's state or a fresh one; clears the gradient. */
  readonly load: (
    snapshot: Snapshot,
    options?: { readonly optimizer?: boolean | undefined }
  ) => Effect.Effect<void, EngineError.EngineError>
}
