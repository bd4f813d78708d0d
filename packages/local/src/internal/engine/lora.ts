/**
 * The trainable part of a model: for each adapted matrix two narrow factors A and B, with `scale * A * B` added to the
 * frozen weights. All factors of an adapter lie in one flat array, so that gradients, moments and norms are single loops.
 */
import { fillRandom, makeRandom } from "./random.js"
import type { Group, Matrix, Shape } from "./shape.js"

/** @internal */
export interface LoraSettings {
  readonly rank: number
  readonly seed: number
  readonly groups: ReadonlySet<Group>
}

/** The two factors of one matrix: A is rows × rank at `a`, B is rank × columns at `b`, in the flat array. @internal */
export interface Factors {
  readonly matrix: Matrix
  readonly a: number
  readonly b: number
}

/** @internal */
export interface Lora {
  readonly settings: LoraSettings
  readonly scale: number
  readonly factors: ReadonlyArray<Factors>
  readonly size: number
}

/**
 * What the product of the factors is multiplied with. The square root keeps the size of a step the same for every
 * rank; the constant makes the learning rates of large models (1e-4 and up) work for these small ones.
 *
 * @internal
 */
export const scaleOf = (rank: number): number => 181 / Math.sqrt(rank)

/** @internal */
export const makeLora = (shape: Shape, settings: LoraSettings): Lora => {
  let size = 0
  const factors: Array<Factors> = []
  for (const matrix of shape.matrices) {
    if (!settings.groups.has(matrix.group)) continue
    const a = size
    const b = a + matrix.rows * settings.rank
    size = b + settings.rank * matrix.columns
    factors.push({ matrix, a, b })
  }
  return { settings, scale: scaleOf(settings.rank), factors, size }
}

/** A random, B zero: a new adapter changes nothing. @internal */
export const initialFactors = (lora: Lora): Float32Array => {
  const values = new Float32Array(lora.size)
  const random = makeRandom(lora.settings.seed, 1)
  for (const { a, b, matrix } of lora.factors) {
    fillRandom(values.subarray(a, b), 1 / Math.sqrt(matrix.rows), random)
  }
  return values
}

/** A named piece of a flat array of factors. @internal */
export interface NamedPiece {
  readonly name: string
  readonly shape: readonly [number, number]
  readonly from: number
  readonly to: number
}

/** The names under which the factors are stored. @internal */
export const namedPieces = (lora: Lora): ReadonlyArray<NamedPiece> =>
  lora.factors.flatMap(({ a, b, matrix }): ReadonlyArray<NamedPiece> => {
    const { rank } = lora.settings
    return [
      { name: `${matrix.name}.lora_A`, shape: [matrix.rows, rank], from: a, to: b },
      { name: `${matrix.name}.lora_B`, shape: [rank, matrix.columns], from: b, to: b + rank * matrix.columns }
    ]
  })
