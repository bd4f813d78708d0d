/**
 * Sample requests and answers between the wire and the engine.
 */
import * as TensorData from "effect-tinker/TensorData"
import * as Sample from "effect-tinker/wire/Sample"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { EngineError } from "../../EngineError.js"
import type { FloatTensor } from "../../LocalAdapter.js"
import type * as LocalSampler from "../../LocalSampler.js"
import { fromFloats, toTensor, toTokens } from "./tensors.js"

/** @internal */
export const toEngine = (request: Sample.SampleRequest): Effect.Effect<LocalSampler.Request, EngineError> =>
  Effect.map(toTokens(request.prompt), (prompt) => {
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
      targetPromptLogprobs: targets === undefined ? undefined : toTensor(targets, -1),
      promptAltTokensK: request.promptAltTokensK
    }
  })

/** The scores in the layout of the ids they were asked with. */
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
