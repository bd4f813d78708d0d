/** Protobuf, read as views into the bytes that came; whatever the bytes are, the only failure is `WireError`. */
import type { Int64Values } from "../numbers.js"

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const VARINT = 0
const FIXED64 = 1
const LENGTH = 2
const GROUP = 3
const GROUP_END = 4
const FIXED32 = 5

const TWO_32 = 2 ** 32
const MAX_GROUPS = 100

/**
 * Bytes that are no message. Thrown by the reader and caught by `decode`, so it needs no stack, which would cost more
 * than reading did.
 *
 * @internal
 */
export class WireError {
  constructor(readonly message: string) {}
}

/** @internal */
export const malformed = (what: string): never => {
  throw new WireError(what)
}

/** @internal */
export class Reader {
  /** Number of the current field. */
  field = 0
  private type = 0
  private low = 0
  private high = 0

  constructor(private readonly bytes: Uint8Array, private at = 0, private end = bytes.length) {}

  /** Moves to the next field; what it holds is then read or skipped. */
  next(): boolean {
    if (this.at >= this.end) return false
    this.varint()
    this.field = this.low >>> 3
    this.type = this.low & 7
    if (this.field === 0 || this.high !== 0) malformed("a field has no number")
    return true
  }

  /** Whether the field holds bytes, text or a message; if not, it is skipped. */
  isLength(): boolean {
    return this.type === LENGTH || this.skip()
  }

  /** Whether the field holds an integer; if not, it is skipped. */
  isVarint(): boolean {
    return this.type === VARINT || this.skip()
  }

  /** Whether the field holds a double; if not, it is skipped. */
  isDouble(): boolean {
    return this.type === FIXED64 || this.skip()
  }

  /** Passes over a field that is unknown or not of the type it should be; always false. */
  skip(): false {
    let depth = 0
    for (;;) {
      if (this.type === GROUP) {
        if (++depth > MAX_GROUPS) malformed("groups are nested too deep")
      } else if (this.type === GROUP_END) {
        if (--depth < 0) malformed("a group ends without a start")
      } else this.skipOne()
      if (depth === 0) return false
      if (!this.next()) malformed("a group is truncated")
    }
  }

  private skipOne(): void {
    if (this.type === VARINT) this.varint()
    else if (this.type === FIXED64) this.advance(8)
    else if (this.type === FIXED32) this.advance(4)
    else if (this.type === LENGTH) this.advance(this.length())
    else malformed(`a field has the unknown type ${this.type}`)
  }

  int32(): number {
    this.varint()
    return this.low | 0
  }

  uint32(): number {
    this.varint()
    return this.low >>> 0
  }

  bool(): boolean {
    this.varint()
    return this.low !== 0 || this.high !== 0
  }

  /** A 64-bit integer that counts something, so it is neither negative nor beyond 2^53. */
  count(what: string): number {
    this.varint()
    const value = (this.high >>> 0) * TWO_32 + (this.low >>> 0)
    return Number.isSafeInteger(value) ? value : malformed(`${what} is not a count`)
  }

  double(): number {
    const at = this.advance(8)
    return new DataView(this.bytes.buffer, this.bytes.byteOffset + at, 8).getFloat64(0, true)
  }

  view(): Uint8Array {
    const length = this.length()
    const at = this.advance(length)
    return this.bytes.subarray(at, at + length)
  }

  text(): string {
    const length = this.length()
    const at = this.advance(length)
    const short = ascii(this.bytes, at, length)
    if (short !== undefined) return short
    try {
      return utf8.decode(this.bytes.subarray(at, at + length))
    } catch {
      return malformed("a text is not UTF-8")
    }
  }

  /** A reader of the message the field holds. */
  message(): Reader {
    const length = this.length()
    const at = this.advance(length)
    return new Reader(this.bytes, at, at + length)
  }

  /** A reader at the same position. */
  fork(): Reader {
    const copy = new Reader(this.bytes, this.at, this.end)
    copy.field = this.field
    copy.type = this.type
    return copy
  }

  /** Appends one integer or a packed run of them: a writer may choose either. */
  counts(what: string, into: Array<number>): void {
    if (this.type === LENGTH) {
      const packed = this.message()
      while (packed.at < packed.end) into.push(packed.count(what))
    } else if (this.isVarint()) into.push(this.count(what))
  }

  private length(): number {
    return this.count("a length")
  }

  /** Skips `length` bytes and returns where they began. */
  private advance(length: number): number {
    const at = this.at
    if (length > this.end - at) malformed("truncated")
    this.at = at + length
    return at
  }

  private varint(): void {
    let byte = this.byte()
    let low = byte & 127
    if (byte > 127) {
      let shift = 7
      for (; shift < 28; shift += 7) {
        byte = this.byte()
        low |= (byte & 127) << shift
        if (byte < 128) break
      }
      if (byte > 127) return this.longVarint(low)
    }
    this.low = low
    this.high = 0
  }

  private longVarint(low: number): void {
    let byte = this.byte()
    this.low = low | (byte & 127) << 28
    let high = (byte & 127) >> 4
    for (let shift = 3; byte > 127; shift += 7) {
      if (shift > 31) malformed("a number is too long")
      byte = this.byte()
      high |= (byte & 127) << shift
    }
    this.high = high
  }

  private byte(): number {
    if (this.at >= this.end) malformed("truncated")
    return this.bytes[this.at++] ?? 0
  }
}

/** Names are short and plain; a decoder call for each would be most of the work. */
const ascii = (bytes: Uint8Array, at: number, length: number): string | undefined => {
  if (length > 24) return undefined
  let text = ""
  for (let i = at; i < at + length; i++) {
    const byte = bytes[i] ?? 128
    if (byte > 127) return undefined
    text += String.fromCharCode(byte)
  }
  return text
}

/**
 * The decoded message, or what is wrong with the bytes.
 *
 * @internal
 */
export const decode = <A>(bytes: Uint8Array, read: (reader: Reader) => A): A | WireError => {
  try {
    return read(new Reader(bytes))
  } catch (error) {
    if (error instanceof WireError) return error
    throw error
  }
}

/** The same bytes where a typed array may look at them: as they are if aligned, else copied. */
const aligned = (bytes: Uint8Array, size: number, what: string): Uint8Array => {
  if (bytes.byteLength % size !== 0) malformed(`${what}: ${bytes.byteLength} bytes are not a multiple of ${size}`)
  // not slice(): a Node Buffer's shares its memory
  return bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)
}

/** @internal */
export const float32s = (bytes: Uint8Array, what: string): Float32Array => {
  const at = aligned(bytes, 4, what)
  return new Float32Array(at.buffer, at.byteOffset, at.byteLength / 4)
}

/** @internal */
export const int32s = (bytes: Uint8Array, what: string): Int32Array => {
  const at = aligned(bytes, 4, what)
  return new Int32Array(at.buffer, at.byteOffset, at.byteLength / 4)
}

/**
 * bfloat16 is the upper half of a float32.
 *
 * @internal
 */
export const bfloat16s = (bytes: Uint8Array, what: string): Float32Array => {
  const at = aligned(bytes, 2, what)
  const halves = new Uint16Array(at.buffer, at.byteOffset, at.byteLength / 2)
  const words = new Uint32Array(halves.length)
  for (let i = 0; i < halves.length; i++) words[i] = (halves[i] ?? 0) << 16
  return new Float32Array(words.buffer)
}

/**
 * int64, in the narrowest array that holds all of them.
 *
 * @internal
 */
export const int64s = (bytes: Uint8Array, what: string): Int64Values => {
  const words = int32s(aligned(bytes, 8, what), what)
  const length = words.length / 2
  const narrow = new Int32Array(length)
  let i = 0
  for (; i < length; i++) {
    const low = words[2 * i] ?? 0
    if (words[2 * i + 1] !== low >> 31) break
    narrow[i] = low
  }
  if (i === length) return narrow
  const wide = Float64Array.from(narrow)
  for (; i < length; i++) {
    const value = (words[2 * i + 1] ?? 0) * TWO_32 + ((words[2 * i] ?? 0) >>> 0)
    if (!Number.isSafeInteger(value)) break
    wide[i] = value
  }
  if (i === length) return wide
  return new BigInt64Array(words.buffer, words.byteOffset, length)
}
