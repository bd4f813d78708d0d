/**
 * Numbers on the wire: int64 or float32, dense or CSR, held in typed arrays from the caller to the socket and back.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Equal from "effect/Equal"
import * as Hash from "effect/Hash"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as numbers from "./internal/wire/numbers.js"
import * as tensor from "./internal/wire/tensor.js"
import { InvalidInput } from "./TinkerError.js"

// -----------------------------------------------------------------------------
// The numbers of a tensor: what the wire knows, how they are held, and what they may be given as.
// -----------------------------------------------------------------------------

/**
 * The two element types of the wire.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Dtype: Schema.Literal<["int64", "float32"]> = Schema.Literal("int64", "float32")

/**
 * The types of numbers the wire knows.
 *
 * @since 0.1.0
 * @category models
 */
export type Dtype = typeof Dtype.Type

/**
 * How values are held. float32 is always a `Float32Array`; int64 is an `Int32Array` or a `Float64Array` of integers
 * while every value fits, and a `BigInt64Array` when one does not.
 *
 * @since 0.1.0
 * @category models
 */
export type Values = Float32Array | Int32Array | Float64Array | BigInt64Array

/**
 * A typed array a tensor can be made from. Its element type decides the dtype.
 *
 * @since 0.1.0
 * @category models
 */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint8ClampedArray
  | Uint16Array
  | Uint32Array
  | BigUint64Array

/**
 * Numbers nested to any depth. `null` is NaN in a float32 tensor.
 *
 * @since 0.1.0
 * @category models
 */
export type NestedArray = ReadonlyArray<number | bigint | boolean | null | NestedArray>

/**
 * Result of `toNested`: arrays as deep as the tensor has dimensions.
 *
 * @since 0.1.0
 * @category models
 */
export type Nested = number | ReadonlyArray<Nested>

/**
 * Unique identifier of tensors.
 *
 * @since 0.1.0
 * @category models
 */
export const TypeId: unique symbol = Symbol.for("effect-tinker/TensorData")

/**
 * Unique identifier of tensors.
 *
 * @since 0.1.0
 * @category models
 */
export type TypeId = typeof TypeId

// -----------------------------------------------------------------------------
// Tensors.
// -----------------------------------------------------------------------------

/**
 * A tensor of int64 or float32 values, dense (row-major) or sparse (CSR). Two tensors are equal when their dtype, shape,
 * layout and values are, however the values are held.
 *
 * @since 0.1.0
 * @category models
 */
export class TensorData implements Equal.Equal {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  /** @since 0.1.0 */
  readonly dtype: Dtype
  /**
   * The stored values: all of them row by row, or those a sparse tensor lists. Not a copy: do not write to it.
   *
   * @since 0.1.0
   */
  readonly data: Values
  /**
   * Shape as it is sent. Absent means one-dimensional.
   *
   * @since 0.1.0
   */
  readonly declaredShape: ReadonlyArray<number> | undefined
  /**
   * CSR row pointers (rows + 1), when sparse.
   *
   * @since 0.1.0
   */
  readonly crowIndices: numbers.Int64Values | undefined
  /**
   * CSR column of each stored value, when sparse.
   *
   * @since 0.1.0
   */
  readonly colIndices: numbers.Int64Values | undefined

  /** @internal */
  constructor(parts: tensor.Parts) {
    this.dtype = parts.dtype
    this.data = parts.data
    this.declaredShape = parts.shape
    this.crowIndices = parts.crow
    this.colIndices = parts.col
  }

  /** Dense shape. */
  get shape(): ReadonlyArray<number> {
    return this.declaredShape ?? [this.data.length]
  }

  /** @since 0.1.0 */
  [Equal.symbol](that: Equal.Equal): boolean {
    return isTensorData(that) && this.dtype === that.dtype && numbers.sameNumbers(this.shape, that.shape) &&
      numbers.sameNumbers(this.data, that.data) && numbers.sameIndices(this.crowIndices, that.crowIndices) &&
      numbers.sameIndices(this.colIndices, that.colIndices)
  }

  /** @since 0.1.0 */
  [Hash.symbol](): number {
    return Hash.cached(this, Hash.array([this.dtype, ...this.shape, ...Array.from(this.data.subarray(0, 8), Number)]))
  }

  /** @since 0.1.0 */
  toJSON(): unknown {
    return { _id: "TensorData", dtype: this.dtype, shape: this.shape, sparse: this.crowIndices !== undefined }
  }
}

/**
 * Whether something is a {@link TensorData}.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTensorData = (u: unknown): u is TensorData => Predicate.hasProperty(u, TypeId)

/**
 * Whether only what is not zero is held (CSR).
 *
 * @since 0.1.0
 * @category guards
 */
export const isSparse = (self: TensorData): boolean => self.crowIndices !== undefined

const invalid = (method: string, description: string) =>
  Either.left(new InvalidInput({ module: "TensorData", method, description }))

const built = (method: string, parts: tensor.Parts | string): Either.Either<TensorData, InvalidInput> =>
  typeof parts === "string" ? invalid(method, parts) : Either.right(new TensorData(parts))

/**
 * The dtype a plain list has under each known key of `lossFnInputs`.
 *
 * @since 0.1.0
 * @category models
 */
export const dtypeByKey: Readonly<Record<string, Dtype>> = {
  target_tokens: "int64",
  weights: "float32",
  advantages: "float32",
  logprobs: "float32",
  clip_low_threshold: "float32",
  clip_high_threshold: "float32",
  sequence_ratio_mask: "float32"
}

/**
 * Type of the numbers of an array.
 *
 * @since 0.1.0
 * @category models
 */
export interface FromArrayOptions {
  /** Element type. Defaults to the typed array's own, or to that of `key`. */
  readonly dtype?: Dtype | undefined
  /** Name under which the tensor will be sent: it decides the dtype of a plain list (`dtypeByKey`). */
  readonly key?: string | undefined
  /** Defaults to the nesting of the list, or to one dimension. */
  readonly shape?: ReadonlyArray<number> | undefined
}

/**
 * A dense tensor. A typed array keeps its own dtype (any float is float32, any integer int64) and is not copied when the
 * wire has that type; a plain list, nested to any depth as long as it is rectangular, takes `dtype` or that of its `key`.
 * Integers are kept exactly up to 64 bits; fractions given as int64 are cut towards zero.
 *
 * @example
 * ```ts
 * import { TensorData } from "effect-tinker"
 *
 * const weights = TensorData.fromArray([[0, 1], [1, 1]], { key: "weights" }) // float32, shape [2, 2]
 * const tokens = TensorData.fromArray(new Int32Array([5, 6])) // int64, shape [2]
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromArray = (
  values: TypedArray | NestedArray,
  options?: FromArrayOptions
): Either.Either<TensorData, InvalidInput> => {
  if (isTypedArray(values)) {
    const dtype = options?.dtype ??
      (values instanceof Float32Array || values instanceof Float64Array ? "float32" : "int64")
    return built("fromArray", tensor.dense(dtype, values, options?.shape ?? [values.length]))
  }
  const dtype = options?.dtype ??
    (options?.key === undefined
      ? undefined
      : Object.hasOwn(dtypeByKey, options.key)
      ? dtypeByKey[options.key]
      : undefined)
  if (dtype === undefined) {
    return invalid(
      "fromArray",
      options?.key === undefined
        ? "a plain list needs a dtype or a key; a typed array has its own"
        : `no dtype is known for a plain list under "${options.key}": give a dtype or a typed array`
    )
  }
  const flat = numbers.flatten(values)
  if (typeof flat === "string") {
    return invalid("fromArray", options?.key === undefined ? flat : `${options.key}: ${flat}`)
  }
  return built("fromArray", tensor.dense(dtype, flat.values, options?.shape ?? flat.shape))
}

const isTypedArray = (values: TypedArray | NestedArray): values is TypedArray => ArrayBuffer.isView(values)

/**
 * A sparse tensor in CSR form: row `r` holds `values[crowIndices[r]] … values[crowIndices[r + 1] - 1]` in the columns
 * listed at the same positions of `colIndices`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromSparse = (options: {
  readonly values: TypedArray | ReadonlyArray<number | bigint>
  readonly crowIndices: ArrayLike<number>
  readonly colIndices: ArrayLike<number>
  /** Dense shape: rows and columns. */
  readonly shape: readonly [rows: number, columns: number]
  /** Defaults to the typed array's own; required for a plain list. */
  readonly dtype?: Dtype | undefined
}): Either.Either<TensorData, InvalidInput> =>
  Either.flatMap(
    fromArray(options.values, { dtype: options.dtype }),
    (values) =>
      built(
        "fromSparse",
        tensor.sparse(values.dtype, values.data, options.shape, options.crowIndices, options.colIndices)
      )
  )

/**
 * The same values in CSR form when that is smaller, leaving out those equal to `padValue`; anything but a dense
 * two-dimensional tensor is returned as it is.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toSparse = (self: TensorData, options?: {
  /** The value not stored. Defaults to 0. */
  readonly padValue?: number | undefined
}): TensorData => {
  const parts = tensor.sparsify(self, options?.padValue ?? 0)
  return parts === undefined ? self : new TensorData(parts)
}

/**
 * The same values, all of them stored.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toDense = (self: TensorData, options?: {
  /** Stands where a sparse tensor stores nothing. Defaults to 0. */
  readonly padValue?: number | undefined
}): TensorData => {
  const parts = tensor.densify(self, options?.padValue ?? 0)
  return parts === undefined ? self : new TensorData(parts)
}

/**
 * All values row by row. A 64-bit integer beyond 2^53 comes out as the nearest number: `toBigInts` has it exactly.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toArray = (self: TensorData): Array<number> => Array.from(toDense(self).data, Number)

/**
 * All values row by row as exact 64-bit integers; fractions are cut towards zero and what is not finite is 0.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toBigInts = (self: TensorData): BigInt64Array => {
  const { data } = toDense(self)
  if (data instanceof BigInt64Array) return data
  return BigInt64Array.from(data, (value) => Number.isFinite(value) ? BigInt(Math.trunc(value)) : 0n)
}

/**
 * All values as float32: the tensor's own array when it is dense and float32.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toFloat32Array = (self: TensorData): Float32Array => numbers.toFloat32(toDense(self).data)

/**
 * All values nested by shape; a tensor of no dimension is its one value.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toNested = (self: TensorData): Nested => numbers.nest(toArray(self), self.shape)

const make = (parts: tensor.Parts): TensorData => new TensorData(parts)

/**
 * The JSON shape of a tensor on the wire.
 *
 * @since 0.1.0
 * @category models
 */
export type Encoded = tensor.Encoded

/**
 * A tensor in its JSON shape.
 *
 * @since 0.1.0
 * @category schemas
 */
export const FromJson: Schema.Schema<TensorData, Encoded> = Schema.transformOrFail(
  tensor.Json,
  Schema.declare(isTensorData, { identifier: "TensorData", arbitrary: () => tensor.arbitrary(make) }),
  { strict: true, decode: tensor.decode(make), encode: tensor.encode }
)
