/**
 * An adapter's factors as the kernels use them. In small models they are multiplied into a copy of the weights once per
 * optimizer step, so that passes and samples read a single matrix; in large ones they are applied beside the frozen
 * weights.
 */
import type { Factors, Lora, Part, Projection, Ways } from "./architecture.js"
import { packedSize } from "./architecture.js"
import type { Frozen } from "./frozen.js"
import { frozenInside } from "./frozen.js"
import { at, ceil8 } from "./numbers.js"
import type { Space, Work } from "./space.js"
import { blockOutputs, sliceRows } from "./space.js"

/** An adapter's factors; `key` stands for these values and no others. @internal */
export interface Adapted {
  readonly key: number
  readonly lora: Lora
  readonly values: Float32Array
}

/** Weights as a thread computes with them. @internal */
export interface Installed {
  /** The matrices: the frozen ones, or a copy with the adapter multiplied in. */
  readonly matrices: Frozen
  /** Whether the factors still have to be applied beside the weights. */
  readonly beside: boolean
  /** The packed factors of a projection; undefined where it has none. */
  readonly factors: (projection: Projection) => PackedFactors | undefined
  /** Room for what the factors A make of a slice of rows. */
  readonly z: number
}

/** The factors of one projection; the A of its parts lie below each other, each filled up to a multiple of eight rows. */
interface PackedFactors {
  readonly parts: ReadonlyArray<Factors>
  readonly rank: number
  readonly padded: number
  readonly stacked: number
  /** For X · Aᵀ, and for Z · Bᵀ. */
  readonly a: number
  readonly b: number
  /** For dZ · A, and for dY · B. */
  readonly aBack: number
  readonly bBack: number
}

/** The factors of a projection that are trained, in the order of its parts. @internal */
export const adaptedParts = (lora: Lora, projection: Projection): ReadonlyArray<Factors> =>
  projection.parts.flatMap((part: Part) => {
    const factors = lora.factors.get(part)
    return factors === undefined ? [] : [factors]
  })

/** The factor B of a part, multiplied by the scale. */
const scaleB = (space: Space, { lora, values }: Adapted, { b, part }: Factors, target: number): void => {
  const { memory } = space
  const { scale, settings: { rank } } = lora
  for (let i = 0; i < part.outputs * rank; i++) memory[target + i] = scale * at(values, b + i)
}

interface Scratch {
  readonly a: number
  readonly b: number
  readonly bPacked: number
}

const packFactors = (
  space: Space,
  adapted: Adapted,
  projection: Projection,
  scratch: Pick<Scratch, "a" | "b">,
  target: number,
  ways: Ways
): PackedFactors | undefined => {
  const { kernels, memory } = space
  const { lora, values } = adapted
  const parts = adaptedParts(lora, projection)
  if (parts.length === 0) return undefined
  const { inputs, outputs } = projection
  const { rank } = lora.settings
  const padded = ceil8(rank)
  const stacked = parts.length * padded
  const [a, b] = [target, target + stacked * inputs]
  const aBack = b + padded * outputs
  const bBack = aBack + stacked * inputs
  parts.forEach((factors, index) => {
    const to = scratch.a + index * padded * inputs
    memory.set(values.subarray(factors.a, factors.a + rank * inputs), to)
    memory.fill(0, to + rank * inputs, to + padded * inputs)
  })
  kernels.pack(scratch.a, 1, inputs, inputs, stacked, a)
  if (ways === "both") kernels.pack(scratch.a, inputs, 1, stacked, inputs, aBack)
  for (const factors of parts) {
    const { part: { outputs, shift } } = factors
    scaleB(space, adapted, factors, scratch.b)
    kernels.pack(scratch.b, 1, rank, rank, outputs, b + shift * rank)
    if (ways === "both") kernels.pack(scratch.b, rank, 1, outputs, rank, bBack + shift * padded)
  }
  return { parts, rank, padded, stacked, a, b, aBack, bBack }
}

/** Multiplies an adapter into a copy of the weights, panel by panel. */
function* mergeWeights(space: Space, adapted: Adapted, target: number, scratch: Scratch): Work<void> {
  const { architecture, kernels, layout: { weights }, memory } = space
  const { rank } = adapted.lora.settings
  memory.copyWithin(target, weights, weights + architecture.projectionSize)
  yield
  for (const projection of architecture.projections) {
    const { inputs, offset } = projection
    for (const factors of adaptedParts(adapted.lora, projection)) {
      const { part } = factors
      memory.set(adapted.values.subarray(factors.a, factors.a + rank * inputs), scratch.a)
      scaleB(space, adapted, factors, scratch.b)
      kernels.pack(scratch.b, 1, rank, rank, part.outputs, scratch.bPacked)
      for (let panel = 0; panel < ceil8(part.outputs) / 8; panel++) {
        const to = target + offset + (part.shift + panel * 8) * inputs
        kernels.gemm(scratch.a, 1, inputs, scratch.bPacked + panel * rank * 8, rank * 8, to, 8, inputs, 8, rank, 1)
      }
      yield
    }
  }
}

/** Packs the factors of all projections one after the other. */
function* packAll(
  space: Space,
  adapted: Adapted,
  scratch: Pick<Scratch, "a" | "b">,
  target: number,
  ways: Ways
): Work<ReadonlyMap<Projection, PackedFactors>> {
  const packed = new Map<Projection, PackedFactors>()
  let next = target
  for (const projection of space.architecture.projections) {
    const factors = packFactors(space, adapted, projection, scratch, next, ways)
    if (factors === undefined) continue
    packed.set(projection, factors)
    next += packedSize(projection, factors.rank, ways)
    yield
  }
  return packed
}

/** Brings adapters into place, and knows which are there. @internal */
export interface Installer {
  readonly install: (adapted: Adapted | undefined) => Work<Installed>
}

/** Rows that lie together and are computed with the same weights. @internal */
export interface Segment {
  readonly installed: Installed
  readonly rows: number
}

/** Rows for a step, and the weights they are computed with. @internal */
export interface Wanted {
  readonly adapted: Adapted | undefined
  readonly rows: number
}

/** For samples, which only go forwards: what is in place stays until its room is needed. @internal */
export interface SamplingInstaller extends Installer {
  /** Whether rows with these weights can be computed in one step. */
  readonly fit: (adapters: ReadonlyArray<Adapted | undefined>) => boolean
  /** The weights of all rows of a step, which fit. */
  readonly installAll: (wanted: ReadonlyArray<Wanted>) => Work<ReadonlyArray<Segment>>
}

/** @internal */
export const makeSamplingInstaller = (space: Space): SamplingInstaller => {
  const { architecture, kernels, layout, sampling } = space
  const frozen: Installed = { matrices: space.frozen, beside: false, factors: () => undefined, z: sampling.z }
  const merged = frozenInside(architecture, kernels, sampling.adapted)
  const resident = new Map<number, Installed>()
  let used = 0
  const clear = (): void => {
    resident.clear()
    used = 0
  }
  const sizeOf = ({ lora }: Adapted): number =>
    architecture.projections.reduce(
      (sum, projection) => sum + packedSize(projection, lora.settings.rank, "forward"),
      0
    )
  /** Brings an adapter into place beside those that are there; undefined when there is no room. */
  function* put(adapted: Adapted): Work<Installed | undefined> {
    const known = resident.get(adapted.key)
    if (known !== undefined) return known
    if (layout.merges) {
      if (resident.size > 0) return undefined
      yield* mergeWeights(space, adapted, sampling.adapted, sampling)
      const installed = { ...frozen, matrices: merged }
      resident.set(adapted.key, installed)
      return installed
    }
    const size = sizeOf(adapted)
    if (used > 0 && used + size > sampling.adaptedFloats) return undefined
    const target = sampling.adapted + used
    used += size
    const packed = yield* packAll(space, adapted, sampling, target, "forward")
    const installed: Installed = { ...frozen, beside: true, factors: (projection) => packed.get(projection) }
    resident.set(adapted.key, installed)
    return installed
  }
  function* install(adapted: Adapted | undefined): Work<Installed> {
    if (adapted === undefined) return frozen
    const installed = yield* put(adapted)
    if (installed !== undefined) return installed
    clear()
    return (yield* put(adapted)) ?? frozen
  }
  return {
    install,
    fit: (adapters) => {
      const distinct = new Map(adapters.map((adapted) => [adapted?.key, adapted]))
      if (layout.merges) return distinct.size <= 1
      const sizes = Array.from(distinct.values(), (adapted) => adapted === undefined ? 0 : sizeOf(adapted))
      return distinct.size <= 1 || sizes.reduce((sum, size) => sum + size, 0) <= sampling.adaptedFloats
    },
    *installAll(wanted) {
      const segments: Array<Segment> = []
      for (const { adapted, rows } of wanted) {
        const installed = adapted === undefined ? frozen : yield* put(adapted)
        if (installed === undefined) {
          // room for these, without those that are not needed now
          clear()
          const again: Array<Segment> = []
          for (const { adapted, rows } of wanted) again.push({ installed: yield* install(adapted), rows })
          return again
        }
        segments.push({ installed, rows })
      }
      return segments
    }
  }
}

/**
 * For passes. Where the factors are applied beside the weights they are packed when a projection needs them, into room
 * for those of one block.
 *
 * @internal
 */
export const makeTrainingInstaller = (space: Space): Installer => {
  const { architecture, kernels, layout, training: { adapted: copy, lora: scratch } } = space
  const frozen: Installed = { matrices: space.frozen, beside: false, factors: () => undefined, z: scratch.z }
  const merged = frozenInside(architecture, kernels, copy)
  let resident: { readonly key: number; readonly installed: Installed } | undefined
  return {
    *install(adapted) {
      if (adapted === undefined) return frozen
      if (resident?.key === adapted.key) return resident.installed
      resident = undefined
      if (layout.merges) {
        yield* mergeWeights(space, adapted, copy, scratch)
        const packed = yield* packAll(space, adapted, scratch, scratch.factors, "both")
        const installed: Installed = { ...frozen, matrices: merged, factors: (projection) => packed.get(projection) }
        resident = { key: adapted.key, installed }
        return installed
      }
      const packed = new Map<Projection, PackedFactors>()
      let next = scratch.factors
      return {
        ...frozen,
        beside: true,
        factors: (projection) => {
          const known = packed.get(projection)
          if (known !== undefined) return known
          const size = packedSize(projection, adapted.lora.settings.rank, "both")
          if (next + size > scratch.factors + scratch.factorFloats) {
            packed.clear()
            next = scratch.factors
          }
          const made = packFactors(space, adapted, projection, scratch, next, "both")
          if (made === undefined) return undefined
          packed.set(projection, made)
          next += size
          return made
        }
      }
    }
  }
}

// A pause after so many multiplications: less than a millisecond.
const pauseAfter = 8e6

/** Columns to compute at a time so that no product takes long. */
const columnsAtATime = (rows: number, inputs: number): number => Math.max(64, (pauseAfter / (rows * inputs)) & ~7)

/** `target` = or += `source` · frozen weights, for `rows` rows. */
function* projectFrozen(
  matrices: Frozen,
  projection: Projection,
  source: number,
  target: number,
  rows: number,
  accumulate: 0 | 1
): Work<void> {
  const { inputs, outputs } = projection
  const columns = columnsAtATime(rows, inputs)
  for (let from = 0; from < outputs; from += columns) {
    const wide = Math.min(columns, outputs - from)
    matrices.multiply(projection, from, wide, source, target + from, outputs, rows, accumulate)
    if (rows * inputs * wide > pauseAfter / 4) yield
  }
}

/** `target` += what factors beside the frozen weights add. */
function* addFactors(
  space: Space,
  { beside, factors: factorsOf, z }: Installed,
  projection: Projection,
  source: number,
  target: number,
  rows: number
): Work<void> {
  const { gemm } = space.kernels
  const { inputs, outputs } = projection
  const factors = beside ? factorsOf(projection) : undefined
  if (factors === undefined) return
  const { a, b, padded, parts, rank, stacked } = factors
  gemm(source, inputs, 1, a, inputs * 8, z, stacked, rows, stacked, inputs, 0)
  for (const [index, { part }] of parts.entries()) {
    const to = target + part.shift
    const from = z + index * padded
    gemm(from, stacked, 1, b + part.shift * rank, rank * 8, to, outputs, rows, ceil8(part.outputs), rank, 1)
  }
  yield
}

/** `target` = or += `source` · weights, for `rows` rows. @internal */
export function* project(
  space: Space,
  installed: Installed,
  projection: Projection,
  source: number,
  target: number,
  rows: number,
  accumulate: 0 | 1
): Work<void> {
  yield* projectFrozen(installed.matrices, projection, source, target, rows, accumulate)
  yield* addFactors(space, installed, projection, source, target, rows)
}

/**
 * The same for rows with several adapters, from the row `first` of the segments on: the frozen weights, which all of them
 * share, are read once.
 *
 * @internal
 */
export function* projectSegments(
  space: Space,
  segments: ReadonlyArray<Segment>,
  projection: Projection,
  source: number,
  target: number,
  first: number,
  rows: number,
  accumulate: 0 | 1
): Work<void> {
  const [shared] = segments
  if (shared === undefined) return
  const { inputs, outputs } = projection
  yield* projectFrozen(shared.installed.matrices, projection, source, target, rows, accumulate)
  let start = -first
  for (const { installed, rows: own } of segments) {
    const [from, to] = [Math.max(0, start), Math.min(rows, start + own)]
    start += own
    if (from >= to) continue
    yield* addFactors(space, installed, projection, source + from * inputs, target + from * outputs, to - from)
  }
}

/** `target` = `source` · weightsᵀ. @internal */
export function* projectBack(
  space: Space,
  installed: Installed,
  projection: Projection,
  source: number,
  target: number,
  rows: number
): Work<void> {
  const { kernels, training: { transposed } } = space
  const { inputs, outputs } = projection
  for (let from = 0; from < outputs; from += blockOutputs) {
    const block = Math.min(blockOutputs, outputs - from)
    const accumulate = from > 0 ? 1 : 0
    installed.matrices.transpose(projection, from, block, transposed)
    for (let row = 0; row < rows; row += sliceRows) {
      const some = Math.min(sliceRows, rows - row)
      const [dy, dx] = [source + row * outputs + from, target + row * inputs]
      kernels.gemm(dy, outputs, 1, transposed, block * 8, dx, inputs, some, inputs, block, accumulate)
      if (some * inputs * block > pauseAfter / 4) yield
    }
  }
}

const scaledCopy = (
  source: Float32Array,
  from: number,
  target: Float32Array,
  to: number,
  length: number,
  scale: number
): void => {
  for (let i = 0; i < length; i++) target[to + i] = scale * at(source, from + i)
}

/** Gradients of the factors of a projection, summed over slices of rows. @internal */
export interface FactorGradients {
  /** Rows of the input, of the gradient of the output, and of that of the input, which is added to. */
  readonly slice: (x: number, dOutput: number, dInput: number | undefined, rows: number) => void
  /** Writes the sums into the gradient. */
  readonly end: () => void
}

/** @internal */
export const makeFactorGradients = (
  space: Space,
  installed: Installed,
  { lora }: Adapted,
  projection: Projection,
  gradient: Float32Array
): FactorGradients | undefined => {
  const { kernels: { gemm, pack }, memory, training: { lora: scratch, packed } } = space
  const factors = installed.factors(projection)
  if (factors === undefined) return undefined
  const { a, aBack, bBack, padded, parts, rank, stacked } = factors
  const { inputs, outputs } = projection
  let accumulate: 0 | 1 = 0
  return {
    slice: (x, dOutput, dInput, rows) => {
      // Z = X · Aᵀ, again: it is cheaper than to keep it
      gemm(x, inputs, 1, a, inputs * 8, scratch.z, stacked, rows, stacked, inputs, 0)
      for (const [index, { part }] of parts.entries()) {
        const dy = dOutput + part.shift
        // dZ = dY · sB
        const dz = scratch.dz + index * padded
        gemm(dy, outputs, 1, bBack + part.shift * padded, part.outputs * 8, dz, stacked, rows, padded, part.outputs, 0)
        // dB = dYᵀ · Z
        pack(scratch.z + index * padded, stacked, 1, rows, padded, packed)
        const dB = scratch.gradientB + part.shift * padded
        gemm(dy, 1, outputs, packed, rows * 8, dB, padded, part.outputs, padded, rows, accumulate)
      }
      // dA = dZᵀ · X
      pack(x, inputs, 1, rows, inputs, packed)
      gemm(scratch.dz, 1, stacked, packed, rows * 8, scratch.gradientA, inputs, stacked, inputs, rows, accumulate)
      accumulate = 1
      if (dInput === undefined || !installed.beside) return
      gemm(scratch.dz, stacked, 1, aBack, stacked * 8, dInput, inputs, rows, inputs, stacked, 1)
    },
    end: () => {
      for (const [index, { a, b, part }] of parts.entries()) {
        const fromA = scratch.gradientA + index * padded * inputs
        gradient.set(memory.subarray(fromA, fromA + rank * inputs), a)
        // rows of a rank that is no multiple of eight are padded
        const fromB = scratch.gradientB + part.shift * padded
        const [rows, row] = padded === rank ? [1, part.outputs * rank] : [part.outputs, rank]
        for (let i = 0; i < rows; i++) scaledCopy(memory, fromB + i * padded, gradient, b + i * rank, row, lora.scale)
      }
    }
  }
}
