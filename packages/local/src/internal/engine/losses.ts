/**
 * The losses, each a function of the logprobs of the target tokens: its value, and its derivative by each logprob.
 * Values are summed over tokens and data, never averaged.
 */
import { at } from "./numbers.js"

/** @internal */
export const lossNames = ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"] as const

/** @internal */
export type LossName = typeof lossNames[number]

/** Inputs of a loss beside the logprobs, all of the same length as these. @internal */
export interface LossInputs {
  /** Of cross entropy the weights, of GSPO the mask of the tokens whose ratios count. */
  readonly weights: Float32Array
  readonly logprobs: Float32Array
  readonly advantages: Float32Array
}

/** One token: the new logprob, the sampler's, the advantage. Returns the loss and its derivative. */
type PolicyLoss = (
  logprob: number,
  sampled: number,
  advantage: number,
  config: ReadonlyMap<string, number>
) => readonly [loss: number, derivative: number]

/** The defaults of the settings each loss knows. @internal */
export const lossDefaults: Record<LossName, Readonly<Record<string, number>>> = {
  cross_entropy: {},
  importance_sampling: {},
  ppo: { clip_low_threshold: 0.8, clip_high_threshold: 1.2 },
  cispo: { clip_low_threshold: 0, clip_high_threshold: 4 },
  dro: { beta: 0.05 },
  // those of the paper: a mean over a sequence moves far less than the ratio of a token
  gspo: { clip_low_threshold: 1 - 3e-4, clip_high_threshold: 1 + 4e-4 }
}

const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high)

/** The smaller of the free and the clipped product; where it is the clipped one, the ratio has no influence any more. */
const clippedLoss = (
  ratio: number,
  advantage: number,
  config: ReadonlyMap<string, number>
): readonly [loss: number, derivative: number] => {
  const clipped = clamp(ratio, config.get("clip_low_threshold") ?? 0, config.get("clip_high_threshold") ?? 0)
  const free = ratio * advantage
  const bounded = clipped * advantage
  return free <= bounded ? [-free, -free] : [-bounded, 0]
}

const policyLosses: Record<Exclude<LossName, "cross_entropy" | "gspo">, PolicyLoss> = {
  importance_sampling: (logprob, sampled, advantage) => {
    const ratio = Math.exp(logprob - sampled)
    return [-ratio * advantage, -ratio * advantage]
  },
  ppo: (logprob, sampled, advantage, config) => clippedLoss(Math.exp(logprob - sampled), advantage, config),
  cispo: (logprob, sampled, advantage, config) => {
    const ratio = Math.exp(logprob - sampled)
    const clipped = clamp(ratio, config.get("clip_low_threshold") ?? 0, config.get("clip_high_threshold") ?? 0)
    // The clipped ratio is a constant weight: no gradient flows through it.
    return [-clipped * logprob * advantage, -clipped * advantage]
  },
  dro: (logprob, sampled, advantage, config) => {
    const beta = config.get("beta") ?? 0
    const drift = logprob - sampled
    return [-(logprob * advantage - 0.5 * beta * drift * drift), -(advantage - beta * drift)]
  }
}

/**
 * The ratio of GSPO for a whole sequence: the geometric mean of the ratios of the tokens that the mask marks. Every token
 * has this value and the gradient of its own logprob, as GSPO's variant with advantages per token has it.
 *
 * @internal
 */
export const sequenceRatio = (logprobs: Float32Array, inputs: LossInputs): number => {
  let sum = 0
  let count = 0
  for (let i = 0; i < logprobs.length; i++) {
    if (at(inputs.weights, i) === 0) continue
    sum += at(logprobs, i) - at(inputs.logprobs, i)
    count++
  }
  return Math.exp(sum / count)
}

/** Fills `elementwise` and `derivative` from `from` to `to`, and returns the sum. @internal */
export const evaluateLoss = (
  loss: LossName,
  config: ReadonlyMap<string, number>,
  logprobs: Float32Array,
  inputs: LossInputs,
  elementwise: Float32Array,
  derivative: Float32Array,
  from: number,
  to: number,
  /** Of the whole sequence, for GSPO. */
  ratio: number
): number => {
  let sum = 0
  for (let i = from; i < to; i++) {
    const logprob = at(logprobs, i)
    if (loss === "cross_entropy") {
      const weight = at(inputs.weights, i)
      // Not -0: a token that does not count should read as a plain zero.
      const value = weight === 0 ? 0 : -logprob * weight
      elementwise[i] = value
      derivative[i] = -weight
      sum += value
    } else {
      const advantage = at(inputs.advantages, i)
      const [value, slope] = loss === "gspo"
        ? clippedLoss(ratio, advantage, config)
        : policyLosses[loss](logprob, at(inputs.logprobs, i), advantage, config)
      elementwise[i] = value
      derivative[i] = slope
      sum += value
    }
  }
  return sum
}
