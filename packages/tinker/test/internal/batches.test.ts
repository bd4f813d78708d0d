import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { Datum, ModelInput, TensorData } from "effect-tinker"
import type { ForwardBackward } from "effect-tinker/wire"
import { combine, datumBytes, hashTuple, promptBytes, split } from "../../src/internal/training/batches.js"

const record = (value: number): ForwardBackward.LossFnOutput => ({
  logprobs: Either.getOrThrow(TensorData.fromArray(new Float32Array([value])))
})

const result = (metrics: Record<string, number>, ...records: Array<number>): ForwardBackward.Output => ({
  lossFnOutputType: `T${records.length}`,
  lossFnOutputs: records.map(record),
  metrics
})

const reduced = (name: string, ...values: Array<number>) =>
  combine(values.map((value, i) => result({ [name]: value }, ...new Array<number>(i + 1).fill(0)))).metrics

describe("combine", () => {
  it("puts records in order and takes the first type", () => {
    const both = combine([result({}, 1), result({}, 2, 3)])
    assert.strictEqual(both.lossFnOutputType, "T1")
    assert.deepStrictEqual(both.lossFnOutputs.map((one) => one["logprobs"]?.data[0]), [1, 2, 3])
    assert.deepStrictEqual(combine([]), { lossFnOutputType: "", lossFnOutputs: [], metrics: {} })
  })

  it("weights means by the number of records", () => {
    assert.deepStrictEqual(reduced("m:mean", 1, 4), { "m:mean": 3 })
    assert.deepStrictEqual(reduced("m:slack", 1, 4), { "m:slack": 1 })
    assert.deepStrictEqual(combine([result({ "m:mean": 1 }), result({ "m:mean": 3 })]).metrics, { "m:mean": 2 })
  })

  it("sums and takes extremes without weights", () => {
    assert.deepStrictEqual(reduced("m:sum", 1, 4, -7), { "m:sum": -2 })
    assert.deepStrictEqual(reduced("m:min", 1, 4, -7), { "m:min": -7 })
    assert.deepStrictEqual(reduced("m:max", 1, 4, -7), { "m:max": 4 })
    for (const suffix of ["mean", "sum", "min", "max", "slack"]) {
      assert.deepStrictEqual(reduced(`m:${suffix}`, 1, NaN), { [`m:${suffix}`]: NaN })
    }
  })

  it("keeps every value of a unique metric", () => {
    assert.deepStrictEqual(reduced("clock_cycle:unique", 5, 5, 6), {
      "clock_cycle:unique": 5,
      "clock_cycle:unique_1": 5,
      "clock_cycle:unique_2": 6
    })
  })

  it("hashes like CPython", () => {
    // hash((12345,)), hash((-7, 12345)), hash(()), hash((-1,)), hash((2**61 - 1, 2**64))
    assert.strictEqual(hashTuple([12345n]), -7651455281319756891n)
    assert.strictEqual(hashTuple([-7n, 12345n]), -393755659316313666n)
    assert.strictEqual(hashTuple([]), 5740354900026072187n)
    assert.strictEqual(hashTuple([-1n]), hashTuple([-2n]))
    assert.strictEqual(hashTuple([2n ** 61n - 1n]), hashTuple([0n]))
    assert.deepStrictEqual(reduced("m:hash_unordered", 12345.9, -7), reduced("m:hash_unordered", -7, 12345))
    assert.strictEqual(reduced("m:hash_unordered", 12345, -7)["m:hash_unordered"], Number(-393755659316313666n))
    assert.deepStrictEqual(reduced("m:hash_unordered", 1, NaN), { "m:hash_unordered": NaN })
  })

  it("adds the newer hash modulo 2^64", () => {
    assert.deepStrictEqual(reduced("m:hash2", 5, 7.9), { "m:hash2": 12 })
    assert.deepStrictEqual(reduced("m:hash2", -1, 3), { "m:hash2": 2 })
    assert.strictEqual(reduced("m:hash2", -1)["m:hash2"], Number(2n ** 64n - 1n))
  })

  it("drops what it cannot combine, and throws for no name", () => {
    assert.deepStrictEqual(reduced("policy_lr:last", 1), {})
    assert.deepStrictEqual(reduced("plain", 1, 2), {})
    assert.deepStrictEqual(reduced("", 1), {})
    assert.deepStrictEqual(reduced("a:b:sum", 1, 2), { "a:b:sum": 3 })
    assert.deepStrictEqual(combine([result({ "a:sum": 1, "b:sum": 1 }), result({ "a:sum": 1, "c:sum": 1 })]).metrics, {
      "a:sum": 2
    })
    assert.deepStrictEqual(combine([result({ "toString:sum": 1 }), result({})]).metrics, {})
  })
})

const get = Either.getOrThrow

/** 4 bytes a token, 8 a target, 4 a weight: 16 per position. */
const datum = (positions: number) => get(Datum.fromTokens(new Int32Array(positions + 1)))

describe("chunking", () => {
  it("weighs payloads as protobuf carries them", () => {
    assert.strictEqual(datumBytes(datum(10)), 160)
    const sparse = get(TensorData.fromSparse({
      values: new Float32Array(2),
      crowIndices: [0, 1, 2],
      colIndices: [0, 1],
      shape: [2, 9]
    }))
    const rich = get(Datum.make({
      modelInput: ModelInput.fromChunks([
        new ModelInput.Image({ data: new Uint8Array(7), format: "png" }),
        new ModelInput.Dmel({ dmel: new Uint8Array(5) }),
        new ModelInput.ImageAssetPointer({ location: "abc", format: "png" })
      ]),
      lossFnInputs: { weights: sparse }
    }))
    assert.strictEqual(datumBytes(rich), 7 + 5 + 3 + 2 * 4 + 8 * (3 + 2))
  })

  it("weighs a prompt as JSON carries it", () => {
    const image = new ModelInput.Image({ data: new Uint8Array(7), format: "png" })
    assert.strictEqual(promptBytes(ModelInput.append(ModelInput.fromInts([1, 2, 3]), image)), 37)
  })

  it("cuts by count, by bytes, and sends an oversized example alone", () => {
    const sizes = (data: ReadonlyArray<Datum.Datum>, limits: Parameters<typeof split>[1]) =>
      split(data, limits).map((batch) => batch.data.length)
    const data = [1, 1, 1, 100, 1, 1].map(datum)
    assert.deepStrictEqual(sizes(data, { maxCount: 2 }), [2, 2, 2])
    assert.deepStrictEqual(sizes(data, { maxBytes: 32 }), [2, 1, 1, 2])
    assert.deepStrictEqual(sizes(data, {}), [6])
    assert.deepStrictEqual(sizes([], {}), [])
    assert.deepStrictEqual(sizes(Array.from({ length: 1025 }, () => datum(1)), undefined), [1024, 1])
  })

  it("keeps the order and the sum of bytes", () => {
    const data = Array.from({ length: 50 }, (_, i) => datum(1 + (i * 7) % 13))
    const batches = split(data, { maxCount: 8, maxBytes: 500 })
    assert.deepStrictEqual(batches.flatMap((batch) => batch.data), data)
    for (const batch of batches) {
      assert.strictEqual(batch.bytes, batch.data.reduce((sum, one) => sum + datumBytes(one), 0))
      assert.isTrue(batch.data.length === 1 || batch.bytes <= 500)
      assert.isAtMost(batch.data.length, 8)
    }
  })
})
