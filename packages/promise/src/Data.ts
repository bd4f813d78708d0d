/**
 * Data: tokens, examples, losses, and the results of passes and samples.
 *
 * @since 0.1.0
 */

/**
 * Token ids.
 *
 * @since 0.1.0
 * @category models
 */
export type Tokens = Int32Array | ReadonlyArray<number>

/**
 * A part of a prompt that is tokens, or an image.
 *
 * @since 0.1.0
 * @category models
 */
export type Chunk =
  | { readonly type: "encoded_text"; readonly tokens: Tokens }
  | {
    readonly type: "image"
    readonly data: Uint8Array
    readonly format: "png" | "jpeg"
    readonly expectedTokens?: number | undefined
  }

/**
 * A tensor: its values row by row, and its shape.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tensor {
  readonly dtype: "int64" | "float32"
  readonly data: Float32Array | Float64Array | Int32Array | BigInt64Array
  readonly shape: ReadonlyArray<number>
}

/**
 * An example that a pass computes a loss of. Made by `fromTokens`, `fromExamples` and `datum`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Datum {
  readonly modelInput: {
    readonly chunks: ReadonlyArray<{ readonly type: string; readonly length?: number | undefined }>
  }
  /** Tensors by the names the loss knows, such as `target_tokens` and `weights`. */
  readonly lossFnInputs: Readonly<Record<string, Tensor>>
}

/**
 * Values of a tensor: in a typed array, or in lists, nested for more than one dimension.
 *
 * @since 0.1.0
 * @category models
 */
export type Values =
  | Float32Array
  | Float64Array
  | Int32Array
  | BigInt64Array
  | ReadonlyArray<number>
  | ReadonlyArray<ReadonlyArray<number>>

/**
 * Losses of the hosted service; other servers know more.
 *
 * @since 0.1.0
 * @category models
 */
export type LossName =
  | "cross_entropy"
  | "importance_sampling"
  | "ppo"
  | "cispo"
  | "dro"
  | "gspo"
  | "stable_reinforce"
  | (string & {})

/**
 * Settings of AdamW.
 *
 * @since 0.1.0
 * @category models
 */
export interface Adam {
  /** Defaults to 1e-4. */
  readonly learningRate?: number | undefined
  /** Defaults to 0.9. */
  readonly beta1?: number | undefined
  /** Defaults to 0.95. */
  readonly beta2?: number | undefined
  /** Defaults to 1e-12. */
  readonly eps?: number | undefined
  /** Defaults to 0. */
  readonly weightDecay?: number | undefined
  /** Largest norm of the gradients; 0 does not clip. Defaults to 0. */
  readonly gradClipNorm?: number | undefined
}

/**
 * Result of a pass.
 *
 * @since 0.1.0
 * @category models
 */
export interface Output {
  readonly lossFnOutputType: string
  /** Of each datum, tensors by name, such as `logprobs`. */
  readonly lossFnOutputs: ReadonlyArray<Readonly<Record<string, Tensor>>>
  readonly metrics: Readonly<Record<string, number>>
}

/**
 * Result of an optimizer step.
 *
 * @since 0.1.0
 * @category models
 */
export interface OptimStep {
  /** Measured by the server, such as the norm of the gradients. */
  readonly metrics?: Readonly<Record<string, number>> | undefined
}

/**
 * Result of a pass and an optimizer step.
 *
 * @since 0.1.0
 * @category models
 */
export interface TrainStep {
  readonly loss: { readonly sum: number; readonly perToken: number }
  readonly pass: Output
  readonly step: OptimStep
}

/**
 * Gradients of a custom loss, one for each datum, and its value.
 *
 * @since 0.1.0
 * @category models
 */
export interface Gradients {
  readonly loss: number
  readonly gradients: ReadonlyArray<ArrayLike<number>>
  readonly metrics?: Readonly<Record<string, number>> | undefined
}

/**
 * A loss of your own: from the data, and for each of them the log probabilities of its `target_tokens`, the loss and its
 * gradients by these log probabilities.
 *
 * @since 0.1.0
 * @category models
 */
export type CustomLoss = (
  data: ReadonlyArray<Datum>,
  logprobs: ReadonlyArray<Float64Array>
) => Gradients | Promise<Gradients>

/**
 * Settings of a draw.
 *
 * @since 0.1.0
 * @category models
 */
export interface SampleOptions {
  readonly prompt: Tokens | ReadonlyArray<Chunk>
  /** Sequences to draw. Defaults to 1. */
  readonly numSamples?: number | undefined
  /** Most tokens to generate. The service decides when absent. */
  readonly maxTokens?: number | undefined
  /** Makes draws repeatable. */
  readonly seed?: number | undefined
  /** Texts or token ids to end at; `[]` disables every stop, the model's own included. Defaults to the model's own. */
  readonly stop?: string | ReadonlyArray<number> | ReadonlyArray<string> | undefined
  /** `0` is greedy. Defaults to 1. */
  readonly temperature?: number | undefined
  /** Draw among this many tokens. Defaults to -1, no limit. */
  readonly topK?: number | undefined
  /** Draw among the likeliest tokens of this total probability. Defaults to 1. */
  readonly topP?: number | undefined
  /** Score the prompt as well. Defaults to false. */
  readonly promptLogprobs?: boolean | undefined
}

/**
 * One sequence drawn from the model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sequence {
  readonly tokens: Int32Array
  /** Log probability of each token. */
  readonly logprobs?: Float32Array | undefined
  /** `length`, `stop`, or what a newer server calls it. */
  readonly stopReason: string
  /** Name of the sequence, where the server gave it one. */
  readonly sequenceId?: string | undefined
}

/**
 * Sequences drawn from the model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sample {
  readonly sequences: ReadonlyArray<Sequence>
  /** Log probability of each prompt token; NaN where there is none, as for the first. */
  readonly promptLogprobs?: Float32Array | undefined
  /** Prompt tokens the server had cached. */
  readonly promptCacheHitTokens: number
}
