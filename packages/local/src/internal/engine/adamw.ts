/**
 * AdamW on a flat array of parameters: bias-corrected moments, decoupled weight decay, clipping by the global norm.
 */
import { at } from "./numbers.js"

/** @internal */
export interface AdamSettings {
  readonly learningRate: number
  readonly beta1: number
  readonly beta2: number
  readonly eps: number
  readonly weightDecay: number
  readonly gradClipNorm: number
}

/** @internal */
export interface Moments {
  readonly first: Float32Array
  readonly second: Float32Array
  steps: number
}

/** The sum of squares from `from` to `to`. @internal */
export const squares = (gradient: Float32Array, from: number, to: number): number => {
  let sum = 0
  for (let i = from; i < to; i++) {
    const value = at(gradient, i)
    sum += value * value
  }
  return sum
}

/** One step in place, to be done piece by piece. `norm` is that of the gradient before clipping. @internal */
export const adamStep = (
  values: Float32Array,
  gradient: Float32Array,
  moments: Moments,
  settings: AdamSettings,
  norm: number
): (from: number, to: number) => void => {
  const { beta1, beta2, eps, gradClipNorm, learningRate, weightDecay } = settings
  const { first, second } = moments
  moments.steps++
  const clip = gradClipNorm > 0 && norm > gradClipNorm ? gradClipNorm / norm : 1
  const correct1 = 1 / (1 - Math.pow(beta1, moments.steps))
  const correct2 = 1 / (1 - Math.pow(beta2, moments.steps))
  const keep = 1 - learningRate * weightDecay
  return (from, to) => {
    for (let i = from; i < to; i++) {
      const slope = at(gradient, i) * clip
      const m = beta1 * at(first, i) + (1 - beta1) * slope
      const v = beta2 * at(second, i) + (1 - beta2) * slope * slope
      first[i] = m
      second[i] = v
      const divisor = Math.sqrt(v * correct2) + eps
      // A parameter that never had a gradient has nothing to divide by.
      const change = divisor === 0 ? 0 : m * correct1 / divisor
      values[i] = at(values, i) * keep - learningRate * change
    }
  }
}
