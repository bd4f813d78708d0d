import { assert, describe, it } from "@effect/vitest"
import { Either, pipe, Schema } from "effect"
import { ModelInput } from "effect-tinker"

const get = Either.getOrThrow
const decode = Schema.decodeUnknownEither(ModelInput.ModelInput)
const encode = Schema.encodeEither(ModelInput.ModelInput)

describe("ModelInput", () => {
  it("takes the tokens of whatever encodes text", () => {
    const letters = { encode: (text: string) => Int32Array.from(text, (char) => char.charCodeAt(0)) }
    assert.deepStrictEqual(get(ModelInput.toInts(ModelInput.fromText(letters, "ab"))), Int32Array.of(97, 98))
  })

  it("appends without merging or changing what was there", () => {
    const start = ModelInput.fromInts([1, 2])
    const input = pipe(start, ModelInput.appendInt(3), ModelInput.append(new ModelInput.EncodedText({ tokens: [4] })))
    assert.strictEqual(input.chunks.length, 3)
    assert.strictEqual(start.chunks.length, 1)
    assert.deepStrictEqual(Array.from(get(ModelInput.toInts(input))), [1, 2, 3, 4])
    assert.strictEqual(get(ModelInput.length(input)), 4)
    assert.strictEqual(get(ModelInput.length(ModelInput.empty)), 0)
  })

  it("does not copy an Int32Array", () => {
    const tokens = new Int32Array([1, 2])
    const [chunk] = ModelInput.fromInts(tokens).chunks
    assert.isTrue(chunk?.type === "encoded_text" && chunk.tokens === tokens)
  })

  it("refuses tokens that are no 32-bit integers when they are used", () => {
    for (const wrong of [1.5, 2 ** 31, NaN]) {
      const input = ModelInput.fromInts([1, wrong])
      for (const error of [get(Either.flip(ModelInput.validate(input))), get(Either.flip(ModelInput.toInts(input)))]) {
        assert.strictEqual(error._tag, "InvalidInput")
        assert.include(error.message, `token 1 (${wrong})`)
      }
      assert.isTrue(Either.isLeft(encode(input)))
    }
  })

  it("has no tokens for an image, and a length only when told", () => {
    const image = { data: new Uint8Array([1, 2, 3]), format: "png" as const }
    const unknown = ModelInput.append(ModelInput.empty, new ModelInput.Image(image))
    assert.isTrue(Either.isLeft(ModelInput.toInts(unknown)))
    assert.isTrue(Either.isLeft(ModelInput.length(unknown)))
    const known = ModelInput.append(unknown, new ModelInput.Image({ ...image, expectedTokens: 9 }))
    assert.strictEqual(get(ModelInput.length(ModelInput.fromChunks(known.chunks.slice(1)))), 9)
  })

  it("takes chunks as plain fields, and keeps those it knows", () => {
    const fields = [
      { type: "encoded_text" as const, tokens: [1, 2] },
      { type: "image" as const, data: Uint8Array.of(1, 2, 3), format: "png" as const, expectedTokens: 4 },
      { type: "image" as const, data: Uint8Array.of(1), format: "jpeg" as const }
    ]
    const audio = new ModelInput.Dmel({ dmel: Uint8Array.of(4, 2, 5, 80, 0, 0) })
    const input = ModelInput.from([...fields, audio])
    assert.strictEqual(input.chunks[3], audio)
    assert.deepStrictEqual<unknown>(get(encode(input)).chunks.slice(0, 3), [
      { type: "encoded_text", tokens: [1, 2] },
      { type: "image", data: "AQID", format: "png", expected_tokens: 4 },
      { type: "image", data: "AQ==", format: "jpeg" }
    ])
    assert.deepStrictEqual(ModelInput.fromChunks(input.chunks), input)
    assert.deepStrictEqual(ModelInput.from([]), ModelInput.fromInts([]))
  })

  it("reads the length of audio from its header", () => {
    const length = (...bytes: Array<number>) =>
      ModelInput.length(ModelInput.fromChunks([new ModelInput.Dmel({ dmel: Uint8Array.from(bytes) })]))
    assert.strictEqual(get(length(4, 2, 5, 80, 0, 0)), 5)
    assert.strictEqual(get(length(254, 4, 1, 0x96, 0x01)), 150)
    for (
      const [bytes, what] of [
        [[], "no bytes"],
        [[254], "truncated"],
        [[8, 1, 1], "unknown dtype 8"],
        [[4], "truncated"],
        [[4, 2, 5], "truncated"],
        [[4, 0], "no dimension"],
        [[4, ...new Array<number>(10).fill(0x80), 0], "too long"]
      ] as const
    ) {
      const result = length(...bytes)
      assert.include(Either.isLeft(result) ? result.left.message : "accepted", what)
    }
  })

  describe("JSON", () => {
    it("always names the type, and leaves out what is not set", () => {
      const image = new ModelInput.Image({ data: new Uint8Array([255, 0]), format: "jpeg" })
      const pointer = new ModelInput.ImageAssetPointer({ location: "s3://a", format: "png", expectedTokens: 4 })
      const audio = new ModelInput.Dmel({ dmel: new Uint8Array([4, 1, 3]) })
      const input = ModelInput.fromChunks([...ModelInput.fromInts([1, -2]).chunks, image, pointer, audio])
      assert.deepStrictEqual<unknown>(get(encode(input)), {
        chunks: [
          { type: "encoded_text", tokens: [1, -2] },
          { type: "image", data: "/wA=", format: "jpeg" },
          { type: "image_asset_pointer", location: "s3://a", format: "png", expected_tokens: 4 },
          { type: "dmel", dmel: "BAED" }
        ]
      })
    })

    it("reads chunks of clients that left the type out, older image fields included", () => {
      const input = get(decode({
        chunks: [
          { tokens: [1] },
          { data: "/wA=", format: "png", height: 2, width: 3, tokens: 7 },
          { location: "s3://a", format: "png", height: 2, width: 3, tokens: 8 },
          { data: "/wA=", format: "png", expected_tokens: null },
          { dmel: "BAED" }
        ]
      }))
      assert.deepStrictEqual(
        input.chunks.map((chunk) => chunk.type),
        ["encoded_text", "image", "image_asset_pointer", "image", "dmel"]
      )
      assert.deepStrictEqual(input.chunks.map((chunk) => chunk.length), [1, 7, 8, undefined, 3])
      assert.deepStrictEqual<unknown>(get(encode(input)).chunks[1], {
        type: "image",
        data: "/wA=",
        format: "png",
        height: 2,
        width: 3,
        tokens: 7
      })
    })

    it("refuses what is no chunk", () => {
      for (
        const chunk of [
          { type: "video", data: "/wA=" },
          { type: "encoded_text", tokens: ["1"] },
          { type: "encoded_text", tokens: [2 ** 31] },
          { type: "image", data: "not base64!", format: "png" },
          { type: "image", data: "/wA=", format: "gif" }
        ]
      ) assert.isTrue(Either.isLeft(decode({ chunks: [chunk] })), JSON.stringify(chunk))
    })

    it.prop("encode ∘ decode = id", { input: Schema.typeSchema(ModelInput.ModelInput) }, ({ input }) => {
      const json = JSON.stringify(get(encode(input)))
      return JSON.stringify(get(encode(get(decode(JSON.parse(json)))))) === json
    })
  })
})
