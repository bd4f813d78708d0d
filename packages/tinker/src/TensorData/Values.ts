/**
 * The numbers of a tensor: what the wire knows, how they are held, and what they may be given as.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

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
 * What `toNested` gives: arrays as deep as the tensor has dimensions.
 *
 * @since 0.1.0
 * @category models
 */
export type Nested = number | ReadonlyArray<Nested>
