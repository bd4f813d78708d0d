/**
 * Sampling requests as they arrive, checked against the model, with all defaults filled in.
 */
import * as Either from "effect/Either"
import type { LocalModel } from "../../LocalModel.js"
import type { Request } from "../../LocalSampler.js"
import type { DrawSettings } from "./draw.js"
import type { Stops } from "./stops.js"
import { checkStops } from "./stops.js"
import { checkShape, checkTokens, invalid } from "./tensors.js"
import type { Checked } from "./tensors.js"

/** @internal */
export interface Query {
  readonly prompt: Int32Array
  readonly samples: number
  readonly maxTokens: number
  readonly seed: number | undefined
  readonly settings: DrawSettings
  readonly stops: Stops
  readonly promptLogprobs: boolean
  /** The first position whose logprob is wanted; 0 has none. */
  readonly scoreFrom: number
  readonly topkPrompt: number
  readonly topkSample: number
  readonly targets: { readonly ids: Int32Array; readonly columns: number } | undefined
  readonly altTokens: number
}

// Bounds the memory of one request; ten times what training loops ask for.
const maxSamples = 1024

const checkCount = (value: number | undefined, fallback: number, lowest: number, what: string): Checked<number> => {
  const count = value ?? fallback
  return Number.isSafeInteger(count) && count >= lowest
    ? Either.right(count)
    : invalid(`${what} is ${count}, expected an integer of at least ${lowest}`)
}

const checkDraw = (params: NonNullable<Request["params"]>): Checked<DrawSettings> => {
  const { temperature = 1, topK = -1, topP = 1 } = params
  if (!Number.isFinite(temperature) || temperature < 0) {
    return invalid(`temperature is ${temperature}, expected a number of at least 0`)
  }
  if (!Number.isInteger(topK) || topK < -1) return invalid(`top_k is ${topK}, expected -1 or a positive integer`)
  if (!(topP > 0 && topP <= 1)) return invalid(`top_p is ${topP}, expected a number above 0 and at most 1`)
  return Either.right({ temperature, topK, topP })
}

const checkTargets = (model: LocalModel, length: number, targets: Request["targetPromptLogprobs"]) =>
  Either.gen(function*() {
    if (targets === undefined) return undefined
    yield* checkShape(targets, "target_prompt_logprobs")
    const [rows, columns] = targets.shape
    if (targets.shape.length !== 2 || rows !== length - 1 || columns === undefined) {
      return yield* invalid(
        `target_prompt_logprobs has shape [${targets.shape.join(", ")}], expected [${length - 1}, K]`
      )
    }
    const ids = yield* checkTokens(targets.data, model.vocabularySize, "target_prompt_logprobs", -1)
    if (!ids.some((id) => id >= 0)) return yield* invalid("target_prompt_logprobs asks for no token at all")
    return { ids, columns }
  })

/** @internal */
export const checkQuery = (model: LocalModel, request: Request): Checked<Query> =>
  Either.gen(function*() {
    const params = request.params ?? {}
    const { length } = request.prompt
    if (length === 0) return yield* invalid("the prompt is empty")
    const room = model.contextLength - length
    if (room < 0) {
      return yield* invalid(
        `a prompt of ${length} tokens does not fit into the ${model.contextLength} of ${model.name}`
      )
    }
    const promptLogprobs = request.promptLogprobs ?? false
    const lastN = request.promptLogprobsLastN
    if (lastN !== undefined) {
      if (!promptLogprobs) return yield* invalid("prompt_logprobs_last_n needs prompt_logprobs")
      if (!Number.isInteger(lastN) || lastN < 1 || lastN > length - 1) {
        return yield* invalid(`prompt_logprobs_last_n is ${lastN}, expected 1 to ${length - 1}`)
      }
    }
    if (params.seed !== undefined && !Number.isSafeInteger(params.seed)) {
      return yield* invalid(`seed is ${params.seed}, expected an integer`)
    }
    const samples = yield* checkCount(request.numSamples, 1, 1, "num_samples")
    if (samples > maxSamples) return yield* invalid(`num_samples is ${samples}, expected at most ${maxSamples}`)
    return {
      prompt: yield* checkTokens(request.prompt, model.vocabularySize, "prompt"),
      samples,
      maxTokens: Math.min(yield* checkCount(params.maxTokens, room, 0, "max_tokens"), room),
      seed: params.seed,
      settings: yield* checkDraw(params),
      stops: yield* checkStops(params.stop),
      promptLogprobs,
      scoreFrom: lastN === undefined ? 1 : length - lastN,
      topkPrompt: yield* checkCount(request.topkPromptLogprobs, 0, 0, "topk_prompt_logprobs"),
      topkSample: yield* checkCount(request.topkSampleLogprobs, 0, 0, "topk_sample_logprobs"),
      targets: yield* checkTargets(model, length, request.targetPromptLogprobs),
      altTokens: yield* checkCount(request.promptAltTokensK, 0, 0, "prompt_alt_tokens_k")
    }
  })
