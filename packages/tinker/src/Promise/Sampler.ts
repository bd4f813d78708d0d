/**
 * A sampler, for plain async code.
 *
 * @since 0.1.0
 */
import type { SamplingSessionId } from "../Id.js"
import type * as QueueState from "../QueueState.js"
import type * as Sample from "../Sample.js"
import type { SamplerHandle } from "../SamplerHandle.js"
import type * as SamplingClient from "../SamplingClient.js"
import type * as TinkerError from "../TinkerError.js"
import type { CallOptions, Closing, PromptInput } from "./Call.js"

/**
 * What to draw, and how.
 *
 * @since 0.1.0
 * @category models
 */
export type SampleOptions = SamplingClient.SampleOptions

/**
 * One of many samples: a response or an error.
 *
 * @since 0.1.0
 * @category models
 */
export interface SampleResult {
  /** Position among the requests. */
  readonly index: number
  readonly request: SamplingClient.SampleOptions
  readonly response: Sample.SampleResponse | undefined
  readonly error: TinkerError.SamplingError | undefined
}

/**
 * See `SamplingClient` for what each call does.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampler extends Closing {
  readonly samplingSessionId: SamplingSessionId
  readonly handle: SamplerHandle
  readonly sample: (options: SampleOptions & CallOptions) => Promise<Sample.SampleResponse>
  readonly computeLogprobs: (
    prompt: PromptInput,
    options?: { readonly lastN?: number | undefined } & CallOptions
  ) => Promise<Float32Array>
  /** In the order in which they end; requests are pulled as places get free. */
  readonly sampleMany: (
    requests: Iterable<SampleOptions> | AsyncIterable<SampleOptions>,
    options?: { readonly concurrency?: number | undefined } & CallOptions
  ) => AsyncIterable<SampleResult>
  /** What holds samples up, from now on. */
  readonly events: (options?: CallOptions) => AsyncIterable<QueueState.Event>
  readonly baseModel: (options?: CallOptions) => Promise<string>
}
