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
  const { architecture: { model: { embeddingScale, width } }, frozen, memory } = space
  for (let i = 0; i < tokens.length; i++) {
    const to = target + i * width
    frozen.embed(intAt(tokens, i), to)
    if (embeddingScale !== 1) { for (let j = to; j < to + width; j++) memory[j] = embeddingScale * at(memory, j) }
  }
}

/** Rows of queries, keys and values that follow each other in a sequence. */
interface Run {
  readonly at: number
  readonly stride: number
  readonly rows: number
  /** Of the first row. */
  readonly position: number
}

const rotateRun = (space: Space, block: Block, run: Run, direction: 1 | -1): void => {
  const { architecture: { model }, kernels, layout } = space
  const { at, position, rows, stride } = run
  const heads = model.heads + model.keyValueHeads
  const { dimensions = model.headSize } = block.rotation === 1 && model.local ? model.local.rotation : model.rotation
  const half = dimensions / 2
  const table = layout.rotations[block.rotation]
  const [cosine, sine] = [table.cosine + position * half, table.sine + position * half]
  if (dimensions === model.headSize) {
    kernels.rotate(at, stride, rows, cosine, sine, heads, half, direction)
    return
  }
  for (let head = 0; head < heads; head++) {
    kernels.rotate(at + head * model.headSize, stride, rows, cosine, sine, 1, half, direction)
  }
}

/** Normalizes, where the model does so, and rotates the queries and keys of rows to their positions. @internal */
export const place = (space: Space, block: Block, source: Pick<Run, "at" | "stride">, target: Run): void => {
  const { architecture: { keyWidth, model, queryWidth }, kernels, layout: { weights } } = space
  const { headSize, heads, normEpsilon } = model
  if (model.queryKeyNorms) {
    for (let row = 0; row < target.rows; row++) {
      const [from, to] = [source.at + row * source.stride, target.at + row * target.stride]
      kernels.normalize(from, to, weights + block.queryNorm, headSize, heads, normEpsilon)
      const [keys, normed] = [from + queryWidth, to + queryWidth]
      kernels.normalize(keys, normed, weights + block.keyNorm, headSize, keyWidth / headSize, normEpsilon)
    }
  }
  rotateRun(space, block, target, 1)
}

/** Adds the biases of queries, keys and values to rows, where the model has them. @internal */
export const addBiases = (space: Space, block: Block, target: number, rows: number): void => {
  const { kernels, layout: { weights } } = space
  const { biases, qkv: { outputs } } = block
  if (biases === undefined) return
  for (let row = 0; row < rows; row++) kernels.addRow(target + row * outputs, weights + biases, outputs)
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

/** Whether a batch is too large for everything to be kept until the backward pass. */
const recomputes = ({ keptTokens }: TrainingSpace, { tokens }: Batch): boolean => tokens.length > keptTokens

/** Activations that a block keeps of a batch. */
const savedOf = (training: TrainingSpace, batch: Batch, layer: number): Saved | undefined =>
  recomputes(training, batch) ? training.shared : training.saved[layer]

/** Where a slice of the rows of a batch is cut by the ends of sequences. */
const runsOf = (
  { sequences }: Batch,
  from: number,
  rows: number
): ReadonlyArray<{ readonly row: number; readonly rows: number; readonly position: number }> =>
  sequences.flatMap(({ length, start }) => {
    const row = Math.max(start, from)
    const end = Math.min(start + length, from + rows)
    return end > row ? [{ row, rows: end - row, position: row - start }] : []
  })

/** One block for all rows of a batch: reads its stream, writes the next one unless only what is saved is needed. */
function* blockForward(
  space: Space,
  installed: Installed,
  batch: Batch,
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
    addBiases(space, block, saved.qkv + from * block.qkv.outputs, rows)
    for (const run of runsOf(batch, from, rows)) {
      const source = { at: saved.qkv + run.row * block.qkv.outputs, stride: block.qkv.outputs }
      place(space, block, source, { ...run, at: saved.rotated + run.row * saved.rotatedRow, stride: saved.rotatedRow })
    }
  })
  /** Adds the result of a projection to rows, normalized first where the model does so. */
  const addResult = function*(
    projection: Projection,
    source: number,
    target: number,
    from: number,
    rows: number,
    norm: { readonly gain: number; readonly result: number } | undefined
  ): Work<void> {
    if (norm === undefined) return yield* through(projection, source, target, from, rows, 1)
    yield* through(projection, source, norm.result, from, rows, 0)
    normalize(norm.result, norm.gain, from, rows)
    kernels.addRow(target + from * width, normed + from * width, rows * width)
  }
  const { resultNorms } = block
  const attendedNorm = resultNorms && { gain: resultNorms.attended, result: saved.attendedResult }
  const hiddenNorm = resultNorms && { gain: resultNorms.hidden, result: saved.hiddenResult }
  for (const sequence of batch.sequences) yield* attend(space, block, saved, sequence)
  yield* eachSlice(count, function*(from, rows) {
    copyRows(stream, saved.middle, from, rows)
    yield* addResult(block.out, saved.attended, saved.middle, from, rows, attendedNorm)
    normalize(saved.middle, block.hiddenNorm, from, rows)
    yield* through(block.up, normed, saved.up, from, rows, 0)
    // the backward pass needs the last result only where it was normalized
    if (needed === "saved" && hiddenNorm === undefined) return
    activate(space, saved.up + from * block.up.outputs, product + from * hidden, rows)
    copyRows(saved.middle, next, from, rows)
    yield* addResult(block.down, product, next, from, rows, hiddenNorm)
  })
}

/** Fills the stream after the last block. @internal */
export function* forward(space: Space, installed: Installed, batch: Batch): Work<void> {
  const { architecture: { blocks }, training } = space
  embed(space, batch.tokens, training.streams[0] ?? 0)
  for (const layer of blocks.keys()) yield* blockForward(space, installed, batch, layer, "all")
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
  // all rows at once, because transposing the weights takes as long for one as for all
  if (dInput !== undefined) yield* projectBack(space, installed, projection, dOutput, dInput, count)
  yield* eachSlice(count, (from, rows) => {
    const dy = dOutput + from * projection.outputs
    const dx = dInput === undefined ? undefined : dInput + from * projection.inputs
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

/** From the gradient of queries and keys as attention used them to that of the projection's result, in place. */
const placeBackward = (space: Space, block: Block, source: Pick<Run, "at" | "stride">, gradient: Run): void => {
  const { architecture: { keyWidth, model, queryWidth }, kernels, layout: { weights } } = space
  const { headSize, heads, normEpsilon } = model
  rotateRun(space, block, gradient, -1)
  if (!model.queryKeyNorms) return
  const back = (slope: number, from: number, gain: number, count: number): void =>
    kernels.normalizeBackward(slope, from, weights + gain, slope, headSize, count, normEpsilon, 0)
  for (let row = 0; row < gradient.rows; row++) {
    const [slope, from] = [gradient.at + row * gradient.stride, source.at + row * source.stride]
    back(slope, from, block.queryNorm, heads)
    back(slope + queryWidth, from + queryWidth, block.keyNorm, keyWidth / headSize)
  }
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
  const { dNormed, dProduct, dQkv, dResult, dStream, dUp, normed, product } = training
  const count = batch.tokens.length
  const slices = (body: (from: number, rows: number) => void) => eachSlice(count, body)
  const through = (projection: Projection, x: number, dOutput: number, dInput: number | undefined) =>
    projectionBackward(space, installed, adapted, projection, gradient, { x, dOutput, dInput }, count)
  /** Where the gradient of a result is: that of the stream, or what the norm of the result makes of it. */
  const resultGradient = function*(gain: number | undefined, result: number): Work<number> {
    if (gain === undefined) return dStream
    yield* slices((from, rows) =>
      kernels.normalizeBackward(
        dStream + from * width,
        result + from * width,
        weights + gain,
        dResult + from * width,
        width,
        rows,
        normEpsilon,
        0
      )
    )
    return dResult
  }
  const lowest = lastTrained(architecture, adapted.lora)
  for (let layer = architecture.blocks.length - 1; layer >= lowest; layer--) {
    const block = architecture.blocks[layer]
    const saved = savedOf(training, batch, layer)
    const stream = training.streams[layer]
    if (block === undefined || saved === undefined || stream === undefined) return
    if (recomputes(training, batch)) yield* blockForward(space, installed, batch, layer, "saved")
    yield* slices((from, rows) => activate(space, saved.up + from * block.up.outputs, product + from * hidden, rows))
    const dHidden = yield* resultGradient(block.resultNorms?.hidden, saved.hiddenResult)
    yield* through(block.down, product, dHidden, dProduct)
    yield* slices((from, rows) => {
      kernels[`${activation}Backward`](
        saved.up + from * block.up.outputs,
        dProduct + from * hidden,
        dUp + from * block.up.outputs,
        hidden,
        rows
      )
      kernels.normalize(
        saved.middle + from * width,
        normed + from * width,
        weights + block.hiddenNorm,
        width,
        rows,
        normEpsilon
      )
    })
    yield* through(block.up, normed, dUp, dNormed)
    yield* slices((from, rows) => intoStream(space, training, block.hiddenNorm, saved.middle, from, rows))
    const dAttended = yield* resultGradient(block.resultNorms?.attended, saved.attendedResult)
    yield* through(block.out, saved.attended, dAttended, dNormed)
    for (const sequence of batch.sequences) yield* attendBackward(space, block, saved, sequence)
    yield* slices((from, rows) => {
      const stride = block.qkv.outputs
      for (const run of runsOf(batch, from, rows)) {
        const source = { at: saved.qkv + run.row * stride, stride }
        placeBackward(space, block, source, { ...run, at: dQkv + run.row * stride, stride })
      }
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
