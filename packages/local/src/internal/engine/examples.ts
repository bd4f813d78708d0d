/**
 * Training data as it arrives, checked against the loss and the model and brought into the form a pass works with.
 */
import * as Either from "effect/Either"
import { Unsupported } from "../../EngineError.js"
import type { InvalidRequest } from "../../EngineError.js"
import type { Datum, PassRequest } from "../../LocalAdapter.js"
import type { LocalModel } from "../../LocalModel.js"
import type { LossInputs, LossName } from "./losses.js"
import { lossDefaults, lossNames } from "./losses.js"
import { checkFloats, checkShape, checkTokens, invalid } from "./tensors.js"
import type { Checked } from "./tensors.js"

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
const knownInputs = (loss: LossName): ReadonlyArray<string> =>
  loss === "cross_entropy" ? ["target_tokens", "weights"] : policyInputs

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
    return {
      tokens,
      targets,
      width: deep ? shape[1] ?? 0 : 1,
      shape,
      inputs: {
        weights: yield* floats("weights"),
        logprobs: yield* floats("logprobs"),
        advantages: yield* floats("advantages")
      }
    }
  })

/** @internal */
export const checkTask = (
  model: LocalModel,
  request: PassRequest
): Either.Either<Task, InvalidRequest | Unsupported> =>
  Either.gen(function*() {
    const { loss } = request
    if (!isLossName(loss)) {
      return yield* Either.left(
        new Unsupported({
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
