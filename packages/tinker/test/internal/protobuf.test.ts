import { create, fromBinary, toBinary } from "@bufbuild/protobuf"
import type { MessageInitShape } from "@bufbuild/protobuf"
import { assert, describe, it } from "@effect/vitest"
import { Either, Equal, FastCheck as fc } from "effect"
import { Datum, ModelInput, TensorData } from "effect-tinker"
import { ForwardBackward, Sample } from "effect-tinker/wire"
import * as proto from "../gen/tinker_pb.js"

const get = Either.getOrThrow

/** Cases per property. */
const runs = 300

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16))
const hexOf = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")

// -----------------------------------------------------------------------------
// values
// -----------------------------------------------------------------------------

// the library loses a key named __proto__; ours has a test of its own
const anyKey = fc.oneof(fc.constantFrom("target_tokens", "weights", "é𝄞", ""), fc.stringMatching(/^[a-z_]{1,30}$/))
  .filter((key) => key !== "__proto__")

const anyIntegers = fc.oneof(
  fc.array(fc.integer(), { maxLength: 9 }),
  fc.array(fc.maxSafeInteger(), { maxLength: 9 }),
  fc.array(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), { maxLength: 9 })
).map((values) => get(TensorData.fromArray(values, { dtype: "int64" })))

const anyFloats = fc.float32Array({ maxLength: 9 }).map((values) => get(TensorData.fromArray(values)))

const anySparse = fc.array(
  fc.array(fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, fc.integer()), {
    minLength: 11,
    maxLength: 11
  }),
  { minLength: 1, maxLength: 5 }
).map((rows) => TensorData.toSparse(get(TensorData.fromArray(rows, { dtype: "int64" }))))

const anyMatrix = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 0, max: 4 })).map(([rows, columns]) =>
  get(TensorData.fromArray(Float32Array.from({ length: rows * columns }, (_, i) => i / 7), { shape: [rows, columns] }))
)

const anyTensor = fc.oneof(anyIntegers, anyFloats, anySparse, anyMatrix)

const anyChunk: fc.Arbitrary<ModelInput.Chunk> = fc.oneof(
  fc.int32Array({ maxLength: 9 }).map((tokens) => new ModelInput.EncodedText({ tokens })),
  fc.array(fc.integer(), { maxLength: 9 }).map((tokens) => new ModelInput.EncodedText({ tokens })),
  fc.tuple(fc.uint8Array({ maxLength: 9 }), fc.constantFrom("png" as const, "jpeg" as const), fc.option(fc.nat())).map((
    [data, format, expectedTokens]
  ) => new ModelInput.Image({ data, format, ...(expectedTokens === null ? {} : { expectedTokens }) })),
  fc.uint8Array({ maxLength: 9 }).map((dmel) => new ModelInput.Dmel({ dmel }))
)

const anySpans: fc.Arbitrary<ReadonlyArray<Datum.ProvenanceSpan>> = fc.array(
  fc.record({
    source: fc.constantFrom("prompt" as const, "sampled" as const),
    sequenceId: fc.string({ minLength: 1 }),
    offset: fc.oneof(fc.nat(), fc.constant(2 ** 40)),
    length: fc.nat()
  }),
  { minLength: 1, maxLength: 3 }
)

const anyDatum = fc.tuple(
  fc.array(anyChunk, { maxLength: 3 }),
  fc.dictionary(anyKey, anyTensor, { maxKeys: 3 }),
  fc.option(fc.tuple(anySpans, anySpans), { nil: undefined })
).map(([chunks, lossFnInputs, spans]) =>
  new Datum.Datum({
    modelInput: ModelInput.fromChunks(chunks),
    lossFnInputs,
    modelInputSpans: spans?.[0],
    lossFnInputSpans: spans?.[1]
  })
)

const anyRequest: fc.Arbitrary<ForwardBackward.Request> = fc.record({
  modelId: fc.string(),
  seqId: fc.option(fc.integer({ min: 1, max: 2 ** 31 - 1 }), { nil: undefined }),
  data: fc.array(anyDatum, { maxLength: 4 }),
  lossFn: fc.string(),
  lossFnConfig: fc.option(
    fc.dictionary(anyKey, fc.oneof(fc.double(), fc.string()), { minKeys: 1, maxKeys: 4 }),
    { nil: undefined }
  ),
  forwardOnly: fc.boolean()
})

const anyOutput: fc.Arbitrary<ForwardBackward.Output> = fc.record({
  lossFnOutputType: fc.stringMatching(/^[A-Za-z]{1,12}$/),
  lossFnOutputs: fc.array(
    fc.dictionary(anyKey, fc.oneof(anyFloats, anyIntegers, anyMatrix.filter((one) => one.data.length > 0)), {
      maxKeys: 2
    }),
    { maxLength: 5 }
  ),
  metrics: fc.dictionary(anyKey, fc.double(), { maxKeys: 4 })
})

const anyTopk = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 })).map(([length, k]) => ({
  tokenIds: Int32Array.from({ length: length * k }, (_, i) => i - 1),
  logprobs: Float32Array.from({ length: length * k }, (_, i) => -i / 3),
  k,
  length
}))

const present = <A extends Record<string, unknown>>(fields: A) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

const anySequence = fc.record({
  stopReason: fc.constantFrom("stop", "length"),
  tokens: fc.int32Array({ maxLength: 9 }),
  logprobs: fc.option(fc.float32Array({ minLength: 1, maxLength: 9 }), { nil: undefined }),
  topkLogprobs: fc.option(anyTopk, { nil: undefined })
}).map(({ stopReason, tokens, ...rest }) => new Sample.SampledSequence({ stopReason, tokens, ...present(rest) }))

const anyResponse = fc.record({
  sequences: fc.array(anySequence, { maxLength: 3 }),
  promptCacheHitTokens: fc.nat(),
  promptLogprobs: fc.option(fc.float32Array({ minLength: 1, maxLength: 9 }), { nil: undefined }),
  topkPromptLogprobs: fc.option(anyTopk, { nil: undefined }),
  targetPromptLogprobs: fc.option(anyTensor, { nil: undefined }),
  promptAltTokens: fc.option(
    fc.record({ tokens: anyIntegers, logprobs: anyFloats }).map((both) => new Sample.PromptAltTokens(both)),
    { nil: undefined }
  )
}).map(({ promptCacheHitTokens, sequences, ...rest }) =>
  new Sample.SampleResponse({ sequences, promptCacheHitTokens, ...present(rest) })
)

// -----------------------------------------------------------------------------
// the library's opinion
// -----------------------------------------------------------------------------

const memory = (values: ArrayBufferView) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength)

const int64 = (values: ArrayLike<number | bigint>) =>
  memory(BigInt64Array.from(Array.from(values), (value) => BigInt(value)))

const sorted = <A>(map: Readonly<Record<string, A>>): Array<[string, A]> =>
  Object.keys(map).sort().flatMap((key) => {
    const value = map[key]
    return value === undefined ? [] : [[key, value] as [string, A]]
  })

const mapped = <A, B>(map: Readonly<Record<string, A>>, f: (value: A) => B): Record<string, B> =>
  Object.fromEntries(sorted(map).map(([key, value]) => [key, f(value)]))

const libraryTensor = (tensor: TensorData.TensorData): MessageInitShape<typeof proto.TensorSchema> => {
  const values = tensor.data instanceof Float32Array ? memory(tensor.data) : int64(tensor.data)
  return {
    encoding: tensor.crowIndices === undefined || tensor.colIndices === undefined
      ? { case: "dense", value: values }
      : {
        case: "sparseCsr",
        value: { values, crowIndices: int64(tensor.crowIndices), colIndices: int64(tensor.colIndices) }
      },
    dtype: tensor.dtype === "float32" ? proto.DType.DTYPE_FLOAT32 : proto.DType.DTYPE_INT64,
    shape: tensor.shape.map(BigInt)
  }
}

const libraryChunk = (chunk: ModelInput.Chunk): MessageInitShape<typeof proto.ChunkSchema> => {
  switch (chunk.type) {
    case "encoded_text":
      return { chunk: { case: "encodedText", value: { tokens: memory(Int32Array.from(chunk.tokens)) } } }
    case "image": {
      const { data, expectedTokens, format } = chunk
      return {
        chunk: { case: "image", value: { data, format, ...(expectedTokens === undefined ? {} : { expectedTokens }) } }
      }
    }
    case "dmel":
      return { chunk: { case: "dmel", value: { dmel: chunk.dmel } } }
    default:
      return {}
  }
}

const librarySpan = (span: Datum.ProvenanceSpan): MessageInitShape<typeof proto.ProvenanceSpanSchema> => ({
  span: {
    case: span.source === "prompt" ? "promptTokens" : "sampledTokens",
    value: { sequenceId: span.sequenceId, offset: BigInt(span.offset ?? 0), length: BigInt(span.length) }
  }
})

const libraryRequest = (request: ForwardBackward.Request): Uint8Array => {
  const config = request.lossFnConfig ?? {}
  const lossFnConfig: Record<string, number> = {}
  for (const [key, value] of sorted(config)) if (typeof value === "number") lossFnConfig[key] = value
  return toBinary(
    proto.ForwardBackwardRequestSchema,
    create(proto.ForwardBackwardRequestSchema, {
      modelId: request.modelId,
      seqId: request.seqId ?? 0,
      data: request.data.map((datum) => ({
        modelInput: datum.modelInput.chunks.map(libraryChunk),
        lossFnInputs: mapped(datum.lossFnInputs, libraryTensor),
        modelInputSpans: (datum.modelInputSpans ?? []).map(librarySpan),
        lossFnInputSpans: (datum.lossFnInputSpans ?? []).map(librarySpan)
      })),
      lossFn: request.lossFn,
      lossFnConfig,
      forwardOnly: request.forwardOnly ?? false,
      lossFnConfigV2: mapped(config, (value): MessageInitShape<typeof proto.LossConfigValueSchema> => ({
        value: typeof value === "number" ? { case: "number", value } : { case: "text", value }
      }))
    })
  )
}

const libraryTopk = (topk: Sample.SampledSequence["topkLogprobs"]) =>
  topk === undefined
    ? undefined
    : { tokenIds: memory(topk.tokenIds), logprobs: memory(topk.logprobs), k: topk.k, length: topk.length }

const libraryResponse = (response: Sample.SampleResponse): Uint8Array =>
  toBinary(
    proto.SampleResponseSchema,
    create(proto.SampleResponseSchema, {
      sequences: response.sequences.map((sequence) => ({
        stopReason: sequence.stopReason === "length" ? 1 : 0,
        tokens: memory(sequence.tokens),
        ...present({
          logprobs: sequence.logprobs && memory(sequence.logprobs),
          topkSampledLogprobs: libraryTopk(sequence.topkLogprobs)
        })
      })),
      promptCacheHitTokens: response.promptCacheHitTokens,
      ...present({
        promptLogprobs: response.promptLogprobs && memory(response.promptLogprobs),
        topkPromptLogprobs: libraryTopk(response.topkPromptLogprobs),
        targetPromptLogprobs: response.targetPromptLogprobs && libraryTensor(response.targetPromptLogprobs),
        promptAltTokens: response.promptAltTokens && {
          tokens: libraryTensor(response.promptAltTokens.tokens),
          logprobs: libraryTensor(response.promptAltTokens.logprobs)
        }
      })
    })
  )

// -----------------------------------------------------------------------------
// laws
// -----------------------------------------------------------------------------

/** A value in a form that `deepStrictEqual` compares by what it means. */
const plain = (value: unknown): unknown => {
  if (TensorData.isTensorData(value)) {
    const data = value.dtype === "int64" ? Array.from(value.data, BigInt) : Array.from(value.data, Number)
    return {
      dtype: value.dtype,
      shape: value.shape,
      data,
      crow: value.crowIndices && Array.from(value.crowIndices, Number),
      col: value.colIndices && Array.from(value.colIndices, Number)
    }
  }
  if (value instanceof Uint8Array || value instanceof Int32Array || value instanceof Float32Array) {
    return Array.from(value)
  }
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).filter(([, field]) => field !== undefined).sort(([a], [b]) => a < b ? -1 : 1)
        .map(([key, field]) => [key, plain(field)])
    )
  }
  return value
}

describe("protobuf", () => {
  describe("requests", () => {
    it("are the library's bytes", () => {
      fc.assert(
        fc.property(anyRequest, (request) => {
          assert.strictEqual(hexOf(get(ForwardBackward.encodeRequest(request))), hexOf(libraryRequest(request)))
        }),
        { numRuns: runs }
      )
    })

    it("come back as they were", () => {
      fc.assert(
        fc.property(anyRequest, (request) => {
          const back = get(ForwardBackward.decodeRequest(get(ForwardBackward.encodeRequest(request))))
          assert.deepStrictEqual(plain(back), plain(request))
        }),
        { numRuns: runs }
      )
    })

    it("are refused when protobuf has no place for them", () => {
      const request = (data: ForwardBackward.Request["data"], seqId = 1): ForwardBackward.Request => ({
        modelId: "m",
        seqId,
        data,
        lossFn: "ppo"
      })
      const datum = (...chunks: Array<ModelInput.Chunk>) =>
        new Datum.Datum({ modelInput: ModelInput.fromChunks(chunks), lossFnInputs: {} })
      for (
        const [refused, why] of [
          [request([datum(new ModelInput.ImageAssetPointer({ location: "a", format: "png" }))]), "by location"],
          [
            request([datum(new ModelInput.EncodedText({ tokens: [1] })), datum(...ModelInput.fromInts([0.5]).chunks)]),
            "token 0 (0.5)"
          ],
          [request([], 2 ** 31), "seqId"],
          [request([], -1), "seqId"],
          [
            request([datum(new ModelInput.Image({ data: new Uint8Array(1), format: "png", expectedTokens: 2 ** 33 }))]),
            "expectedTokens"
          ]
        ] as const
      ) {
        const result = ForwardBackward.encodeRequest(refused)
        assert.include(Either.isLeft(result) ? result.left.message : "accepted", why)
      }
    })

    it("prefer the newer settings, and read the older", () => {
      const older = create(proto.ForwardBackwardRequestSchema, { lossFnConfig: { beta: 0.05 } })
      const decode = (message: typeof older) =>
        get(ForwardBackward.decodeRequest(toBinary(proto.ForwardBackwardRequestSchema, message))).lossFnConfig
      assert.deepStrictEqual(decode(older), { beta: 0.05 })
      const newer = create(proto.ForwardBackwardRequestSchema, {
        lossFnConfig: { beta: 0.05 },
        lossFnConfigV2: { mode: { value: { case: "text", value: "a" } } }
      })
      assert.deepStrictEqual(decode(newer), { mode: "a" })
    })

    it("carry the size of an image in its older field as well", () => {
      const image = (fields: { readonly expectedTokens?: number; readonly tokens?: number }) =>
        get(ForwardBackward.encodeRequest({
          modelId: "m",
          data: [
            new Datum.Datum({
              modelInput: ModelInput.fromChunks([
                new ModelInput.Image({ data: new Uint8Array([1]), format: "png", ...fields })
              ]),
              lossFnInputs: {}
            })
          ],
          lossFn: "ppo"
        }))
      assert.deepStrictEqual(image({ tokens: 9 }), image({ expectedTokens: 9 }))
    })

    it("keep keys that JavaScript has a meaning for", () => {
      const request: ForwardBackward.Request = {
        modelId: "m",
        data: [],
        lossFn: "ppo",
        lossFnConfig: Object.fromEntries([["__proto__", 1], ["constructor", "x"]])
      }
      const back = get(ForwardBackward.decodeRequest(get(ForwardBackward.encodeRequest(request))))
      assert.deepStrictEqual(Object.entries(back.lossFnConfig ?? {}), [["__proto__", 1], ["constructor", "x"]])
      const tensor = get(TensorData.fromArray(new Float32Array([1])))
      const output = get(ForwardBackward.decodeOutput(get(ForwardBackward.encodeOutput({
        lossFnOutputType: "T",
        lossFnOutputs: [Object.fromEntries([["__proto__", tensor]])],
        metrics: Object.fromEntries([["__proto__", 2]])
      }))))
      assert.deepStrictEqual(Object.keys(output.lossFnOutputs[0] ?? {}), ["__proto__"])
      assert.deepStrictEqual(Object.entries(output.metrics), [["__proto__", 2]])
    })
  })

  describe("results of passes", () => {
    it("come back as they were, tensors of no dimension apart", () => {
      fc.assert(
        fc.property(anyOutput, (output) => {
          const back = get(ForwardBackward.decodeOutput(get(ForwardBackward.encodeOutput(output))))
          assert.deepStrictEqual(plain(back), plain(output))
        }),
        { numRuns: runs }
      )
    })

    it("are well-formed to the library", () => {
      fc.assert(
        fc.property(anyOutput, (output) => {
          // the library drops the one key that assignment swallows
          fc.pre(!Object.hasOwn(output.metrics, "__proto__"))
          const message = fromBinary(proto.ForwardBackwardOutputSchema, get(ForwardBackward.encodeOutput(output)))
          const count = message.lossFnOutputs.reduce((sum, record) => sum + Number(record.numDatums), 0)
          assert.strictEqual(count, output.lossFnOutputs.length)
          assert.strictEqual(message.lossFnOutputType, output.lossFnOutputType)
          assert.deepStrictEqual({ ...message.metrics }, { ...output.metrics })
          assert.strictEqual(message.$unknown, undefined)
        }),
        { numRuns: runs }
      )
    })

    const outputOf = (init: MessageInitShape<typeof proto.ForwardBackwardOutputSchema>) =>
      ForwardBackward.decodeOutput(
        toBinary(proto.ForwardBackwardOutputSchema, create(proto.ForwardBackwardOutputSchema, init))
      )

    it("widen bfloat16 and int32", () => {
      const { lossFnOutputs } = get(outputOf({
        lossFnOutputType: "module:Type",
        lossFnOutputs: [{
          numDatums: 2n,
          fields: {
            half: {
              data: memory(new Uint16Array([0x3f80, 0xc000, 0x7fc0])),
              offsets: int64([0, 4, 6]),
              dtype: proto.DType.DTYPE_BFLOAT16
            },
            short: {
              data: memory(new Int32Array([-5, 6, 7, 8])),
              offsets: int64([0, 8, 16]),
              dtype: proto.DType.DTYPE_INT32,
              trailingShape: [2n]
            }
          }
        }]
      }))
      assert.deepStrictEqual(
        plain(lossFnOutputs),
        plain([
          {
            half: get(TensorData.fromArray(new Float32Array([1, -2]))),
            short: get(TensorData.fromArray(new Int32Array([-5, 6]), { shape: [1, 2] }))
          },
          {
            half: get(TensorData.fromArray(new Float32Array([NaN]))),
            short: get(TensorData.fromArray(new Int32Array([7, 8]), { shape: [1, 2] }))
          }
        ])
      )
    })

    it("take the count of examples from the records, or from the slices where none is given", () => {
      const field = { data: new Uint8Array(8), offsets: int64([0, 4, 8]), dtype: proto.DType.DTYPE_FLOAT32 }
      const count = (records: MessageInitShape<typeof proto.ForwardBackwardOutputSchema>["lossFnOutputs"]) =>
        Either.match(outputOf({ lossFnOutputs: records ?? [] }), {
          onLeft: (error) => error.message,
          onRight: (output) => output.lossFnOutputs.length
        })
      assert.strictEqual(count([{ numDatums: 3n }]), 3)
      assert.strictEqual(count([{ fields: { a: field } }]), 2)
      assert.strictEqual(count([{ numDatums: 2n, fields: { a: field } }, { numDatums: 1n }]), 3)
      assert.include(String(count([{ numDatums: 3n, fields: { a: field } }])), "a: 2 tensors for 3 examples")
      assert.include(String(count([{ numDatums: 2n ** 40n }])), "without a field")
    })

    it("name their type as servers mean it", () => {
      const type = (init: MessageInitShape<typeof proto.ForwardBackwardOutputSchema>) =>
        get(outputOf(init)).lossFnOutputType
      assert.strictEqual(type({ lossFnOutputType: "a:b:C", lossFnOutputs: [{ numDatums: 1n }] }), "C")
      assert.strictEqual(type({ lossFnOutputType: "a:C" }), "a:C")
      assert.strictEqual(type({}), "ArrayRecord")
    })

    it("fail on offsets, dtypes and sizes that contradict each other", () => {
      const wrong = (field: MessageInitShape<typeof proto.BatchedTensorSchema>) =>
        Either.match(outputOf({ lossFnOutputs: [{ fields: { a: field } }] }), {
          onLeft: (error) => error.message,
          onRight: () => "accepted"
        })
      const data = new Uint8Array(8)
      const dtype = proto.DType.DTYPE_FLOAT32
      assert.strictEqual(wrong({ data, offsets: int64([0, 8]), dtype }), "accepted")
      assert.include(wrong({ data, offsets: int64([0, 8]) }), "unknown dtype 0")
      assert.include(wrong({ data, offsets: int64([0, 12]), dtype }), "is at 0 … 12 of 8 bytes")
      assert.include(wrong({ data, offsets: int64([4, 0]), dtype }), "is at 4 … 0")
      assert.include(wrong({ data, offsets: int64([0, 6]), dtype }), "is at 0 … 6")
      assert.include(wrong({ data, offsets: int64([-4, 4]), dtype }), "is at -4")
      assert.include(wrong({ data, offsets: new Uint8Array(9), dtype }), "not a multiple of 8")
      assert.include(wrong({ data: new Uint8Array(6), offsets: int64([0, 4]), dtype }), "not a multiple of 4")
      assert.include(wrong({ data, offsets: int64([0, 8]), dtype, trailingShape: [3n] }), "rows of 3")
    })
  })

  describe("results of sampling", () => {
    it("are the library's bytes", () => {
      fc.assert(
        fc.property(anyResponse, (response) => {
          assert.strictEqual(hexOf(get(Sample.encodeResponse(response))), hexOf(libraryResponse(response)))
        }),
        { numRuns: runs }
      )
    })

    it("come back as they were", () => {
      fc.assert(
        fc.property(anyResponse, (response) => {
          const back = get(Sample.decodeResponse(get(Sample.encodeResponse(response))))
          assert.instanceOf(back, Sample.SampleResponse)
          assert.deepStrictEqual(plain(back), plain(response))
        }),
        { numRuns: runs }
      )
    })

    it("read an unknown stop reason without losing the sequence", () => {
      const [sequence] = get(Sample.decodeResponse(bytesOf("0a08" + "0802" + "120405000000"))).sequences
      assert.strictEqual(sequence?.stopReason, "unknown_2")
      assert.deepStrictEqual(Array.from(sequence?.tokens ?? []), [5])
    })

    it("read empty log probabilities as none", () => {
      const response = get(Sample.decodeResponse(bytesOf("0a021a00" + "1200" + "1a021802")))
      assert.isUndefined(response.promptLogprobs)
      assert.isUndefined(response.topkPromptLogprobs)
      assert.isUndefined(response.sequences[0]?.logprobs)
    })
  })

  describe("known bytes", () => {
    it("of a request", () => {
      const request: ForwardBackward.Request = {
        modelId: "m",
        seqId: 1,
        data: [get(Datum.make({ modelInput: [1, 2], lossFnInputs: { target_tokens: [2, 3] } }))],
        lossFn: "cross_entropy",
        forwardOnly: true
      }
      assert.strictEqual(
        hexOf(get(ForwardBackward.encodeRequest(request))),
        "0a016d10011a380a0c0a0a0a08010000000200000012280a0d7461726765745f746f6b656e7312170a10020000000000000003000000" +
          "000000001802220102220d63726f73735f656e74726f70793001"
      )
    })

    it("of a result of sampling", () => {
      const response = get(Sample.decodeResponse(bytesOf(
        "0a160801120805000000060000001a08000000bf000080bf12080000c07f000000c01a280a100000000000000000070000000800000" +
          "01210804fc3c7804fc3c7000080be0000c0bf180220022003"
      )))
      const [sequence] = response.sequences
      assert.strictEqual(sequence?.stopReason, "length")
      assert.deepStrictEqual(Array.from(sequence?.tokens ?? []), [5, 6])
      assert.deepStrictEqual(Array.from(sequence?.logprobs ?? []), [-0.5, -1])
      assert.deepStrictEqual(Array.from(response.promptLogprobs ?? []), [NaN, -2])
      assert.deepStrictEqual(Array.from(response.topkPromptLogprobs?.logprobs ?? []), [-99999, -99999, -0.25, -1.5])
      assert.strictEqual(response.promptCacheHitTokens, 3)
    })

    it("of a result of a pass", () => {
      const output = get(ForwardBackward.decodeOutput(bytesOf(
        "0a136d6f643a546f7263684c6f737352657475726e124b0a0f546f7263684c6f737352657475726e12360a086c6f6770726f6273122a" +
          "0a0c000080bf000000c0000040c01218000000000000000008000000000000000c00000000000000180118021a130a086c6f73733a73" +
          "756d11000000000000f83f"
      )))
      assert.strictEqual(output.lossFnOutputType, "TorchLossReturn")
      assert.deepStrictEqual(
        output.lossFnOutputs.map((one) => one["logprobs"] && TensorData.toArray(one["logprobs"])),
        [
          [-1, -2],
          [-3]
        ]
      )
      assert.deepStrictEqual(output.metrics, { "loss:sum": 1.5 })
    })
  })

  describe("bytes of any origin", () => {
    it("unknown fields of every type are passed over, groups included", () => {
      const known = "2003"
      for (
        const unknown of ["7805", "790000000000000000", "7a03010203", "7d00000000", "7b0805" + "7b7c" + "7c", "fa0100"]
      ) {
        assert.strictEqual(get(Sample.decodeResponse(bytesOf(unknown + known + unknown))).promptCacheHitTokens, 3)
      }
      // a known field of another type than it should have
      assert.strictEqual(get(Sample.decodeResponse(bytesOf("0805" + "10ff01" + known))).sequences.length, 0)
    })

    it("every truncation is a typed failure or a shorter message", () => {
      fc.assert(
        fc.property(anyRequest, anyOutput, anyResponse, (request, output, response) => {
          const cuts: Array<[Uint8Array, (bytes: Uint8Array) => Either.Either<unknown, unknown>]> = [
            [get(ForwardBackward.encodeRequest(request)), ForwardBackward.decodeRequest],
            [get(ForwardBackward.encodeOutput(output)), ForwardBackward.decodeOutput],
            [get(Sample.encodeResponse(response)), Sample.decodeResponse]
          ]
          for (const [bytes, decode] of cuts) {
            for (let end = 0; end < bytes.length; end++) decode(bytes.subarray(0, end))
          }
        }),
        { numRuns: 40 }
      )
    })

    it("100 000 random and mutilated messages fail as typed errors or decode, and never throw", () => {
      // xorshift: the property is the loop, a generator per byte would be all of the time
      let state = 0x9e3779b9
      const random = (below: number) => {
        state ^= state << 13
        state ^= state >>> 17
        state ^= state << 5
        return (state >>> 0) % below
      }
      const samples = [
        anyRequest.map((request) => get(ForwardBackward.encodeRequest(request))),
        anyOutput.map((output) => get(ForwardBackward.encodeOutput(output))),
        anyResponse.map((response) => get(Sample.encodeResponse(response)))
      ]
        .flatMap((arbitrary) => fc.sample(arbitrary, { numRuns: 100, seed: 1 })).filter((bytes) => bytes.length > 0)
      const tags = new Set<string>()
      let failed = 0
      let decoded = 0
      const count = (result: Either.Either<unknown, { readonly _tag: string }>) => {
        if (Either.isRight(result)) decoded++
        else {
          tags.add(result.left._tag)
          failed++
        }
      }
      for (let i = 0; i < 100_000; i++) {
        const bytes = i % 2 === 0 ? new Uint8Array(random(24)) : new Uint8Array(samples[random(samples.length)] ?? [])
        if (i % 2 === 0) { for (let n = 0; n < bytes.length; n++) bytes[n] = random(256) }
        else for (let n = random(3); n >= 0; n--) bytes[random(bytes.length)] = random(256)
        if (i % 3 === 0) count(ForwardBackward.decodeRequest(bytes))
        else if (i % 3 === 1) count(ForwardBackward.decodeOutput(bytes))
        else count(Sample.decodeResponse(bytes))
      }
      assert.deepStrictEqual(Array.from(tags).sort(), ["InvalidInput", "MalformedResponse"])
      assert.strictEqual(failed + decoded, 100_000)
      assert.isAbove(failed, 10_000)
      assert.isAbove(decoded, 1_000)
    })

    it("views do not depend on where the bytes lie", () => {
      const output: ForwardBackward.Output = {
        lossFnOutputType: "T",
        lossFnOutputs: [{
          a: get(TensorData.fromArray([2n ** 60n, 1n], { dtype: "int64" })),
          b: get(TensorData.fromArray(new Float32Array([0.5, 2])))
        }],
        metrics: {}
      }
      const bytes = get(ForwardBackward.encodeOutput(output))
      for (let shift = 0; shift < 8; shift++) {
        const moved = Buffer.alloc(bytes.length + 8)
        moved.set(bytes, shift)
        const back = get(ForwardBackward.decodeOutput(moved.subarray(shift, shift + bytes.length)))
        const [expected, actual] = [output.lossFnOutputs[0], back.lossFnOutputs[0]]
        assert.isTrue(Equal.equals(actual?.["a"], expected?.["a"]) && Equal.equals(actual?.["b"], expected?.["b"]))
      }
    })
  })
})
