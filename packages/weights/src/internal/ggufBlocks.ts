/**
 * Tensors of GGUF files as 32-bit floats: plain numbers, and the blocks in which llama.cpp quantizes them. Each step is
 * rounded to 32 bits as in llama.cpp and gguf-py, so that values agree to the last bit.
 */
import * as numbers from "./numbers.js"

/** A format of numbers: its name, how many values a block has, and how many bytes. @internal */
export interface BlockFormat {
  readonly name: string
  readonly values: number
  readonly bytes: number
  /** Writes the values of blocks, one after the other. */
  readonly decode: (source: Uint8Array, target: Float32Array) => void
}

const f = Math.fround

const byte = (bytes: Uint8Array, at: number): number => bytes[at] ?? 0

const signed = (bytes: Uint8Array, at: number): number => (byte(bytes, at) << 24) >> 24

/** A half-precision number. */
const half = (bytes: Uint8Array, at: number): number => numbers.fromHalf(byte(bytes, at) | byte(bytes, at + 1) << 8)

const plain = (name: numbers.FloatType): BlockFormat => ({
  name,
  values: 1,
  bytes: numbers.bytesOf(name),
  decode: (source, target) => target.set(numbers.toFloat32(name, source))
})

/** Calls `decode` for every block, with where it begins and where its values go. */
const blocks = (
  name: string,
  values: number,
  bytes: number,
  decode: (source: Uint8Array, from: number, target: Float32Array, to: number) => void
): BlockFormat => ({
  name,
  values,
  bytes,
  decode: (source, target) => {
    const count = Math.floor(source.length / bytes)
    for (let block = 0; block < count; block++) decode(source, block * bytes, target, block * values)
  }
})

/** Blocks of 32 values of four bits; those of the second half of a block are in the upper bits of the same bytes. */
const fourBits = (
  name: string,
  quants: number,
  value: (quant: number, scale: number, least: number) => number,
  least: (source: Uint8Array, from: number) => number
): BlockFormat =>
  blocks(name, 32, quants + 16, (source, from, target, to) => {
    const scale = half(source, from)
    const offset = least(source, from)
    for (let i = 0; i < 16; i++) {
      const pair = byte(source, from + quants + i)
      target[to + i] = value(pair & 15, scale, offset)
      target[to + i + 16] = value(pair >> 4, scale, offset)
    }
  })

/** The same with a fifth bit of each value in four bytes of their own. */
const fiveBits = (
  name: string,
  high: number,
  value: (quant: number, scale: number, least: number) => number,
  least: (source: Uint8Array, from: number) => number
): BlockFormat =>
  blocks(name, 32, high + 20, (source, from, target, to) => {
    const scale = half(source, from)
    const offset = least(source, from)
    for (let i = 0; i < 16; i++) {
      const pair = byte(source, from + high + 4 + i)
      const low = (byte(source, from + high + (i >> 3)) >> (i & 7)) & 1
      const up = (byte(source, from + high + 2 + (i >> 3)) >> (i & 7)) & 1
      target[to + i] = value((pair & 15) | low << 4, scale, offset)
      target[to + i + 16] = value((pair >> 4) | up << 4, scale, offset)
    }
  })

const scaled = (quant: number, scale: number, least: number): number => f(f(quant * scale) + least)
const none = (): number => 0

/** Scale and minimum of one of the eight parts of a block: six bits each, packed into twelve bytes. */
const partScale = (source: Uint8Array, at: number, part: number): number =>
  part < 4
    ? byte(source, at + part) & 63
    : (byte(source, at + part + 4) & 15) | (byte(source, at + part - 4) >> 6) << 4
const partLeast = (source: Uint8Array, at: number, part: number): number =>
  part < 4
    ? byte(source, at + part + 4) & 63
    : (byte(source, at + part + 4) >> 4) | (byte(source, at + part) >> 6) << 4

/** Blocks of 256 values in eight parts of 32, with four bits each, or five where `high` says where the fifth ones are. */
const parts = (name: string, bytes: number, high: number | undefined, quants: number): BlockFormat =>
  blocks(name, 256, bytes, (source, from, target, to) => {
    const scale = half(source, from)
    const least = half(source, from + 2)
    for (let part = 0; part < 8; part++) {
      const step = f(scale * partScale(source, from + 4, part))
      const offset = f(least * partLeast(source, from + 4, part))
      const lower = part % 2 === 0
      for (let i = 0; i < 32; i++) {
        const pair = byte(source, from + quants + (part >> 1) * 32 + i)
        const fifth = high === undefined ? 0 : (byte(source, from + high + i) >> part) & 1
        target[to + part * 32 + i] = f(f(step * ((lower ? pair & 15 : pair >> 4) | fifth << 4)) - offset)
      }
    }
  })

const q6k = blocks("Q6_K", 256, 210, (source, from, target, to) => {
  const scale = half(source, from + 208)
  for (let group = 0; group < 8; group++) {
    // groups of 32: four share the lower bits of 64 bytes and the upper bits of 32
    const [side, quarter] = [group >> 2, group & 3]
    for (let i = 0; i < 32; i++) {
      const low = byte(source, from + side * 64 + (quarter & 1) * 32 + i)
      const high = (byte(source, from + 128 + side * 32 + i) >> (2 * quarter)) & 3
      const step = f(scale * signed(source, from + 192 + side * 8 + quarter * 2 + (i >> 4)))
      target[to + group * 32 + i] = f(step * (((quarter < 2 ? low & 15 : low >> 4) | high << 4) - 32))
    }
  }
})

const q8 = blocks("Q8_0", 32, 34, (source, from, target, to) => {
  const scale = half(source, from)
  for (let i = 0; i < 32; i++) target[to + i] = scale * signed(source, from + 2 + i)
})

/** The formats that can be read, by llama.cpp's number. @internal */
export const formats: ReadonlyMap<number, BlockFormat> = new Map([
  [0, plain("F32")],
  [1, plain("F16")],
  [2, fourBits("Q4_0", 2, (quant, scale) => (quant - 8) * scale, none)],
  [3, fourBits("Q4_1", 4, scaled, (source, from) => half(source, from + 2))],
  [6, fiveBits("Q5_0", 2, (quant, scale) => (quant - 16) * scale, none)],
  [7, fiveBits("Q5_1", 4, scaled, (source, from) => half(source, from + 2))],
  [8, q8],
  [12, parts("Q4_K", 144, undefined, 16)],
  [13, parts("Q5_K", 176, 16, 48)],
  [14, q6k],
  [30, plain("BF16")]
])
