/** The header of a serialized tensor container: an optional marker of a constant tensor, a dtype, and the dimensions. */

const CONSTANT = 254
const MAX_DTYPE = 7
const TRUNCATED = "truncated header"

/**
 * Dimensions of the tensor inside, or what is wrong with the header.
 *
 * @internal
 */
export const shape = (bytes: Uint8Array): ReadonlyArray<number> | string => {
  if (bytes.length === 0) return "no bytes"
  let at = bytes[0] === CONSTANT ? 1 : 0
  const dtype = bytes[at++]
  if (dtype === undefined) return TRUNCATED
  if (dtype > MAX_DTYPE) return `unknown dtype ${dtype}`

  const varint = (): number | string => {
    let value = 0
    // multiplication, since a shift would cut at 32 bits
    for (let scale = 1, n = 0; n < 10; n++, scale *= 128) {
      const byte = bytes[at++]
      if (byte === undefined) return TRUNCATED
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
    return "a number in the header is too long"
  }

  const dimensions = varint()
  if (typeof dimensions === "string") return dimensions
  const sizes: Array<number> = []
  for (let i = 0; i < dimensions; i++) {
    const size = varint()
    if (typeof size === "string") return size
    sizes.push(size)
  }
  return sizes
}

/**
 * Length of the tensor's first dimension, or why there is none.
 *
 * @internal
 */
export const firstDimension = (bytes: Uint8Array): number | string => {
  const sizes = shape(bytes)
  return typeof sizes === "string" ? sizes : sizes[0] ?? "a tensor of no dimension"
}
