/**
 * The forward pass over a packed batch. It is a generator that pauses every few hundred microseconds of work, so that
 * whoever drives it can let other work in.
 */
import { attend } from "./attention.js"
import type { Batch } from "./batch.js"
import { at, intAt } from "./floats.js"
import type { Block, Matrix } from "./shape.js"
import type { Work } from "./work.js"
import type { Saved, Workspace } from "./workspace.js"

/** Rows handled between two pauses. @internal */
export const sliceRows = 128

/** `target` = or += `source` · matrix, for `rows` rows. */
const apply = (
  workspace: Workspace,
  matrix: Matrix,
  source: number,
  target: number,
  rows: number,
  accumulate: 0 | 1
): void => {
  const { columns, offset, rows: inputs } = matrix
  const weights = workspace.forwardWeights + offset
  workspace.kernels.gemm(source, inputs, 1, weights, inputs * 8, target, columns, rows, columns, inputs, accumulate)
}

/** Copies the embeddings of the tokens into the residual stream. @internal */
export const embed = (workspace: Workspace, tokens: Int32Array): void => {
  const { base, memory, shape: { model: { width } }, x } = workspace
  for (let i = 0; i < tokens.length; i++) {
    const row = intAt(tokens, i) * width
    memory.set(base.embedding.subarray(row, row + width), x + i * width)
  }
}

/** Rotates queries and keys of one row, which lie next to each other, to their position. @internal */
export const rotate = (workspace: Workspace, row: number, position: number, direction: 1 | -1): void => {
  const { cosine, kernels, shape: { headSize, model: { heads } }, sine } = workspace
  const half = headSize / 2
  kernels.rotate(row, cosine + position * half, sine + position * half, 2 * heads, half, direction)
}

/** The first half of a block: queries, keys and values of the rows `from` to `to`. @internal */
export const project = (workspace: Workspace, block: Block, saved: Saved, from: number, to: number): void => {
  const { kernels, shape: { model: { width } }, x } = workspace
  const source = x + from * width
  const normed = saved.normed1 + from * width
  kernels.normalise(source, normed, saved.scale1 + from, width, to - from)
  apply(workspace, block.qkv, normed, saved.qkv + from * 3 * width, to - from, 0)
}

/** The second half: what was attended to, and the hidden layer, added to the residual stream. @internal */
export const digest = (workspace: Workspace, block: Block, saved: Saved, from: number, to: number): void => {
  const { hidden: squared, kernels, shape: { model: { hidden, width } }, x } = workspace
  const rows = to - from
  const stream = x + from * width
  const normed = saved.normed2 + from * width
  const rectified = saved.rectified + from * hidden
  apply(workspace, block.out, saved.attended + from * width, stream, rows, 1)
  kernels.normalise(stream, normed, saved.scale2 + from, width, rows)
  apply(workspace, block.up, normed, rectified, rows, 0)
  kernels.activate(rectified, squared, rows * hidden)
  apply(workspace, block.down, squared, stream, rows, 1)
}

/** Fills everything up to the last normalisation. @internal */
export function* forward(workspace: Workspace, batch: Batch): Work<void> {
  const { kernels, shape, x } = workspace
  const { heads, width } = shape.model
  const count = batch.tokens.length
  const positions = new Int32Array(count)
  for (const { length, start } of batch.sequences) for (let i = 0; i < length; i++) positions[start + i] = i
  embed(workspace, batch.tokens)
  for (const [layer, block] of shape.blocks.entries()) {
    const saved = workspace.layers[layer]
    if (saved === undefined) return
    for (let from = 0; from < count; from += sliceRows) {
      const to = Math.min(count, from + sliceRows)
      project(workspace, block, saved, from, to)
      for (let row = from; row < to; row++) rotate(workspace, saved.qkv + row * 3 * width, intAt(positions, row), 1)
      yield
    }
    for (const sequence of batch.sequences) {
      for (let head = 0; head < heads; head++) {
        yield* attend(workspace, saved, head, sequence)
      }
    }
    for (let from = 0; from < count; from += sliceRows) {
      digest(workspace, block, saved, from, Math.min(count, from + sliceRows))
      yield
    }
  }
  kernels.normalise(x, workspace.normedFinal, workspace.scaleFinal, width, count)
}

/** Logits of the rows from `from` to `to`: the model's own plus the prior given each row's token. @internal */
export function* unembed(workspace: Workspace, tokens: Int32Array, from: number, to: number): Work<void> {
  const { kernels, logits, normedFinal, prior, shape: { model: { vocabularySize, width }, unembed: matrix } } =
    workspace
  for (let start = from; start < to; start += sliceRows) {
    const end = Math.min(to, start + sliceRows)
    apply(workspace, matrix, normedFinal + start * width, logits + start * vocabularySize, end - start, 0)
    for (let row = start; row < end; row++) {
      kernels.addRow(logits + row * vocabularySize, prior + intAt(tokens, row) * vocabularySize, vocabularySize)
    }
    yield
  }
}

/** What to subtract from the logits of a row to get its log probabilities. @internal */
export const normaliser = (workspace: Workspace, row: number): number => {
  const { kernels, shape: { model: { vocabularySize } } } = workspace
  const top = kernels.rowMax(row, vocabularySize)
  return top + Math.log(kernels.expSum(row, vocabularySize, top))
}

/** A row of logits as log probabilities, in place. @internal */
export const logSoftmax = (workspace: Workspace, row: number): Float32Array => {
  const { memory, shape: { model: { vocabularySize } } } = workspace
  const shift = normaliser(workspace, row)
  for (let j = row; j < row + vocabularySize; j++) memory[j] = Math.min(0, at(memory, j) - shift)
  return memory.subarray(row, row + vocabularySize)
}
