/**
 * The safetensors file format: named tensors behind a JSON header, readable by the tools of other languages.
 *
 * @since 0.1.0
 */
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
}

const Header = Schema.parseJson(Schema.Record({
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

const decodeHeader = ParseResult.decodeUnknownEither(Header)
const metadataKey = "__metadata__"
const prefixBytes = 8

// The format is little-endian, as are nearly all machines: there numbers are copied as they lie.
const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1

const toLittleEndian = (numbers: Float32Array): Uint8Array => {
  if (littleEndian) return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength)
  const view = new DataView(new ArrayBuffer(numbers.byteLength))
  numbers.forEach((value, i) => view.setFloat32(i * 4, value, true))
  return new Uint8Array(view.buffer)
}

const fromLittleEndian = (bytes: Uint8Array): Float32Array => {
  // not `slice`, which does not copy where the bytes are a Node buffer
  const copy = new Uint8Array(bytes)
  if (littleEndian) return new Float32Array(copy.buffer)
  const view = new DataView(copy.buffer)
  return Float32Array.from({ length: copy.length / 4 }, (_, i) => view.getFloat32(i * 4, true))
}

/**
 * Tensors as the bytes of a file.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encode = (file: File): Uint8Array => {
  const header: Record<string, unknown> = file.metadata === undefined ? {} : { [metadataKey]: file.metadata }
  let offset = 0
  for (const { data, name, shape } of file.tensors) {
    const end = offset + data.length * 4
    header[name] = { dtype: "F32", shape, data_offsets: [offset, end] }
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
  for (const { data } of file.tensors) {
    bytes.set(toLittleEndian(data), at)
    at += data.byteLength
  }
  return bytes
}

const product = (shape: ReadonlyArray<number>): number => shape.reduce((size, n) => size * n, 1)

/**
 * The tensors of a file, or a sentence about what is wrong with it. Only float32 tensors are read.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decode = (bytes: Uint8Array): Either.Either<File, string> => {
  if (bytes.length < prefixBytes) return Either.left("the file is shorter than its prefix")
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const headerBytes = view.getBigUint64(0, true)
  if (headerBytes > BigInt(bytes.length - prefixBytes)) return Either.left("the file is shorter than its header")
  const start = prefixBytes + Number(headerBytes)
  const header = decodeHeader(new TextDecoder().decode(bytes.subarray(prefixBytes, start)))
  if (Either.isLeft(header)) return Either.left("the header is not one of a safetensors file")
  const tensors: Array<Tensor> = []
  let metadata: Readonly<Record<string, string>> | undefined
  for (const [name, entry] of Object.entries(header.right)) {
    if (name === metadataKey) {
      metadata = Object.fromEntries(Object.entries(entry).map(([key, value]) => [key, String(value)]))
      continue
    }
    const { data_offsets: offsets, dtype, shape } = entry
    if (!Array.isArray(offsets) || !Array.isArray(shape)) return Either.left(`${name} has no shape or place`)
    if (dtype !== "F32") return Either.left(`${name} has dtype ${String(dtype)}, expected F32`)
    const [from = 0, to = 0] = offsets
    if (to < from || start + to > bytes.length) return Either.left(`${name} lies outside the file`)
    if ((to - from) !== product(shape) * 4) return Either.left(`${name} has ${to - from} bytes, not those of its shape`)
    tensors.push({ name, shape, data: fromLittleEndian(bytes.subarray(start + from, start + to)) })
  }
  return Either.right(metadata === undefined ? { tensors } : { tensors, metadata })
}
