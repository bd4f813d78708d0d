/**
 * Element access inside numeric loops, and seeded random numbers. Every position is computed from checked shapes, so it
 * is always in bounds; the nullish default costs nothing once compiled and keeps indexed access honest. One function per
 * kind of array: a function that sees several kinds is compiled for the general case, several times slower.
 */

/** @internal */
export const at = (values: Float32Array, index: number): number => values[index] ?? 0

/** @internal */
export const add = (values: Float32Array, index: number, amount: number): void => {
  values[index] = (values[index] ?? 0) + amount
}

/** @internal */
export const intAt = (values: Int32Array, index: number): number => values[index] ?? 0

/** Rounded up to whole panels of eight, the unit of the kernels. @internal */
export const ceil8 = (count: number): number => (count + 7) & ~7

// Seeded random numbers for weights and for sampling: the same seed gives the same numbers on every runtime.

/** @internal */
export interface Random {
  /** Uniform in [0, 1), with 32 random bits. */
  readonly next: () => number
}

const mix = (value: number): number => {
  let x = value | 0
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad)
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97)
  return (x ^ (x >>> 15)) >>> 0
}

/** An independent stream of numbers for each pair of seed and stream number. @internal */
export const makeRandom = (seed: number, stream = 0): Random => {
  // A seed may use all 53 bits of a safe integer.
  const low = seed >>> 0
  const high = Math.floor(seed / 0x100000000) >>> 0
  let a = mix(low + 0x9e3779b9)
  let b = mix(high ^ a)
  let c = mix((stream ^ 0x5851f42d) + b)
  let counter = 1
  const next = (): number => {
    const sum = (a + b + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum | 0
    return (sum >>> 0) / 0x100000000
  }
  for (let i = 0; i < 12; i++) next()
  return { next }
}

/** Fills with values of mean zero and the given standard deviation. @internal */
export const fillRandom = (target: Float32Array, deviation: number, random: Random): void => {
  // Uniform is as good as normal for random features, and many times cheaper.
  const width = deviation * Math.sqrt(12)
  for (let i = 0; i < target.length; i++) target[i] = (random.next() - 0.5) * width
}
