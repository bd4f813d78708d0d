/** How a tensor is built, checked and changed between its layouts. */
import type { Dtype, Values } from "../../TensorData.js"
import * as numbers from "./numbers.js"

/**
 * What a tensor is made of, once checked.
 *
 * @internal
 */
export interface Parts {
  readonly dtype: Dtype
  readonly data: Values
  readonly shape: ReadonlyArray<number> | undefined
  readonly crow: numbers.Int64Values | undefined
  readonly col: numbers.Int64Values | undefined
}

/** A densified tensor has to fit one typed array. */
const MAX_ELEMENTS = 2 ** 31 - 1

/** @internal */
export const dense = (
  dtype: Dtype,
  values: ArrayLike<numbers.Scalar>,
  shape: ReadonlyArray<number> | undefined
): Parts | string => {
  const wrong = shape === undefined ? undefined : badShape(shape)
  if (wrong !== undefined) return wrong
  if (shape !== undefined && numbers.product(shape) !== values.length) {
    return `${values.length} values do not fit shape [${shape.join(", ")}]`
  }
  const data = convert(dtype, values)
  return typeof data === "string" ? data : { dtype, data, shape, crow: undefined, col: undefined }
}

/** @internal */
export const sparse = (
  dtype: Dtype,
  values: ArrayLike<numbers.Scalar>,
  shape: ReadonlyArray<number> | undefined,
  crowIndices: ArrayLike<numbers.Scalar>,
  colIndices: ArrayLike<numbers.Scalar>
): Parts | string => {
  if (shape === undefined || shape.length !== 2) return "a sparse tensor has a shape of rows and columns"
  const [rows = 0, columns = 0] = shape
  const wrong = badShape(shape)
  if (wrong !== undefined) return wrong
  const crow = indices(crowIndices)
  const col = indices(colIndices)
  if (crow === undefined || col === undefined) return "sparse indices are integers from 0 on"
  if (crow.length !== rows + 1) return `${rows} rows need ${rows + 1} row pointers, not ${crow.length}`
  if (col.length !== values.length) return `${values.length} stored values need as many columns, not ${col.length}`
  let previous = 0
  for (let i = 0; i < crow.length; i++) {
    const pointer = crow[i] ?? 0
    if (pointer < previous || (i === 0 && pointer !== 0)) return `row pointer ${i} is ${pointer}, after ${previous}`
    previous = pointer
  }
  if (previous !== col.length) return `the last row pointer is ${previous}, but ${col.length} values are stored`
  for (let i = 0; i < col.length; i++) {
    const column = col[i] ?? 0
    if (column >= columns) return `stored value ${i} is in column ${column} of ${columns}`
  }
  const data = convert(dtype, values)
  return typeof data === "string" ? data : { dtype, data, shape, crow, col }
}

const badShape = (shape: ReadonlyArray<number>): string | undefined => {
  for (const size of shape) {
    if (!Number.isSafeInteger(size) || size < 0) return `shape [${shape.join(", ")}] is not made of sizes`
  }
  return numbers.product(shape) > MAX_ELEMENTS ? `shape [${shape.join(", ")}] is too large` : undefined
}

const indices = (values: ArrayLike<numbers.Scalar>): Int32Array | undefined => {
  const integers = values instanceof Int32Array ? values : numbers.toInt64(values)
  if (!(integers instanceof Int32Array)) return undefined
  for (let i = 0; i < integers.length; i++) if ((integers[i] ?? 0) < 0) return undefined
  return integers
}

const convert = (dtype: Dtype, values: ArrayLike<numbers.Scalar>): Values | string => {
  if (dtype === "float32") return numbers.toFloat32(values)
  if (values instanceof Int32Array || values instanceof BigInt64Array) return values
  const data = numbers.toInt64(values)
  return typeof data === "number" ? `value ${data} (${String(values[data])}) is no 64-bit integer` : data
}

/** What the layouts are computed from: a tensor, seen from here. */
interface Tensor {
  readonly dtype: Dtype
  readonly data: Values
  readonly shape: ReadonlyArray<number>
  readonly crowIndices: numbers.Int64Values | undefined
  readonly colIndices: numbers.Int64Values | undefined
}

/**
 * CSR parts of a dense two-dimensional tensor, or undefined when they would not be smaller.
 *
 * @internal
 */
export const sparsify = (tensor: Tensor, padValue: number): Parts | undefined => {
  if (tensor.crowIndices !== undefined || tensor.shape.length !== 2) return undefined
  const [rows = 0, columns = 0] = tensor.shape
  const { data } = tensor
  const pad = data instanceof BigInt64Array ? BigInt(Math.trunc(padValue)) : padValue
  const kept: Array<number> = []
  const crow = new Int32Array(rows + 1)
  for (let row = 0; row < rows; row++) {
    for (let i = row * columns; i < (row + 1) * columns; i++) if (data[i] !== pad) kept.push(i)
    crow[row + 1] = kept.length
  }
  if (rows + 1 + 2 * kept.length >= rows * columns) return undefined
  return {
    dtype: tensor.dtype,
    data: pick(data, kept),
    shape: tensor.shape,
    crow,
    col: Int32Array.from(kept, (i) => i % columns)
  }
}

const pick = (data: Values, at: ReadonlyArray<number>): Values => {
  if (data instanceof BigInt64Array) return BigInt64Array.from(at, (i) => data[i] ?? 0n)
  const out = data instanceof Float32Array
    ? new Float32Array(at.length)
    : data instanceof Int32Array
    ? new Int32Array(at.length)
    : new Float64Array(at.length)
  for (let i = 0; i < at.length; i++) out[i] = data[at[i] ?? 0] ?? 0
  return out
}

/**
 * Dense parts of a sparse tensor, or undefined when it is dense already.
 *
 * @internal
 */
export const densify = (tensor: Tensor, padValue: number): Parts | undefined => {
  const { colIndices, crowIndices, data, dtype, shape } = tensor
  if (crowIndices === undefined || colIndices === undefined) return undefined
  const [rows = 0, columns = 0] = shape
  const length = rows * columns
  const place = (write: (to: number, from: number) => void) => {
    for (let row = 0; row < rows; row++) {
      const end = Number(crowIndices[row + 1])
      for (let j = Number(crowIndices[row]); j < end; j++) write(row * columns + Number(colIndices[j]), j)
    }
  }
  const parts = { dtype, shape, crow: undefined, col: undefined }
  if (data instanceof BigInt64Array) {
    const out = new BigInt64Array(length).fill(BigInt(Math.trunc(padValue)))
    place((to, from) => out[to] = data[from] ?? 0n)
    return { ...parts, data: out }
  }
  const out = data instanceof Float32Array ? new Float32Array(length) : new Float64Array(length)
  out.fill(data instanceof Float32Array ? padValue : Math.trunc(padValue))
  place((to, from) => out[to] = data[from] ?? 0)
  return { ...parts, data: out }
}
