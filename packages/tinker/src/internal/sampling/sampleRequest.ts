/**
 * Builds sample requests and checks their responses.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import type { EncodedText, ModelInput } from "../../ModelInput.js"
import type * as SamplingClient from "../../SamplingClient.js"
import type { SampleOptions, Settings } from "../../SamplingClient.js"
import * as TinkerError from "../../TinkerError.js"
import * as Endpoint from "../../wire/Endpoint.js"
import * as Future from "../../wire/Future.js"
import type { UntypedFuture } from "../../wire/Future.js"
import type { SamplingSessionId } from "../../wire/Id.js"
import * as Sample from "../../wire/Sample.js"
import { SampleRequest } from "../../wire/Sample.js"
import { SamplingParams } from "../../wire/SamplingParams.js"
import { instance } from "../wire/json.js"

// -----------------------------------------------------------------------------
// Many samples as a stream.
// -----------------------------------------------------------------------------

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

// -----------------------------------------------------------------------------
// Sample requests and their receipts without a schema: at thousands a second the schema would cost more than the sending.
// Unusual or invalid requests still go through the schema, which also produces the error message.
// -----------------------------------------------------------------------------

const bySchema = Endpoint.json(SampleRequest)

const isCount = (n: number | undefined): boolean => n === undefined || (Number.isSafeInteger(n) && n >= 0)

const isInteger = (n: number | undefined): boolean => n === undefined || Number.isSafeInteger(n)

const isPlain = (request: SampleRequest): boolean => {
  const { samplingParams: params } = request
  return request.targetPromptLogprobs === undefined && isCount(request.seqId) && isInteger(request.numSamples) &&
    isCount(request.topkPromptLogprobs) && isCount(request.topkSampleLogprobs) && isCount(request.promptAltTokensK) &&
    isCount(request.promptLogprobsLastN) && request.promptLogprobsLastN !== 0 && isInteger(params.maxTokens) &&
    isInteger(params.seed) && isInteger(params.topK) && Number.isFinite(params.temperature) &&
    Number.isFinite(params.topP) &&
    (params.stop === undefined ||
      params.stop.every((stop) => typeof stop === "string" || Number.isSafeInteger(stop)))
}

const isText = (chunk: SampleRequest["prompt"]["chunks"][number]): chunk is EncodedText =>
  chunk.type === "encoded_text" && chunk.tokens instanceof Int32Array

/** @internal */
export const request: Endpoint.Codec<SampleRequest> = {
  contentType: "application/json",
  encode: (sample) => {
    const { prompt: { chunks }, samplingParams: params } = sample
    if (!(sample instanceof SampleRequest) || !chunks.every(isText) || !isPlain(sample)) return bySchema.encode(sample)
    const rest = JSON.stringify({
      num_samples: sample.numSamples,
      sampling_params: {
        max_tokens: params.maxTokens,
        seed: params.seed,
        stop: params.stop,
        temperature: params.temperature,
        top_k: params.topK,
        top_p: params.topP
      },
      base_model: sample.baseModel,
      model_path: sample.modelPath,
      sampling_session_id: sample.samplingSessionId,
      seq_id: sample.seqId,
      prompt_logprobs: sample.promptLogprobs,
      topk_prompt_logprobs: sample.topkPromptLogprobs,
      topk_sample_logprobs: sample.topkSampleLogprobs,
      prompt_alt_tokens_k: sample.promptAltTokensK,
      prompt_logprobs_last_n: sample.promptLogprobsLastN,
      record_stability_info: sample.recordStabilityInfo,
      type: sample.type
    })
    // `join` writes a typed array in a third of the time that a copy of it takes as JSON.
    const prompt = chunks.map((chunk) => `{"tokens":[${chunk.tokens.join(",")}],"type":"encoded_text"}`).join(",")
    return Either.right(`{"prompt":{"chunks":[${prompt}]},${rest.slice(1)}`)
  },
  decode: bySchema.decode
}

const receiptBySchema = Endpoint.json(Future.UntypedFuture)

const isReceipt = (
  u: unknown
): u is {
  readonly request_id: Future.UntypedFuture["requestId"]
  readonly sample_sequence_ids?: Future.UntypedFuture["sampleSequenceIds"]
} =>
  typeof u === "object" && u !== null && "request_id" in u && typeof u.request_id === "string" && u.request_id !== "" &&
  !("model_id" in u) &&
  (!("sample_sequence_ids" in u) || u.sample_sequence_ids === undefined ||
    (Array.isArray(u.sample_sequence_ids) &&
      u.sample_sequence_ids.every((id) => typeof id === "string" && id !== "")))

/** @internal */
export const receipt: Endpoint.Codec<Future.UntypedFuture> = {
  contentType: "application/json",
  encode: receiptBySchema.encode,
  decode: (body, contentType) => {
    const parsed = Endpoint.parseJson(body)
    return Either.isRight(parsed) && isReceipt(parsed.right)
      ? Either.right(
        instance(Future.UntypedFuture.prototype, {
          requestId: parsed.right.request_id,
          sampleSequenceIds: parsed.right.sample_sequence_ids
        })
      )
      : receiptBySchema.decode(body, contentType)
  }
}

// -----------------------------------------------------------------------------
// Sample requests.
// -----------------------------------------------------------------------------

const refuse = (method: string, description: string) =>
  Either.left(new TinkerError.InvalidInput({ module: "SamplingClient", method, description }))

const isNatural = (n: number | undefined): boolean => n === undefined || (Number.isSafeInteger(n) && n >= 1)

/**
 * The request with its sequence number.
 *
 * @internal
 */
export type Draft = (seqId: number) => Sample.SampleRequest

/**
 * Checks what depends on several options at once; single fields are checked when they are written to the wire.
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
 * A server ignores fields it does not know: the caller must not mistake the response for what was requested.
 *
 * @internal
 */
export const unanswered = (request: Sample.SampleRequest, response: Sample.SampleResponse): string | undefined => {
  if ((request.promptAltTokensK ?? 0) > 0 && response.promptAltTokens === undefined) {
    return "promptAltTokensK was requested, but the server returned none; it may predate the feature"
  }
  const { promptLogprobsLastN: lastN } = request
  const scored = response.promptLogprobs
  if (
    lastN !== undefined && scored !== undefined && scored.subarray(0, -lastN).some((logprob) => !Number.isNaN(logprob))
  ) {
    return "promptLogprobsLastN was requested, but the server scored the whole prompt; it may predate the feature"
  }
  return undefined
}

const isAllText = (prompt: ModelInput): boolean => prompt.chunks.every((chunk) => chunk.type === "encoded_text")

/**
 * Logprobs of the prompt without the first token, which has none, moved back to their tokens: some servers leave it out
 * instead of sending a null. `undefined` where nothing is to be moved.
 *
 * @internal
 */
export const aligned = (
  { prompt }: Sample.SampleRequest,
  response: Sample.SampleResponse
): Sample.SampleResponse | undefined => {
  const { promptLogprobs } = response
  if (promptLogprobs === undefined || !isAllText(prompt)) return undefined
  let tokens = 0
  for (const chunk of prompt.chunks) if (chunk.type === "encoded_text") tokens += chunk.tokens.length
  if (tokens === 0 || promptLogprobs.length !== tokens - 1) return undefined
  const moved = new Float32Array(tokens)
  moved[0] = Number.NaN
  moved.set(promptLogprobs, 1)
  return instance(Sample.SampleResponse.prototype, { ...response, promptLogprobs: moved })
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
