/**
 * Causal attention over one sequence, forwards and backwards, as products of small matrices. Rows are taken in blocks: a
 * block needs only the columns up to its own last row, which saves half of the work, and its probabilities are used at
 * once and computed again in the backward pass, so that nothing grows with the square of the length.
 */
import type { Block } from "./architecture.js"
import { ceil8 } from "./numbers.js"
import type { Saved, Space, Work } from "./space.js"
import { blockRows } from "./space.js"
import type { Sequence } from "./transformer.js"

interface RowBlock {
  readonly from: number
  readonly rows: number
  /** Columns computed, a multiple of eight. */
  readonly wide: number
  /** Columns that exist. */
  readonly columns: number
}

/** The blocks of rows of a sequence, from its beginning. */
const blocksOf = (length: number): ReadonlyArray<RowBlock> =>
  Array.from({ length: Math.ceil(length / blockRows) }, (_, index): RowBlock => {
    const from = index * blockRows
    const rows = Math.min(blockRows, length - from)
    return { from, rows, wide: ceil8(from + rows), columns: from + rows }
  })

/** Long sequences are not done in one go. */
const pausesAfter = (block: RowBlock): boolean => block.from % (4 * blockRows) === 0 && block.from > 0

/** A score so low that its probability is as good as zero. */
const hidden = -3e38

/**
 * Hides what lies before the window of a block of the model, where it has one: in scores of rows of `wide` columns whose
 * first belongs to `position`.
 *
 * @internal
 */
export const hideBefore = (
  { memory }: Space,
  { window }: Block,
  scores: number,
  wide: number,
  rows: number,
  position: number
): void => {
  if (window === undefined || position + rows <= window) return
  for (let row = 0; row < rows; row++) {
    const first = position + row + 1 - window
    if (first > 0) memory.fill(hidden, scores + row * wide, scores + row * wide + first)
  }
}

/** Reads queries, keys and values, writes `saved.attended`. @internal */
export function* attend(space: Space, owner: Block, saved: Saved, sequence: Sequence): Work<void> {
  const { architecture: { group, keyWidth, model, queryWidth }, kernels, training } = space
  const { attentionScale: scale, headSize, keyValueHeads } = model
  const { keys, scores, values } = training
  const { length, start } = sequence
  const { rotatedRow } = saved
  const qkvRow = queryWidth + 2 * keyWidth
  const rotated = saved.rotated + start * rotatedRow
  const valuesAt = saved.qkv + start * qkvRow + queryWidth + keyWidth
  const attended = saved.attended + start * queryWidth
  const blocks = blocksOf(length)
  for (let head = 0; head < keyValueHeads; head++) {
    const shift = head * headSize
    kernels.pack(rotated + queryWidth + shift, 1, rotatedRow, headSize, length, keys)
    kernels.pack(valuesAt + shift, qkvRow, 1, length, headSize, values)
    for (let member = 0; member < group; member++) {
      const column = (head * group + member) * headSize
      for (const block of blocks) {
        const { columns, from, rows, wide } = block
        const query = rotated + from * rotatedRow + column
        const out = attended + from * queryWidth + column
        kernels.gemm(query, rotatedRow, 1, keys, headSize * 8, scores, wide, rows, wide, headSize, 0)
        hideBefore(space, owner, scores, wide, rows, from)
        kernels.softmax(scores, wide, rows, from + 1, scale)
        kernels.gemm(scores, wide, 1, values, length * 8, out, queryWidth, rows, headSize, columns, 0)
        if (pausesAfter(block)) yield
      }
      yield
    }
  }
}

/**
 * Reads the gradient of the attended values from `dNormed`, writes those of queries, keys and values to `dQkv`.
 *
 * @internal
 */
export function* attendBackward(space: Space, owner: Block, saved: Saved, sequence: Sequence): Work<void> {
  const { architecture: { group, keyWidth, model, queryWidth }, kernels, training } = space
  const { attentionScale: scale, headSize, keyValueHeads } = model
  const { dNormed, dQkv, dScores, scores } = training
  const { length, start } = sequence
  const { rotatedRow } = saved
  const qkvRow = queryWidth + 2 * keyWidth
  const panel = length * 8
  const rotated = saved.rotated + start * rotatedRow
  const valuesAt = saved.qkv + start * qkvRow + queryWidth + keyWidth
  const gradients = dQkv + start * qkvRow
  const dAttended = dNormed + start * queryWidth
  const blocks = blocksOf(length).slice().reverse()
  for (let head = 0; head < keyValueHeads; head++) {
    const shift = head * headSize
    const dKeys = gradients + queryWidth + shift
    const dValues = dKeys + keyWidth
    const keysAt = rotated + queryWidth + shift
    kernels.pack(keysAt, 1, rotatedRow, headSize, length, training.keys)
    kernels.pack(keysAt, rotatedRow, 1, length, headSize, training.keyRows)
    kernels.pack(valuesAt + shift, 1, qkvRow, headSize, length, training.values)
    // The last block has all columns, so that with the first query head it sets what all others add to.
    let adds: 0 | 1 = 0
    for (let member = 0; member < group; member++) {
      const column = (head * group + member) * headSize
      kernels.pack(rotated + column, rotatedRow, 1, length, headSize, training.queries)
      kernels.pack(dAttended + column, queryWidth, 1, length, headSize, training.dOut)
      for (const block of blocks) {
        const { columns, from, rows, wide } = block
        const query = rotated + from * rotatedRow + column
        const out = dAttended + from * queryWidth + column
        const dQueries = gradients + from * qkvRow + column
        kernels.gemm(query, rotatedRow, 1, training.keys, headSize * 8, scores, wide, rows, wide, headSize, 0)
        hideBefore(space, owner, scores, wide, rows, from)
        kernels.softmax(scores, wide, rows, from + 1, scale)
        kernels.gemm(out, queryWidth, 1, training.values, headSize * 8, dScores, wide, rows, wide, headSize, 0)
        kernels.gemm(scores, 1, wide, training.dOut + from * 8, panel, dValues, qkvRow, columns, headSize, rows, adds)
        kernels.softmaxBackward(scores, dScores, wide, rows, scale)
        kernels.gemm(dScores, wide, 1, training.keyRows, panel, dQueries, qkvRow, rows, headSize, columns, 0)
        kernels.gemm(dScores, 1, wide, training.queries + from * 8, panel, dKeys, qkvRow, columns, headSize, rows, adds)
        adds = 1
        if (pausesAfter(block)) yield
      }
      yield
    }
  }
}
