import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"

/** Numeric arrays: conversion to the two dtypes of the wire by one loop, without losing an integer. */

/** @internal */
export type Int64Values = Int32Array | Float64Array | BigInt64Array

/** @internal */
export type Scalar = number | bigint | boolean | null

const MIN_INT64 = -(2n ** 63n)
const MAX_INT64 = 2n ** 63n - 1n

/**
 * A plain list of the values. A loop, since `Array.from` goes through the iterator and takes three times as long.
 *
 * @internal
 */
export const toList = (values: ArrayLike<number>): Array<number> => {
  const out = new Array<number>(values.length)
  for (let i = 0; i < values.length; i++) out[i] = values[i] ?? 0
  return out
}

/**
 * Tokens as int32, or undefined when one of them is not a 32-bit integer.
 *
 * @internal
 */
export const toInt32 = (values: ArrayLike<number>): Int32Array | undefined => {
  if (values instanceof Int32Array) return values
  const length = values.length
  const out = new Int32Array(length)
  for (let i = 0; i < length; i++) {
    const value = values[i]
    if (value === undefined || (value | 0) !== value) return undefined
    out[i] = value
  }
  return out
}

/**
 * Position of the first value that is not a 32-bit integer, or -1.
 *
 * @internal
 */
export const firstNotInt32 = (values: ArrayLike<number>): number => {
  if (values instanceof Int32Array) return -1
  for (let i = 0; i < values.length; i++) {
    const value = values[i]
    if (value === undefined || (value | 0) !== value) return i
  }
  return -1
}

/**
 * Integers in the narrowest array that holds them exactly: int32, else doubles up to 2^53, else 64-bit integers.
 * Fractions are cut towards zero, as the wire's own conversion does. Returns the position of a value that is no
 * 64-bit integer.
 *
 * @internal
 */
export const toInt64 = (values: ArrayLike<Scalar>): Int64Values | number => {
  const length = values.length
  const narrow = new Int32Array(length)
  let i = 0
  for (; i < length; i++) {
    const value = values[i]
    if (typeof value === "number" && (value | 0) === value) narrow[i] = value
    else break
  }
  if (i === length) return narrow
  return toWideInt64(values, narrow, i)
}

const toWideInt64 = (values: ArrayLike<Scalar>, narrow: Int32Array, from: number): Int64Values | number => {
  const length = values.length
  const wide = Float64Array.from(narrow)
  let allNarrow = true
  let i = from
  for (; i < length; i++) {
    const value = values[i]
    const integer = typeof value === "number" ? Math.trunc(value) : typeof value === "bigint" ? Number(value) : value
    if (integer === true || integer === false) wide[i] = integer ? 1 : 0
    else if (typeof integer === "number" && Number.isSafeInteger(integer)) wide[i] = integer
    else break
    const stored = wide[i] ?? 0
    if ((stored | 0) !== stored) allNarrow = false
  }
  if (i === length) return allNarrow ? Int32Array.from(wide) : wide
  const exact = new BigInt64Array(length)
  for (let j = 0; j < i; j++) exact[j] = BigInt(wide[j] ?? 0)
  for (; i < length; i++) {
    const value = values[i]
    if (value === null || value === undefined) return i
    if (typeof value === "number" && !Number.isFinite(value)) return i
    const integer = BigInt(typeof value === "number" ? Math.trunc(value) : value)
    if (integer < MIN_INT64 || integer > MAX_INT64) return i
    exact[i] = integer
  }
  return exact
}

/**
 * Values as float32; null is NaN.
 *
 * @internal
 */
export const toFloat32 = (values: ArrayLike<Scalar>): Float32Array => {
  if (values instanceof Float32Array) return values
  const length = values.length
  const out = new Float32Array(length)
  for (let i = 0; i < length; i++) {
    const value = values[i]
    out[i] = typeof value === "number" ? value : value === null ? NaN : Number(value)
  }
  return out
}

/**
 * Leaves of a rectangular nesting, with its shape; or why it is not rectangular.
 *
 * @internal
 */
export const flatten = (
  nested: ReadonlyArray<unknown>
): { readonly values: ReadonlyArray<Scalar>; readonly shape: ReadonlyArray<number> } | string => {
  const shape: Array<number> = []
  for (let level: unknown = nested; Array.isArray(level); level = level[0]) shape.push(level.length)
  if (areScalars(nested)) return { values: nested, shape }
  const values: Array<Scalar> = []
  const walk = (level: ReadonlyArray<unknown>, path: ReadonlyArray<number>): string | undefined => {
    const depth = path.length
    if (level.length !== shape[depth]) {
      return `ragged: [${path.join("][")}] has length ${level.length}, not ${shape[depth]}`
    }
    for (let i = 0; i < level.length; i++) {
      const item = level[i]
      if (depth === shape.length - 1) {
        if (!isScalar(item)) return describeLeaf(item, [...path, i])
        values.push(item)
      } else if (!Array.isArray(item)) {
        return `ragged: [${[...path, i].join("][")}] is not an array, but its neighbours are`
      } else {
        const wrong = walk(item, [...path, i])
        if (wrong !== undefined) return wrong
      }
    }
    return undefined
  }
  return walk(nested, []) ?? { values, shape }
}

const describeLeaf = (leaf: unknown, path: ReadonlyArray<number>): string =>
  Array.isArray(leaf)
    ? `ragged: [${path.join("][")}] is an array, but its neighbours are not`
    : `[${path.join("][")}] is not a number but ${leaf === undefined ? "undefined" : `a ${typeof leaf}`}`

const isScalar = (value: unknown): value is Scalar =>
  typeof value === "number" || typeof value === "bigint" || typeof value === "boolean" || value === null

const areScalars = (values: ReadonlyArray<unknown>): values is ReadonlyArray<Scalar> => {
  for (let i = 0; i < values.length; i++) if (typeof values[i] !== "number" && !isScalar(values[i])) return false
  return true
}

/** @internal */
export const product = (shape: ReadonlyArray<number>): number => {
  let n = 1
  for (const size of shape) n *= size
  return n
}

/**
 * Nested arrays of a row-major list.
 *
 * @internal
 */
export const nest = <A>(values: ReadonlyArray<A>, shape: ReadonlyArray<number>): Nested<A> => {
  const build = (depth: number, start: number, span: number): Nested<A> => {
    if (depth === shape.length) return values.slice(start, start + 1)[0] ?? []
    const size = shape[depth] ?? 0
    if (depth === shape.length - 1) return values.slice(start, start + size)
    const inner = size === 0 ? 0 : span / size
    return Array.from({ length: size }, (_, i) => build(depth + 1, start + i * inner, inner))
  }
  return build(0, 0, values.length)
}

type Nested<A> = A | ReadonlyArray<Nested<A>>

/** @internal */
export const sameNumbers = (a: ArrayLike<number | bigint>, b: ArrayLike<number | bigint>): boolean => {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) {
    const x = a[i]
    const y = b[i]
    // an int64 is the same value whether held as a number or as a bigint
    if (!Object.is(x, y) && (typeof x === typeof y || Number(x) !== Number(y) || BigInt(x ?? 0) !== BigInt(y ?? 0))) {
      return false
    }
  }
  return true
}

/** @internal */
export const sameIndices = (a: Int64Values | undefined, b: Int64Values | undefined): boolean =>
  a === undefined || b === undefined ? a === b : sameNumbers(a, b)

// -----------------------------------------------------------------------------
// Lists of numbers on the wire, typed arrays here: one schema node and one loop, however long they are.
// -----------------------------------------------------------------------------

const isNumbers = (u: unknown): u is ReadonlyArray<number> => {
  if (!Array.isArray(u)) return false
  for (let i = 0; i < u.length; i++) if (typeof u[i] !== "number") return false
  return true
}

const isNumbersOrNull = (u: unknown): u is ReadonlyArray<number | null> => {
  if (!Array.isArray(u)) return false
  for (let i = 0; i < u.length; i++) if (typeof u[i] !== "number" && u[i] !== null) return false
  return true
}

const same = (a: ArrayLike<number>, b: ArrayLike<number>): boolean => {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false
  return true
}

const Int32ArrayFromSelf: Schema.Schema<Int32Array> = Schema.declare((u) => u instanceof Int32Array, {
  identifier: "Int32Array",
  arbitrary: () => (fc) => fc.int32Array({ maxLength: 8 }),
  equivalence: () => same
})

const Float32ArrayFromSelf: Schema.Schema<Float32Array> = Schema.declare((u) => u instanceof Float32Array, {
  identifier: "Float32Array",
  arbitrary: () => (fc) => fc.float32Array({ maxLength: 8, noDefaultInfinity: true }),
  equivalence: () => same
})

/**
 * Integers of 32 bits.
 *
 * @internal
 */
export const Int32s: Schema.Schema<Int32Array, ReadonlyArray<number>> = Schema.transformOrFail(
  Schema.declare(isNumbers, { identifier: "list of integers" }),
  Int32ArrayFromSelf,
  {
    strict: true,
    decode: (list, _, ast) => {
      const values = toInt32(list)
      return values === undefined
        ? ParseResult.fail(new ParseResult.Type(ast, list, `[${firstNotInt32(list)}] is not a 32-bit integer`))
        : ParseResult.succeed(values)
    },
    encode: (values) => ParseResult.succeed(toList(values))
  }
)

/**
 * Floats of 32 bits. JSON has no NaN and no infinity, so what is not finite is `null` there and NaN here.
 *
 * @internal
 */
export const Float32s: Schema.Schema<Float32Array, ReadonlyArray<number | null>> = Schema.transform(
  Schema.declare(isNumbersOrNull, { identifier: "list of numbers" }),
  Float32ArrayFromSelf,
  {
    strict: true,
    decode: (list) => toFloat32(list),
    encode: (values) => {
      const out = new Array<number | null>(values.length)
      for (let i = 0; i < values.length; i++) {
        const value = values[i]
        out[i] = value !== undefined && Number.isFinite(value) ? value : null
      }
      return out
    }
  }
)
