/**
 * From what a caller asks for to the request, and from the answer back to what was asked for.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import type { UntypedFuture } from "../../Future.js"
import type { SamplingSessionId } from "../../Id.js"
import type { ModelInput } from "../../ModelInput.js"
import * as Sample from "../../Sample.js"
import type { SampleOptions, Settings } from "../../SamplingClient.js"
import { SamplingParams } from "../../SamplingParams.js"
import * as TinkerError from "../../TinkerError.js"
import { instance } from "../wire/wire.js"

const refuse = (method: string, description: string) =>
  Either.left(new TinkerError.InvalidInput({ module: "SamplingClient", method, description }))

const isNatural = (n: number | undefined): boolean => n === undefined || (Number.isSafeInteger(n) && n >= 1)

/**
 * The request under a number of its own.
 *
 * @internal
 */
export type Draft = (seqId: number) => Sample.SampleRequest

/**
 * What only the whole of the options shows is checked here; each field by itself where it is written to the wire.
 *
 * @internal
 */
export const make = (
  method: string,
  options: SampleOptions,
  prompt: ModelInput,
  samplingSessionId: SamplingSessionId,
  settings: Settings
): Either.Either<Draft, TinkerError.InvalidInput> => {
  if (!isNatural(options.numSamples)) return refuse(method, "numSamples must be a positive integer")
  if (!isNatural(options.maxTokens)) return refuse(method, "maxTokens must be a positive integer")
  if (prompt.chunks.length === 0) return refuse(method, "the prompt is empty")
  const params = instance(SamplingParams.prototype, {
    maxTokens: options.maxTokens,
    seed: options.seed,
    stop: typeof options.stop === "string" ? [options.stop] : options.stop,
    temperature: options.temperature ?? 1,
    topK: options.topK ?? -1,
    topP: options.topP ?? 1
  })
  const problem = Sample.problem(options)
  if (problem !== undefined) return refuse(method, problem)
  return Either.right((seqId) =>
    instance(Sample.SampleRequest.prototype, {
      numSamples: options.numSamples ?? 1,
      prompt,
      samplingParams: params,
      samplingSessionId,
      seqId,
      promptLogprobs: options.promptLogprobs ?? false,
      topkPromptLogprobs: options.topkPromptLogprobs ?? 0,
      // Older servers refuse fields they do not know: zero is their absence.
      topkSampleLogprobs: options.topkSampleLogprobs === 0 ? undefined : options.topkSampleLogprobs,
      targetPromptLogprobs: options.targetPromptLogprobs,
      promptAltTokensK: options.promptAltTokensK === 0 ? undefined : options.promptAltTokensK,
      promptLogprobsLastN: options.promptLogprobsLastN,
      recordStabilityInfo: settings.recordStabilityInfo === true ? true : undefined,
      type: "sample"
    })
  )
}

/**
 * A server that does not know a field ignores it: the caller must not take the answer for what was asked.
 *
 * @internal
 */
export const unanswered = (request: Sample.SampleRequest, response: Sample.SampleResponse): string | undefined => {
  if ((request.promptAltTokensK ?? 0) > 0 && response.promptAltTokens === undefined) {
    return "promptAltTokensK was asked for, but the server drew none; it may predate the feature"
  }
  const { promptLogprobsLastN: lastN } = request
  const scored = response.promptLogprobs
  if (
    lastN !== undefined && scored !== undefined && scored.subarray(0, -lastN).some((logprob) => !Number.isNaN(logprob))
  ) {
    return "promptLogprobsLastN was asked for, but the server scored the whole prompt; it may predate the feature"
  }
  return undefined
}

/**
 * Sequences with the names the server gave them when it accepted the request; the result does not repeat them.
 *
 * @internal
 */
export const named = (response: Sample.SampleResponse, receipt: UntypedFuture): Sample.SampleResponse => {
  const { sampleSequenceIds: ids } = receipt
  if (ids === undefined || ids.length !== response.sequences.length) return response
  return instance(Sample.SampleResponse.prototype, {
    ...response,
    sequences: response.sequences.map((sequence, i) =>
      instance(Sample.SampledSequence.prototype, { ...sequence, sequenceId: ids[i] })
    )
  })
}
