/**
 * The memory of one model: its frozen weights, and for every thread the buffers of a pass in training, the buffers of
 * sampling and the keys and values of sequences being continued. It is laid out once, so that nothing moves while work
 * is in progress; pages that are never written to cost nothing.
 */
import type { Architecture, Ways } from "./architecture.js"
import { packedSize } from "./architecture.js"
import type { Frozen, Store } from "./frozen.js"
import { makeFrozen } from "./frozen.js"
import type { Kernels } from "./kernels.js"
import { ceil8 } from "./numbers.js"

/** Rows handled between two pauses. @internal */
export const sliceRows = 128

/** Attention takes this many rows of queries at a time. @internal */
export const blockRows = 32

/** Outputs of a projection that are transposed at a time, in the backward pass. @internal */
export const blockOutputs = 256

/** Activations that a block keeps from the forward pass for the backward pass. @internal */
export interface Saved {
  /** The residual stream between attention and the hidden layer. */
  readonly middle: number
  readonly qkv: number
  /** Queries and keys, normalized and rotated; where nothing is normalized these are the first columns of `qkv`. */
  readonly rotated: number
  readonly rotatedRow: number
  readonly attended: number
  readonly up: number
  /** Results of attention and of the hidden layer before they are normalized; unused where they are not. */
  readonly attendedResult: number
  readonly hiddenResult: number
}

/** Angles by which pairs are rotated, as positions of their cosines and sines. @internal */
export interface RotationTable {
  readonly cosine: number
  readonly sine: number
}

/** @internal */
export interface TrainingSpace {
  /** The residual stream before each block, and after the last. */
  readonly streams: ReadonlyArray<number>
  /** One per block, with room for `keptTokens` rows. */
  readonly saved: ReadonlyArray<Saved>
  readonly keptTokens: number
  /** For more rows than that: one for all blocks, which are computed again in the backward pass. */
  readonly shared: Saved
  readonly normed: number
  readonly product: number
  readonly dStream: number
  /** Gradient of a result before it was normalized. */
  readonly dResult: number
  readonly dNormed: number
  readonly dProduct: number
  readonly dQkv: number
  readonly dUp: number
  readonly packed: number
  readonly transposed: number
  readonly keys: number
  readonly keyRows: number
  readonly values: number
  readonly queries: number
  readonly dOut: number
  readonly scores: number
  readonly dScores: number
  readonly logits: number
  /** Weights with an adapter multiplied in; empty where those are too large. */
  readonly adapted: number
  readonly lora: {
    readonly a: number
    readonly b: number
    readonly bPacked: number
    /** Packed factors: of all projections where they are multiplied in, else of one block at a time. */
    readonly factors: number
    readonly factorFloats: number
    readonly gradientA: number
    readonly gradientB: number
    readonly z: number
    readonly dz: number
  }
}

/** @internal */
export interface SamplingSpace {
  readonly stream: number
  readonly normed: number
  readonly qkv: number
  readonly attended: number
  readonly up: number
  readonly product: number
  readonly z: number
  readonly scores: number
  readonly logits: number
  /** Weights with an adapter multiplied in, or where those are too large the factors of adapters, packed. */
  readonly adapted: number
  readonly adaptedFloats: number
  readonly a: number
  readonly b: number
  readonly bPacked: number
  /** Keys and values: `cacheTokens` tokens in each layer. */
  readonly cache: number
}

/** @internal */
export interface Layout {
  readonly floats: number
  /** The weights, or where they would begin: matrices may lie outside of the memory, gains never do. */
  readonly weights: number
  /** Whether the matrices lie outside of the memory. */
  readonly outside: boolean
  /** Room per thread for matrices that are brought in; none where kernels read them where they are. */
  readonly widenedFloats: number
  /** The rotation of most layers, and that of the others. */
  readonly rotations: readonly [RotationTable, RotationTable]
  /** Log probabilities of a token after another; only the random models have them. */
  readonly prior: number
  readonly threads: ReadonlyArray<{
    readonly training: TrainingSpace
    readonly sampling: SamplingSpace
    readonly widened: number
  }>
  /** Rows of logits that are computed at a time. */
  readonly logitRows: number
  readonly maxRank: number
  readonly cacheTokens: number
  /** Whether samplers multiply an adapter into the weights, which is worth it for small models only. */
  readonly merges: boolean
  /** How many tokens one part of a pass should have. */
  readonly partTokens: number
}

/** @internal */
export interface LayoutOptions {
  readonly threads: number
  /** Bytes for what a pass keeps per thread, before blocks are computed again instead. */
  readonly activationBytes: number
  /** Tokens of one part of a pass. */
  readonly partTokens: number
  /** Weights of up to so many floats are multiplied with adapters. Defaults to 16 MiB, which take a few milliseconds. */
  readonly mergedFloats?: number | undefined
  /** Whether kernels can read matrices outside of the memory. */
  readonly readsOutside: boolean
}

/** @internal */
export const defaultLayout = { activationBytes: 512 * 2 ** 20, partTokens: 512, readsOutside: false } as const

const mergedFloats = 4 * 2 ** 20

// Contexts of full length that one thread can continue at once, where memory allows.
const cachedContexts = 8
const cacheBytes = 256 * 2 ** 20

const projectionsPerBlock = 4

// Logits that are made at a time: enough rows that reading the unembedding is worth it.
const logitFloats = 2 ** 23

// Floats of a matrix that are brought in at a time, where kernels cannot read outside: they stay in the cache.
const widenedAtATime = 2 ** 18

const sum = (sizes: ReadonlyArray<number>): number => sizes.reduce((total, size) => total + size, 0)

/** @internal */
export const makeLayout = (architecture: Architecture, options: LayoutOptions): Layout => {
  const { blocks, keyWidth, logits, model, projectionSize, queryWidth } = architecture
  const { contextLength: capacity, headSize, hidden, layers, vocabularySize, width } = model
  let size = 0
  const region = (floats: number): number => {
    const offset = size
    // Keep every region on a cache line of its own.
    size += (floats + 15) & ~15
    return offset
  }
  const most = Math.max(capacity, options.partTokens)
  const rows = (columns: number): number => region(most * columns)
  const qkvRow = queryWidth + 2 * keyWidth
  const upRow = blocks[0]?.up.outputs ?? hidden
  const maxRank = projectionSize > 200e6 ? 64 : 128
  const merges = projectionSize <= (options.mergedFloats ?? mergedFloats)
  const widestIn = Math.max(width, queryWidth, hidden)
  const widestOut = Math.max(qkvRow, upRow, logits, width)
  const logitRows = Math.max(8, Math.min(sliceRows, Math.floor(logitFloats / logits) & ~7))
  const tokenBytes = layers * 2 * keyWidth * 4
  const perContext = ceil8(capacity)
  const contexts = Math.max(2, Math.min(cachedContexts, Math.floor(cacheBytes / (tokenBytes * perContext))))
  const cacheTokens = contexts * perContext + cachedContexts * 64
  const rotatedRow = model.queryKeyNorms ? queryWidth + keyWidth : qkvRow
  const keptPerToken = 4 * layers *
    (width * (model.resultNorms ? 3 : 1) + qkvRow + (model.queryKeyNorms ? rotatedRow : 0) + queryWidth + upRow)
  const keptTokens = Math.min(most, Math.floor(options.activationBytes / keptPerToken))

  const outside = !merges
  const weights = outside
    ? region(architecture.size - architecture.frozenSize) - architecture.frozenSize
    : region(architecture.size)
  const widenedFloats = outside && !options.readsOutside ? Math.max(widenedAtATime, 8 * widestIn) : 0
  const rotationTable = (): RotationTable => ({
    cosine: region(capacity * headSize / 2),
    sine: region(capacity * headSize / 2)
  })
  const rotation = rotationTable()
  const rotations = [rotation, model.local === undefined ? rotation : rotationTable()] as const
  const prior = region(model.family === "local" ? vocabularySize * vocabularySize : 0)

  const packedSizes = (ways: Ways) =>
    architecture.projections.map((projection) => packedSize(projection, maxRank, ways))
  const trained = packedSizes("both")
  const factorFloats = merges ? sum(trained) : Math.max(sum(trained.slice(0, projectionsPerBlock)), ...trained)
  const savedBlock = (tokens: number): Saved => {
    const qkv = region(tokens * qkvRow)
    return {
      middle: region(tokens * width),
      qkv,
      rotated: model.queryKeyNorms ? region(tokens * rotatedRow) : qkv,
      rotatedRow,
      attended: region(tokens * queryWidth),
      up: region(tokens * upRow),
      attendedResult: region(model.resultNorms ? tokens * width : 0),
      hiddenResult: region(model.resultNorms ? tokens * width : 0)
    }
  }
  const training = (): TrainingSpace => {
    const head = (): number => region(ceil8(capacity) * headSize)
    const block = (): number => region(blockRows * ceil8(capacity))
    return {
      streams: Array.from({ length: layers + 1 }, () => rows(width)),
      saved: blocks.map(() => savedBlock(keptTokens)),
      keptTokens,
      shared: savedBlock(keptTokens < most ? most : 0),
      normed: rows(width),
      product: rows(hidden),
      dStream: rows(width),
      dResult: region(model.resultNorms ? most * width : 0),
      dNormed: rows(Math.max(width, queryWidth)),
      dProduct: rows(hidden),
      dQkv: rows(qkvRow),
      dUp: rows(upRow),
      packed: region(sliceRows * Math.max(widestIn, maxRank)),
      transposed: region(blockOutputs * widestIn),
      keys: head(),
      keyRows: head(),
      values: head(),
      queries: head(),
      dOut: head(),
      scores: block(),
      dScores: block(),
      logits: region(logitRows * logits),
      adapted: region(merges ? projectionSize : 0),
      lora: {
        a: region(3 * maxRank * widestIn),
        b: region(maxRank * widestOut),
        bPacked: region(merges ? maxRank * widestOut : 0),
        factors: region(factorFloats),
        factorFloats,
        gradientA: region(3 * maxRank * widestIn),
        gradientB: region(maxRank * widestOut),
        z: region(sliceRows * 3 * maxRank),
        dz: region(sliceRows * 3 * maxRank)
      }
    }
  }
  const adaptedFloats = merges ? projectionSize : sum(packedSizes("forward"))
  const sampling = (): SamplingSpace => ({
    stream: region(sliceRows * width),
    normed: region(sliceRows * Math.max(width, queryWidth)),
    qkv: region(sliceRows * qkvRow),
    attended: region(sliceRows * queryWidth),
    up: region(sliceRows * upRow),
    product: region(sliceRows * hidden),
    z: region(sliceRows * 3 * maxRank),
    scores: region(Math.max(blockRows, architecture.group) * ceil8(capacity + 8)),
    logits: region(logitRows * logits),
    adapted: region(adaptedFloats),
    adaptedFloats,
    a: region(3 * maxRank * widestIn),
    b: region(maxRank * widestOut),
    bPacked: region(merges ? maxRank * widestOut : 0),
    cache: region(layers * cacheTokens * 2 * keyWidth)
  })
  const threads = Array.from({ length: options.threads }, () => ({
    training: training(),
    sampling: sampling(),
    widened: region(widenedFloats)
  }))
  return {
    floats: size,
    weights,
    outside,
    widenedFloats,
    rotations,
    prior,
    threads,
    logitRows,
    maxRank,
    cacheTokens,
    merges,
    partTokens: options.partTokens
  }
}

/** The memory as one thread uses it. @internal */
export interface Space {
  readonly architecture: Architecture
  readonly kernels: Kernels
  readonly memory: Float32Array
  readonly layout: Layout
  readonly frozen: Frozen
  readonly training: TrainingSpace
  readonly sampling: SamplingSpace
}

/** @internal */
export const makeSpace = (
  architecture: Architecture,
  layout: Layout,
  kernels: Kernels,
  store: Store | undefined,
  thread: number
): Space | undefined => {
  const own = layout.threads[thread]
  if (own === undefined) return undefined
  const { sampling, training, widened } = own
  const frozen = makeFrozen(architecture, layout, kernels, store, widened)
  return { architecture, kernels, memory: kernels.memory, layout, frozen, sampling, training }
}

/** Work that pauses; it yields nothing but the chance to do something else. @internal */
export type Work<A> = Generator<void, A, void>
