/**
 * A training batch to the wire and its result back.
 */
import type { MessageInitShape } from "@bufbuild/protobuf"
import { create, fromBinary, toBinary } from "@bufbuild/protobuf"
import { FileSystem, Path } from "@effect/platform"
import { Effect, Either, Schema } from "effect"
import type { ModelInput } from "effect-tinker"
import { Datum, TensorData } from "effect-tinker"
import { ForwardBackward } from "effect-tinker/wire"
import { createHash } from "node:crypto"
import * as v8 from "node:v8"
import * as proto from "../../tinker/test/gen/tinker_pb.js"
import type { Bench, Result, Variant } from "./Bench.js"
import { BenchFailed, interleaved, isSmoke, round, sized, sync } from "./Bench.js"
import * as Python from "./Python.js"
import * as floor from "./wireFloor.js"

const COUNT = sized(1024, 8)
const LENGTH = 1001

const get = Either.getOrThrow

/** The same pseudo-random batch in every run. */
const batch = () => {
  let state = 1
  const next = () => state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  const tokens = Int32Array.from({ length: COUNT * LENGTH }, () => next() % 150_000)
  const weights = Float32Array.from({ length: COUNT * LENGTH }, () => (next() % 1000) / 1000)
  return { tokens, weights }
}

const memory = (values: ArrayBufferView) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength)

/** The same bytes where their floats can be looked at in place, or where they cannot, as three of four bodies arrive. */
const placed = (bytes: Uint8Array, inPlace: boolean): Uint8Array => {
  for (let at = 0; at < 4; at++) {
    const moved = new Uint8Array(bytes.length + 4).subarray(at, at + bytes.length)
    moved.set(bytes)
    const [first] = get(ForwardBackward.decodeOutput(moved)).lossFnOutputs
    if ((first?.["logprobs"]?.data.buffer === moved.buffer) === inPlace) return moved
  }
  return bytes
}

/** int64 of int32, two halves each. */
const widened = (values: Int32Array): Uint8Array => {
  const words = new Int32Array(values.length * 2)
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? 0
    words[2 * i] = value
    words[2 * i + 1] = value >> 31
  }
  return memory(words)
}

const libraryDatum = (one: floor.Example): MessageInitShape<typeof proto.DatumSchema> => ({
  modelInput: [{ chunk: { case: "encodedText", value: { tokens: memory(one.tokens) } } }],
  lossFnInputs: {
    target_tokens: {
      encoding: { case: "dense", value: widened(one.targets) },
      dtype: proto.DType.DTYPE_INT64,
      shape: [BigInt(one.targets.length)]
    },
    weights: {
      encoding: { case: "dense", value: memory(one.weights) },
      dtype: proto.DType.DTYPE_FLOAT32,
      shape: [BigInt(one.weights.length)]
    }
  }
})

/** A request read by the library and brought into typed arrays. */
const libraryDecoded = (bytes: Uint8Array) =>
  fromBinary(proto.ForwardBackwardRequestSchema, bytes).data.map((datum) => ({
    tokens: datum.modelInput.map(({ chunk }) =>
      chunk.case === "encodedText" ? new Int32Array(new Uint8Array(chunk.value.tokens).buffer) : undefined
    ),
    tensors: Object.values(datum.lossFnInputs).map((tensor) => {
      const { buffer } = new Uint8Array(tensor.encoding.case === "dense" ? tensor.encoding.value : [])
      return tensor.dtype === proto.DType.DTYPE_FLOAT32 ? new Float32Array(buffer) : new BigInt64Array(buffer)
    })
  }))

const decodeJson = Schema.decodeUnknownSync(ForwardBackward.OutputFromJson)

const rows = Array.from({ length: COUNT }, (_, i) => i)

const run = Effect.gen(function*() {
  // V8 would take the floor's results for long-lived and allocate them as such, four times slower: no floor
  v8.setFlagsFromString("--no-allocation-site-pretenuring")
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const { tokens, weights } = batch()
  const examples = rows.map((i) => ({
    tokens: tokens.subarray(i * LENGTH, (i + 1) * LENGTH - 1),
    targets: tokens.subarray(i * LENGTH + 1, (i + 1) * LENGTH),
    weights: weights.subarray(i * LENGTH + 1, (i + 1) * LENGTH)
  }))
  const lists = examples.map((one) => ({
    tokens: Array.from(one.tokens),
    targets: Array.from(one.targets),
    weights: Array.from(one.weights)
  }))
  const requestOf = (data: ReadonlyArray<Datum.Datum>): ForwardBackward.Request => ({
    modelId: "model",
    seqId: 1,
    data,
    lossFn: "cross_entropy"
  })
  const datumOf = (one: {
    readonly tokens: ModelInput.Tokens
    readonly targets: Datum.LossFnInput
    readonly weights: Datum.LossFnInput
  }) => get(Datum.make({ modelInput: one.tokens, lossFnInputs: { target_tokens: one.targets, weights: one.weights } }))
  const request = requestOf(examples.map(datumOf))
  const encoded = get(ForwardBackward.encodeRequest(request))

  const jsonOf = (one: (typeof lists)[number]) => ({
    model_input: { chunks: [{ type: "encoded_text", tokens: one.tokens }] },
    loss_fn_inputs: {
      target_tokens: { data: one.targets, dtype: "int64", shape: [one.targets.length] },
      weights: { data: one.weights, dtype: "float32", shape: [one.weights.length] }
    }
  })
  const libraryRequest = () =>
    toBinary(
      proto.ForwardBackwardRequestSchema,
      create(proto.ForwardBackwardRequestSchema, {
        modelId: "model",
        seqId: 1,
        lossFn: "cross_entropy",
        data: examples.map(libraryDatum)
      })
    )
  const floorRequest = () => floor.encode(examples)

  const output: ForwardBackward.Output = {
    lossFnOutputType: "ArrayRecord",
    lossFnOutputs: examples.map((one) => ({ logprobs: get(TensorData.fromArray(one.weights)) })),
    metrics: { "loss:sum": 1.5 }
  }
  const encodedOutput = get(ForwardBackward.encodeOutput(output))
  const answer = placed(encodedOutput, false)
  const lucky = placed(encodedOutput, true)
  const answerText = JSON.stringify({
    loss_fn_output_type: "ArrayRecord",
    loss_fn_outputs: lists.map((one) => ({
      logprobs: { data: one.weights, dtype: "float32", shape: [one.weights.length] }
    })),
    metrics: output.metrics
  })
  const jsonAnswer = () => {
    const parsed: { readonly loss_fn_outputs: ReadonlyArray<{ readonly logprobs: { readonly data: Array<number> } }> } =
      JSON.parse(answerText)
    return parsed.loss_fn_outputs.map((one) => Float32Array.from(one.logprobs.data))
  }
  const libraryAnswer = () => {
    const message = fromBinary(proto.ForwardBackwardOutputSchema, answer)
    return message.lossFnOutputs.map((record) =>
      Object.values(record.fields).map((field) => {
        const data = new Float32Array(new Uint8Array(field.data).buffer)
        const offsets = new BigInt64Array(new Uint8Array(field.offsets).buffer)
        return Array.from(offsets.subarray(1), (end, i) => data.subarray(Number(offsets[i]) / 4, Number(end) / 4))
      })
    )
  }

  // what is compared must be the same
  for (const [name, bytes] of [["library", libraryRequest()], ["floor", floorRequest()]] as const) {
    if (Buffer.compare(bytes, encoded) !== 0) {
      return yield* new BenchFailed({ reason: `the ${name} writes other bytes` })
    }
  }
  const decoded = floor.decode(answer)
  const ours = get(ForwardBackward.decodeOutput(answer)).lossFnOutputs
  if (
    decoded.some(({ logprobs }, i) =>
      Buffer.compare(memory(logprobs), memory(ours[i]?.["logprobs"]?.data ?? logprobs)) !== 0
    )
  ) {
    return yield* new BenchFailed({ reason: "the floor reads other values" })
  }

  // the Python SDK on the same data, when there is one
  const folder = yield* fs.makeTempDirectoryScoped()
  const [tokensFile, weightsFile, answerFile] = ["tokens", "weights", "answer"].map((name) => path.join(folder, name))
  const files: Array<[string, Uint8Array]> = [
    [tokensFile ?? "", memory(tokens)],
    [weightsFile ?? "", memory(weights)],
    [answerFile ?? "", answer]
  ]
  for (const [file, bytes] of files) yield* fs.writeFile(file, bytes)
  const notes: Array<string> = []
  const python = isSmoke ?
    undefined :
    yield* Python.start("wire.py", ...files.map(([file]) => file), String(COUNT)).pipe(
      Effect.tap((program) =>
        Effect.gen(function*() {
          notes.push(`Python SDK: tinker ${yield* program.ask("version")}, same bytes and values as ours.`)
          if ((yield* program.ask("digest")) !== createHash("sha256").update(encoded).digest("hex")) {
            return yield* new BenchFailed({ reason: "the Python SDK writes other bytes" })
          }
          const sum = weights.reduce((total, weight, i) => i % LENGTH === 0 ? total : total + weight, 0)
          if (Math.abs(Number(yield* program.ask("sum")) - sum) > 1) {
            return yield* new BenchFailed({ reason: "the Python SDK reads other values" })
          }
        })
      ),
      Effect.catchTag("BenchFailed", (error) => {
        notes.push(`Without the Python SDK: ${error.message}`)
        return Effect.succeed(undefined)
      })
    )
  const pythonVariant = (command: string): ReadonlyArray<Variant<BenchFailed>> =>
    python === undefined ? [] : [{ name: "python sdk", once: Effect.map(python.ask(command), Number) }]

  const limits = { rounds: 11, warmup: 3 }
  const decodeInPlace = yield* interleaved([
    sync("ours", () => get(ForwardBackward.decodeOutput(lucky)), 100),
    sync("floor", () => floor.decode(lucky), 100)
  ], { rounds: 31, warmup: 5 })
  const encode = yield* interleaved<BenchFailed>([
    sync("ours", () => get(ForwardBackward.encodeRequest(request))),
    sync("floor", floorRequest),
    sync("ours, datums made too", () => get(ForwardBackward.encodeRequest(requestOf(examples.map(datumOf))))),
    sync("ours, from plain lists", () => get(ForwardBackward.encodeRequest(requestOf(lists.map(datumOf))))),
    sync("protobuf library", libraryRequest),
    sync(
      "json",
      () => JSON.stringify({ forward_backward_input: { data: lists.map(jsonOf), loss_fn: "cross_entropy" } })
    ),
    ...pythonVariant("encode")
  ], limits)
  const decodeOwn = sync("ours", () => get(ForwardBackward.decodeOutput(answer)), 20)
  // apart from those that leave a hundred times as much garbage for others to pay for
  const decodeBytes = yield* interleaved<BenchFailed>([
    decodeOwn,
    sync("floor", () => floor.decode(answer), 20),
    sync("protobuf library", libraryAnswer, 20)
  ], { rounds: 31, warmup: 5 })
  const decodeOthers = yield* interleaved<BenchFailed>([
    decodeOwn,
    sync("json", jsonAnswer),
    sync("ours, from json", () => decodeJson(JSON.parse(answerText))),
    ...pythonVariant("decode")
  ], limits)
  const decodeRequest = yield* interleaved([
    sync("ours", () => get(ForwardBackward.decodeRequest(encoded)), 2),
    sync("protobuf library", () => libraryDecoded(encoded), 2)
  ], limits)

  const ratios: Record<string, number> = {}
  const table: Array<ReadonlyArray<string>> = [["", "CPU ms", "× ours"]]
  const add = (title: string, prefix: string, results: ReadonlyMap<string, Result>) => {
    table.push([title])
    for (const [name, { ms, relative }] of results) {
      table.push([`  ${name}`, ms.toFixed(2), relative.toFixed(2)])
      const key = keys.get(name)
      if (key !== undefined) ratios[`${prefix}${key}`] = round(relative)
    }
  }
  add(`encode a request, ${COUNT} × ${LENGTH - 1} tokens, ${(encoded.length / 1e6).toFixed(1)} MB`, "", encode)
  add(
    `decode its result, ${(answer.length / 1e6).toFixed(1)} MB`,
    "decode_",
    new Map([...decodeBytes, ...decodeOthers])
  )
  add("decode it where its floats are aligned, so that nothing is copied", "decode_in_place_", decodeInPlace)
  add("decode the request, as a server does", "decode_request_", decodeRequest)
  return { table, ratios, notes }
}).pipe(
  Effect.catchTags({
    BadArgument: (error) => new BenchFailed({ reason: error.message }),
    SystemError: (error) => new BenchFailed({ reason: error.message })
  })
)

const keys: ReadonlyMap<string, string> = new Map([
  ["json", "to_json"],
  ["protobuf library", "to_library"],
  ["floor", "to_floor"],
  ["python sdk", "to_python"]
])

export const bench: Bench = {
  summary: "a training batch to protobuf and its result back, beside JSON, the library, a bare writer and Python",
  run
}
