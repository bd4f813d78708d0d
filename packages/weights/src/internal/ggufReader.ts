/**
 * The header of a GGUF file, read from the beginning of its bytes. Every count and length is compared with the size of
 * the file before anything is allocated for it, so that a damaged or hostile header costs no memory.
 */
import * as Either from "effect/Either"

/** A value of the metadata. 64-bit integers are rounded to the nearest number. @internal */
export type MetadataValue = number | boolean | string | ReadonlyArray<number> | ReadonlyArray<string>

/** A tensor as the header describes it. @internal */
export interface RawTensor {
  readonly name: string
  /** Slowest dimension first, as usual in frameworks; the file counts the other way round. */
  readonly shape: ReadonlyArray<number>
  /** Number of the format, as llama.cpp counts them. */
  readonly type: number
  /** Offset from the beginning of the tensor data. */
  readonly offset: number
}

/** @internal */
export interface Header {
  readonly metadata: ReadonlyMap<string, MetadataValue>
  readonly tensors: ReadonlyArray<RawTensor>
  /** Number of bytes before the padding that precedes the tensor data. */
  readonly bytes: number
}

/** The header continues beyond the bytes that were given. */
class MoreNeeded {
  constructor(readonly bytes: number) {}
}

class Malformed {
  constructor(readonly description: string) {}
}

const types = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12
} as const

/** Bytes of one value; of a string, the least it can have. */
const sizes: ReadonlyArray<number> = [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8]

// llama.cpp's limits
const maxDimensions = 4
const maxTensors = 1 << 20
const maxEntries = 1 << 16

const text = new TextDecoder()

/** Reads values one after the other. Throws `MoreNeeded` or `Malformed`, which `parseHeader` catches. */
class Cursor {
  private readonly view: DataView
  at = 0
  constructor(private readonly bytes: Uint8Array, private readonly fileSize: number) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }
  /** Moves past `size` bytes and returns where they begin. */
  private take(size: number): number {
    const from = this.at
    const end = from + size
    if (end > this.fileSize) throw new Malformed("the header continues beyond the end of the file")
    if (end > this.bytes.length) throw new MoreNeeded(end)
    this.at = end
    return from
  }
  u32(): number {
    return this.view.getUint32(this.take(4), true)
  }
  /** An unsigned 64-bit integer that counts something, at most `most`. */
  count(what: string, most: number): number {
    const value = this.view.getBigUint64(this.take(8), true)
    if (value > BigInt(most)) throw new Malformed(`${what} is ${value}, expected at most ${most}`)
    return Number(value)
  }
  string(): string {
    const length = this.count("the length of a string", this.fileSize)
    const from = this.take(length)
    return text.decode(this.bytes.subarray(from, from + length))
  }
  scalar(type: number): number | boolean | string {
    switch (type) {
      case types.u8:
        return this.view.getUint8(this.take(1))
      case types.i8:
        return this.view.getInt8(this.take(1))
      case types.u16:
        return this.view.getUint16(this.take(2), true)
      case types.i16:
        return this.view.getInt16(this.take(2), true)
      case types.u32:
        return this.u32()
      case types.i32:
        return this.view.getInt32(this.take(4), true)
      case types.f32:
        return this.view.getFloat32(this.take(4), true)
      case types.bool:
        return this.view.getUint8(this.take(1)) !== 0
      case types.string:
        return this.string()
      case types.u64:
        return Number(this.view.getBigUint64(this.take(8), true))
      case types.i64:
        return Number(this.view.getBigInt64(this.take(8), true))
      case types.f64:
        return this.view.getFloat64(this.take(8), true)
      default:
        throw new Malformed(`a metadata value has the unknown type ${type}`)
    }
  }
  value(): MetadataValue {
    const type = this.u32()
    if (type !== types.array) return this.scalar(type)
    const element = this.u32()
    const size = sizes[element]
    if (size === undefined) throw new Malformed(`an array has elements of the unknown type ${element}`)
    if (element === types.array) throw new Malformed("arrays of arrays are not supported")
    const length = this.count("the length of an array", Math.floor((this.fileSize - this.at) / size))
    if (element === types.string) {
      const strings: Array<string> = []
      for (let i = 0; i < length; i++) strings.push(this.string())
      return strings
    }
    // all of it has to be there before room is made for it
    this.take(length * size)
    this.at -= length * size
    const numbers: Array<number> = []
    for (let i = 0; i < length; i++) numbers.push(Number(this.scalar(element)))
    return numbers
  }
}

const magic = 0x46554747

const readHeader = (bytes: Uint8Array, fileSize: number): Header => {
  const cursor = new Cursor(bytes, fileSize)
  if (cursor.u32() !== magic) throw new Malformed("not a GGUF file")
  const version = cursor.u32()
  if (version !== 2 && version !== 3) {
    throw new Malformed(
      version > 0xffff
        ? "the file is big-endian, which is not supported"
        : `GGUF version ${version} is not supported, only 2 and 3`
    )
  }
  const tensorCount = cursor.count("the number of tensors", maxTensors)
  const entryCount = cursor.count("the number of metadata entries", maxEntries)
  const metadata = new Map<string, MetadataValue>()
  for (let i = 0; i < entryCount; i++) {
    const key = cursor.string()
    if (metadata.has(key)) throw new Malformed(`the metadata has ${key} twice`)
    metadata.set(key, cursor.value())
  }
  const tensors: Array<RawTensor> = []
  const names = new Set<string>()
  for (let i = 0; i < tensorCount; i++) {
    const name = cursor.string()
    if (names.has(name)) throw new Malformed(`the tensor ${name} is there twice`)
    names.add(name)
    const dimensions = cursor.u32()
    if (dimensions > maxDimensions) throw new Malformed(`${name} has ${dimensions} dimensions, expected at most 4`)
    const shape: Array<number> = []
    let elements = 1
    for (let axis = 0; axis < dimensions; axis++) {
      const size = cursor.count(`a dimension of ${name}`, Number.MAX_SAFE_INTEGER)
      elements *= size
      shape.unshift(size)
    }
    if (!Number.isSafeInteger(elements)) throw new Malformed(`${name} has more elements than a file can hold`)
    const type = cursor.u32()
    tensors.push({ name, shape, type, offset: cursor.count(`the offset of ${name}`, fileSize) })
  }
  return { metadata, tensors, bytes: cursor.at }
}

/**
 * The header, from the first bytes of a file of `fileSize` bytes; the number of bytes it needs at least where those are
 * too few; or a sentence about the fault in it.
 *
 * @internal
 */
export const parseHeader = (bytes: Uint8Array, fileSize: number): Either.Either<Header | number, string> => {
  try {
    return Either.right(readHeader(bytes, fileSize))
  } catch (error) {
    if (error instanceof MoreNeeded) return Either.right(error.bytes)
    if (error instanceof Malformed) return Either.left(error.description)
    throw error
  }
}
