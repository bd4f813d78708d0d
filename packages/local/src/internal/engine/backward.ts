/**
 * The backward pass: from the gradient of the logits to that of the adapter's factors. Uses what the last forward pass
 * left in the workspace.
 */
import { attendBackward } from "./attention.js"
import type { Batch } from "./batch.js"
import { add, at, ceil8 } from "./floats.js"
import { rotate, sliceRows } from "./forward.js"
import type { Lora } from "./lora.js"
import type { Matrix } from "./shape.js"
import type { Work } from "./work.js"
import type { Workspace } from "./workspace.js"

/** An adapter's factors, and where their gradient is added to. @internal */
export interface Trainable {
  readonly lora: Lora
  readonly values: Float32Array
  readonly gradient: Float32Array
}

/** `target` = `source` · matrixᵀ, for the rows from `from` to `to`. */
const applyTransposed = (
  workspace: Workspace,
  matrix: Matrix,
  source: number,
  target: number,
  from: number,
  to: number
): void => {
  const { columns, offset, rows } = matrix
  const weights = workspace.backwardWeights + offset
  const read = source + from * columns
  const written = target + from * rows
  workspace.kernels.gemm(read, columns, 1, weights, columns * 8, written, rows, to - from, rows, columns, 0)
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
  kernels.pack(scratch.a, rank, 1, rows, rank, scratch.packed)
  for (let from = 0; from < count; from += sliceRows) {
    const slice = Math.min(sliceRows, count - from)
    kernels.gemm(input + from * rows, rows, 1, scratch.packed, rows * 8, scratch.z, padded, slice, padded, rows, 0)
    kernels.pack(dOutput + from * columns, columns, 1, slice, columns, packed)
    kernels.gemm(scratch.z, 1, padded, packed, slice * 8, scratch.grad, columns, rank, columns, slice, from > 0 ? 1 : 0)
    yield
  }
  for (let i = 0; i < rank * columns; i++) add(gradient, target.b + i, scale * at(memory, scratch.grad + i))
  // Through B: dZ = dY Bᵀ, then dA = Xᵀ dZ.
  kernels.pack(scratch.b, 1, columns, columns, rank, scratch.packed)
  for (let from = 0; from < count; from += sliceRows) {
    const slice = Math.min(sliceRows, count - from)
    const x = input + from * rows
    kernels.gemm(
      dOutput + from * columns,
      columns,
      1,
      scratch.packed,
      columns * 8,
      scratch.dz,
      padded,
      slice,
      padded,
      columns,
      0
    )
    kernels.pack(scratch.dz, padded, 1, slice, padded, packed)
    kernels.gemm(x, 1, rows, packed, slice * 8, scratch.grad, padded, rows, padded, slice, from > 0 ? 1 : 0)
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
  const { dHidden, dNormed, dQkv, dx, hidden: squared, kernels, logits, memory, normedFinal } = workspace
  const { scaleFinal, shape } = workspace
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

  /** Adds what `dNormed` says about a normalised row to the gradient of the residual stream. */
  const intoStream = (normed: number, scales: number, from: number, to: number): void =>
    kernels.normaliseBackward(
      dNormed + from * width,
      normed + from * width,
      scales + from,
      dx + from * width,
      width,
      to - from
    )

  yield* gradients(shape.unembed, normedFinal, logits)
  memory.fill(0, dx, dx + count * width)
  yield* slices((from, to) => {
    applyTransposed(workspace, shape.unembed, logits, dNormed, from, to)
    intoStream(normedFinal, scaleFinal, from, to)
  })
  for (let layer = layers - 1; layer >= 0; layer--) {
    const block = shape.blocks[layer]
    const saved = workspace.layers[layer]
    if (block === undefined || saved === undefined) return
    yield* slices((from, to) => {
      const start = from * hidden
      applyTransposed(workspace, block.down, dx, dHidden, from, to)
      kernels.activateBackward(saved.rectified + start, squared + start, dHidden + start, (to - from) * hidden)
    })
    yield* gradients(block.down, squared, dx)
    yield* gradients(block.up, saved.normed2, dHidden)
    yield* slices((from, to) => {
      applyTransposed(workspace, block.up, dHidden, dNormed, from, to)
      intoStream(saved.normed2, saved.scale2, from, to)
    })
    yield* gradients(block.out, saved.attended, dx)
    yield* slices((from, to) => applyTransposed(workspace, block.out, dx, dNormed, from, to))
    for (const sequence of batch.sequences) {
      for (let head = 0; head < heads; head++) {
        yield* attendBackward(workspace, saved, head, sequence)
      }
      for (let i = 0; i < sequence.length; i++) rotate(workspace, dQkv + (sequence.start + i) * 3 * width, i, -1)
    }
    yield* gradients(block.qkv, saved.normed1, dQkv)
    // Below the first block there is only the frozen embedding.
    if (layer === 0) return
    yield* slices((from, to) => {
      applyTransposed(workspace, block.qkv, dQkv, dNormed, from, to)
      intoStream(saved.normed1, saved.scale1, from, to)
    })
  }
}
