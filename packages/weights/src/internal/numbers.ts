/**
 * Conversion between the 16-bit formats of model files and float32, by whole arrays, rounding to nearest even as every
 * framework does.
 */

/** Float dtypes that can be written. @internal */
export type FloatType = "F32" | "F16" | "BF16"

/** @internal */
export const isFloatType = (dtype: string): dtype is FloatType => dtype === "F32" || dtype === "F16" || dtype === "BF16"

/** Bytes of one value. @internal */
export const bytesOf = (dtype: FloatType): number => dtype === "F32" ? 4 : 2

/** Reused views: a scalar's bits without an allocation. */
const scalar = new Float32Array(1)
const bits = new Uint32Array(scalar.buffer)

const fromHalfBits = (half: number): number => {
  const sign = half & 0x8000 ? -1 : 1
  const exponent = (half >>> 10) & 0x1f
  const fraction = half & 0x3ff
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

let halves: Float32Array | undefined
/** All 65,536 halves: a look-up is several times faster than taking each one apart. */
const halfTable = (): Float32Array => (halves ??= Float32Array.from({ length: 65_536 }, (_, i) => fromHalfBits(i)))

/** The value of a half, given as bits. @internal */
export const fromHalf = (half: number): number => halfTable()[half] ?? 0

/** The bits of a float32 (given as bits) as a half. @internal */
export const toHalf = (value: number): number => {
  const sign = (value >>> 16) & 0x8000
  const abs = value & 0x7fffffff
  if (abs > 0x7f800000) return sign | 0x7e00
  if (abs >= 0x477ff000) return sign | 0x7c00
  if (abs < 0x38800000) {
    // Below the smallest normal half, adding 0.5 lets the float32 adder do the rounding.
    bits[0] = abs
    scalar[0] = (scalar[0] ?? 0) + 0.5
    return sign | ((bits[0] ?? 0) - 0x3f000000)
  }
  return sign | ((abs + 0xc8000fff + ((abs >>> 13) & 1)) >>> 13) & 0x7fff
}

/** The bits of a float32 (given as bits) as a bfloat16. @internal */
export const toBrain = (value: number): number =>
  (value & 0x7fffffff) > 0x7f800000
    ? (value >>> 16) | 0x40
    : (value + 0x7fff + ((value >>> 16) & 1)) >>> 16

/** Bytes of a safetensors dtype as float32s; `undefined` for what is not a float. @internal */
export function toFloat32(dtype: FloatType, bytes: Uint8Array): Float32Array
export function toFloat32(dtype: string, bytes: Uint8Array): Float32Array | undefined
export function toFloat32(dtype: string, bytes: Uint8Array): Float32Array | undefined {
  // The views need aligned bytes; a read always starts a buffer, so this copies only for callers with offsets.
  const aligned = bytes.byteOffset % 8 === 0 ? bytes : new Uint8Array(bytes)
  if (dtype === "F32") return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4)
  if (dtype === "F64") {
    return Float32Array.from(new Float64Array(aligned.buffer, aligned.byteOffset, aligned.length / 8))
  }
  if (dtype !== "BF16" && dtype !== "F16") return undefined
  const source = new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 2)
  const target = new Float32Array(source.length)
  if (dtype === "BF16") {
    const words = new Uint32Array(target.buffer)
    for (let i = 0; i < source.length; i++) words[i] = (source[i] ?? 0) << 16
  } else {
    const table = halfTable()
    for (let i = 0; i < source.length; i++) target[i] = table[source[i] ?? 0] ?? 0
  }
  return target
}

/** Float32s as bytes of a dtype. @internal */
export const fromFloat32 = (dtype: FloatType, values: Float32Array): Uint8Array => {
  if (dtype === "F32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length)
  const target = new Uint16Array(values.length)
  if (dtype === "BF16") { for (let i = 0; i < words.length; i++) target[i] = toBrain(words[i] ?? 0) }
  else for (let i = 0; i < words.length; i++) target[i] = toHalf(words[i] ?? 0)
  return new Uint8Array(target.buffer)
}

/**
 * Blocks of 32 as llama.cpp's q8_0: a half-precision scale, then 32 signed bytes. Rounds half away from zero, as its
 * reference quantizer does. @internal
 */
export const toQ8 = (values: Float32Array): Uint8Array => {
  const blocks = values.length / 32
  const target = new Uint8Array(blocks * 34)
  const view = new DataView(target.buffer)
  for (let block = 0; block < blocks; block++) {
    let largest = 0
    for (let i = 0; i < 32; i++) largest = Math.max(largest, Math.abs(values[block * 32 + i] ?? 0))
    const scale = Math.fround(largest / 127)
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale)
    scalar[0] = scale
    view.setUint16(block * 34, toHalf(bits[0] ?? 0), true)
    for (let i = 0; i < 32; i++) {
      const scaled = Math.fround((values[block * 32 + i] ?? 0) * inverse)
      const rounded = Math.sign(scaled) * Math.floor(Math.abs(scaled) + 0.5)
      view.setInt8(block * 34 + 2 + i, rounded)
    }
  }
  return target
}
