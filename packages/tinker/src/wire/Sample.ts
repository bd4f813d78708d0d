/**
 * Sampling: what is asked for and what comes back.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { Open } from "../internal/wire/json.js"
import {
  Count,
  instance,
  lenient,
  open,
  optional,
  required,
  responseTag,
  strict,
  tag,
  withDefault
} from "../internal/wire/json.js"
import * as Numbers from "../internal/wire/numbers.js"
import * as reader from "../internal/wire/protobuf/reader.js"
import * as responseProtobuf from "../internal/wire/protobuf/sample.js"
import * as writer from "../internal/wire/protobuf/writer.js"
import { ModelInput } from "../ModelInput.js"
import * as TensorData from "../TensorData.js"
import { InvalidInput, MalformedResponse } from "../TinkerError.js"
import { SamplingSessionId, SequenceId } from "./Id.js"
import { SamplingParams } from "./SamplingParams.js"
import { TopkLogprobs } from "./TopkLogprobs.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Sample/${name}` as const

/**
 * Continue a prompt, or score it. Fields that older servers do not know are only sent when set.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SampleRequest extends Schema.Class<SampleRequest>(id("SampleRequest"))({
  /** Sequences to draw. Defaults to `1`. */
  numSamples: withDefault(Schema.Int, "num_samples", () => 1),
  prompt: ModelInput,
  samplingParams: required(SamplingParams, "sampling_params"),
  baseModel: optional(Schema.String, "base_model"),
  /** A `tinker://` path. */
  modelPath: optional(Schema.String, "model_path"),
  /** The sampler to use instead of `modelPath` or `baseModel`; needs `seqId`. */
  samplingSessionId: optional(SamplingSessionId, "sampling_session_id"),
  /** Number of the request within its sampler. */
  seqId: optional(Count, "seq_id"),
  /** Score the prompt: `true`, `false`, or left to the server. */
  promptLogprobs: optional(Schema.Boolean, "prompt_logprobs"),
  /** Likeliest tokens to report at each prompt position. Defaults to `0`. */
  topkPromptLogprobs: withDefault(Count, "topk_prompt_logprobs", () => 0),
  /** Likeliest tokens to report at each sampled position. */
  topkSampleLogprobs: optional(Count, "topk_sample_logprobs"),
  /** Token ids to score, int64 of shape [prompt length - 1, K]: row `i` at prompt position `i + 1`, `-1` for none. */
  targetPromptLogprobs: optional(TensorData.FromJson, "target_prompt_logprobs"),
  /** Tokens to draw at each prompt position after the first. */
  promptAltTokensK: optional(Count, "prompt_alt_tokens_k"),
  /** Score only the end of the prompt; needs `promptLogprobs`. */
  promptLogprobsLastN: optional(Schema.Int.pipe(Schema.positive()), "prompt_logprobs_last_n"),
  /** Record what training needs to refer to the sampled sequences. */
  recordStabilityInfo: optional(Schema.Boolean, "record_stability_info"),
  type: tag("sample")
}, strict) {}

/**
 * A reason for which any server would refuse, in a sentence.
 *
 * @internal
 */
export const problem = (
  request: Pick<SampleRequest, "targetPromptLogprobs" | "promptLogprobsLastN" | "promptLogprobs">
): string | undefined => {
  const targets = request.targetPromptLogprobs
  if (targets !== undefined && targets.dtype !== "int64") {
    return `targetPromptLogprobs must be int64 token ids, not ${targets.dtype}`
  }
  if (targets !== undefined && targets.shape.length !== 2) {
    return `targetPromptLogprobs must have shape [prompt length - 1, K], not [${targets.shape.join(", ")}]`
  }
  return request.promptLogprobsLastN !== undefined && request.promptLogprobs !== true
    ? "promptLogprobsLastN needs promptLogprobs"
    : undefined
}

/**
 * Refuses what any server would: targets that are not two-dimensional int64, and scoring the end of a prompt that is
 * not scored.
 *
 * @since 0.1.0
 * @category combinators
 */
export const validate = (request: SampleRequest): Either.Either<SampleRequest, InvalidInput> => {
  const description = problem(request)
  return description === undefined
    ? Either.right(request)
    : Either.left(new InvalidInput({ module: "Sample", method: "validate", description }))
}

/**
 * Why a sequence ended: at its largest length, or at a stop. A newer server may know more reasons.
 *
 * @since 0.1.0
 * @category models
 */
export type StopReason = Open<"length" | "stop">

/**
 * Why a sequence ended.
 *
 * @since 0.1.0
 * @category schemas
 */
export const StopReason: Schema.Schema<StopReason, string> = open("length", "stop")

/**
 * One sequence drawn from the model.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SampledSequence extends Schema.Class<SampledSequence>(id("SampledSequence"))({
  stopReason: required(StopReason, "stop_reason"),
  tokens: Numbers.Int32s,
  /** Log probability of each token. */
  logprobs: optional(Numbers.Float32s, "logprobs"),
  /** Likeliest tokens at each position, when asked for. */
  topkLogprobs: optional(TopkLogprobs, "topk_logprobs"),
  /** Name by which training data refers to the sequence, where the server gave one. */
  sequenceId: optional(SequenceId, "sequence_id")
}, lenient) {}

/**
 * Tokens drawn at each prompt position after the first, dense [prompt length - 1, K].
 *
 * @since 0.1.0
 * @category schemas
 */
export class PromptAltTokens extends Schema.Class<PromptAltTokens>(id("PromptAltTokens"))({
  tokens: TensorData.FromJson,
  logprobs: TensorData.FromJson
}, lenient) {}

/**
 * The result of a sample request.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SampleResponse extends Schema.Class<SampleResponse>(id("SampleResponse"))({
  sequences: Schema.Array(SampledSequence),
  /** Log probability of each prompt token; NaN where there is none, as for the first. */
  promptLogprobs: optional(Numbers.Float32s, "prompt_logprobs"),
  /** Likeliest tokens at each prompt position. */
  topkPromptLogprobs: optional(TopkLogprobs, "topk_prompt_logprobs"),
  /** Log probability of each target, in the targets' shape and layout; 0 in cells that asked for nothing. */
  targetPromptLogprobs: optional(TensorData.FromJson, "target_prompt_logprobs"),
  /** Prompt tokens the server had cached. Defaults to `0`. */
  promptCacheHitTokens: withDefault(Count, "prompt_cache_hit_tokens", () => 0),
  promptAltTokens: optional(PromptAltTokens, "prompt_alt_tokens"),
  type: responseTag("sample")
}, lenient) {}

/**
 * Log probabilities as a list, `null` where there is none.
 *
 * @since 0.1.0
 * @category combinators
 */
export const logprobsToList = (logprobs: Float32Array): Array<number | null> =>
  Array.from(logprobs, (logprob) => Number.isNaN(logprob) ? null : logprob)

/**
 * A result in protobuf, as a server writes it. The names of the sequences are not part of it.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encodeResponse = (response: SampleResponse): Either.Either<Uint8Array, InvalidInput> => {
  const bytes = writer.encode((out) => responseProtobuf.write(out, response))
  return bytes instanceof Uint8Array
    ? Either.right(bytes)
    : Either.left(new InvalidInput({ module: "Sample", method: "encodeResponse", description: bytes.problem }))
}

const trusted = { disableValidation: true } as const

/**
 * A result from protobuf. Arrays are views of the bytes where their alignment allows.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decodeResponse = (bytes: Uint8Array): Either.Either<SampleResponse, MalformedResponse> => {
  const response = reader.decode(bytes, responseProtobuf.read)
  if (response instanceof reader.WireError) {
    return Either.left(
      new MalformedResponse({ module: "Sample", method: "decodeResponse", description: response.message }, trusted)
    )
  }
  const { promptAltTokens, sequences } = response
  return Either.right(instance(SampleResponse.prototype, {
    ...response,
    sequences: sequences.map((sequence) => instance(SampledSequence.prototype, sequence)),
    ...(promptAltTokens === undefined ? {} : { promptAltTokens: instance(PromptAltTokens.prototype, promptAltTokens) }),
    type: "sample"
  }))
}
