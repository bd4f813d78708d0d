/**
 * Many samples as a stream, however one of them is drawn.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as SamplingClient from "../../SamplingClient.js"

const defaultConcurrency = 400

/** @internal */
export const sampleMany =
  (sample: SamplingClient.Service["sample"]): SamplingClient.Service["sampleMany"] => (requests, options) =>
    Stream.mapEffect(
      Stream.zipWithIndex(requests),
      ([request, index]) =>
        Effect.map(
          Effect.either(sample(request)),
          (result): SamplingClient.SampleResult => ({ index, request, result })
        ),
      { concurrency: options?.concurrency ?? defaultConcurrency, unordered: true }
    )
