import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, FastCheck as fc } from "effect"
import * as Safetensors from "../src/Safetensors.js"

const tensor = fc.tuple(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 4 })).chain(([rows, columns]) =>
  fc.float32Array({ minLength: rows * columns, maxLength: rows * columns }).map((data) => ({
    shape: [rows, columns],
    data
  }))
)

const file = fc.record({
  tensors: fc.dictionary(fc.string(), tensor).map((named) =>
    Object.entries(named).filter(([name]) => name !== "__metadata__" && name !== "__proto__")
      .map(([name, { data, shape }]) => ({ name, shape, data }))
  ),
  metadata: fc.constant({ format: "pt" })
})

const example: Safetensors.File = {
  tensors: [{ name: "a", shape: [2], data: Float32Array.of(1, -2) }],
  metadata: { steps: "3" }
}

describe("Safetensors", () => {
  it.prop("decode ∘ encode = id", { file }, ({ file }) => {
    const decoded = Either.getOrThrow(Safetensors.decode(Safetensors.encode(file)))
    const byName = (a: Safetensors.Tensor, b: Safetensors.Tensor) => a.name < b.name ? -1 : 1
    assert.deepStrictEqual(Array.from(decoded.tensors).sort(byName), Array.from(file.tensors).sort(byName))
    assert.deepStrictEqual(decoded.metadata, file.metadata)
  })

  it.effect("tensor by tensor the bytes are the same, whatever their type", () =>
    Effect.gen(function*() {
      for (const dtype of ["F32", "BF16"] as const) {
        const several = { tensors: [...example.tensors, { name: "b", shape: [1], data: Float32Array.of(3) }], dtype }
        assert.deepStrictEqual(yield* Safetensors.encodeByTensor(several), Safetensors.encode(several))
      }
    }))

  it("reads what lies anywhere in a Node buffer, and keeps no hold of it", () => {
    const bytes = Safetensors.encode(example)
    const pool = Buffer.concat([Buffer.alloc(3), bytes])
    const decoded = Either.getOrThrow(Safetensors.decode(pool.subarray(3)))
    pool.fill(0)
    assert.deepStrictEqual(decoded.tensors, example.tensors)
  })

  it("has the layout other tools read: length, header padded to eight bytes, little-endian floats", () => {
    const bytes = Safetensors.encode(example)
    const length = Number(new DataView(bytes.buffer).getBigUint64(0, true))
    assert.strictEqual(length % 8, 0)
    assert.deepStrictEqual(JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))), {
      __metadata__: { steps: "3" },
      a: { dtype: "F32", shape: [2], data_offsets: [0, 8] }
    })
    assert.deepStrictEqual(Array.from(bytes.subarray(8 + length)), [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0])
  })

  it("says what is wrong with a damaged file", () => {
    const bytes = Safetensors.encode(example)
    const problem = (damaged: Uint8Array) => Either.getOrThrow(Either.flip(Safetensors.decode(damaged)))
    assert.match(problem(bytes.subarray(0, 4)), /prefix/)
    assert.match(problem(bytes.subarray(0, 20)), /header/)
    assert.match(problem(bytes.subarray(0, bytes.length - 1)), /ends beyond the end of the file/)
    const garbled = bytes.slice()
    garbled[8] = 0x7b + 1
    assert.match(problem(garbled), /header/)
  })

  it("refuses tensors that share bytes, with which a small file would become a large model", () => {
    const file = (offsets: Readonly<Record<string, readonly [number, number]>>) => {
      const entries = Object.entries(offsets).map(([name, at]) =>
        [name, { dtype: "F32", shape: [(at[1] - at[0]) / 4], data_offsets: at }] as const
      )
      const header = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)))
      const bytes = new Uint8Array(8 + header.length + 32)
      new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true)
      bytes.set(header, 8)
      return bytes
    }
    for (
      const offsets of [{ a: [0, 16], b: [0, 16] }, { a: [0, 32], b: [8, 16] }, { b: [12, 28], a: [0, 16] }] as const
    ) {
      assert.match(Either.getOrThrow(Either.flip(Safetensors.decode(file(offsets)))), /b overlaps another tensor/)
    }
    assert.isTrue(Either.isRight(Safetensors.decode(file({ b: [16, 32], a: [0, 16], none: [16, 16] }))))
  })
})
