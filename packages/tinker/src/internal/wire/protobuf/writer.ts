/**
 * Protobuf, written straight from typed arrays into one buffer of the right size.
 *
 * A message is described once, by calls on the writer; the description runs twice, first to add up lengths, then to
 * write. Payloads are copied as memory, which protobuf stores little-endian, like every platform this runs on.
 */
import type { Int64Values } from "../numbers.js"
import { firstNotInt32 } from "../numbers.js"

const utf8 = new TextEncoder()

const VARINT = 0
const FIXED64 = 1
const LENGTH = 2

const TWO_31 = 2 ** 31
const TWO_32 = 2 ** 32

/** Bytes a non-negative integer takes. */
const varintSize = (value: number): number => {
  if (value < 128) return 1
  if (value < 16384) return 2
  let size = 1
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size++
  return size
}

const nothing = new Uint8Array(0)

/** How much room for words outlives a message. */
const KEPT_WORDS = 2 ** 18

/** @internal */
export class Writer {
  private out: Uint8Array = nothing
  private view = new DataView(nothing.buffer)
  private measuring = true
  private at = 0
  private readonly lengths: Array<number> = []
  private nextLength = 0
  /** Slot in `lengths` and start of each message being measured. */
  private readonly unfinished: Array<number> = []
  private readonly texts = new Map<string, Uint8Array>()
  private scratch = new Int32Array(0)
  private scratchBytes = nothing
  /** The first value that cannot be written. */
  problem: string | undefined

  /** Ready to measure a message. */
  reset(): void {
    this.release()
    this.measuring = true
    this.at = 0
    this.lengths.length = 0
    this.nextLength = 0
    this.unfinished.length = 0
    this.problem = undefined
  }

  /** From measuring to writing. */
  allocate(): Uint8Array {
    const out = new Uint8Array(this.at)
    this.out = out
    this.view = new DataView(out.buffer)
    this.measuring = false
    this.at = 0
    return out
  }

  /** Releases large buffers. */
  release(): void {
    this.out = nothing
    this.view = new DataView(nothing.buffer)
    this.texts.clear()
    if (this.scratch.length > KEPT_WORDS) {
      this.scratch = new Int32Array(0)
      this.scratchBytes = nothing
    }
  }

  refuse(problem: string): void {
    this.problem ??= problem
  }

  /** Opens a message; every field number here is below 16, so a key is one byte. */
  begin(field: number): void {
    if (this.measuring) {
      this.at++
      this.unfinished.push(this.lengths.length, this.at)
      this.lengths.push(0)
    } else {
      this.key(field, LENGTH)
      this.rawVarint(this.lengths[this.nextLength++] ?? 0)
    }
  }

  end(): void {
    if (!this.measuring) return
    const start = this.unfinished.pop() ?? 0
    const slot = this.unfinished.pop() ?? 0
    const length = this.at - start
    this.lengths[slot] = length
    this.at += varintSize(length)
  }

  /** A non-negative integer, left out when 0. */
  uint(field: number, value: number): void {
    if (value !== 0) this.presentUint(field, value)
  }

  /** A non-negative integer that is written even when 0. */
  presentUint(field: number, value: number): void {
    if (this.measuring) this.at += 1 + varintSize(value)
    else {
      this.key(field, VARINT)
      this.rawVarint(value)
    }
  }

  /** Non-negative integers, packed. */
  uints(field: number, values: ReadonlyArray<number>): void {
    if (values.length === 0) return
    let length = 0
    for (const value of values) length += varintSize(value)
    if (this.header(field, length)) { for (const value of values) this.rawVarint(value) }
    else this.at += length
  }

  /** A double, written even when 0: all of ours sit in maps or oneofs. */
  double(field: number, value: number): void {
    if (this.measuring) this.at += 9
    else {
      this.key(field, FIXED64)
      this.view.setFloat64(this.at, value, true)
      this.at += 8
    }
  }

  /** A string, left out when empty. */
  text(field: number, value: string): void {
    if (value !== "") this.presentText(field, value)
  }

  /** A string that is written even when empty. */
  presentText(field: number, value: string): void {
    let bytes = this.texts.get(value)
    if (bytes === undefined) {
      bytes = utf8.encode(value)
      this.texts.set(value, bytes)
    }
    if (!this.header(field, bytes.length)) this.at += bytes.length
    // names are short: a loop beats a call
    else for (let i = 0; i < bytes.length; i++) this.out[this.at++] = bytes[i] ?? 0
  }

  /** Memory, left out when empty. */
  bytes(field: number, value: ArrayBufferView): void {
    if (value.byteLength > 0) this.presentBytes(field, value)
  }

  /** Memory that is written even when empty. */
  presentBytes(field: number, value: ArrayBufferView): void {
    if (this.header(field, value.byteLength)) {
      this.out.set(new Uint8Array(value.buffer, value.byteOffset, value.byteLength), this.at)
    }
    this.at += value.byteLength
  }

  /** Tokens as int32, left out when empty. */
  int32s(field: number, values: ArrayLike<number>): void {
    if (values instanceof Int32Array) return this.bytes(field, values)
    if (this.measuring) {
      const wrong = firstNotInt32(values)
      if (wrong >= 0) this.refuse(`token ${wrong} (${values[wrong]}) is not a 32-bit integer`)
    }
    const length = values.length
    if (length === 0) return
    if (this.header(field, length * 4)) {
      const words = this.words(length)
      for (let i = 0; i < length; i++) words[i] = values[i] ?? 0
      this.copyWords(length)
    }
    this.at += length * 4
  }

  /** Integers as int64, written even when there are none. */
  presentInt64s(field: number, values: Int64Values): void {
    if (values instanceof BigInt64Array) return this.presentBytes(field, values)
    const length = values.length
    if (this.header(field, length * 8)) {
      // two 32-bit halves each: a BigInt per element would cost ten times as much
      const words = this.words(length * 2)
      if (values instanceof Int32Array) {
        for (let i = 0; i < length; i++) {
          const value = values[i] ?? 0
          words[2 * i] = value
          words[2 * i + 1] = value >> 31
        }
      } else {
        for (let i = 0; i < length; i++) {
          const value = values[i] ?? 0
          const high = Math.floor(value / TWO_32)
          words[2 * i] = value - high * TWO_32
          words[2 * i + 1] = high
        }
      }
      this.copyWords(length * 2)
    }
    this.at += length * 8
  }

  /** Integers as int64, left out when there are none. */
  int64s(field: number, values: Int64Values): void {
    if (values.length > 0) this.presentInt64s(field, values)
  }

  /** Key and length of what follows; whether it is to be written. */
  private header(field: number, length: number): boolean {
    if (this.measuring) {
      this.at += 1 + varintSize(length)
      return false
    }
    this.key(field, LENGTH)
    this.rawVarint(length)
    return true
  }

  private key(field: number, wireType: number): void {
    this.out[this.at++] = (field << 3) | wireType
  }

  private rawVarint(value: number): void {
    let rest = value
    if (rest < TWO_31) {
      for (; rest > 127; rest >>= 7) this.out[this.at++] = (rest & 127) | 128
      this.out[this.at++] = rest
      return
    }
    while (rest >= 128) {
      this.out[this.at++] = (rest % 128) | 128
      rest = Math.floor(rest / 128)
    }
    this.out[this.at++] = rest
  }

  /** Aligned memory to assemble words in, since a payload may start at any byte. */
  private words(length: number): Int32Array {
    if (this.scratch.length < length) this.scratch = new Int32Array(length)
    return this.scratch
  }

  private copyWords(length: number): void {
    // examples of a batch tend to have one length
    if (this.scratchBytes.byteLength !== length * 4 || this.scratchBytes.buffer !== this.scratch.buffer) {
      this.scratchBytes = new Uint8Array(this.scratch.buffer, 0, length * 4)
    }
    this.out.set(this.scratchBytes, this.at)
  }
}

/**
 * One writer for all messages: writing is never interrupted by another. An engine throws away code it specialised for
 * objects of which none is left, so a writer per message would start slow after every collection.
 */
const writer = new Writer()

/**
 * The bytes of a message, or why there are none.
 *
 * @internal
 */
export const encode = (describe: (writer: Writer) => void): Uint8Array | { readonly problem: string } => {
  writer.reset()
  describe(writer)
  if (writer.problem !== undefined) return { problem: writer.problem }
  const bytes = writer.allocate()
  describe(writer)
  writer.release()
  return bytes
}

/**
 * Maps are written in the order of their keys, so that equal messages have equal bytes.
 *
 * @internal
 */
export const sortedKeys = (map: Readonly<Record<string, unknown>>): ReadonlyArray<string> => {
  const keys = Object.keys(map)
  for (let i = 1; i < keys.length; i++) if ((keys[i - 1] ?? "") > (keys[i] ?? "")) return keys.sort()
  return keys
}
