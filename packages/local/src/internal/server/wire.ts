/**
 * Between the wire's values and the engine's: tokens, tensors, sample requests and responses.
 */
import * as ModelInput from "effect-tinker/ModelInput"
import * as TensorData from "effect-tinker/TensorData"
import * as Sample from "effect-tinker/wire/Sample"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as EngineError from "../../EngineError.js"
import type { FloatTensor, Tensor } from "../../LocalAdapter.js"
import type * as LocalSampler from "../../LocalSampler.js"
import type { HttpFailure } from "./message.js"
import { badRequest } from "./message.js"
import { limits } from "./settings.js"

/** @internal */
export const toTokens = (input: ModelInput.ModelInput): Effect.Effect<Int32Array, EngineError.EngineError> =>
  Either.match(ModelInput.toInts(input), {
    onLeft: (error) =>
      Effect.fail(
        new EngineError.EngineUnsupported({ description: `the embedded backend reads text only: ${error.description}` })
      ),
    onRight: Effect.succeed
  })

/** A tensor of the wire, dense. A sparse one names its size itself, so that is checked before it is allocated. @internal */
export const toTensor = (
  tensor: TensorData.TensorData,
  name: string,
  padValue?: number
): Effect.Effect<Tensor, EngineError.EngineError> => {
  const size = tensor.shape.reduce((product, length) => product * length, 1)
  if (size > limits.numbers) {
    return new EngineError.InvalidRequest({
      description: `${name} has shape [${tensor.shape.join(", ")}], more than ${limits.numbers} numbers`
    })
  }
  return Effect.sync(() => {
    const dense = TensorData.toDense(tensor, { padValue })
    return { data: dense.data, shape: dense.shape }
  })
}

/** @internal */
export const fromFloats = ({ data, shape }: FloatTensor): TensorData.TensorData =>
  Either.getOrThrow(TensorData.fromArray(data, { shape }))

/**
 * Refuses what would take more memory than one request may have, before anything is allocated for it. `context` is the
 * longest context of any model.
 *
 * @internal
 */
export const checkSample = (request: Sample.SampleRequest, context: number): Effect.Effect<void, HttpFailure> => {
  const { numSamples, samplingParams, topkPromptLogprobs = 0, topkSampleLogprobs = 0 } = request
  const { promptAltTokensK = 0 } = request
  if (!(numSamples >= 1 && numSamples <= limits.samples)) {
    return badRequest(`num_samples must be 1 to ${limits.samples}, got ${numSamples}`)
  }
  if (samplingParams.topK === 0) return badRequest("top_k must be -1 (no limit) or at least 1, got 0")
  const counts = {
    topk_prompt_logprobs: topkPromptLogprobs,
    topk_sample_logprobs: topkSampleLogprobs,
    prompt_alt_tokens_k: promptAltTokensK
  }
  for (const [name, count] of Object.entries(counts)) {
    if (!(count >= 0 && count <= limits.samples)) {
      return badRequest(`${name} must be 0 to ${limits.samples}, got ${count}`)
    }
  }
  const prompt = Either.getOrElse(ModelInput.length(request.prompt), () => 0)
  const drawn = numSamples * Math.max(0, Math.min(samplingParams.maxTokens ?? context, context))
  if (drawn > limits.sampledTokens) {
    return badRequest(
      `num_samples times max_tokens is ${drawn}, at most ${limits.sampledTokens} in one request; send several`
    )
  }
  const numbers = drawn * (1 + topkSampleLogprobs) + prompt * (1 + topkPromptLogprobs + promptAltTokensK)
  return numbers > limits.numbers
    ? badRequest(`The response would hold ${numbers} numbers, at most ${limits.numbers}; ask for less per request`)
    : Effect.void
}

/** @internal */
export const toEngine = (
  request: Sample.SampleRequest
): Effect.Effect<LocalSampler.Request, EngineError.EngineError> =>
  Effect.gen(function*() {
    const prompt = yield* toTokens(request.prompt)
    const { samplingParams: params, targetPromptLogprobs: targets } = request
    return {
      prompt,
      numSamples: request.numSamples,
      params: {
        maxTokens: params.maxTokens,
        seed: params.seed,
        stop: params.stop,
        temperature: params.temperature,
        topK: params.topK,
        topP: params.topP
      },
      promptLogprobs: request.promptLogprobs,
      promptLogprobsLastN: request.promptLogprobsLastN,
      topkPromptLogprobs: request.topkPromptLogprobs,
      topkSampleLogprobs: request.topkSampleLogprobs,
      // cells a sparse tensor does not list ask for nothing
      targetPromptLogprobs: targets === undefined ? undefined : yield* toTensor(targets, "target_prompt_logprobs", -1),
      promptAltTokensK: request.promptAltTokensK
    }
  })

/** The scores, in the layout of the requested ids. */
const likeTargets = (targets: TensorData.TensorData | undefined, scores: FloatTensor): TensorData.TensorData => {
  const { colIndices, crowIndices } = targets ?? {}
  const [rows = 0, columns = 0] = scores.shape
  if (crowIndices === undefined || colIndices === undefined) return fromFloats(scores)
  const values = new Float32Array(colIndices.length)
  for (let row = 0; row < rows; row++) {
    for (let i = Number(crowIndices[row]); i < Number(crowIndices[row + 1]); i++) {
      values[i] = scores.data[row * columns + Number(colIndices[i])] ?? 0
    }
  }
  return Either.getOrThrow(TensorData.fromSparse({
    values,
    crowIndices: Array.from(crowIndices, Number),
    colIndices: Array.from(colIndices, Number),
    shape: [rows, columns]
  }))
}

/** @internal */
export const toResponse = (request: Sample.SampleRequest, result: LocalSampler.Result): Sample.SampleResponse => {
  const { promptAltTokens, promptLogprobs, sequences, targetPromptLogprobs, topkPromptLogprobs } = result
  return new Sample.SampleResponse({
    sequences: sequences.map(({ logprobs, stopReason, tokens, topk }) =>
      new Sample.SampledSequence({
        stopReason,
        tokens,
        logprobs,
        ...(topk === undefined ? {} : { topkLogprobs: topk })
      })
    ),
    promptCacheHitTokens: 0,
    ...(promptLogprobs === undefined ? {} : { promptLogprobs }),
    ...(topkPromptLogprobs === undefined ? {} : { topkPromptLogprobs }),
    ...(targetPromptLogprobs === undefined ? {} : {
      targetPromptLogprobs: likeTargets(request.targetPromptLogprobs, targetPromptLogprobs)
    }),
    ...(promptAltTokens === undefined ? {} : {
      promptAltTokens: new Sample.PromptAltTokens({
        tokens: Either.getOrThrow(TensorData.fromArray(promptAltTokens.tokens, { shape: promptAltTokens.shape })),
        logprobs: fromFloats({ data: promptAltTokens.logprobs, shape: promptAltTokens.shape })
      })
    })
  })
}
