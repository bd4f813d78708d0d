/** The JSON shape of a tensor. */
import type { LazyArbitrary } from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { Dtype, TensorData } from "../../TensorData.js"
import * as tensor from "./tensor.js"

/**
 * One schema node for a whole list: a node per number would cost more than parsing the JSON did.
 *
 * @internal
 */
export const Numbers: Schema.Schema<ReadonlyArray<number | bigint | null>> = Schema.declare(
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
export const decode = (make: (parts: tensor.Parts) => TensorData) =>
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
    ? tensor.dense(json.dtype, json.data, shape)
    : tensor.sparse(json.dtype, json.data, shape, crow, col)
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
export const arbitrary = (make: (parts: tensor.Parts) => TensorData): LazyArbitrary<TensorData> => (fc) => {
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
