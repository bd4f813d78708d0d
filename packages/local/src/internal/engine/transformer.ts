/**
 * The model itself: the blocks forwards over a packed batch, and backwards from the gradient of their result to that of
 * an adapter's factors. Both are generators that pause every few hundred microseconds of work.
 */
import type { Architecture, Block, Lora, Projection } from "./architecture.js"
import { attend, attendBackward } from "./attention.js"
import type { Adapted, Installed } from "./factors.js"
import { adaptedParts, makeFactorGradients, project, projectBack } from "./factors.js"
import { at, intAt } from "./numbers.js"
import type { Saved, Space, TrainingSpace, Work } from "./space.js"
import { sliceRows } from "./space.js"

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

const activate = (space: Space, source: number, target: number, rows: number): void => {
  const { architecture: { model: { activation, hidden } }, kernels } = space
  kernels[activation](source, target, hidden, rows)
}

/** Calls `body` for the rows of a batch, a slice at a time. */
function* eachSlice(count: number, body: (from: number, rows: number) => Work<void> | void): Work<void> {
  for (let from = 0; from < count; from += sliceRows) {
    const work = body(from, Math.min(sliceRows, count - from))
    if (work !== undefined) yield* work
    yield
  }
}

/** Whether a batch is too large for everything to be kept until the way back. */
const recomputes = ({ keptTokens }: TrainingSpace, { tokens }: Batch): boolean => tokens.length > keptTokens

/** What a block keeps of a batch. */
const savedOf = (training: TrainingSpace, batch: Batch, layer: number): Saved | undefined =>
  recomputes(training, batch) ? training.shared : training.saved[layer]

/** One block for all rows of a batch: reads its stream, writes the next one unless only what is saved is needed. */
function* blockForward(
  space: Space,
  installed: Installed,
  batch: Batch,
  positions: Int32Array,
  layer: number,
  needed: "all" | "saved"
): Work<void> {
  const { architecture, kernels, layout: { weights }, memory, training } = space
  const block = architecture.blocks[layer]
  const saved = savedOf(training, batch, layer)
  const [stream, next] = [training.streams[layer], training.streams[layer + 1]]
  if (block === undefined || saved === undefined || stream === undefined || next === undefined) return
  const { model: { hidden, normEpsilon, width } } = architecture
  const count = batch.tokens.length
  const { normed, product } = training
  const normalize = (source: number, gain: number, from: number, rows: number): void =>
    kernels.normalize(source + from * width, normed + from * width, weights + gain, width, rows, normEpsilon)
  /** Rows of one buffer through a projection into another; for all rows the distance is the projection's own. */
  const through = (projection: Projection, source: number, target: number, from: number, rows: number, adds: 0 | 1) => {
    const { inputs, outputs } = projection
    return project(space, installed, projection, source + from * inputs, target + from * outputs, rows, adds)
  }
  const copyRows = (source: number, target: number, from: number, rows: number) =>
    memory.copyWithin(target + from * width, source + from * width, source + (from + rows) * width)
  yield* eachSlice(count, function*(from, rows) {
    normalize(stream, block.inputNorm, from, rows)
    yield* through(block.qkv, normed, saved.qkv, from, rows, 0)
    for (let row = from; row < from + rows; row++) {
      const [source, target] = [saved.qkv + row * block.qkv.outputs, saved.rotated + row * saved.rotatedRow]
      place(space, block, source, target, intAt(positions, row))
    }
  })
  for (const sequence of batch.sequences) yield* attend(space, saved, sequence)
  yield* eachSlice(count, function*(from, rows) {
    copyRows(stream, saved.middle, from, rows)
    yield* through(block.out, saved.attended, saved.middle, from, rows, 1)
    normalize(saved.middle, block.postNorm, from, rows)
    yield* through(block.up, normed, saved.up, from, rows, 0)
    if (needed === "saved") return
    activate(space, saved.up + from * block.up.outputs, product + from * hidden, rows)
    copyRows(saved.middle, next, from, rows)
    yield* through(block.down, product, next, from, rows, 1)
  })
}

/** The position of every row within its sequence. */
const positionsOf = (batch: Batch): Int32Array => {
  const positions = new Int32Array(batch.tokens.length)
  for (const { length, start } of batch.sequences) for (let i = 0; i < length; i++) positions[start + i] = i
  return positions
}

/** Fills the stream after the last block. @internal */
export function* forward(space: Space, installed: Installed, batch: Batch): Work<void> {
  const { architecture: { blocks }, training } = space
  const positions = positionsOf(batch)
  embed(space, batch.tokens, training.streams[0] ?? 0)
  for (const layer of blocks.keys()) yield* blockForward(space, installed, batch, positions, layer, "all")
}

/** The gradient of a projection's factors and of its input, for all rows. */
function* projectionBackward(
  space: Space,
  installed: Installed,
  adapted: Adapted,
  projection: Projection,
  gradient: Float32Array,
  rowsAt: { readonly x: number; readonly dOutput: number; readonly dInput: number | undefined },
  count: number
): Work<void> {
  const { dInput, dOutput, x } = rowsAt
  const factors = makeFactorGradients(space, installed, adapted, projection, gradient)
  yield* eachSlice(count, function*(from, rows) {
    const dy = dOutput + from * projection.outputs
    const dx = dInput === undefined ? undefined : dInput + from * projection.inputs
    if (dx !== undefined) yield* projectBack(space, installed, projection, dy, dx, rows)
    factors?.slice(x + from * projection.inputs, dy, dx, rows)
  })
  factors?.end()
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
export function* backward(
  space: Space,
  installed: Installed,
  adapted: Adapted,
  batch: Batch,
  gradient: Float32Array
): Work<void> {
  const { architecture, kernels, layout: { weights }, training } = space
  const { model: { activation, hidden, normEpsilon, width } } = architecture
  const { dNormed, dProduct, dQkv, dStream, dUp, normed, product } = training
  const count = batch.tokens.length
  const positions = positionsOf(batch)
  const slices = (body: (from: number, rows: number) => void) => eachSlice(count, body)
  const through = (projection: Projection, x: number, dOutput: number, dInput: number | undefined) =>
    projectionBackward(space, installed, adapted, projection, gradient, { x, dOutput, dInput }, count)
  const lowest = lastTrained(architecture, adapted.lora)
  for (let layer = architecture.blocks.length - 1; layer >= lowest; layer--) {
    const block = architecture.blocks[layer]
    const saved = savedOf(training, batch, layer)
    const stream = training.streams[layer]
    if (block === undefined || saved === undefined || stream === undefined) return
    if (recomputes(training, batch)) yield* blockForward(space, installed, batch, positions, layer, "saved")
    yield* slices((from, rows) => activate(space, saved.up + from * block.up.outputs, product + from * hidden, rows))
    yield* through(block.down, product, dStream, dProduct)
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
    yield* through(block.up, normed, dUp, dNormed)
    yield* slices((from, rows) => intoStream(space, training, block.postNorm, saved.middle, from, rows))
    yield* through(block.out, saved.attended, dStream, dNormed)
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
    yield* through(block.qkv, normed, dQkv, layer === lowest ? undefined : dNormed)
    if (layer === lowest) return
    yield* slices((from, rows) => intoStream(space, training, block.inputNorm, stream, from, rows))
  }
}
