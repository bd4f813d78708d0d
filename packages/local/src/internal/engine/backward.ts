/**
 * The backward pass: from the gradient of the logits to that of the adapter's factors. Uses what the last forward pass
 * left in the workspace.
 */
import { attendBackward } from "./attention.js"
import type { Batch } from "./batch.js"
import { add, at, ceil8 } from "./floats.js"
import { sliceRows } from "./forward.js"
import type { Work } from "./forward.js"
import { normaliseBackward, rotate } from "./layers.js"
import type { Lora } from "./lora.js"
import type { Matrix } from "./shape.js"
import type { Workspace } from "./workspace.js"

/** An adapter's factors, and where their gradient is added to. @internal */
export interface Trainable {
  readonly lora: Lora
  readonly values: Float32Array
  readonly gradient: Float32Array
}

/** `target` (rows of `matrix.rows`) = `source` (rows of `matrix.columns`) · matrixᵀ. */
const applyTransposed = (
  workspace: Workspace,
  matrix: Matrix,
  source: number,
  target: number,
  from: number,
  to: number
): void => {
  workspace.kernels.gemm(
    { offset: source + from * matrix.columns, row: matrix.columns, column: 1 },
    workspace.backwardWeights + matrix.offset,
    matrix.columns * 8,
    target + from * matrix.rows,
    matrix.rows,
    to - from,
    matrix.rows,
    matrix.columns,
    false
  )
}

/** Adds the gradient of one matrix's factors, given its inputs and the gradient of its outputs. */
function* factorGradients(
  workspace: Workspace,
  trainable: Trainable,
  matrix: Matrix,
  input: number,
  dOutput: number,
  count: number
): Work<void> {
  const { gradient, lora: { factors, scale, settings: { rank } }, values } = trainable
  const target = factors.find((candidate) => candidate.matrix === matrix)
  if (target === undefined) return
  const { kernels, lora: scratch, memory, packed } = workspace
  const { columns, rows } = matrix
  const padded = ceil8(rank)
  memory.set(values.subarray(target.a, target.a + rows * rank), scratch.a)
  memory.set(values.subarray(target.b, target.b + rank * columns), scratch.b)
  // Through A: Z = X A, then dB = Zᵀ dY.
  kernels.pack({ offset: scratch.a, row: rank, column: 1 }, rows, rank, scratch.packed)
  for (let from = 0; from < count; from += sliceRows) {
    const slice = Math.min(sliceRows, count - from)
    const z = scratch.z + from * padded
    const x = { offset: input + from * rows, row: rows, column: 1 }
    kernels.gemm(x, scratch.packed, rows * 8, z, padded, slice, padded, rows, false)
    kernels.pack({ offset: dOutput + from * columns, row: columns, column: 1 }, slice, columns, packed)
    const zTransposed = { offset: z, row: 1, column: padded }
    kernels.gemm(zTransposed, packed, slice * 8, scratch.grad, columns, rank, columns, slice, from > 0)
    yield
  }
  for (let i = 0; i < rank * columns; i++) add(gradient, target.b + i, scale * at(memory, scratch.grad + i))
  // Through B: dZ = dY Bᵀ, then dA = Xᵀ dZ.
  kernels.pack({ offset: scratch.b, row: 1, column: columns }, columns, rank, scratch.packed)
  for (let from = 0; from < count; from += sliceRows) {
    const slice = Math.min(sliceRows, count - from)
    const dz = scratch.dz + from * padded
    const dy = { offset: dOutput + from * columns, row: columns, column: 1 }
    kernels.gemm(dy, scratch.packed, columns * 8, dz, padded, slice, padded, columns, false)
    kernels.pack({ offset: dz, row: padded, column: 1 }, slice, padded, packed)
    const xTransposed = { offset: input + from * rows, row: 1, column: rows }
    kernels.gemm(xTransposed, packed, slice * 8, scratch.grad, padded, rows, padded, slice, from > 0)
    yield
  }
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < rank; j++) {
      add(gradient, target.a + i * rank + j, scale * at(memory, scratch.grad + i * padded + j))
    }
  }
}

/** Runs backwards from the gradient in `workspace.logits`. @internal */
export function* backward(workspace: Workspace, batch: Batch, trainable: Trainable): Work<void> {
  const { dHidden, dNormed, dQkv, dx, hidden: squared, logits, memory, normedFinal, scaleFinal, shape } = workspace
  const { heads, hidden, layers, width } = shape.model
  const count = batch.tokens.length
  const slices = function*(body: (from: number, to: number) => void): Work<void> {
    for (let from = 0; from < count; from += sliceRows) {
      body(from, Math.min(count, from + sliceRows))
      yield
    }
  }
  const gradients = (matrix: Matrix, input: number, dOutput: number) =>
    factorGradients(workspace, trainable, matrix, input, dOutput, count)

  yield* gradients(shape.unembed, normedFinal, logits)
  memory.fill(0, dx, dx + count * width)
  yield* slices((from, to) => {
    applyTransposed(workspace, shape.unembed, logits, dNormed, from, to)
    normaliseBackward(memory, dNormed, normedFinal, scaleFinal, dx, width, from, to)
  })
  for (let layer = layers - 1; layer >= 0; layer--) {
    const block = shape.blocks[layer]
    const saved = workspace.layers[layer]
    if (block === undefined || saved === undefined) return
    yield* slices((from, to) => {
      for (let i = from * hidden; i < to * hidden; i++) {
        const value = at(memory, saved.rectified + i)
        memory[squared + i] = value * value
      }
      applyTransposed(workspace, block.down, dx, dHidden, from, to)
      for (let i = from * hidden; i < to * hidden; i++) {
        memory[dHidden + i] = 2 * at(memory, saved.rectified + i) * at(memory, dHidden + i)
      }
    })
    yield* gradients(block.down, squared, dx)
    yield* gradients(block.up, saved.normed2, dHidden)
    yield* slices((from, to) => {
      applyTransposed(workspace, block.up, dHidden, dNormed, from, to)
      normaliseBackward(memory, dNormed, saved.normed2, saved.scale2, dx, width, from, to)
    })
    yield* gradients(block.out, saved.attended, dx)
    yield* slices((from, to) => applyTransposed(workspace, block.out, dx, dNormed, from, to))
    for (const sequence of batch.sequences) {
      for (let head = 0; head < heads; head++) {
        attendBackward(workspace, layer, head, sequence)
        yield
      }
      for (let i = 0; i < sequence.length; i++) rotate(workspace, dQkv + (sequence.start + i) * 3 * width, i, -1)
    }
    yield* gradients(block.qkv, saved.normed1, dQkv)
    // Below the first block there is only the frozen embedding.
    if (layer === 0) return
    yield* slices((from, to) => {
      applyTransposed(workspace, block.qkv, dQkv, dNormed, from, to)
      normaliseBackward(memory, dNormed, saved.normed1, saved.scale1, dx, width, from, to)
    })
  }
}
