/**
 * Requests as they arrive, checked against the model and brought into the form the engine works with: tokens that exist,
 * tensors that have the shape they claim, numbers that are numbers. One loop per array.
 */
import * as Either from "effect/Either"
import { EngineUnsupported, InvalidRequest } from "../../EngineError.js"
import type { Datum, PassRequest, Tensor } from "../../LocalAdapter.js"
import type { LocalModel } from "../../LocalModel.js"
import type { Params, Request } from "../../LocalSampler.js"
import type { DrawSettings } from "./draw.js"
import type { LossInputs, LossName } from "./losses.js"
import { lossDefaults, lossNames } from "./losses.js"

/** @internal */
export type Checked<A> = Either.Either<A, InvalidRequest>

/** @internal */
export const invalid = (description: string): Either.Either<never, InvalidRequest> =>
  Either.left(new InvalidRequest({ description }))

/** @internal */
export const elementCount = (shape: ReadonlyArray<number>): number => shape.reduce((product, size) => product * size, 1)

/** Values as 32-bit token ids within the vocabulary, or at least `lowest`. @internal */
export const checkTokens = (
  values: Tensor["data"],
  vocabulary: number,
  what: string,
  lowest = 0
): Checked<Int32Array> => {
  const tokens = new Int32Array(values.length)
  for (let i = 0; i < values.length; i++) {
    const token = Number(values[i])
    if (!Number.isInteger(token) || token < lowest || token >= vocabulary) {
      return invalid(
        `${what}: token ${token} at position ${i} is outside the vocabulary of ${vocabulary}; use the model's own tokenizer`
      )
    }
    tokens[i] = token
  }
  return Either.right(tokens)
}

/** Values as finite floats. @internal */
export const checkFloats = (values: Tensor["data"], what: string): Checked<Float32Array> => {
  const floats = new Float32Array(values.length)
  for (let i = 0; i < values.length; i++) {
    const value = Number(values[i])
    if (!Number.isFinite(value)) return invalid(`${what}: the value at position ${i} is ${value}`)
    floats[i] = value
  }
  return Either.right(floats)
}

/** That a tensor holds as many values as its shape says. @internal */
export const checkShape = (tensor: Tensor, what: string): Checked<Tensor> =>
  tensor.shape.every((size) => Number.isInteger(size) && size >= 0) &&
    elementCount(tensor.shape) === tensor.data.length
    ? Either.right(tensor)
    : invalid(`${what}: ${tensor.data.length} values do not fill the shape [${tensor.shape.join(", ")}]`)

// Passes

/** @internal */
export interface Example {
  readonly tokens: Int32Array
  /** `width` targets per token. */
  readonly targets: Int32Array
  readonly width: number
  readonly shape: ReadonlyArray<number>
  readonly inputs: LossInputs
}

/** @internal */
export interface Task {
  readonly examples: ReadonlyArray<Example>
  readonly loss: LossName
  readonly config: ReadonlyMap<string, number>
  readonly forwardOnly: boolean
}

const isLossName = (name: string): name is LossName => lossNames.some((known) => known === name)

const policyInputs: ReadonlyArray<string> = ["target_tokens", "logprobs", "advantages"]
const ratioMask = "sequence_ratio_mask"
const knownInputs = (loss: LossName): ReadonlyArray<string> =>
  loss === "cross_entropy"
    ? ["target_tokens", "weights"]
    : loss === "gspo"
    ? [...policyInputs, ratioMask]
    : policyInputs

const checkConfig = (loss: LossName, given: PassRequest["config"]): Checked<ReadonlyMap<string, number>> => {
  const defaults = lossDefaults[loss]
  const config = new Map(Object.entries(defaults))
  for (const [key, value] of Object.entries(given ?? {})) {
    if (!config.has(key)) {
      const known = Object.keys(defaults)
      return invalid(`${loss} has no setting ${key}${known.length > 0 ? `; it has ${known.join(", ")}` : ""}`)
    }
    if (typeof value !== "number" || !Number.isFinite(value)) {
      return invalid(`the setting ${key} of ${loss} must be a finite number`)
    }
    config.set(key, value)
  }
  const low = config.get("clip_low_threshold")
  const high = config.get("clip_high_threshold")
  return low !== undefined && high !== undefined && low > high
    ? invalid(`clip_low_threshold ${low} is above clip_high_threshold ${high}`)
    : Either.right(config)
}

const checkExample = (model: LocalModel, loss: LossName, datum: Datum, index: number): Checked<Example> =>
  Either.gen(function*() {
    const where = `datum ${index}`
    const { length } = datum.tokens
    if (length === 0) return yield* invalid(`${where}: the model input is empty`)
    if (length > model.contextLength) {
      return yield* invalid(
        `${where}: ${length} tokens do not fit into the ${model.contextLength} tokens of ${model.name}`
      )
    }
    const tokens = yield* checkTokens(datum.tokens, model.vocabularySize, `${where}: model input`)
    const known = knownInputs(loss)
    for (const key of Object.keys(datum.lossInputs)) {
      if (!known.includes(key)) return yield* invalid(`${where}: ${loss} takes ${known.join(", ")}, not ${key}`)
    }
    const target = datum.lossInputs["target_tokens"]
    if (target === undefined) return yield* invalid(`${where}: target_tokens is missing`)
    yield* checkShape(target, `${where}: target_tokens`)
    const { shape } = target
    const deep = loss === "cross_entropy" && shape.length === 2
    if (shape[0] !== length || (shape.length !== 1 && !deep)) {
      return yield* invalid(
        `${where}: target_tokens has shape [${shape.join(", ")}], expected [${length}]` +
          (loss === "cross_entropy" ? ` or [${length}, K]` : "")
      )
    }
    const targets = yield* checkTokens(target.data, model.vocabularySize, `${where}: target_tokens`)
    const floats = (key: string): Checked<Float32Array> =>
      Either.gen(function*() {
        const tensor = datum.lossInputs[key]
        if (!known.includes(key)) return new Float32Array(0)
        if (tensor === undefined) {
          // A pass without weights counts every target, as one would expect of a plain loss.
          return key === "weights"
            ? new Float32Array(targets.length).fill(1)
            : yield* invalid(`${where}: ${loss} needs ${key}`)
        }
        yield* checkShape(tensor, `${where}: ${key}`)
        if (tensor.shape.length !== shape.length || tensor.shape.some((size, axis) => size !== shape[axis])) {
          return yield* invalid(
            `${where}: ${key} has shape [${tensor.shape.join(", ")}], target_tokens [${shape.join(", ")}]`
          )
        }
        return yield* checkFloats(tensor.data, `${where}: ${key}`)
      })
    const weights = yield* floats(loss === "gspo" ? ratioMask : "weights")
    if (loss === "gspo" && !weights.some((value) => value !== 0)) {
      return yield* invalid(`${where}: ${ratioMask} marks no token`)
    }
    return {
      tokens,
      targets,
      width: deep ? shape[1] ?? 0 : 1,
      shape,
      inputs: {
        weights,
        logprobs: yield* floats("logprobs"),
        advantages: yield* floats("advantages")
      }
    }
  })

/** @internal */
export const checkTask = (
  model: LocalModel,
  request: PassRequest
): Either.Either<Task, InvalidRequest | EngineUnsupported> =>
  Either.gen(function*() {
    const { loss } = request
    if (loss === "stable_reinforce") {
      return yield* Either.left(
        new EngineUnsupported({
          description:
            "the embedded backend has no loss \"stable_reinforce\": its documentation says how it is used, and " +
            "its formula is not public; importance_sampling with a clipped ratio (cispo, ppo) is what it has off policy"
        })
      )
    }
    if (!isLossName(loss)) {
      return yield* Either.left(
        new EngineUnsupported({
          description: `the embedded backend has no loss ${JSON.stringify(loss)}; it has ${lossNames.join(", ")}`
        })
      )
    }
    if (request.data.length === 0) return yield* invalid("no data: a pass needs at least one datum")
    const config = yield* checkConfig(loss, request.config)
    const examples: Array<Example> = []
    for (const [index, datum] of request.data.entries()) {
      examples.push(yield* checkExample(model, loss, datum, index))
    }
    return { examples, loss, config, forwardOnly: request.forwardOnly ?? false }
  })

// Samples

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

/** End of a sequence: a token from a list, or the bytes of a string at its end. @internal */
export interface Stops {
  readonly tokens: ReadonlyArray<number>
  readonly strings: ReadonlyArray<Uint8Array>
}

const encoder = new TextEncoder()

/** @internal */
export const checkStops = (model: LocalModel, stop: Params["stop"]): Checked<Stops> => {
  const given: ReadonlyArray<string | number> = stop === undefined
    ? model.endTokens
    : typeof stop === "string"
    ? [stop]
    : stop
  const tokens: Array<number> = []
  const strings: Array<Uint8Array> = []
  for (const item of given) {
    if (typeof item === "number") {
      if (!Number.isInteger(item)) return invalid(`stop: ${item} is not a token`)
      tokens.push(item)
    } else if (item === "") return invalid("stop: an empty string would stop everything")
    else strings.push(encoder.encode(item))
  }
  return Either.right({ tokens, strings })
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
      stops: yield* checkStops(model, params.stop),
      promptLogprobs,
      scoreFrom: lastN === undefined ? 1 : length - lastN,
      topkPrompt: yield* checkCount(request.topkPromptLogprobs, 0, 0, "topk_prompt_logprobs"),
      topkSample: yield* checkCount(request.topkSampleLogprobs, 0, 0, "topk_sample_logprobs"),
      targets: yield* checkTargets(model, length, request.targetPromptLogprobs),
      altTokens: yield* checkCount(request.promptAltTokensK, 0, 0, "prompt_alt_tokens_k")
    }
  })
