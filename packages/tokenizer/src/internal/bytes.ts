/**
 * Bytes, the printable alphabet in which byte-level vocabularies spell them, and runs of ids.
 */

const encoder = new TextEncoder()

/** @internal */
export const utf8 = (text: string): Uint8Array => encoder.encode(text)

/**
 * The character that stands for each byte: printable bytes stand for themselves, the others for U+0100 and up.
 *
 * @internal
 */
export const byteToChar: ReadonlyArray<string> = (() => {
  const chars: Array<string> = []
  let next = 256
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
    chars.push(String.fromCharCode(printable ? byte : next++))
  }
  return chars
})()

/** Indexed by character code; −1 where the character stands for no byte. */
const charToByte: Int16Array = (() => {
  const table = new Int16Array(512).fill(-1)
  byteToChar.forEach((char, byte) => {
    table[char.charCodeAt(0)] = byte
  })
  return table
})()

/**
 * The bytes a byte-level token spells, or `undefined` when it holds a character outside the alphabet.
 *
 * @internal
 */
export const spelledBytes = (token: string): Uint8Array | undefined => {
  const bytes = new Uint8Array(token.length)
  for (let i = 0; i < token.length; i++) {
    const code = token.charCodeAt(i)
    const byte = code < 512 ? charToByte[code] ?? -1 : -1
    if (byte < 0) return undefined
    bytes[i] = byte
  }
  return bytes
}

/** @internal */
export const spell = (bytes: Uint8Array, from: number, to: number): string => {
  let text = ""
  for (let i = from; i < to; i++) text += byteToChar[bytes[i] ?? 0] ?? ""
  return text
}

/**
 * A growing list of 32-bit integers.
 *
 * @internal
 */
export class IntBuffer {
  private items: Int32Array
  length = 0

  constructor(capacity: number) {
    this.items = new Int32Array(Math.max(16, capacity))
  }

  push(value: number): void {
    if (this.length === this.items.length) this.grow(this.length + 1)
    this.items[this.length++] = value
  }

  append(values: Int32Array): void {
    const end = this.length + values.length
    if (end > this.items.length) this.grow(end)
    // most words are a few tokens: a loop beats the call of `set`
    for (let i = 0; i < values.length; i++) this.items[this.length + i] = values[i] ?? 0
    this.length = end
  }

  toArray(): Int32Array {
    return this.items.slice(0, this.length)
  }

  private grow(atLeast: number): void {
    const items = new Int32Array(Math.max(atLeast, this.items.length * 2))
    items.set(this.items)
    this.items = items
  }
}

/** Runs of ids as one. @internal */
export const joined = (...runs: ReadonlyArray<Int32Array>): Int32Array => {
  const all = new Int32Array(runs.reduce((length, run) => length + run.length, 0))
  let at = 0
  for (const run of runs) {
    all.set(run, at)
    at += run.length
  }
  return all
}
