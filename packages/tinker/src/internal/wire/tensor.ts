/** How a tensor is built, checked and changed between its layouts. */
import type { LazyArbitrary } from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { Dtype, TensorData, Values } from "../../TensorData.js"
import * as numbers from "./numbers.js"

/**
 * Parts of a tensor, once checked.
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
  if (crow === undefined || col === undefined) return "sparse indices must be non-negative integers"
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
  return typeof data === "number" ? `value ${data} (${String(values[data])}) is not a 64-bit integer` : data
}

/** View of a tensor from which the layouts are computed. */
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

// -----------------------------------------------------------------------------
// The JSON shape of a tensor.
// -----------------------------------------------------------------------------

/**
 * One schema node for a whole list: a node per number would cost more than parsing the JSON did.
 */
const Numbers: Schema.Schema<ReadonlyArray<number | bigint | null>> = Schema.declare(
  (u): u is ReadonlyArray<number | bigint | null> => {
    if (!Array.isArray(u)) return false
    for (let i = 0; i < u.length; i++) {
      const value: unknown = u[i]
      if (typeof value !== "number" && value !== null && typeof value !== "bigint") return false
    }
    return true
  },
  { identifier: "Numbers" }
)

const optional = { exact: true } as const

/** @internal */
export interface Encoded {
  readonly data: ReadonlyArray<number | bigint | null>
  readonly dtype: Dtype
  readonly shape?: ReadonlyArray<number> | null
  readonly sparse_crow_indices?: ReadonlyArray<number | bigint | null> | null
  readonly sparse_col_indices?: ReadonlyArray<number | bigint | null> | null
}

/** @internal */
export const Json: Schema.Schema<Encoded> = Schema.Struct({
  data: Numbers,
  dtype: Schema.Literal("int64", "float32"),
  shape: Schema.optionalWith(Schema.NullOr(Schema.Array(Schema.NonNegativeInt)), optional),
  sparse_crow_indices: Schema.optionalWith(Schema.NullOr(Numbers), optional),
  sparse_col_indices: Schema.optionalWith(Schema.NullOr(Numbers), optional)
})

/**
 * JSON parsing has already rounded an integer beyond 2^53, so such a number is refused rather than passed on wrong.
 *
 * @internal
 */
export const decode = (make: (parts: Parts) => TensorData) =>
(
  json: Encoded,
  _options: unknown,
  ast: ParseResult.Type["ast"]
): Effect.Effect<TensorData, ParseResult.ParseIssue> => {
  const fail = (message: string) => Effect.fail(new ParseResult.Type(ast, json, message))
  if (json.dtype === "int64") {
    const rounded = json.data.findIndex((value) =>
      typeof value === "number" && !Number.isSafeInteger(Math.trunc(value))
    )
    if (rounded >= 0) return fail(`data[${rounded}] is beyond the integers JSON carries exactly`)
  }
  const shape = json.shape ?? undefined
  const crow = json.sparse_crow_indices ?? undefined
  const col = json.sparse_col_indices ?? undefined
  if ((crow === undefined) !== (col === undefined)) {
    return fail("sparse_crow_indices and sparse_col_indices come together")
  }
  const parts = crow === undefined || col === undefined
    ? dense(json.dtype, json.data, shape)
    : sparse(json.dtype, json.data, shape, crow, col)
  return typeof parts === "string" ? fail(parts) : Effect.succeed(make(parts))
}

/** @internal */
export const encode = (
  self: TensorData,
  _options: unknown,
  ast: ParseResult.Type["ast"]
): Effect.Effect<Encoded, ParseResult.ParseIssue> => {
  const data: Array<number> = Array.from(self.data, Number)
  if (self.data instanceof BigInt64Array) {
    const unsafe = data.findIndex((value) => !Number.isSafeInteger(value))
    if (unsafe >= 0) {
      return Effect.fail(new ParseResult.Type(ast, self, `data[${unsafe}] is beyond the integers JSON carries exactly`))
    }
  }
  return Effect.succeed({
    data,
    dtype: self.dtype,
    ...(self.declaredShape === undefined ? {} : { shape: self.declaredShape }),
    ...(self.crowIndices === undefined || self.colIndices === undefined ? {} : {
      sparse_crow_indices: Array.from(self.crowIndices, Number),
      sparse_col_indices: Array.from(self.colIndices, Number)
    })
  })
}

/**
 * Anything both JSON and protobuf carry exactly.
 *
 * @internal
 */
export const arbitrary = (make: (parts: Parts) => TensorData): LazyArbitrary<TensorData> => (fc) => {
  const dense = fc.oneof(
    fc.float32Array({ noNaN: true, noDefaultInfinity: true, maxLength: 12 }).map((data) =>
      ({ dtype: "float32", data }) as const
    ),
    fc.int32Array({ maxLength: 12 }).map((data) => ({ dtype: "int64", data }) as const),
    fc.array(fc.maxSafeInteger(), { maxLength: 12 }).map((integers) =>
      ({ dtype: "int64", data: Float64Array.from(integers) }) as const
    )
  )
  return fc.tuple(dense, fc.constantFrom("absent", "flat", "nested", "sparse")).map(([{ data, dtype }, layout]) => {
    const length = data.length
    const parts = { dtype, data, crow: undefined, col: undefined }
    switch (layout) {
      case "absent":
        return make({ ...parts, shape: undefined })
      case "flat":
        return make({ ...parts, shape: [length] })
      case "nested":
        return make({ ...parts, shape: [1, length] })
      default:
        return make({
          ...parts,
          shape: [length, 3],
          crow: Int32Array.from({ length: length + 1 }, (_, row) => row),
          col: Int32Array.from({ length }, (_, row) => row % 3)
        })
    }
  })
}

/** The header of a serialized tensor container: an optional marker of a constant tensor, a dtype, and the dimensions. */

const CONSTANT = 254
const MAX_DTYPE = 7
const TRUNCATED = "truncated header"

/**
 * Dimensions of the tensor inside, or what is wrong with the header.
 */
const shape = (bytes: Uint8Array): ReadonlyArray<number> | string => {
  if (bytes.length === 0) return "no bytes"
  let at = bytes[0] === CONSTANT ? 1 : 0
  const dtype = bytes[at++]
  if (dtype === undefined) return TRUNCATED
  if (dtype > MAX_DTYPE) return `unknown dtype ${dtype}`

  const varint = (): number | string => {
    let value = 0
    // multiplication, since a shift would cut at 32 bits
    for (let scale = 1, n = 0; n < 10; n++, scale *= 128) {
      const byte = bytes[at++]
      if (byte === undefined) return TRUNCATED
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
    return "a number in the header is too long"
  }

  const dimensions = varint()
  if (typeof dimensions === "string") return dimensions
  const sizes: Array<number> = []
  for (let i = 0; i < dimensions; i++) {
    const size = varint()
    if (typeof size === "string") return size
    sizes.push(size)
  }
  return sizes
}

/**
 * Length of the tensor's first dimension, or why there is none.
 *
 * @internal
 */
export const firstDimension = (bytes: Uint8Array): number | string => {
  const sizes = shape(bytes)
  return typeof sizes === "string" ? sizes : sizes[0] ?? "a tensor of no dimension"
}
