/**
 * The working memory of one model: every buffer a pass needs, laid out once in the linear memory of the kernels. It
 * holds nothing that outlives a pass except the packed weights of whoever used it last.
 */
import { bigramPrior, makeBase, rotations } from "./base.js"
import type { Base } from "./base.js"
import { ceil8 } from "./floats.js"
import type { KernelMode, Kernels } from "./kernels.js"
import { makeKernels } from "./kernels.js"
import type { Packed } from "./merge.js"
import type { Shape } from "./shape.js"
import type { Work } from "./work.js"

/** The largest LoRA rank, which bounds the scratch of the weight gradients. @internal */
export const maxRank = 128

/** Attention probabilities are kept in blocks of this many rows, each as wide as causality needs. @internal */
export const blockRows = 32

// How many sequences of full length can be continued at once; more of them, or shorter ones, take turns.
const cachedContexts = 8

/** What a block of the model keeps from the forward pass for the backward pass. @internal */
export interface Saved {
  readonly normed1: number
  readonly scale1: number
  readonly qkv: number
  readonly probabilities: number
  readonly attended: number
  readonly normed2: number
  readonly scale2: number
  /** max(0, x) of the hidden layer. */
  readonly rectified: number
}

/** @internal */
export interface Workspace {
  readonly base: Base
  readonly shape: Shape
  readonly kernels: Kernels
  readonly memory: Float32Array<ArrayBuffer>
  /** The most tokens one pass can hold. */
  readonly capacity: number
  /** Floats of the probabilities of one head of one layer. */
  readonly headScores: number
  readonly layers: ReadonlyArray<Saved>
  readonly cosine: number
  readonly sine: number
  readonly prior: number
  readonly forwardWeights: number
  readonly backwardWeights: number
  readonly x: number
  readonly dx: number
  readonly dNormed: number
  readonly normedFinal: number
  readonly scaleFinal: number
  readonly logits: number
  readonly hidden: number
  readonly dHidden: number
  readonly dQkv: number
  readonly packed: number
  readonly headPacks: readonly [number, number, number, number]
  readonly dScores: number
  /** Keys and values of sequences being continued: `cacheTokens` rows of both for each layer. */
  readonly cache: number
  readonly cacheTokens: number
  readonly lora: {
    readonly a: number
    readonly b: number
    readonly packed: number
    readonly z: number
    readonly dz: number
    readonly grad: number
  }
  /** Whose weights are loaded; undefined while they are being replaced. */
  resident: Packed | undefined
}

/** Floats for the probabilities of one sequence in one head. @internal */
export const scoreSize = (length: number): number => {
  const full = Math.floor(length / blockRows)
  const rest = length - full * blockRows
  return (blockRows * blockRows * full * (full + 1)) / 2 + rest * ceil8(length)
}

/** Makes the memory and the frozen weights of a model, piece by piece. @internal */
export function* makeWorkspace(shape: Shape, mode: KernelMode): Work<Workspace> {
  const { contextLength: capacity, heads, hidden, layers, vocabularySize, width } = shape.model
  let size = 0
  const region = (floats: number): number => {
    const offset = size
    // Keep every region on a cache line of its own.
    size += (floats + 15) & ~15
    return offset
  }
  const rows = (columns: number): number => region(capacity * columns)
  const headScores = scoreSize(capacity)
  const widest = Math.max(3 * width, hidden, vocabularySize)
  const cacheTokens = cachedContexts * capacity
  const head = (): number => region(ceil8(capacity) * ceil8(shape.headSize))
  const layout = {
    headScores,
    layers: Array.from({ length: layers }, (): Saved => ({
      normed1: rows(width),
      scale1: rows(1),
      qkv: rows(3 * width),
      probabilities: region(heads * headScores),
      attended: rows(width),
      normed2: rows(width),
      scale2: rows(1),
      rectified: rows(hidden)
    })),
    cosine: region((capacity * shape.headSize) / 2),
    sine: region((capacity * shape.headSize) / 2),
    prior: region(vocabularySize * vocabularySize),
    forwardWeights: region(shape.size),
    backwardWeights: region(shape.size),
    x: rows(width),
    dx: rows(width),
    dNormed: rows(width),
    normedFinal: rows(width),
    scaleFinal: rows(1),
    logits: rows(vocabularySize),
    hidden: rows(hidden),
    dHidden: rows(hidden),
    dQkv: rows(3 * width),
    packed: rows(widest),
    headPacks: [head(), head(), head(), head()] as const,
    dScores: region(blockRows * ceil8(capacity)),
    cache: region(layers * cacheTokens * 2 * width),
    cacheTokens,
    lora: {
      a: region(widest * maxRank),
      b: region(widest * maxRank),
      packed: region(widest * maxRank),
      z: rows(maxRank),
      dz: rows(maxRank),
      grad: region(widest * maxRank)
    }
  }
  const kernels = makeKernels(size, mode)
  yield
  kernels.memory.set(rotations(shape, Math.cos), layout.cosine)
  kernels.memory.set(rotations(shape, Math.sin), layout.sine)
  yield
  kernels.memory.set(bigramPrior(vocabularySize), layout.prior)
  yield
  return {
    ...layout,
    base: yield* makeBase(shape),
    shape,
    kernels,
    memory: kernels.memory,
    capacity,
    resident: undefined
  }
}
