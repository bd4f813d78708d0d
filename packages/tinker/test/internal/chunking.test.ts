import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { Datum, ModelInput, TensorData } from "effect-tinker"
import { datumBytes, promptBytes, split } from "../../src/internal/training/batches.js"

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
