/**
 * Randomness that is a function of numbers, so that a run that is resumed draws what it would have drawn.
 */
import { PCGRandom } from "effect/Utils"

/**
 * A uniform 32-bit integer for a list of numbers. A stateless hash (the finalizer of MurmurHash3) because a generator
 * would have to be advanced to the draw that is wanted.
 *
 * @internal
 */
export const hash = (...keys: ReadonlyArray<number>): number => {
  let h = 0x9e3779b9
  for (const key of keys) {
    h = Math.imul(h ^ (key | 0), 0x85ebca6b)
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
    h ^= h >>> 16
    h = Math.imul(h ^ Math.floor(key / 0x100000000), 0x27d4eb2f)
    h ^= h >>> 15
  }
  return h >>> 0
}

/**
 * A uniform number of [0, 1) for a list of numbers.
 *
 * @internal
 */
export const uniform = (...keys: ReadonlyArray<number>): number => hash(...keys) / 0x100000000

/**
 * A seed for a request: a positive 31-bit integer for a list of numbers.
 *
 * @internal
 */
export const seedOf = (...keys: ReadonlyArray<number>): number => hash(...keys) >>> 1

/**
 * The numbers below `size` in the order of a seed and an epoch.
 *
 * @internal
 */
export const permutation = (size: number, seed: number, ...keys: ReadonlyArray<number>): Uint32Array => {
  const order = new Uint32Array(size)
  for (let i = 0; i < size; i++) order[i] = i
  const random = new PCGRandom(hash(seed, ...keys), hash(...keys, seed))
  for (let i = size - 1; i > 0; i--) {
    const j = random.integer(i + 1)
    const kept = order[i] ?? 0
    order[i] = order[j] ?? 0
    order[j] = kept
  }
  return order
}

/**
 * Whole numbers below a bound, drawn in a few nanoseconds (mulberry32). Effect's generator takes some twenty times as long, and a
 * bootstrap draws millions.
 *
 * @internal
 */
export const makeFast = (seed: number): (bound: number) => number => {
  let state = hash(seed) | 0
  return (bound) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor(((mixed ^ (mixed >>> 14)) >>> 0) / 0x100000000 * bound)
  }
}
