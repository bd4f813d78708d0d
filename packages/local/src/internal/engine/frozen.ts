/**
 * The frozen matrices of a model. Those of small models lie in the kernels' memory as floats, where adapters are multiplied
 * into copies of them. Those of real models lie outside of it, in the precision of their files, so that neither the
 * 4 GiB of WebAssembly nor the size of a float limits them, and every thread and adapter shares one copy.
 */
import type { Architecture, Projection } from "./architecture.js"
import type { Kernels } from "./kernels.js"
import { at } from "./numbers.js"
import type { Layout } from "./space.js"

/** Precisions of files. @internal */
export type FilePrecision = "f32" | "bf16" | "f16"

/** Precisions of stores. `int8` has one scale for each output: its largest weight is 127 of them. @internal */
export type Precision = FilePrecision | "int8"

/**
 * Values in the precision of a store: floats, the bits of 16-bit numbers, or numbers of eight bits. Behind the last come the
 * scales of the outputs, as floats.
 *
 * @internal
 */
export type Values = Float32Array | Uint16Array | Int8Array

/** Matrices outside of the memory; all of it can be shared with other threads. @internal */
export interface Store {
  readonly precision: Precision
  /** Precision of the file, in which the embedding is kept. */
  readonly filePrecision: FilePrecision
  /** By the number of the projection, in panels of eight outputs. */
  readonly projections: ReadonlyArray<Values>
  /** By rows, as in the file; undefined when it is the unembedding's. */
  readonly embedding: Float32Array | Uint16Array | undefined
}

const bytesOf = (precision: Precision, inputs: number, outputs: number): number =>
  precision === "int8" ? outputs * (inputs + 4) : inputs * outputs * (precision === "f32" ? 4 : 2)

const bufferOf = (bytes: number, shared: boolean): ArrayBufferLike =>
  shared ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes)

/** Room for values as a file has them; `shared` if other threads use it. */
const makeFileValues = (precision: FilePrecision, count: number, shared: boolean): Float32Array | Uint16Array => {
  const buffer = bufferOf(bytesOf(precision, count, 1), shared)
  return precision === "f32" ? new Float32Array(buffer) : new Uint16Array(buffer)
}

/** The scales of the outputs of a matrix of eight bits. @internal */
export const scalesOf = (values: Int8Array, inputs: number): Float32Array => {
  const outputs = values.length / (inputs + 4)
  return new Float32Array(values.buffer, values.byteOffset + inputs * outputs, outputs)
}

/** @internal */
export const makeStore = (architecture: Architecture, precision: Precision, shared: boolean): Store => {
  const { embedding, model: { vocabularySize, weights, width }, projections } = architecture
  const filePrecision = weights?.precision ?? "f32"
  return {
    precision,
    filePrecision,
    projections: projections.map(({ inputs, outputs }) =>
      precision === "int8"
        ? new Int8Array(bufferOf(bytesOf(precision, inputs, outputs), shared))
        : makeFileValues(precision, inputs * outputs, shared)
    ),
    embedding: embedding === undefined
      ? undefined
      : makeFileValues(filePrecision, vocabularySize * width, shared)
  }
}

/** Bytes of the matrices of a model. @internal */
export const storeBytes = (architecture: Architecture, precision: Precision): number => {
  const { embedding, model: { vocabularySize, weights, width }, projections } = architecture
  return projections.reduce((sum, { inputs, outputs }) => sum + bytesOf(precision, inputs, outputs), 0) +
    (embedding === undefined ? 0 : bytesOf(weights?.precision ?? "f32", vocabularySize, width))
}

const scalar = new Float32Array(1)
const bits = new Uint32Array(scalar.buffer)

/** Half precision: a sign, five bits of exponent, ten of mantissa. */
const fromHalf = (half: number): number => {
  const exponent = (half >> 10) & 31
  const mantissa = half & 1023
  const size = exponent === 0
    ? mantissa * 2 ** -24
    : exponent === 31
    ? mantissa === 0 ? Infinity : NaN
    : (1 + mantissa / 1024) * 2 ** (exponent - 15)
  return half & 0x8000 ? -size : size
}

let halves: Float32Array | undefined
const halfTable = (): Float32Array => halves ??= Float32Array.from({ length: 65536 }, (_, half) => fromHalf(half))

/** Floats as they are stored: the nearest number of the precision, ties to even. @internal */
export const narrow = (precision: FilePrecision, values: Float32Array): Float32Array | Uint16Array => {
  if (precision === "f32") return values
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length)
  const narrowed = new Uint16Array(values.length)
  if (precision === "bf16") {
    for (let i = 0; i < words.length; i++) {
      const word = words[i] ?? 0
      narrowed[i] = (word & 0x7fffffff) > 0x7f800000
        ? (word >>> 16) | 0x40
        : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
    }
    return narrowed
  }
  for (let i = 0; i < words.length; i++) narrowed[i] = halfOf(words[i] ?? 0)
  return narrowed
}

/** The bits of a half, given those of a float. */
const halfOf = (value: number): number => {
  const sign = (value >>> 16) & 0x8000
  const size = value & 0x7fffffff
  if (size > 0x7f800000) return sign | 0x7e00
  if (size >= 0x477ff000) return sign | 0x7c00
  if (size < 0x38800000) {
    // below the smallest normal half, adding 0.5 lets the adder of floats do the rounding
    bits[0] = size
    scalar[0] = at(scalar, 0) + 0.5
    return sign | ((bits[0] ?? 0) - 0x3f000000)
  }
  return sign | ((size + 0xc8000fff + ((size >>> 13) & 1)) >>> 13) & 0x7fff
}

/**
 * Writes an output's weights as numbers of eight bits into its place in a matrix of panels, and their scale: the nearest
 * multiple, ties to even.
 *
 * @internal
 */
export const quantizeRow = (matrix: Int8Array, inputs: number, output: number, row: Float32Array): void => {
  let largest = 0
  for (let i = 0; i < row.length; i++) largest = Math.max(largest, Math.abs(row[i] ?? 0))
  const scale = Math.fround(largest / 127)
  scalesOf(matrix, inputs)[output] = scale
  const factor = scale === 0 ? 0 : 1 / scale
  let to = (output >> 3) * inputs * 8 + (output & 7)
  for (let i = 0; i < row.length; i++, to += 8) {
    const exact = (row[i] ?? 0) * factor
    const down = Math.floor(exact)
    const rest = exact - down
    matrix[to] = Math.max(-127, Math.min(127, rest > 0.5 || (rest === 0.5 && (down & 1) === 1) ? down + 1 : down))
  }
}

/** Writes weights of eight bits as floats, from position `from` of a matrix of panels; they are `stride` apart. @internal */
export const widenBytes = (
  matrix: Int8Array,
  inputs: number,
  from: number,
  target: Float32Array,
  to: number,
  count: number,
  stride = 1
): void => {
  const scales = scalesOf(matrix, inputs)
  const panel = inputs * 8
  for (let i = 0; i < count; i++) {
    const position = from + i * stride
    target[to + i] = (matrix[position] ?? 0) * at(scales, Math.floor(position / panel) * 8 + (position & 7))
  }
}

/** Writes stored values as floats; those of the source are `stride` apart. @internal */
export const widenInto = (
  precision: FilePrecision,
  source: Float32Array | Uint16Array,
  from: number,
  target: Float32Array,
  to: number,
  count: number,
  stride = 1
): void => {
  if (precision === "f32") {
    for (let i = 0; i < count; i++) target[to + i] = source[from + i * stride] ?? 0
  } else if (precision === "f16") {
    const table = halfTable()
    for (let i = 0; i < count; i++) target[to + i] = table[source[from + i * stride] ?? 0] ?? 0
  } else {
    const words = new Uint32Array(target.buffer, target.byteOffset + 4 * to, count)
    for (let i = 0; i < count; i++) words[i] = (source[from + i * stride] ?? 0) << 16
  }
}

/** Products with frozen matrices, as one thread computes them. @internal */
export interface Frozen {
  /** `target` (rows × `outputs` columns, `targetRow` apart) = or += `source` · the outputs from `first` on. */
  readonly multiply: (
    projection: Projection,
    first: number,
    outputs: number,
    source: number,
    target: number,
    targetRow: number,
    rows: number,
    accumulate: 0 | 1
  ) => void
  /** The outputs from `first` on, as panels of eight inputs: what products with the transpose read. */
  readonly transpose: (projection: Projection, first: number, outputs: number, target: number) => void
  /** Copies the embedding of a token. */
  readonly embed: (token: number, target: number) => void
}

/** Matrices in the memory, from `weights` on. @internal */
export const frozenInside = (architecture: Architecture, kernels: Kernels, weights: number): Frozen => {
  const { embedding, model: { width }, unembed } = architecture
  const { memory } = kernels
  return {
    multiply: ({ inputs, offset }, first, outputs, source, target, targetRow, rows, accumulate) => {
      const from = weights + offset + first * inputs
      kernels.gemm(source, inputs, 1, from, inputs * 8, target, targetRow, rows, outputs, inputs, accumulate)
    },
    transpose: ({ inputs, offset }, first, outputs, target) =>
      kernels.transposePanels(weights + offset + first * inputs, inputs, target, outputs, outputs * 8),
    embed: (token, target) => {
      if (embedding !== undefined) {
        const from = weights + embedding + token * width
        memory.copyWithin(target, from, from + width)
      } else {
        const from = weights + unembed.offset + (token >> 3) * width * 8 + (token & 7)
        for (let i = 0; i < width; i++) memory[target + i] = at(memory, from + i * 8)
      }
    }
  }
}

/** Outputs that are brought into the memory at a time, where kernels cannot read outside of it. */
const outputsAtATime = (inputs: number, room: number): number => Math.max(8, Math.floor(room / inputs) & ~7)

/** Matrices of a store. `room` floats of the memory from `scratch` are for kernels that cannot read outside of it. */
const frozenOutside = (
  architecture: Architecture,
  kernels: Kernels,
  store: Store,
  scratch: number,
  room: number
): Frozen => {
  const { model: { width }, unembed } = architecture
  const { memory } = kernels
  const { embedding, filePrecision, precision } = store
  const native = kernels.outsideOver
  const values = (projection: Projection): Values => store.projections[projection.index] ?? new Uint16Array(0)
  const embed: Frozen["embed"] = (token, target) => {
    if (embedding !== undefined) return widenInto(filePrecision, embedding, token * width, memory, target, width)
    const from = (token >> 3) * width * 8 + (token & 7)
    const table = values(unembed)
    return table instanceof Int8Array
      ? widenBytes(table, width, from, memory, target, width, 8)
      : widenInto(filePrecision, table, from, memory, target, width, 8)
  }
  if (native !== undefined) {
    const bound = architecture.projections.map((projection) => native(values(projection), precision, projection.inputs))
    return {
      multiply: ({ index }, ...rest) => bound[index]?.multiply(...rest),
      transpose: ({ index }, ...rest) => bound[index]?.transpose(...rest),
      embed
    }
  }
  /** Brings outputs into the memory, some at a time. */
  const eachBlock = (
    projection: Projection,
    first: number,
    outputs: number,
    use: (from: number, count: number) => void
  ): void => {
    const { inputs } = projection
    const step = outputsAtATime(inputs, room)
    for (let from = first; from < first + outputs; from += step) {
      const count = Math.min(step, first + outputs - from)
      kernels.widen(values(projection), precision, inputs, from * inputs, scratch, count * inputs)
      use(from, count)
    }
  }
  return {
    multiply: (projection, first, outputs, source, target, targetRow, rows, accumulate) => {
      const { inputs } = projection
      eachBlock(projection, first, outputs, (from, count) => {
        const to = target + from - first
        kernels.gemm(source, inputs, 1, scratch, inputs * 8, to, targetRow, rows, count, inputs, accumulate)
      })
    },
    transpose: (projection, first, outputs, target) =>
      eachBlock(
        projection,
        first,
        outputs,
        (from, count) =>
          kernels.transposePanels(scratch, projection.inputs, target + (from - first) * 8, count, outputs * 8)
      ),
    embed
  }
}

/** The frozen matrices of a model, where its layout has them. @internal */
export const makeFrozen = (
  architecture: Architecture,
  layout: Layout,
  kernels: Kernels,
  store: Store | undefined,
  scratch: number
): Frozen =>
  store === undefined
    ? frozenInside(architecture, kernels, layout.weights)
    : frozenOutside(architecture, kernels, store, scratch, layout.widenedFloats)
