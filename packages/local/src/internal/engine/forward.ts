/**
 * The forward pass over a packed batch. It is a generator that pauses every few hundred microseconds of work, so that
 * whoever drives it can let other work in.
 */
import { attend } from "./attention.js"
import type { Batch } from "./batch.js"
import { at } from "./floats.js"
import { normalise, rotate } from "./layers.js"
import type { Matrix } from "./shape.js"
import type { Workspace } from "./workspace.js"

/** Work that pauses; it yields nothing but the chance to do something else. @internal */
export type Work<A> = Generator<void, A, void>

/** Rows handled between two pauses. @internal */
export const sliceRows = 128

/** `target` = or += `source` (rows of `matrix.rows`) · matrix. @internal */
export const apply = (
  workspace: Workspace,
  matrix: Matrix,
  source: number,
  target: number,
  from: number,
  to: number,
  accumulate: boolean
): void => {
  workspace.kernels.gemm(
    { offset: source + from * matrix.rows, row: matrix.rows, column: 1 },
    workspace.forwardWeights + matrix.offset,
    matrix.rows * 8,
    target + from * matrix.columns,
    matrix.columns,
    to - from,
    matrix.columns,
    matrix.rows,
    accumulate
  )
}

/** Rectifies the hidden layer in place and writes its square to `squared`. @internal */
export const activate = (
  memory: Float32Array,
  hidden: number,
  squared: number,
  from: number,
  to: number
): void => {
  for (let i = from; i < to; i++) {
    const value = Math.max(0, at(memory, hidden + i))
    memory[hidden + i] = value
    memory[squared + i] = value * value
  }
}

/** Copies the embeddings of the tokens into the residual stream. @internal */
export const embed = (workspace: Workspace, tokens: Int32Array): void => {
  const { base, memory, shape: { model: { width } }, x } = workspace
  for (let i = 0; i < tokens.length; i++) {
    const row = at(tokens, i) * width
    memory.set(base.embedding.subarray(row, row + width), x + i * width)
  }
}

/** Fills everything up to the last normalisation. @internal */
export function* forward(workspace: Workspace, batch: Batch): Work<void> {
  const { memory, shape, x } = workspace
  const { heads, hidden, width } = shape.model
  const count = batch.tokens.length
  const positions = new Int32Array(count)
  for (const { length, start } of batch.sequences) for (let i = 0; i < length; i++) positions[start + i] = i
  embed(workspace, batch.tokens)
  for (const [layer, block] of shape.blocks.entries()) {
    const saved = workspace.layers[layer]
    if (saved === undefined) return
    for (let from = 0; from < count; from += sliceRows) {
      const to = Math.min(count, from + sliceRows)
      normalise(memory, x, saved.normed1, saved.scale1, width, from, to)
      apply(workspace, block.qkv, saved.normed1, saved.qkv, from, to, false)
      for (let row = from; row < to; row++) rotate(workspace, saved.qkv + row * 3 * width, at(positions, row), 1)
      yield
    }
    for (const sequence of batch.sequences) {
      for (let head = 0; head < heads; head++) {
        attend(workspace, layer, head, sequence)
        yield
      }
    }
    for (let from = 0; from < count; from += sliceRows) {
      const to = Math.min(count, from + sliceRows)
      apply(workspace, block.out, saved.attended, x, from, to, true)
      normalise(memory, x, saved.normed2, saved.scale2, width, from, to)
      apply(workspace, block.up, saved.normed2, saved.rectified, from, to, false)
      activate(memory, saved.rectified, workspace.hidden, from * hidden, to * hidden)
      apply(workspace, block.down, workspace.hidden, x, from, to, true)
      yield
    }
  }
  normalise(memory, x, workspace.normedFinal, workspace.scaleFinal, width, 0, count)
}

/** Logits of the rows from `from` to `to`: the model's own plus the prior given each row's token. @internal */
export function* unembed(workspace: Workspace, tokens: Int32Array, from: number, to: number): Work<void> {
  const { base: { prior }, logits, memory, shape: { model: { vocabularySize } } } = workspace
  for (let start = from; start < to; start += sliceRows) {
    const end = Math.min(to, start + sliceRows)
    apply(workspace, workspace.shape.unembed, workspace.normedFinal, logits, start, end, false)
    for (let row = start; row < end; row++) {
      const out = logits + row * vocabularySize
      const context = at(tokens, row) * vocabularySize
      for (let j = 0; j < vocabularySize; j++) memory[out + j] = at(memory, out + j) + at(prior, context + j)
    }
    yield
  }
}

/** Turns one row of logits into log probabilities, in place. @internal */
export const logSoftmax = (memory: Float32Array, start: number, size: number): void => {
  let top = -Infinity
  for (let j = 0; j < size; j++) {
    const value = at(memory, start + j)
    if (value > top) top = value
  }
  let sum = 0
  for (let j = 0; j < size; j++) sum += Math.exp(at(memory, start + j) - top)
  const shift = top + Math.log(sum)
  for (let j = 0; j < size; j++) memory[start + j] = at(memory, start + j) - shift
}
