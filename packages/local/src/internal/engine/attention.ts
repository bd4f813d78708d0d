/**
 * Causal attention of one head over one sequence, forwards and backwards, as products of small matrices. Rows are
 * taken in blocks: a block needs only the columns up to its own last row, which saves half of the work.
 */
import type { Sequence } from "./batch.js"
import { ceil8 } from "./floats.js"
import type { Work } from "./work.js"
import type { Saved, Workspace } from "./workspace.js"
import { blockRows } from "./workspace.js"

interface RowBlock {
  readonly from: number
  readonly rows: number
  /** Columns kept, a multiple of eight. */
  readonly width: number
  /** Columns that exist. */
  readonly columns: number
  /** Where its probabilities are. */
  readonly scores: number
}

/** The blocks of a sequence, from its beginning. */
const blocksOf = (sequence: Sequence, scores: number): ReadonlyArray<RowBlock> => {
  const blocks: Array<RowBlock> = []
  let offset = scores + sequence.scores
  for (let from = 0; from < sequence.length; from += blockRows) {
    const rows = Math.min(blockRows, sequence.length - from)
    const width = Math.min(ceil8(sequence.length), from + blockRows)
    blocks.push({ from, rows, width, columns: Math.min(width, sequence.length), scores: offset })
    offset += rows * width
  }
  return blocks
}

/** Long sequences are not done in one go. */
const pausesAfter = (block: RowBlock): boolean => block.from % (4 * blockRows) === 0 && block.from > 0

/** Reads `saved.qkv`, writes `saved.attended`. @internal */
export function* attend(workspace: Workspace, saved: Saved, head: number, sequence: Sequence): Work<void> {
  const { headPacks: [keysPacked, valuesPacked], headScores, kernels, shape } = workspace
  const { headSize, model: { width } } = shape
  const { length, start } = sequence
  const row = 3 * width
  const queries = saved.qkv + start * row + head * headSize
  const attended = saved.attended + start * width + head * headSize
  const scale = 1 / Math.sqrt(headSize)
  kernels.pack(queries + width, 1, row, headSize, length, keysPacked)
  kernels.pack(queries + 2 * width, row, 1, length, headSize, valuesPacked)
  for (const block of blocksOf(sequence, saved.probabilities + head * headScores)) {
    const { columns, from, rows, scores, width: wide } = block
    kernels.gemm(queries + from * row, row, 1, keysPacked, headSize * 8, scores, wide, rows, wide, headSize, 0)
    kernels.softmax(scores, wide, rows, from + 1, scale)
    kernels.gemm(scores, wide, 1, valuesPacked, length * 8, attended + from * width, width, rows, headSize, columns, 0)
    if (pausesAfter(block)) yield
  }
  yield
}

/**
 * Reads the gradient of the attended values from `dNormed`, writes those of queries, keys and values to `dQkv`.
 *
 * @internal
 */
export function* attendBackward(workspace: Workspace, saved: Saved, head: number, sequence: Sequence): Work<void> {
  const { dNormed, dQkv, dScores, headPacks, headScores, kernels, shape } = workspace
  const { headSize, model: { width } } = shape
  const [keysPacked, valuesPacked, queriesPacked, outPacked] = headPacks
  const { length, start } = sequence
  const row = 3 * width
  const queries = saved.qkv + start * row + head * headSize
  const dQueries = dQkv + start * row + head * headSize
  const dKeys = dQueries + width
  const dValues = dKeys + width
  const out = dNormed + start * width + head * headSize
  const panel = length * 8
  const scale = 1 / Math.sqrt(headSize)
  kernels.pack(queries, row, 1, length, headSize, queriesPacked)
  kernels.pack(queries + width, row, 1, length, headSize, keysPacked)
  kernels.pack(queries + 2 * width, 1, row, headSize, length, valuesPacked)
  kernels.pack(out, width, 1, length, headSize, outPacked)
  // The last block has all columns, so that it sets what the others add to.
  let adds: 0 | 1 = 0
  for (const block of [...blocksOf(sequence, saved.probabilities + head * headScores)].reverse()) {
    const { columns, from, rows, scores, width: wide } = block
    kernels.gemm(out + from * width, width, 1, valuesPacked, headSize * 8, dScores, wide, rows, wide, headSize, 0)
    kernels.gemm(scores, 1, wide, outPacked + from * 8, panel, dValues, row, columns, headSize, rows, adds)
    kernels.softmaxBackward(scores, dScores, wide, rows, scale)
    kernels.gemm(dScores, wide, 1, keysPacked, panel, dQueries + from * row, row, rows, headSize, columns, 0)
    kernels.gemm(dScores, 1, wide, queriesPacked + from * 8, panel, dKeys, row, columns, headSize, rows, adds)
    adds = 1
    if (pausesAfter(block)) yield
  }
  yield
}
