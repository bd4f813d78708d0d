/**
 * Float8 (e4m3, no infinities) in blocks of rows and columns that share a scale: how DeepSeek stores weights, and how
 * vLLM takes experts. Rounding is that of the Python cookbook, bit by bit: scales are computed in bfloat16.
 */
import * as numbers from "./numbers.js"

/** Rows and columns of a block. @internal */
export const block = 128

const largest = 448

/** The value of each of the 256 codes. @internal */
export const values: Float32Array = Float32Array.from({ length: 256 }, (_, code) => {
  const exponent = (code >> 3) & 15
  const fraction = code & 7
  if (exponent === 15 && fraction === 7) return NaN
  const size = exponent === 0 ? fraction * 2 ** -9 : (1 + fraction / 8) * 2 ** (exponent - 7)
  return code & 0x80 ? -size : size
})

const scalar = new Float32Array(1)
const bits = new Uint32Array(scalar.buffer)

/** Rounded to what a bfloat16 can hold. @internal */
export const brain = (value: number): number => {
  scalar[0] = value
  bits[0] = numbers.toBrain(bits[0] ?? 0) << 16
  return scalar[0] ?? 0
}

/** The code of a value of at most 448, rounded to nearest even. @internal */
export const encode = (value: number): number => {
  const sign = value < 0 || Object.is(value, -0) ? 0x80 : 0
  const size = Math.abs(value)
  // Below the smallest normal value, 2 ** -6, codes are multiples of 2 ** -9.
  const exponent = size < 2 ** -6 ? -6 : Math.floor(Math.log2(size))
  const step = 2 ** (exponent - 3)
  const steps = size / step
  const floor = Math.floor(steps)
  const rest = steps - floor
  const rounded = rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor
  // Sixteen steps are the next exponent, whose code follows.
  return sign | (rounded + (exponent + 6) * 8)
}

/** Blocks across a number of rows or columns. @internal */
export const blocks = (count: number): number => Math.ceil(count / block)

/** A band of at most 128 rows: codes, and a scale for each block of columns. @internal */
export const quantizeBand = (
  band: Float32Array,
  columns: number
): { readonly codes: Uint8Array; readonly scales: Float32Array } => {
  const rows = band.length / columns
  const codes = new Uint8Array(band.length)
  const scales = new Float32Array(blocks(columns))
  for (let i = 0; i < scales.length; i++) {
    const [from, to] = [i * block, Math.min((i + 1) * block, columns)]
    let most = brain(1e-12)
    for (let row = 0; row < rows; row++) {
      for (let at = row * columns + from; at < row * columns + to; at++) most = Math.max(most, Math.abs(band[at] ?? 0))
    }
    const scale = brain(most / largest)
    const inverse = brain(1 / scale)
    scales[i] = scale
    for (let row = 0; row < rows; row++) {
      for (let at = row * columns + from; at < row * columns + to; at++) {
        const scaled = Math.fround((band[at] ?? 0) * inverse)
        codes[at] = encode(Math.min(largest, Math.max(-largest, scaled)))
      }
    }
  }
  return { codes, scales }
}

/** Rows of codes as the bfloat16 values they stand for; `scales` are those of the whole tensor. @internal */
export const dequantize = (codes: Uint8Array, options: {
  readonly scales: Float32Array
  readonly firstRow: number
  readonly columns: number
  readonly blockRows: number
  readonly blockColumns: number
}): Float32Array => {
  const { blockColumns, blockRows, columns, firstRow, scales } = options
  const perRow = Math.ceil(columns / blockColumns)
  const out = new Float32Array(codes.length)
  for (let at = 0; at < codes.length; at++) {
    const row = Math.floor((firstRow + Math.floor(at / columns)) / blockRows)
    const scale = scales[row * perRow + Math.floor((at % columns) / blockColumns)] ?? NaN
    out[at] = brain(Math.fround((values[codes[at] ?? 0] ?? NaN) * scale))
  }
  return out
}
