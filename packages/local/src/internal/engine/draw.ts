/**
 * Choosing tokens from a row of log probabilities.
 */
import { at, intAt } from "./numbers.js"
import type { Random } from "./numbers.js"

/** @internal */
export interface DrawSettings {
  readonly temperature: number
  /** Not positive for no limit. */
  readonly topK: number
  readonly topP: number
}

const mostLikely = (logprobs: Float32Array, size: number): number => {
  let best = 0
  for (let token = 1; token < size; token++) if (at(logprobs, token) > at(logprobs, best)) best = token
  return best
}

/** The tokens in order of falling probability; equal ones by id. */
const ranked = (logprobs: Float32Array): Int32Array => {
  const order = new Int32Array(logprobs.length)
  for (let token = 0; token < order.length; token++) order[token] = token
  return order.sort((left, right) => at(logprobs, right) - at(logprobs, left) || left - right)
}

/** Draws one token. @internal */
export const draw = (logprobs: Float32Array, settings: DrawSettings, random: Random): number => {
  const { temperature, topK, topP } = settings
  const size = logprobs.length
  const best = mostLikely(logprobs, size)
  if (temperature === 0) return best
  const top = at(logprobs, best)
  const limit = topK > 0 ? Math.min(topK, size) : size
  const cut = limit < size || topP < 1
  const order = cut ? ranked(logprobs) : undefined
  const tokenAt = (index: number): number => order === undefined ? index : intAt(order, index)
  // the exponentials are most of the work: each is taken once
  const weights = new Float64Array(limit)
  let total = 0
  for (let index = 0; index < limit; index++) {
    const weight = Math.exp((at(logprobs, tokenAt(index)) - top) / temperature)
    weights[index] = weight
    total += weight
  }
  let kept = limit
  if (topP < 1) {
    // The shortest run of likely tokens that reaches the share; at least one.
    const enough = topP * total
    let sum = 0
    kept = 0
    while (kept < limit && (kept === 0 || sum < enough)) sum += weights[kept++] ?? 0
    total = sum
  }
  let left = random.next() * total
  for (let index = 0; index < kept; index++) {
    left -= weights[index] ?? 0
    if (left < 0) return tokenAt(index)
  }
  // What rounding leaves over counts for the last token that can be drawn.
  for (let index = kept - 1; index > 0; index--) if ((weights[index] ?? 0) > 0) return tokenAt(index)
  return best
}

/** Fill of a cell without a token. @internal */
export const emptyLogprob = -99999

/** Writes the k most likely tokens of a row into a table of k columns. @internal */
export const writeTopK = (
  logprobs: Float32Array,
  k: number,
  row: number,
  table: { readonly tokenIds: Int32Array; readonly logprobs: Float32Array }
): void => {
  const order = ranked(logprobs)
  for (let j = 0; j < k && j < order.length; j++) {
    table.tokenIds[row * k + j] = intAt(order, j)
    table.logprobs[row * k + j] = at(logprobs, intAt(order, j))
  }
}

/** An empty table. @internal */
export const makeTopK = (length: number, k: number): {
  readonly tokenIds: Int32Array
  readonly logprobs: Float32Array
  readonly k: number
  readonly length: number
} => ({
  tokenIds: new Int32Array(length * k),
  logprobs: new Float32Array(length * k).fill(emptyLogprob),
  k,
  length
})
