/**
 * Draws from a model, or scores with it: thousands of samples at once, no order to keep.
 *
 * Each `sample` is one Effect of its result. All clients of a tenant share one dispatcher, so a rate limit met by one
 * slows all of them down, and nothing else: waiting for results, training and heartbeats go on.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type * as ModelInput from "./ModelInput.js"
import type * as QueueState from "./QueueState.js"
import type { SamplerHandle } from "./SamplerHandle.js"
import * as ServiceClient from "./ServiceClient.js"
import type { TensorData } from "./TensorData.js"
import * as TextTokenizer from "./TextTokenizer.js"
import type * as TinkerError from "./TinkerError.js"
import type { SamplingSessionId } from "./wire/Id.js"
import type * as Sample from "./wire/Sample.js"
import type { Stop } from "./wire/SamplingParams.js"

/**
 * Prompt to continue or score: an input of the model, token ids in a plain or typed array, or chunks of text and images.
 *
 * @since 0.1.0
 * @category models
 */
export type Prompt =
  | ModelInput.ModelInput
  | ModelInput.Tokens
  | ReadonlyArray<ModelInput.Chunk | ModelInput.ChunkFields>

/**
 * Prompt and settings of sampling. Everything but the prompt may be left out.
 *
 * @since 0.1.0
 * @category models
 */
export interface SampleOptions {
  /** Prompt to continue: an input of the model, its token ids, or its chunks. For text there is {@link sampleText}. */
  readonly prompt: Prompt
  /** Sequences to draw. Defaults to 1. */
  readonly numSamples?: number | undefined
  /** Most tokens to generate. The service decides when absent. */
  readonly maxTokens?: number | undefined
  /** Makes draws repeatable. */
  readonly seed?: number | undefined
  /** Texts or token ids to end at; `[]` disables every stop, the model's own included. Defaults to the model's own. */
  readonly stop?: string | Stop | undefined
  /** `0` is greedy. Defaults to 1. */
  readonly temperature?: number | undefined
  /** Draw among this many tokens. Defaults to -1, no limit. */
  readonly topK?: number | undefined
  /** Draw among the likeliest tokens of this total probability. Defaults to 1. */
  readonly topP?: number | undefined
  /** Score the prompt as well. Defaults to false. */
  readonly promptLogprobs?: boolean | undefined
  /** Score only the end of the prompt; needs `promptLogprobs`. */
  readonly promptLogprobsLastN?: number | undefined
  /** Likeliest tokens to report at each prompt position. Defaults to 0. */
  readonly topkPromptLogprobs?: number | undefined
  /** Likeliest tokens to report at each sampled position. Defaults to 0. */
  readonly topkSampleLogprobs?: number | undefined
  /** Token ids to score, int64 of shape [prompt length - 1, K]: row `i` at prompt position `i + 1`, `-1` for none. */
  readonly targetPromptLogprobs?: TensorData | undefined
  /** Tokens to draw at each prompt position after the first. Defaults to 0. */
  readonly promptAltTokensK?: number | undefined
}

/**
 * One of many samples: which it was, and what became of it.
 *
 * @since 0.1.0
 * @category models
 */
export interface SampleResult {
  /** Position among the requests. */
  readonly index: number
  readonly request: SampleOptions
  readonly result: Either.Either<Sample.SampleResponse, TinkerError.SamplingError>
}

/**
 * Draws and scores.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly samplingSessionId: SamplingSessionId
  readonly sample: (options: SampleOptions) => Effect.Effect<Sample.SampleResponse, TinkerError.SamplingError>
  /**
   * Log probability of each prompt token: NaN for the first, and for those before the last `lastN` when that is given.
   */
  readonly computeLogprobs: (
    prompt: Prompt,
    options?: { readonly lastN?: number | undefined }
  ) => Effect.Effect<Float32Array, TinkerError.SamplingError>
  /**
   * Many samples, in the order in which they finish. Requests are pulled as places get free, so any number of
   * them needs the memory of those in flight. A sample that fails is an element too, and stops nothing.
   */
  readonly sampleMany: <E, R>(
    requests: Stream.Stream<SampleOptions, E, R>,
    options?: { readonly concurrency?: number | undefined }
  ) => Stream.Stream<SampleResult, E, R>
  /** Name of the model under the adapter. */
  readonly baseModel: Effect.Effect<string, TinkerError.RequestError>
  /** Reasons for which samples wait: queue states, back-off, billing. */
  readonly events: Stream.Stream<QueueState.Event>
  /** For another process or thread. It holds no credential. */
  readonly handle: SamplerHandle
}

/**
 * The client as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class SamplingClient extends Context.Tag("effect-tinker/SamplingClient")<SamplingClient, Service>() {}

/**
 * How a client treats its samples.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  /** Record what training needs to refer to the sampled sequences. Defaults to false. */
  readonly recordStabilityInfo?: boolean | undefined
  /** Samples that wait while none has finished for this long fail as `Stuck`. Defaults to 2 hours. */
  readonly progressTimeout?: Duration.DurationInput | undefined
}

/**
 * Source of samples: either a base model or a `tinker://` path.
 *
 * @since 0.1.0
 * @category models
 */
export type Options = Settings & (ModelSource | CheckpointSource)

/**
 * A model of the service's catalogue.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelSource {
  readonly baseModel: string
  readonly modelPath?: undefined
}

/**
 * Saved weights.
 *
 * @since 0.1.0
 * @category models
 */
export interface CheckpointSource {
  /** A `tinker://` path. */
  readonly modelPath: string
  readonly baseModel?: undefined
}

/**
 * Opens a sampler.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { SamplingClient } from "effect-tinker"
 *
 * const draw = Effect.gen(function*() {
 *   const sampler = yield* SamplingClient.make({ modelPath: "tinker://run/sampler_weights/final" })
 *   const { sequences } = yield* sampler.sample({ prompt: [1, 15, 27], maxTokens: 64 })
 *   return sequences.map(({ tokens }) => tokens)
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Options
): Effect.Effect<Service, TinkerError.StartupError, ServiceClient.ServiceClient | Scope.Scope> =>
  Effect.flatMap(ServiceClient.ServiceClient, (service) => service.createSamplingClient(options))

/**
 * A client of a sampler opened elsewhere, numbering its requests apart from the original's. It keeps the session alive
 * too, so that the original may be busy with other things.
 *
 * The `ServiceClient` must be one of the same service; its credentials are used, and it opens no session for this.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromHandle = (
  handle: SamplerHandle,
  settings?: Settings
): Effect.Effect<Service, TinkerError.StartupError, ServiceClient.ServiceClient | Scope.Scope> =>
  Effect.flatMap(ServiceClient.ServiceClient, (service) => service.samplingClientFromHandle(handle, settings))

/**
 * A new sampler, opened when the layer is built.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<SamplingClient, TinkerError.StartupError, ServiceClient.ServiceClient> =>
  Layer.scoped(SamplingClient, make(options))

/**
 * A client of a sampler opened elsewhere.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerHandle = (
  handle: SamplerHandle,
  settings?: Settings
): Layer.Layer<SamplingClient, TinkerError.StartupError, ServiceClient.ServiceClient> =>
  Layer.scoped(SamplingClient, fromHandle(handle, settings))

/**
 * Result of {@link sampleText}: each sequence as text, and the response with its tokens.
 *
 * @since 0.1.0
 * @category models
 */
export interface TextResponse {
  readonly texts: ReadonlyArray<string>
  readonly response: Sample.SampleResponse
}

/**
 * Continues a text, with the tokenizer in the context. The text is encoded as it is: a chat needs the template of its
 * model.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { SamplingClient } from "effect-tinker"
 *
 * const complete = Effect.gen(function*() {
 *   const sampler = yield* SamplingClient.SamplingClient
 *   const { texts } = yield* SamplingClient.sampleText(sampler, { prompt: "Once upon a time", maxTokens: 64 })
 *   return texts[0]
 * })
 * ```
 *
 * @since 0.1.0
 * @category combinators
 */
export const sampleText: (
  sampler: Service,
  options: Omit<SampleOptions, "prompt"> & { readonly prompt: string }
) => Effect.Effect<TextResponse, TinkerError.SamplingError, TextTokenizer.TextTokenizer> = Effect.fnUntraced(
  function*(sampler, options) {
    const tokenizer = yield* TextTokenizer.TextTokenizer
    const prompt = yield* tokenizer.encode(options.prompt)
    const response = yield* sampler.sample({ ...options, prompt })
    const texts = yield* Effect.forEach(response.sequences, ({ tokens }) => tokenizer.decode(tokens))
    return { texts, response }
  }
)
