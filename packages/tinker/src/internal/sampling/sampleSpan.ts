/**
 * Span attributes of a sample, by OpenTelemetry's conventions for generative models: those a backend knows how to show.
 *
 * @since 0.2.0
 */
import type { SampleOptions } from "../../SamplingClient.js"
import type * as Sample from "../../wire/Sample.js"

/** Attributes of a request. @internal */
export const requested = (options: SampleOptions, model: string | undefined, tokens: number) => {
  const asked = {
    "gen_ai.operation.name": "text_completion",
    "gen_ai.provider.name": "tinker",
    "gen_ai.request.model": model,
    "gen_ai.request.max_tokens": options.maxTokens,
    "gen_ai.request.temperature": options.temperature,
    "gen_ai.request.top_k": options.topK,
    "gen_ai.request.top_p": options.topP,
    "gen_ai.request.seed": options.seed,
    "gen_ai.request.choice.count": options.numSamples,
    "gen_ai.usage.input_tokens": tokens
  }
  return Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined))
}

/** Attributes of its response. @internal */
export const responded = (sequences: Sample.SampleResponse["sequences"]) => ({
  "gen_ai.usage.output_tokens": sequences.reduce((sum, { tokens }) => sum + tokens.length, 0),
  "gen_ai.response.finish_reasons": sequences.map(({ stopReason }) => stopReason)
})
