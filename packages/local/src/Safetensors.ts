/**
 * The safetensors file format: named tensors behind a JSON header, readable by the tools of other languages.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"

/**
 * A float32 tensor, stored by rows.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tensor {
  readonly name: string
  readonly shape: ReadonlyArray<number>
  readonly data: Float32Array
}

/**
 * The content of a file.
 *
 * @since 0.1.0
 * @category models
 */
export interface File {
  readonly tensors: ReadonlyArray<Tensor>
  /** Texts of the writer's own. Defaults to none. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
  /** How values are stored. Defaults to `F32`; `BF16` halves the size and keeps three digits. */
  readonly dtype?: "F32" | "BF16" | undefined
}

/**
 * Where a tensor lies in a file.
 *
 * @since 0.1.0
 * @category models
 */
export interface Entry {
  readonly name: string
  /** The type of its values, as the format names it: `F32`, `BF16`, … */
  readonly dtype: string
  readonly shape: ReadonlyArray<number>
  /** The first byte, counted from the beginning of the file. */
  readonly start: number
  /** The byte after the last. */
  readonly end: number
}

/**
 * The header of a file.
 *
 * @since 0.1.0
 * @category models
 */
export interface Header {
  readonly tensors: ReadonlyArray<Entry>
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

const HeaderJson = Schema.parseJson(Schema.Record({
  key: Schema.String,
  value: Schema.Union(
    Schema.Struct({
      dtype: Schema.String,
      shape: Schema.Array(Schema.NonNegativeInt),
      data_offsets: Schema.Tuple(Schema.NonNegativeInt, Schema.NonNegativeInt)
    }),
    Schema.Record({ key: Schema.String, value: Schema.String })
  )
}))

const decodeHeaderJson = ParseResult.decodeUnknownEither(HeaderJson)
const metadataKey = "__metadata__"

/**
 * How many bytes stand before the header: its length.
 *
 * @since 0.1.0
 * @category constants
 */
export const prefixBytes = 8

// What the reference implementation allows.
const maxHeaderBytes = 100_000_000

// The format is little-endian, as are nearly all machines: there numbers are copied as they lie.
const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1

const toLittleEndian = (numbers: Float32Array): Uint8Array => {
  if (littleEndian) return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength)
  const view = new DataView(new ArrayBuffer(numbers.byteLength))
  numbers.forEach((value, i) => view.setFloat32(i * 4, value, true))
  return new Uint8Array(view.buffer)
}

/** The upper halves of floats, rounded to the nearest, ties to even. */
const toBfloat16 = (numbers: Float32Array): Uint8Array => {
  const bits = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length)
  const view = new DataView(new ArrayBuffer(numbers.length * 2))
  for (let i = 0; i < bits.length; i++) {
    const value = bits[i] ?? 0
    view.setUint16(2 * i, Number.isNaN(numbers[i]) ? 0x7fc0 : (value + 0x7fff + ((value >>> 16) & 1)) >>> 16, true)
  }
  return new Uint8Array(view.buffer)
}

const fromLittleEndian = (bytes: Uint8Array): Float32Array => {
  // not `slice`, which does not copy where the bytes are a Node buffer
  const copy = new Uint8Array(bytes)
  if (littleEndian) return new Float32Array(copy.buffer)
  const view = new DataView(copy.buffer)
  return Float32Array.from({ length: copy.length / 4 }, (_, i) => view.getFloat32(i * 4, true))
}

/** The bytes of a file with its header, and where the values of each tensor go. */
const begin = (file: File) => {
  const header: Record<string, unknown> = file.metadata === undefined ? {} : { [metadataKey]: file.metadata }
  const { dtype = "F32" } = file
  const width = dtype === "F32" ? 4 : 2
  let offset = 0
  for (const { data, name, shape } of file.tensors) {
    const end = offset + data.length * width
    header[name] = { dtype, shape, data_offsets: [offset, end] }
    offset = end
  }
  const json = new TextEncoder().encode(JSON.stringify(header))
  // spaces after the header align the numbers, so that readers can map the file instead of copying it
  const headerBytes = Math.ceil(json.length / 8) * 8
  const bytes = new Uint8Array(prefixBytes + headerBytes + offset).fill(0x20, prefixBytes, prefixBytes + headerBytes)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(0, BigInt(headerBytes), true)
  bytes.set(json, prefixBytes)
  let at = prefixBytes + headerBytes
  const put = ({ data }: Tensor): void => {
    bytes.set(dtype === "F32" ? toLittleEndian(data) : toBfloat16(data), at)
    at += data.length * width
  }
  return { bytes, put }
}

/**
 * Tensors as the bytes of a file.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encode = (file: File): Uint8Array => {
  const { bytes, put } = begin(file)
  for (const tensor of file.tensors) put(tensor)
  return bytes
}

/** The same with an effect for each tensor, between which fibers can yield. @internal */
export const encodeByTensor = (file: File): Effect.Effect<Uint8Array> =>
  Effect.suspend(() => {
    const { bytes, put } = begin(file)
    return Effect.as(
      Effect.forEach(file.tensors, (tensor) => Effect.sync(() => put(tensor)), { discard: true }),
      bytes
    )
  })

const product = (shape: ReadonlyArray<number>): number => shape.reduce((size, n) => size * n, 1)

/**
 * How many bytes a value takes, for the types that can be read: `F32`, `F16` and `BF16`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const bytesPerValue = (dtype: string): number | undefined =>
  dtype === "F32" ? 4 : dtype === "F16" || dtype === "BF16" ? 2 : undefined

/** Half precision: a sign, five bits of exponent, ten of mantissa. */
const fromHalf = (bits: number): number => {
  const exponent = (bits >> 10) & 31
  const mantissa = bits & 1023
  const size = exponent === 0
    ? mantissa * 2 ** -24
    : exponent === 31
    ? mantissa === 0 ? Infinity : NaN
    : (1 + mantissa / 1024) * 2 ** (exponent - 15)
  return bits & 0x8000 ? -size : size
}

let halves: Float32Array | undefined

/**
 * Bytes of a tensor as floats.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toFloats = (dtype: string, bytes: Uint8Array): Float32Array => {
  if (dtype === "F32") return fromLittleEndian(bytes)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const count = bytes.byteLength >> 1
  const floats = new Float32Array(count)
  if (dtype === "BF16") {
    // the upper half of a float
    const raw = new Uint32Array(floats.buffer)
    for (let i = 0; i < count; i++) raw[i] = view.getUint16(2 * i, true) << 16
    return floats
  }
  const table = halves ??= Float32Array.from({ length: 65536 }, (_, bits) => fromHalf(bits))
  for (let i = 0; i < count; i++) floats[i] = table[view.getUint16(2 * i, true)] ?? 0
  return floats
}

/**
 * How long the header of a file is, from the bytes before it.
 *
 * @since 0.1.0
 * @category combinators
 */
export const headerBytes = (prefix: Uint8Array): Either.Either<number, string> => {
  if (prefix.length < prefixBytes) return Either.left("the file is shorter than its prefix")
  const size = new DataView(prefix.buffer, prefix.byteOffset, prefix.byteLength).getBigUint64(0, true)
  return size > BigInt(maxHeaderBytes)
    ? Either.left(`the header would have ${size} bytes, expected at most ${maxHeaderBytes}`)
    : Either.right(Number(size))
}

/**
 * The header of a file, or a sentence about what is wrong with it.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decodeHeader = (bytes: Uint8Array): Either.Either<Header, string> => {
  const header = decodeHeaderJson(new TextDecoder().decode(bytes))
  if (Either.isLeft(header)) return Either.left("the header is not one of a safetensors file")
  const start = prefixBytes + bytes.length
  const tensors: Array<Entry> = []
  let metadata: Readonly<Record<string, string>> | undefined
  for (const [name, entry] of Object.entries(header.right)) {
    if (name === metadataKey) {
      metadata = Object.fromEntries(Object.entries(entry).map(([key, value]) => [key, String(value)]))
      continue
    }
    const { data_offsets: offsets, dtype, shape } = entry
    if (!Array.isArray(offsets) || !Array.isArray(shape) || typeof dtype !== "string") {
      return Either.left(`${name} has no shape or place`)
    }
    const [from = 0, to = 0] = offsets
    const width = bytesPerValue(dtype)
    if (to < from) return Either.left(`${name} lies outside the file`)
    if (width !== undefined && to - from !== product(shape) * width) {
      return Either.left(`${name} has ${to - from} bytes, not those of its shape`)
    }
    tensors.push({ name, dtype, shape, start: start + from, end: start + to })
  }
  const shared = overlapping(tensors)
  if (shared !== undefined) return Either.left(`${shared} overlaps another tensor`)
  return Either.right(metadata === undefined ? { tensors } : { tensors, metadata })
}

/** The name of a tensor with bytes of another one: a header could otherwise make gigabytes of a small file. */
const overlapping = (tensors: ReadonlyArray<Entry>): string | undefined => {
  let last = 0
  for (const { end, name, start } of Array.from(tensors).sort((a, b) => a.start - b.start)) {
    if (end > start && start < last) return name
    last = Math.max(last, end)
  }
  return undefined
}

/**
 * The tensors of a file, or a sentence about what is wrong with it. Values of 16 bits become floats.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decode = (bytes: Uint8Array): Either.Either<File, string> =>
  Either.gen(function*() {
    const size = yield* headerBytes(bytes)
    if (size > bytes.length - prefixBytes) return yield* Either.left("the file is shorter than its header")
    const { metadata, tensors } = yield* decodeHeader(bytes.subarray(prefixBytes, prefixBytes + size))
    const decoded: Array<Tensor> = []
    for (const { dtype, end, name, shape, start } of tensors) {
      if (bytesPerValue(dtype) === undefined) {
        return yield* Either.left(`${name} has dtype ${dtype}, expected F32, F16 or BF16`)
      }
      if (end > bytes.length) return yield* Either.left(`${name} lies outside the file`)
      decoded.push({ name, shape, data: toFloats(dtype, bytes.subarray(start, end)) })
    }
    return metadata === undefined ? { tensors: decoded } : { tensors: decoded, metadata }
  })
