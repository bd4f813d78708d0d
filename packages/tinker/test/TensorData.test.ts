import { assert, describe, it } from "@effect/vitest"
import { Either, Equal, Schema } from "effect"
import { TensorData } from "effect-tinker"

const get = Either.getOrThrow
const reason = (result: Either.Either<TensorData.TensorData, { readonly description?: string | undefined }>) =>
  Either.match(result, { onLeft: (error) => error.description, onRight: () => "accepted" })

describe("TensorData", () => {
  describe("fromArray", () => {
    it("takes the dtype of a plain list from its key", () => {
      assert.strictEqual(get(TensorData.fromArray([1, 2], { key: "target_tokens" })).dtype, "int64")
      for (const key of Object.keys(TensorData.dtypeByKey)) {
        if (key === "target_tokens") continue
        assert.strictEqual(get(TensorData.fromArray([1, 2], { key })).dtype, "float32", key)
      }
    })

    it("refuses a plain list of unknown dtype", () => {
      assert.include(reason(TensorData.fromArray([1])), "needs a dtype")
      assert.include(reason(TensorData.fromArray([1], { key: "mask" })), "\"mask\"")
      assert.include(reason(TensorData.fromArray([1], { key: "toString" })), "\"toString\"")
    })

    it("takes the dtype of a typed array from its elements, whatever the key", () => {
      const dtype = (values: TensorData.TypedArray) => get(TensorData.fromArray(values, { key: "weights" })).dtype
      for (const floats of [new Float32Array(1), new Float64Array(1)]) assert.strictEqual(dtype(floats), "float32")
      for (
        const integers of [
          new Int8Array(1),
          new Int16Array(1),
          new Int32Array(1),
          new BigInt64Array(1),
          new Uint8Array(1),
          new Uint16Array(1),
          new Uint32Array(1),
          new BigUint64Array(1)
        ]
      ) assert.strictEqual(dtype(integers), "int64")
    })

    it("does not copy what the wire has", () => {
      for (const values of [new Float32Array([1]), new Int32Array([1]), new BigInt64Array([1n])]) {
        assert.strictEqual(get(TensorData.fromArray(values)).data, values)
      }
    })

    it("reads the shape from the nesting", () => {
      const shape = (values: TensorData.NestedArray) => get(TensorData.fromArray(values, { dtype: "float32" })).shape
      assert.deepStrictEqual(shape([]), [0])
      assert.deepStrictEqual(shape([[]]), [1, 0])
      assert.deepStrictEqual(shape([[1, 2, 3], [4, 5, 6]]), [2, 3])
      assert.deepStrictEqual(shape([[[1], [2]]]), [1, 2, 1])
    })

    it("refuses ragged lists and says where", () => {
      const ragged = (values: TensorData.NestedArray) => reason(TensorData.fromArray(values, { key: "weights" }))
      assert.strictEqual(ragged([[1, 2], [3]]), "weights: ragged: [1] has length 1, not 2")
      assert.include(ragged([[1], 2]), "ragged: [1] is not an array")
      assert.include(ragged([1, [2]]), "ragged: [1] is an array")
      assert.include(ragged([[[1]], [[1, 2]]]), "ragged: [1][0]")
    })

    it("refuses values that do not fill the shape", () => {
      assert.include(reason(TensorData.fromArray(new Int32Array(3), { shape: [2, 2] })), "3 values do not fit")
      assert.include(reason(TensorData.fromArray(new Int32Array(3), { shape: [-3] })), "not made of sizes")
      assert.include(reason(TensorData.fromArray(new Int32Array(0), { shape: [1.5, 0] })), "not made of sizes")
    })

    it("converts as the wire does: cut towards zero, booleans as 0 and 1, null as NaN", () => {
      const int64 = get(TensorData.fromArray([1.9, -1.9, true, false], { dtype: "int64" }))
      assert.deepStrictEqual(TensorData.toArray(int64), [1, -1, 1, 0])
      const float32 = get(TensorData.fromArray([0.1, null, true], { dtype: "float32" }))
      assert.deepStrictEqual(TensorData.toArray(float32), [Math.fround(0.1), NaN, 1])
      assert.include(reason(TensorData.fromArray([1, null], { dtype: "int64" })), "value 1 (null)")
      assert.include(reason(TensorData.fromArray([NaN], { dtype: "int64" })), "value 0 (NaN)")
    })

    it("keeps every 64-bit integer", () => {
      const integers = [0n, -1n, 2n ** 31n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)]
      for (let n = 1; n <= integers.length; n++) {
        const some = integers.slice(0, n)
        const tensor = get(TensorData.fromArray(some, { dtype: "int64" }))
        assert.deepStrictEqual(Array.from(TensorData.toBigInts(tensor)), some)
      }
      assert.instanceOf(get(TensorData.fromArray([1, 2], { dtype: "int64" })).data, Int32Array)
      assert.instanceOf(get(TensorData.fromArray([2 ** 40], { dtype: "int64" })).data, Float64Array)
      assert.include(reason(TensorData.fromArray([2n ** 63n], { dtype: "int64" })), "not a 64-bit integer")
    })
  })

  describe("sparse", () => {
    const sparse = get(TensorData.fromSparse({
      values: new Float32Array([5, 6, 7]),
      crowIndices: [0, 1, 1, 3],
      colIndices: [2, 0, 3],
      shape: [3, 4]
    }))

    it("densifies row by row", () => {
      assert.isTrue(TensorData.isSparse(sparse))
      assert.deepStrictEqual(TensorData.toNested(sparse), [[0, 0, 5, 0], [0, 0, 0, 0], [6, 0, 0, 7]])
      assert.deepStrictEqual(
        TensorData.toNested(TensorData.toDense(sparse, { padValue: -1 })),
        [[-1, -1, 5, -1], [-1, -1, -1, -1], [6, -1, -1, 7]]
      )
    })

    it("is chosen only when it is smaller", () => {
      const rows = Array.from({ length: 4 }, (_, i) => Array.from({ length: 16 }, (_, j) => (i === j ? 2 : -1)))
      const dense = get(TensorData.fromArray(rows, { dtype: "int64" }))
      assert.isFalse(TensorData.isSparse(TensorData.toSparse(dense)))
      const small = TensorData.toSparse(dense, { padValue: -1 })
      assert.isTrue(TensorData.isSparse(small))
      assert.deepStrictEqual(TensorData.toArray(TensorData.toDense(small, { padValue: -1 })), rows.flat())
    })

    it("refuses indices that contradict the shape", () => {
      const wrong = (crowIndices: Array<number>, colIndices: Array<number>, shape: [number, number] = [2, 2]) =>
        reason(TensorData.fromSparse({ values: new Float32Array(2), crowIndices, colIndices, shape }))
      assert.include(wrong([0, 2], [0, 1]), "2 rows need 3 row pointers")
      assert.include(wrong([0, 1, 2], [0]), "need as many columns")
      assert.include(wrong([0, 2, 1], [0, 1]), "row pointer 2")
      assert.include(wrong([1, 2, 2], [0, 1]), "row pointer 0")
      assert.include(wrong([0, 1, 1], [0, 1]), "the last row pointer")
      assert.include(wrong([0, 1, 2], [0, 2]), "column 2 of 2")
      assert.include(wrong([0, 1, 2], [0, -1]), "must be non-negative integers")
      assert.strictEqual(wrong([0, 1, 2], [0, 1]), "accepted")
    })
  })

  it("is equal by value, however it is held", () => {
    const of = (values: TensorData.TypedArray) => get(TensorData.fromArray(values))
    assert.isTrue(Equal.equals(of(new Int32Array([1, -2])), of(new BigInt64Array([1n, -2n]))))
    assert.isFalse(Equal.equals(of(new Int32Array([1, 2])), of(new Int32Array([1, 3]))))
    assert.isFalse(Equal.equals(of(new Int32Array([1])), of(new Float32Array([1]))))
    assert.isTrue(Equal.equals(of(new Float32Array([NaN])), of(new Float32Array([NaN]))))
    assert.isFalse(Equal.equals(
      of(new Float32Array([1, 2])),
      get(TensorData.fromArray(new Float32Array([1, 2]), { shape: [1, 2] }))
    ))
  })

  it("nests a tensor of no dimension as its value", () => {
    assert.strictEqual(TensorData.toNested(get(TensorData.fromArray(new Float32Array([3]), { shape: [] }))), 3)
  })

  describe("JSON", () => {
    const decode = Schema.decodeUnknownEither(TensorData.FromJson)
    const encode = Schema.encodeEither(TensorData.FromJson)

    it("has the fields of the wire, without those that are not set", () => {
      assert.deepStrictEqual(get(encode(get(TensorData.fromArray([1, 2], { key: "target_tokens" })))), {
        data: [1, 2],
        dtype: "int64",
        shape: [2]
      })
      const sparse = {
        data: [5],
        dtype: "float32",
        shape: [1, 2],
        sparse_crow_indices: [0, 1],
        sparse_col_indices: [1]
      }
      assert.deepStrictEqual<unknown>(get(encode(get(decode(sparse)))), sparse)
    })

    it("reads null as absent, and as NaN among floats", () => {
      const tensor = get(decode({ data: [1, null], dtype: "float32", shape: null, sparse_crow_indices: null }))
      assert.deepStrictEqual(TensorData.toArray(tensor), [1, NaN])
      assert.isUndefined(tensor.declaredShape)
      assert.deepStrictEqual(tensor.shape, [2])
    })

    it("refuses what it could only carry wrong", () => {
      assert.isTrue(Either.isLeft(decode({ data: [2 ** 53], dtype: "int64" })))
      assert.isTrue(Either.isLeft(encode(get(TensorData.fromArray(new BigInt64Array([2n ** 53n]))))))
      assert.isTrue(Either.isLeft(decode({ data: [1], dtype: "float16" })))
      assert.isTrue(Either.isLeft(decode({ data: [1], dtype: "float32", shape: [2] })))
      assert.isTrue(Either.isLeft(decode({ data: [1], dtype: "float32", shape: [1, 2], sparse_crow_indices: [0, 1] })))
      assert.isTrue(Either.isLeft(decode({ data: ["1"], dtype: "float32" })))
    })

    it.prop(
      "decode ∘ encode = id",
      { tensor: Schema.typeSchema(TensorData.FromJson) },
      ({ tensor }) =>
        Equal.equals(get(decode(JSON.parse(JSON.stringify(get(encode(tensor)))))), tensor) ||
        // JSON has no negative zero
        tensor.data.some((value: number | bigint) => Object.is(value, -0))
    )
  })
})
