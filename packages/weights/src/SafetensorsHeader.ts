/**
 * The header of a safetensors file: which tensors there are, and where. It is checked against the size of the file, so that
 * one that lies makes no room for anything.
 *
 * @since 0.2.0
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"

/**
 * Types of numbers a file may hold, and the bytes each takes.
 *
 * @since 0.2.0
 * @category constants
 */
export const dtypeBytes: Readonly<Record<string, number>> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1
}

/**
 * Where a tensor is and how it is stored.
 *
 * @since 0.2.0
 * @category models
 */
export interface TensorInfo {
  readonly name: string
  readonly dtype: string
  readonly shape: ReadonlyArray<number>
  /** Offset of its first byte in the file. */
  readonly start: number
  readonly bytes: number
}

/**
 * The tensors of a file in the order of their bytes, and its writer's texts.
 *
 * @since 0.2.0
 * @category models
 */
export interface SafetensorsHeader {
  readonly tensors: ReadonlyArray<TensorInfo>
  readonly metadata: Readonly<Record<string, string>>
}

/**
 * Number of bytes before the header: its length.
 *
 * @since 0.2.0
 * @category constants
 */
export const prefixBytes = 8

// The limit of the reference implementation.
const maxHeaderBytes = 100_000_000

const metadataKey = "__metadata__"

const decodeJson = ParseResult.decodeUnknownEither(
  Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
)
const decodeEntry = ParseResult.decodeUnknownEither(Schema.Struct({
  dtype: Schema.String,
  shape: Schema.Array(Schema.NonNegativeInt),
  data_offsets: Schema.Tuple(Schema.NonNegativeInt, Schema.NonNegativeInt)
}))
const decodeMetadata = ParseResult.decodeUnknownEither(Schema.Record({ key: Schema.String, value: Schema.String }))

/**
 * Number of elements of a shape.
 *
 * @since 0.2.0
 * @category combinators
 */
export const elements = (shape: ReadonlyArray<number>): number => shape.reduce((size, n) => size * n, 1)

/**
 * Length of the header of a file of that many bytes, from its first {@link prefixBytes}.
 *
 * @since 0.2.0
 * @category combinators
 */
export const lengthOf = (prefix: Uint8Array, fileBytes: number): Either.Either<number, string> => {
  if (prefix.length < prefixBytes) return Either.left("not a safetensors file: it is shorter than its prefix")
  const length = new DataView(prefix.buffer, prefix.byteOffset, prefix.byteLength).getBigUint64(0, true)
  return length > BigInt(Math.max(0, Math.min(fileBytes - prefixBytes, maxHeaderBytes)))
    ? Either.left(`not a safetensors file: its header would have ${length} bytes`)
    : Either.right(Number(length))
}

/**
 * The header of a file of that many bytes, or a sentence about what is wrong with it.
 *
 * @since 0.2.0
 * @category combinators
 */
export const decode = (header: Uint8Array, fileBytes: number): Either.Either<SafetensorsHeader, string> => {
  const json = decodeJson(new TextDecoder().decode(header))
  if (Either.isLeft(json)) return Either.left("the safetensors header is not JSON")
  const dataStart = prefixBytes + header.length
  const tensors: Array<TensorInfo> = []
  let metadata: Readonly<Record<string, string>> = {}
  for (const [name, value] of Object.entries(json.right)) {
    if (name === metadataKey) {
      metadata = Either.getOrElse(decodeMetadata(value), () => ({}))
      continue
    }
    const entry = decodeEntry(value)
    if (Either.isLeft(entry)) return Either.left(`the header entry of ${name} is malformed`)
    const { data_offsets: [from, to], dtype, shape } = entry.right
    const width = dtypeBytes[dtype]
    if (width === undefined) return Either.left(`${name} has the unknown dtype ${dtype}`)
    if (to < from || to - from !== elements(shape) * width) {
      return Either.left(`${name} declares ${to - from} bytes for a ${dtype} tensor of shape [${shape.join(", ")}]`)
    }
    if (dataStart + to > fileBytes) return Either.left(`${name} ends beyond the end of the file; was it cut off?`)
    tensors.push({ name, dtype, shape, start: dataStart + from, bytes: to - from })
  }
  tensors.sort((a, b) => a.start - b.start || (a.name < b.name ? -1 : 1))
  let end = dataStart
  for (const { bytes, name, start } of tensors) {
    // A header could otherwise make gigabytes of a small file.
    if (bytes > 0 && start < end) return Either.left(`${name} overlaps another tensor`)
    end = Math.max(end, start + bytes)
  }
  return Either.right({ tensors, metadata })
}

/**
 * Prefix and header for tensors that will be written one after the other; padded so that the numbers are aligned.
 *
 * @since 0.2.0
 * @category combinators
 */
export const encode = (
  tensors: ReadonlyArray<Pick<TensorInfo, "name" | "dtype" | "shape">>,
  metadata: Readonly<Record<string, string>> = {}
): Uint8Array => {
  const header: Record<string, unknown> = Object.keys(metadata).length === 0 ? {} : { [metadataKey]: metadata }
  let offset = 0
  for (const { dtype, name, shape } of tensors) {
    const end = offset + elements(shape) * (dtypeBytes[dtype] ?? 0)
    header[name] = { dtype, shape, data_offsets: [offset, end] }
    offset = end
  }
  const json = new TextEncoder().encode(JSON.stringify(header))
  const padded = Math.ceil(json.length / 8) * 8
  const bytes = new Uint8Array(prefixBytes + padded).fill(0x20, prefixBytes)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(padded), true)
  bytes.set(json, prefixBytes)
  return bytes
}
