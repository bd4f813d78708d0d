/**
 * Sequences laid end to end without padding: what one pass through the model works on.
 */
import { scoreSize } from "./workspace.js"

/** @internal */
export interface Sequence {
  readonly start: number
  readonly length: number
  /** Where its attention probabilities begin within those of a head. */
  readonly scores: number
}

/** @internal */
export interface Batch {
  readonly tokens: Int32Array
  readonly sequences: ReadonlyArray<Sequence>
}

/** @internal */
export const makeBatch = (inputs: ReadonlyArray<Int32Array>): Batch => {
  const tokens = new Int32Array(inputs.reduce((sum, input) => sum + input.length, 0))
  const sequences: Array<Sequence> = []
  let start = 0
  let scores = 0
  for (const input of inputs) {
    tokens.set(input, start)
    sequences.push({ start, length: input.length, scores })
    start += input.length
    scores += scoreSize(input.length)
  }
  return { tokens, sequences }
}

// Enough tokens for the kernels to run at full speed, few enough to stay in the caches.
const target = 512

/** Splits a list of inputs, in order, into runs that fill a pass well. Every input fits a pass by itself. @internal */
export const planBatches = (
  lengths: ReadonlyArray<number>,
  capacity: number
): ReadonlyArray<{ readonly from: number; readonly to: number }> => {
  const most = Math.min(target, capacity)
  const runs: Array<{ from: number; to: number }> = []
  let from = 0
  let tokens = 0
  lengths.forEach((length, index) => {
    if (index > from && tokens + length > most) {
      runs.push({ from, to: index })
      from = index
      tokens = 0
    }
    tokens += length
  })
  if (from < lengths.length) runs.push({ from, to: lengths.length })
  return runs
}
