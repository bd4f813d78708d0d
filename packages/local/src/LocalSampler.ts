/**
 * Sampling from weights: requests, and what comes back.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type * as EngineError from "./EngineError.js"
import type { FloatTensor, Snapshot, Tensor } from "./LocalAdapter.js"

/**
 * How tokens are drawn.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Params {
  /** Defaults to what the context has room for. */
  readonly maxTokens?: number | undefined
  /**
   * The same seed gives the same tokens, and of several samples the one at `n` is that of a request with the seed plus `n`.
   * Defaults to a random one.
   */
  readonly seed?: number | undefined
  /**
   * Strings or token ids that end a sequence and are its last tokens. Absent: the end tokens of the model. A list
   * replaces those, so an empty one means that only `maxTokens` ends a sequence.
   */
  readonly stop?: string | ReadonlyArray<string> | ReadonlyArray<number> | undefined
  /** 0 takes the most likely token. Defaults to 1. */
  readonly temperature?: number | undefined
  /** Only the k most likely tokens, -1 for all. Defaults to -1. */
  readonly topK?: number | undefined
  /** Only the most likely tokens that together have this probability. Defaults to 1. */
  readonly topP?: number | undefined
}

/**
 * A prompt and what is wanted from it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request {
  readonly prompt: Int32Array | ReadonlyArray<number>
  /** Defaults to 1. */
  readonly numSamples?: number | undefined
  readonly params?: Params | undefined
  /** Logprob of every prompt token after the first. Defaults to false. */
  readonly promptLogprobs?: boolean | undefined
  /** Score only the last n tokens of the prompt. */
  readonly promptLogprobsLastN?: number | undefined
  /** The k most likely tokens at every position of the prompt. Defaults to 0. */
  readonly topkPromptLogprobs?: number | undefined
  /** The k most likely tokens at every sampled position. Defaults to 0. */
  readonly topkSampleLogprobs?: number | undefined
  /** Ids to score, [prompt length - 1, K]: row i at position i + 1; -1 asks for nothing. */
  readonly targetPromptLogprobs?: Tensor | undefined
  /** Draws at every position of the prompt after the first. Defaults to 0. */
  readonly promptAltTokensK?: number | undefined
}

/**
 * The most likely tokens per position, [length, k] by rows. Cells without a token hold 0 and -99999.
 *
 * @since 0.1.0
 * @category models
 */
export interface TopK {
  readonly tokenIds: Int32Array
  readonly logprobs: Float32Array
  readonly k: number
  readonly length: number
}

/**
 * One completion.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sequence {
  readonly tokens: Int32Array
  /** Of the model itself, before temperature and cuts, as in a forward pass. */
  readonly logprobs: Float32Array
  readonly stopReason: "stop" | "length"
  readonly topk?: TopK | undefined
}

/**
 * The answer to a request.
 *
 * @since 0.1.0
 * @category models
 */
export interface Result {
  readonly sequences: ReadonlyArray<Sequence>
  /** One per prompt token; NaN where there is none. */
  readonly promptLogprobs?: Float32Array | undefined
  readonly topkPromptLogprobs?: TopK | undefined
  readonly targetPromptLogprobs?: FloatTensor | undefined
  /** Both [prompt length - 1, k]. */
  readonly promptAltTokens?: {
    readonly tokens: Int32Array
    readonly logprobs: Float32Array
    readonly shape: readonly [number, number]
  } | undefined
}

/**
 * Addition to one completion, in the order of drawing.
 *
 * @since 0.1.0
 * @category models
 */
export interface Slice {
  /** Which completion of the request, from 0. */
  readonly index: number
  readonly tokens: Int32Array
  readonly logprobs: Float32Array
  /** Set with the last slice of a completion. */
  readonly stopReason: Sequence["stopReason"] | undefined
}

/**
 * Weights to sample from.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampler {
  readonly baseModel: string
  readonly sample: (request: Request) => Effect.Effect<Result, EngineError.EngineError>
  /**
   * The same tokens while they are drawn. The effect ends when the prompt has been read; the stream, to be run once,
   * draws only what is asked of it.
   */
  readonly stream: (
    request: Request
  ) => Effect.Effect<Stream.Stream<Slice, EngineError.ThreadLost>, EngineError.EngineError>
}

/**
 * Weights that change while they are sampled from, and the samplers that follow them.
 *
 * @since 0.2.0
 * @category models
 */
export interface Target {
  readonly baseModel: string
  /**
   * Replaces the weights of all samplers of the target. Requests that run go on with the new ones from a token on, and keep
   * the keys and values they have; the effect does not wait for them. Later requests run on these weights or newer ones.
   */
  readonly publish: (snapshot: Snapshot) => Effect.Effect<void, EngineError.EngineError>
  /** A sampler that follows the weights. It reuses what its own requests have read, and nothing of other samplers. */
  readonly sampler: Effect.Effect<Sampler>
}
