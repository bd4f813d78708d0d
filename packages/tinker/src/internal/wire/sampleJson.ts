/**
 * Sample requests and their receipts without a schema in the way: at thousands a second the schema would cost more than
 * the sending. What is unusual, or wrong, still takes the schema's way, which also finds the words for it.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Endpoint from "../../Endpoint.js"
import * as Future from "../../Future.js"
import type { EncodedText } from "../../ModelInput.js"
import { SampleRequest } from "../../Sample.js"
import { instance } from "./wire.js"

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
