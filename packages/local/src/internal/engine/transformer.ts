/**
 * The model itself: the blocks forwards over a packed batch, and backwards from the gradient of their result to that of
 * an adapter's factors. Both are generators that pause every few hundred microseconds of work.
 */
import type { Architecture, Block, Factors, Lora, Part, Projection } from "./architecture.js"
import { attend, attendBackward } from "./attention.js"
import { add, at, ceil8, intAt } from "./numbers.js"
import type { Saved, Space, TrainingSpace, Work } from "./space.js"
import { blockOutputs, sliceRows } from "./space.js"

/** A sequence of a batch. @internal */
export interface Sequence {
  readonly start: number
  readonly length: number
}

/** Sequences laid end to end without padding: what one pass through the model works on. @internal */
export interface Batch {
  readonly tokens: Int32Array
  readonly sequences: ReadonlyArray<Sequence>
}

/** @internal */
export const makeBatch = (inputs: ReadonlyArray<Int32Array>): Batch => {
  const tokens = new Int32Array(inputs.reduce((sum, input) => sum + input.length, 0))
  let start = 0
  const sequences = inputs.map((input): Sequence => {
    tokens.set(input, start)
    start += input.length
    return { start: start - input.length, length: input.length }
  })
  return { tokens, sequences }
}

/** An adapter's factors. @internal */
export interface Adapted {
  readonly lora: Lora
  readonly values: Float32Array
}

/** `target` = or += `source` · weights, for `rows` rows; `weights` is where the projections of a model begin. @internal */
export const project = (
  space: Space,
  weights: number,
  projection: Projection,
  source: number,
  target: number,
  rows: number,
  accumulate: 0 | 1
): void => {
  const { inputs, offset, outputs } = projection
  space.kernels.gemm(
    source,
    inputs,
    1,
    weights + offset,
    inputs * 8,
    target,
    outputs,
    rows,
    outputs,
    inputs,
    accumulate
  )
}

/** Copies the embeddings of tokens into rows. @internal */
export const embed = (space: Space, tokens: Int32Array, target: number): void => {
  const { architecture: { embedding, model: { width }, unembed }, layout: { weights }, memory } = space
  for (let i = 0; i < tokens.length; i++) {
    const token = intAt(tokens, i)
    const to = target + i * width
    if (embedding !== undefined) {
      const from = weights + embedding + token * width
      memory.copyWithin(to, from, from + width)
    } else {
      const from = weights + unembed.offset + (token >> 3) * width * 8 + (token & 7)
      for (let j = 0; j < width; j++) memory[to + j] = at(memory, from + j * 8)
    }
  }
}

/** Normalizes, where the model does so, and rotates the queries and keys of one row to their position. @internal */
export const place = (space: Space, block: Block, source: number, target: number, position: number): void => {
  const { architecture: { keyWidth, model, queryWidth }, kernels, layout } = space
  const { headSize, heads, keyValueHeads, normEpsilon } = model
  const half = headSize / 2
  if (model.queryKeyNorms) {
    const { weights } = layout
    kernels.normalize(source, target, weights + block.queryNorm, headSize, heads, normEpsilon)
    kernels.normalize(
      source + queryWidth,
      target + queryWidth,
      weights + block.keyNorm,
      headSize,
      keyWidth / headSize,
      normEpsilon
    )
  }
  const angles = position * half
  kernels.rotate(target, layout.cosine + angles, layout.sine + angles, heads + keyValueHeads, half, 1)
}

/** The factors of a projection that are trained, in the order of its parts. @internal */
export const adaptedParts = (lora: Lora, projection: Projection): ReadonlyArray<Factors> =>
  projection.parts.flatMap((part: Part) => {
    const factors = lora.factors.get(part)
    return factors === undefined ? [] : [factors]
  })

/** Puts the factors A of a projection below each other, each filled up to a multiple of eight rows. @internal */
export const stackA = (
  space: Space,
  adapted: Adapted,
  parts: ReadonlyArray<Factors>,
  inputs: number,
  target: number
): number => {
  const { memory } = space
  const { rank } = adapted.lora.settings
  const padded = ceil8(rank)
  parts.forEach(({ a }, index) => {
    const to = target + index * padded * inputs
    memory.set(adapted.values.subarray(a, a + rank * inputs), to)
    memory.fill(0, to + rank * inputs, to + padded * inputs)
  })
  return parts.length * padded
}

/** The factor B of a part, multiplied by the scale. @internal */
export const scaleB = (space: Space, adapted: Adapted, { b, part }: Factors, target: number): void => {
  const { memory } = space
  const { lora: { scale, settings: { rank } }, values } = adapted
  for (let i = 0; i < part.outputs * rank; i++) memory[target + i] = scale * at(values, b + i)
}

/** `target` += what the factors make of `source`; `z` keeps what A alone makes of it. */
function* applyFactors(
  space: Space,
  adapted: Adapted,
  projection: Projection,
  source: number,
  z: number,
  target: number,
  count: number
): Work<void> {
  const { kernels, training: { lora: scratch } } = space
  const parts = adaptedParts(adapted.lora, projection)
  if (parts.length === 0) return
  const { inputs, outputs } = projection
  const { rank } = adapted.lora.settings
  const stacked = stackA(space, adapted, parts, inputs, scratch.a)
  kernels.pack(scratch.a, 1, inputs, inputs, stacked, scratch.aPacked)
  yield
  for (let from = 0; from < count; from += sliceRows) {
    const rows = Math.min(sliceRows, count - from)
    const [x, to] = [source + from * inputs, z + from * stacked]
    kernels.gemm(x, inputs, 1, scratch.aPacked, inputs * 8, to, stacked, rows, stacked, inputs, 0)
    yield
  }
  for (const [index, factors] of parts.entries()) {
    const { outputs: wide, shift } = factors.part
    scaleB(space, adapted, factors, scratch.b)
    kernels.pack(scratch.b, 1, rank, rank, wide, scratch.bPacked)
    yield
    const from = z + index * ceil8(rank)
    for (let row = 0; row < count; row += sliceRows) {
      const rows = Math.min(sliceRows, count - row)
      const to = target + row * outputs + shift
      kernels.gemm(
        from + row * stacked,
        stacked,
        1,
        scratch.bPacked,
        rank * 8,
        to,
        outputs,
        rows,
        ceil8(wide),
        rank,
        1
      )
      yield
    }
  }
}

const activate = (space: Space, source: number, target: number, rows: number): void => {
  const { architecture: { model: { activation, hidden } }, kernels } = space
  kernels[activation](source, target, hidden, rows)
}

/** One block for all rows of a batch: reads its stream, writes the next one. */
function* blockForward(
  space: Space,
  adapted: Adapted,
  batch: Batch,
  positions: Int32Array,
  layer: number,
  needed: "all" | "saved"
): Work<void> {
  const { architecture, kernels, layout: { weights }, memory, training } = space
  const block = architecture.blocks[layer]
  const saved = training.saved[layer]
  const [stream, next] = [training.streams[layer], training.streams[layer + 1]]
  if (block === undefined || saved === undefined || stream === undefined || next === undefined) return
  const { model: { hidden, normEpsilon, width }, queryWidth } = architecture
  const count = batch.tokens.length
  const slices = function*(body: (from: number, rows: number) => void): Work<void> {
    for (let from = 0; from < count; from += sliceRows) {
      body(from, Math.min(sliceRows, count - from))
      yield
    }
  }
  const { normed, product } = training
  yield* slices((from, rows) => {
    kernels.normalize(
      stream + from * width,
      normed + from * width,
      weights + block.inputNorm,
      width,
      rows,
      normEpsilon
    )
    project(space, weights, block.qkv, normed + from * width, saved.qkv + from * block.qkv.outputs, rows, 0)
  })
  yield* applyFactors(space, adapted, block.qkv, normed, saved.zQkv, saved.qkv, count)
  yield* slices((from, rows) => {
    for (let row = from; row < from + rows; row++) {
      const [source, target] = [saved.qkv + row * block.qkv.outputs, saved.rotated + row * saved.rotatedRow]
      place(space, block, source, target, intAt(positions, row))
    }
  })
  for (const sequence of batch.sequences) yield* attend(space, saved, sequence)
  yield* slices((from, rows) => {
    memory.copyWithin(saved.middle + from * width, stream + from * width, stream + (from + rows) * width)
    project(space, weights, block.out, saved.attended + from * queryWidth, saved.middle + from * width, rows, 1)
  })
  yield* applyFactors(space, adapted, block.out, saved.attended, saved.zOut, saved.middle, count)
  yield* slices((from, rows) => {
    kernels.normalize(
      saved.middle + from * width,
      normed + from * width,
      weights + block.postNorm,
      width,
      rows,
      normEpsilon
    )
    project(space, weights, block.up, normed + from * width, saved.up + from * block.up.outputs, rows, 0)
  })
  yield* applyFactors(space, adapted, block.up, normed, saved.zUp, saved.up, count)
  yield* slices((from, rows) => {
    activate(space, saved.up + from * block.up.outputs, product + from * hidden, rows)
    if (needed === "saved") return
    memory.copyWithin(next + from * width, saved.middle + from * width, saved.middle + (from + rows) * width)
    project(space, weights, block.down, product + from * hidden, next + from * width, rows, 1)
  })
  // computed again, the stream after the block is known; only what B needs is missing
  yield* applyFactors(
    space,
    adapted,
    block.down,
    product,
    saved.zDown,
    needed === "all" ? next : training.dNormed,
    count
  )
}

/** The position of every row within its sequence. */
const positionsOf = (batch: Batch): Int32Array => {
  const positions = new Int32Array(batch.tokens.length)
  for (const { length, start } of batch.sequences) for (let i = 0; i < length; i++) positions[start + i] = i
  return positions
}

/** Fills the stream after the last block. @internal */
export function* forward(space: Space, adapted: Adapted, batch: Batch): Work<void> {
  const { architecture: { blocks }, training } = space
  const positions = positionsOf(batch)
  embed(space, batch.tokens, training.streams[0] ?? 0)
  for (const layer of blocks.keys()) yield* blockForward(space, adapted, batch, positions, layer, "all")
}

/** `target` = or += `source` · weightsᵀ. @internal */
export const projectBack = (
  space: Space,
  projection: Projection,
  source: number,
  target: number,
  rows: number,
  accumulate: 0 | 1
): void => {
  const { kernels, layout: { weights }, training: { turned } } = space
  const { inputs, offset, outputs } = projection
  for (let from = 0; from < outputs; from += blockOutputs) {
    const block = Math.min(blockOutputs, outputs - from)
    kernels.turn(weights + offset + from * inputs, inputs, turned, block, block * 8)
    kernels.gemm(
      source + from,
      outputs,
      1,
      turned,
      block * 8,
      target,
      inputs,
      rows,
      inputs,
      block,
      from > 0 ? 1 : accumulate
    )
  }
}

/**
 * Adds the gradient of a projection's factors to `gradient`, and what flows through them to the gradient of the
 * projection's input. `begin`, `slice` and `end` let a caller walk over the rows piece by piece.
 *
 * @internal
 */
export const makeFactorGradients = (
  space: Space,
  adapted: Adapted,
  projection: Projection,
  gradient: Float32Array
): {
  readonly begin: () => void
  /** Rows of the input, of Z, of the gradient of the output, and of that of the input, which is added to. */
  readonly slice: (x: number, z: number, dOutput: number, dInput: number | undefined, rows: number) => void
  readonly end: () => void
} | undefined => {
  const { kernels, memory, training: { lora: scratch, packed } } = space
  const parts = adaptedParts(adapted.lora, projection)
  if (parts.length === 0) return undefined
  const { inputs, outputs } = projection
  const { rank } = adapted.lora.settings
  const { scale } = adapted.lora
  const padded = ceil8(rank)
  const stacked = parts.length * padded
  let first = true
  // B of each part packed by rows of its outputs; gradients of all parts below each other
  const bAt = (shift: number): number => shift * padded
  return {
    begin: () => {
      first = true
      stackA(space, adapted, parts, inputs, scratch.a)
      kernels.pack(scratch.a, inputs, 1, stacked, inputs, scratch.aPacked)
      for (const factors of parts) {
        scaleB(space, adapted, factors, scratch.b)
        kernels.pack(scratch.b, rank, 1, factors.part.outputs, rank, scratch.bPacked + bAt(factors.part.shift))
      }
    },
    slice: (x, z, dOutput, dInput, rows) => {
      const accumulate = first ? 0 : 1
      first = false
      for (const [index, { part }] of parts.entries()) {
        const dy = dOutput + part.shift
        const b = scratch.bPacked + bAt(part.shift)
        // dZ = dY · sB
        kernels.gemm(
          dy,
          outputs,
          1,
          b,
          part.outputs * 8,
          scratch.dz + index * padded,
          stacked,
          rows,
          padded,
          part.outputs,
          0
        )
        // dB = dYᵀ · Z
        kernels.pack(z + index * padded, stacked, 1, rows, padded, packed)
        const target = scratch.gradientB + bAt(part.shift)
        kernels.gemm(dy, 1, outputs, packed, rows * 8, target, padded, part.outputs, padded, rows, accumulate)
      }
      // dA = dZᵀ · X
      kernels.pack(x, inputs, 1, rows, inputs, packed)
      kernels.gemm(
        scratch.dz,
        1,
        stacked,
        packed,
        rows * 8,
        scratch.gradientA,
        inputs,
        stacked,
        inputs,
        rows,
        accumulate
      )
      if (dInput === undefined) return
      kernels.gemm(scratch.dz, stacked, 1, scratch.aPacked, stacked * 8, dInput, inputs, rows, inputs, stacked, 1)
    },
    end: () => {
      for (const [index, { a, b, part }] of parts.entries()) {
        const fromA = scratch.gradientA + index * padded * inputs
        for (let i = 0; i < rank * inputs; i++) add(gradient, a + i, at(memory, fromA + i))
        const fromB = scratch.gradientB + bAt(part.shift)
        for (let i = 0; i < part.outputs; i++) {
          for (let j = 0; j < rank; j++) add(gradient, b + i * rank + j, scale * at(memory, fromB + i * padded + j))
        }
      }
    }
  }
}

/** The gradient of a projection's factors and of its input, for all rows. */
function* projectionBackward(
  space: Space,
  adapted: Adapted,
  projection: Projection,
  gradient: Float32Array,
  rowsAt: { readonly x: number; readonly z: number; readonly dOutput: number; readonly dInput: number | undefined },
  count: number
): Work<void> {
  const { dInput, dOutput, x, z } = rowsAt
  const factors = makeFactorGradients(space, adapted, projection, gradient)
  const stacked = adaptedParts(adapted.lora, projection).length * ceil8(adapted.lora.settings.rank)
  factors?.begin()
  yield
  for (let from = 0; from < count; from += sliceRows) {
    const rows = Math.min(sliceRows, count - from)
    const dy = dOutput + from * projection.outputs
    const dx = dInput === undefined ? undefined : dInput + from * projection.inputs
    if (dx !== undefined) {
      projectBack(space, projection, dy, dx, rows, 0)
      yield
    }
    factors?.slice(x + from * projection.inputs, z + from * stacked, dy, dx, rows)
    yield
  }
  factors?.end()
  yield
}

const lastTrained = (architecture: Architecture, lora: Lora): number => {
  const trained = architecture.blocks.findIndex((block) =>
    [block.qkv, block.out, block.up, block.down].some((projection) => adaptedParts(lora, projection).length > 0)
  )
  return trained === -1 ? architecture.blocks.length : trained
}

/** Adds what a normalized row's gradient says about the stream. */
const intoStream = (
  space: Space,
  training: TrainingSpace,
  gain: number,
  stream: number,
  from: number,
  rows: number
): void => {
  const { architecture: { model: { normEpsilon, width } }, kernels, layout: { weights } } = space
  kernels.normalizeBackward(
    training.dNormed + from * width,
    stream + from * width,
    weights + gain,
    training.dStream + from * width,
    width,
    rows,
    normEpsilon,
    1
  )
}

/** From the gradient of queries, keys and values as attention used them to that of the projection's result, in place. */
const unplace = (space: Space, block: Block, saved: Saved, row: number, position: number): void => {
  const { architecture: { keyWidth, model, queryWidth }, kernels, layout, training: { dQkv } } = space
  const { headSize, heads, keyValueHeads, normEpsilon } = model
  const half = headSize / 2
  const gradient = dQkv + row * block.qkv.outputs
  const angles = position * half
  kernels.rotate(gradient, layout.cosine + angles, layout.sine + angles, heads + keyValueHeads, half, -1)
  if (!model.queryKeyNorms) return
  const source = saved.qkv + row * block.qkv.outputs
  const { weights } = layout
  kernels.normalizeBackward(
    gradient,
    source,
    weights + block.queryNorm,
    gradient,
    headSize,
    heads,
    normEpsilon,
    0
  )
  kernels.normalizeBackward(
    gradient + queryWidth,
    source + queryWidth,
    weights + block.keyNorm,
    gradient + queryWidth,
    headSize,
    keyWidth / headSize,
    normEpsilon,
    0
  )
}

/** Runs backwards from the gradient of the last stream in `dStream`; uses what the last forward pass left. @internal */
export function* backward(space: Space, adapted: Adapted, batch: Batch, gradient: Float32Array): Work<void> {
  const { architecture, kernels, layout: { weights }, training } = space
  const { model: { activation, hidden, normEpsilon, width } } = architecture
  const { dNormed, dProduct, dQkv, dStream, dUp, normed, product } = training
  const count = batch.tokens.length
  const positions = positionsOf(batch)
  const slices = function*(body: (from: number, rows: number) => void): Work<void> {
    for (let from = 0; from < count; from += sliceRows) {
      body(from, Math.min(sliceRows, count - from))
      yield
    }
  }
  const through = (
    projection: Projection,
    x: number,
    z: number,
    dOutput: number,
    dInput: number | undefined
  ) => projectionBackward(space, adapted, projection, gradient, { x, z, dOutput, dInput }, count)
  const lowest = lastTrained(architecture, adapted.lora)
  for (let layer = architecture.blocks.length - 1; layer >= lowest; layer--) {
    const block = architecture.blocks[layer]
    const saved = training.saved[layer]
    const stream = training.streams[layer]
    if (block === undefined || saved === undefined || stream === undefined) return
    if (training.recompute) yield* blockForward(space, adapted, batch, positions, layer, "saved")
    yield* slices((from, rows) => activate(space, saved.up + from * block.up.outputs, product + from * hidden, rows))
    yield* through(block.down, product, saved.zDown, dStream, dProduct)
    yield* slices((from, rows) => {
      kernels[activation === "swiglu" ? "swigluBackward" : "relu2Backward"](
        saved.up + from * block.up.outputs,
        dProduct + from * hidden,
        dUp + from * block.up.outputs,
        hidden,
        rows
      )
      kernels.normalize(
        saved.middle + from * width,
        normed + from * width,
        weights + block.postNorm,
        width,
        rows,
        normEpsilon
      )
    })
    yield* through(block.up, normed, saved.zUp, dUp, dNormed)
    yield* slices((from, rows) => intoStream(space, training, block.postNorm, saved.middle, from, rows))
    yield* through(block.out, saved.attended, saved.zOut, dStream, dNormed)
    for (const sequence of batch.sequences) yield* attendBackward(space, saved, sequence)
    yield* slices((from, rows) => {
      for (let row = from; row < from + rows; row++) unplace(space, block, saved, row, intAt(positions, row))
      kernels.normalize(
        stream + from * width,
        normed + from * width,
        weights + block.inputNorm,
        width,
        rows,
        normEpsilon
      )
    })
    // Below the lowest trained block there are only frozen weights.
    yield* through(block.qkv, normed, saved.zQkv, dQkv, layer === lowest ? undefined : dNormed)
    if (layer === lowest) return
    yield* slices((from, rows) => intoStream(space, training, block.inputNorm, stream, from, rows))
  }
}
