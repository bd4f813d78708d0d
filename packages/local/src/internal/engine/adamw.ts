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

/** Advances parameters from `from` to `to`; `factors` are those that `adamStep` makes. @internal */
export type Advance = (
  values: Float32Array,
  gradient: Float32Array,
  first: Float32Array,
  second: Float32Array,
  factors: Float64Array,
  from: number,
  to: number
) => void

/** @internal */
export const adam: Advance = (values, gradient, first, second, factors, from, to) => {
  const [
    clip = 1,
    beta1 = 0,
    rest1 = 1,
    beta2 = 0,
    rest2 = 1,
    correct1 = 1,
    correct2 = 1,
    eps = 0,
    keep = 1,
    learningRate = 0
  ] = factors
  for (let i = from; i < to; i++) {
    const slope = at(gradient, i) * clip
    const m = beta1 * at(first, i) + rest1 * slope
    const v = beta2 * at(second, i) + rest2 * slope * slope
    first[i] = m
    second[i] = v
    const divisor = Math.sqrt(v * correct2) + eps
    // A parameter that never had a gradient has nothing to divide by.
    const change = divisor === 0 ? 0 : m * correct1 / divisor
    values[i] = at(values, i) * keep - learningRate * change
  }
}

/** One step in place, to be done piece by piece. `norm` is that of the gradient before clipping. @internal */
export const adamStep = (
  values: Float32Array,
  gradient: Float32Array,
  moments: Moments,
  settings: AdamSettings,
  norm: number,
  advance: Advance = adam
): (from: number, to: number) => void => {
  const { beta1, beta2, eps, gradClipNorm, learningRate, weightDecay } = settings
  const { first, second } = moments
  moments.steps++
  const factors = Float64Array.of(
    gradClipNorm > 0 && norm > gradClipNorm ? gradClipNorm / norm : 1,
    beta1,
    1 - beta1,
    beta2,
    1 - beta2,
    1 / (1 - Math.pow(beta1, moments.steps)),
    1 / (1 - Math.pow(beta2, moments.steps)),
    eps,
    1 - learningRate * weightDecay,
    learningRate
  )
  return (from, to) => advance(values, gradient, first, second, factors, from, to)
}
