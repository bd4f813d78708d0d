/**
 * Lists of numbers on the wire, typed arrays here: one schema node and one loop, however long they are.
 */
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as numbers from "./numbers.js"

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
      const values = numbers.toInt32(list)
      return values === undefined
        ? ParseResult.fail(new ParseResult.Type(ast, list, `[${numbers.firstNotInt32(list)}] is no 32-bit integer`))
        : ParseResult.succeed(values)
    },
    encode: (values) => ParseResult.succeed(numbers.toList(values))
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
    decode: (list) => numbers.toFloat32(list),
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
