/**
 * Causal attention of one head over one sequence, forwards and backwards, as products of small matrices. Rows are
 * taken in blocks: a block needs only the columns up to its own last row, which saves half of the work.
 */
import type { Sequence } from "./batch.js"
import { at, ceil8 } from "./floats.js"
import type { Strided } from "./kernels.js"
import { blockRows } from "./workspace.js"
import type { Workspace } from "./workspace.js"

interface RowBlock {
  readonly from: number
  readonly rows: number
  /** Columns kept, a multiple of eight. */
  readonly width: number
  /** Columns that exist. */
  readonly columns: number
  readonly scores: number
}

const eachBlock = (sequence: Sequence, scores: number, body: (block: RowBlock) => void): void => {
  let offset = scores + sequence.scores
  for (let from = 0; from < sequence.length; from += blockRows) {
    const rows = Math.min(blockRows, sequence.length - from)
    const width = Math.min(ceil8(sequence.length), from + blockRows)
    body({ from, rows, width, columns: Math.min(width, sequence.length), scores: offset })
    offset += rows * width
  }
}

/** Turns the scores of a block into probabilities, row by row, with zeros where the future would be. */
const softmax = (memory: Float32Array, block: RowBlock, scale: number): void => {
  for (let row = 0; row < block.rows; row++) {
    const start = block.scores + row * block.width
    const visible = block.from + row + 1
    let top = -Infinity
    for (let j = 0; j < visible; j++) {
      const value = at(memory, start + j)
      if (value > top) top = value
    }
    let sum = 0
    for (let j = 0; j < visible; j++) {
      const value = Math.exp((at(memory, start + j) - top) * scale)
      memory[start + j] = value
      sum += value
    }
    const inverse = 1 / sum
    for (let j = 0; j < visible; j++) memory[start + j] = at(memory, start + j) * inverse
    memory.fill(0, start + visible, start + block.width)
  }
}

/** @internal */
export const attend = (workspace: Workspace, layer: number, head: number, sequence: Sequence): void => {
  const { headPacks: [keysPacked, valuesPacked], headScores, kernels, memory, shape } = workspace
  const saved = workspace.layers[layer]
  if (saved === undefined) return
  const { headSize, model: { width } } = shape
  const row = 3 * width
  const queries = saved.qkv + sequence.start * row + head * headSize
  const { length } = sequence
  kernels.pack({ offset: queries + width, row: 1, column: row }, headSize, length, keysPacked)
  kernels.pack({ offset: queries + 2 * width, row, column: 1 }, length, headSize, valuesPacked)
  const scale = 1 / Math.sqrt(headSize)
  eachBlock(sequence, saved.probabilities + head * headScores, (block) => {
    const from: Strided = { offset: queries + block.from * row, row, column: 1 }
    kernels.gemm(from, keysPacked, headSize * 8, block.scores, block.width, block.rows, block.width, headSize, false)
    softmax(memory, block, scale)
    kernels.gemm(
      { offset: block.scores, row: block.width, column: 1 },
      valuesPacked,
      length * 8,
      saved.attended + (sequence.start + block.from) * width + head * headSize,
      width,
      block.rows,
      headSize,
      block.columns,
      false
    )
  })
}

/** From the gradient of the probabilities, in place, to that of the scores. */
const softmaxBackward = (memory: Float32Array, block: RowBlock, gradient: number, scale: number): void => {
  for (let row = 0; row < block.rows; row++) {
    const start = block.scores + row * block.width
    const out = gradient + row * block.width
    const visible = block.from + row + 1
    let dot = 0
    for (let j = 0; j < visible; j++) dot += at(memory, out + j) * at(memory, start + j)
    for (let j = 0; j < visible; j++) {
      memory[out + j] = at(memory, start + j) * (at(memory, out + j) - dot) * scale
    }
    memory.fill(0, out + visible, out + block.width)
  }
}

/**
 * Reads the gradient of the attended values from `dNormed`, writes those of queries, keys and values to `dQkv`.
 *
 * @internal
 */
export const attendBackward = (workspace: Workspace, layer: number, head: number, sequence: Sequence): void => {
  const { dNormed, dQkv, dScores, headPacks, headScores, kernels, memory, shape } = workspace
  const saved = workspace.layers[layer]
  if (saved === undefined) return
  const { headSize, model: { width } } = shape
  const [keysPacked, valuesPacked, queriesPacked, outPacked] = headPacks
  const row = 3 * width
  const { length } = sequence
  const queries = saved.qkv + sequence.start * row + head * headSize
  const dQueries = dQkv + sequence.start * row + head * headSize
  const out = dNormed + sequence.start * width + head * headSize
  kernels.pack({ offset: queries, row, column: 1 }, length, headSize, queriesPacked)
  kernels.pack({ offset: queries + width, row, column: 1 }, length, headSize, keysPacked)
  kernels.pack({ offset: queries + 2 * width, row: 1, column: row }, headSize, length, valuesPacked)
  kernels.pack({ offset: out, row: width, column: 1 }, length, headSize, outPacked)
  const panel = length * 8
  for (let i = 0; i < length; i++) {
    const start = dQueries + i * row
    memory.fill(0, start + width, start + width + headSize)
    memory.fill(0, start + 2 * width, start + 2 * width + headSize)
  }
  const scale = 1 / Math.sqrt(headSize)
  eachBlock(sequence, saved.probabilities + head * headScores, (block) => {
    const { columns, from, rows, width: blockWidth } = block
    kernels.gemm(
      { offset: out + from * width, row: width, column: 1 },
      valuesPacked,
      headSize * 8,
      dScores,
      blockWidth,
      rows,
      blockWidth,
      headSize,
      false
    )
    const transposed = (offset: number): Strided => ({ offset, row: 1, column: blockWidth })
    const dValues = dQueries + 2 * width
    kernels.gemm(
      transposed(block.scores),
      outPacked + from * 8,
      panel,
      dValues,
      row,
      columns,
      headSize,
      rows,
      true
    )
    softmaxBackward(memory, block, dScores, scale)
    kernels.gemm(
      { offset: dScores, row: blockWidth, column: 1 },
      keysPacked,
      panel,
      dQueries + from * row,
      row,
      rows,
      headSize,
      columns,
      false
    )
    kernels.gemm(
      transposed(dScores),
      queriesPacked + from * 8,
      panel,
      dQueries + width,
      row,
      columns,
      headSize,
      rows,
      true
    )
  })
}
