/**
 * The safetensors file format: named tensors behind a JSON header, readable by the tools of other languages.
 *
 * @since 0.1.0
 */
import * as SafetensorsHeader from "@effect-tinker/weights/SafetensorsHeader"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"

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

/** Room for a file, with its header written, and how to put each tensor behind it, one after the other. */
const begin = ({ dtype = "F32", metadata, tensors }: File) => {
  const width = dtype === "F32" ? 4 : 2
  const header = SafetensorsHeader.encode(tensors.map(({ name, shape }) => ({ name, shape, dtype })), metadata)
  const values = tensors.reduce((sum, { data }) => sum + data.length, 0)
  const bytes = new Uint8Array(header.length + values * width)
  bytes.set(header)
  let at = header.length
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
 * The tensors of a file, or a sentence about what is wrong with it. Values of 16 bits become floats.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decode = (bytes: Uint8Array): Either.Either<File, string> =>
  Either.gen(function*() {
    const { prefixBytes } = SafetensorsHeader
    const size = yield* SafetensorsHeader.lengthOf(bytes.subarray(0, prefixBytes), bytes.length)
    const { metadata, tensors } = yield* SafetensorsHeader.decode(
      bytes.subarray(prefixBytes, prefixBytes + size),
      bytes.length
    )
    const decoded: Array<Tensor> = []
    for (const { bytes: length, dtype, name, shape, start } of tensors) {
      if (bytesPerValue(dtype) === undefined) {
        return yield* Either.left(`${name} has dtype ${dtype}, expected F32, F16 or BF16`)
      }
      decoded.push({ name, shape, data: toFloats(dtype, bytes.subarray(start, start + length)) })
    }
    return { tensors: decoded, metadata }
  })
