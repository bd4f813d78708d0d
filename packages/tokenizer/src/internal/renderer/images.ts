/**
 * Images in messages: their bytes, their size, and how many positions of the context a model gives them.
 *
 * The counts are those of the models' image processors. The size is read from the header of the file, so nothing is decoded
 * and no image library is needed.
 */
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import type { ImagePart } from "../../Message.js"
import { Refusal } from "./format.js"

/** @internal */
export interface ImageSize {
  readonly width: number
  readonly height: number
}

/** @internal */
export type ImageTokens = (size: ImageSize) => number | Refusal

/** @internal */
export interface ImageFile {
  readonly data: Uint8Array
  readonly format: "png" | "jpeg"
  readonly size: ImageSize
}

const pngSize = (bytes: Uint8Array): ImageSize | undefined => {
  const signature = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
  if (bytes.length < 24 || signature.some((byte, i) => bytes[i] !== byte)) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  return { width: view.getUint32(16), height: view.getUint32(20) }
}

/** The size is in the start-of-frame segment, after any number of others. */
const jpegSize = (bytes: Uint8Array): ImageSize | undefined => {
  if (bytes[0] !== 0xff || bytes[1] !== 0xd8) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let at = 2
  while (at + 9 <= bytes.length) {
    if (bytes[at] !== 0xff) return undefined
    const marker = bytes[at + 1] ?? 0
    if (marker === 0xff) at++
    else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return { height: view.getUint16(at + 5), width: view.getUint16(at + 7) }
    } else at += 2 + view.getUint16(at + 2)
  }
  return undefined
}

const readFile = ({ image }: ImagePart): ImageFile | Refusal => {
  const [, format, data] = /^data:image\/(png|jpe?g);base64,(.*)$/s.exec(image) ?? []
  if (format === undefined || data === undefined) {
    return new Refusal(
      `an image is a data: URI of a PNG or a JPEG, not ${
        JSON.stringify(image.slice(0, 40))
      }; Message.image makes one of bytes`
    )
  }
  return Either.match(Encoding.decodeBase64(data), {
    onLeft: () => new Refusal("the data of an image is not base64"),
    onRight: (bytes) => {
      const kind = format === "png" ? "png" : "jpeg"
      const size = kind === "png" ? pngSize(bytes) : jpegSize(bytes)
      return size === undefined || size.width === 0 || size.height === 0
        ? new Refusal(`the data of an image is not a ${kind.toUpperCase()} with a size`)
        : { data: bytes, format: kind, size }
    }
  })
}

/** A conversation is rendered once for every turn; its images are decoded once. */
const files = new WeakMap<ImagePart, ImageFile | Refusal>()

/** @internal */
export const imageFile = (part: ImagePart): ImageFile | Refusal => {
  const known = files.get(part)
  if (known !== undefined) return known
  const file = readFile(part)
  files.set(part, file)
  return file
}

const mostTokens = 1_000_000

/** @internal */
export const imageLength = (part: ImagePart, tokens: ImageTokens): number | Refusal => {
  const file = imageFile(part)
  if (file instanceof Refusal) return file
  const count = tokens(file.size)
  if (count instanceof Refusal) return count
  return Number.isInteger(count) && count > 0 && count <= mostTokens
    ? count
    : new Refusal(`an image of ${file.size.width} x ${file.size.height} cannot take ${count} tokens`)
}

/** Python rounds halves to the even neighbour. */
const roundHalfEven = (value: number): number => {
  const floor = Math.floor(value)
  return value - floor === 0.5 ? floor + (floor % 2) : Math.round(value)
}

/**
 * Qwen's processors: sides become multiples of 32 pixels, the area stays between 256² and 4096² pixels, and every 32 x 32
 * pixels are one token.
 *
 * @internal
 */
export const qwenImageTokens: ImageTokens = ({ height, width }) => {
  const factor = 32
  const [least, most] = [65_536, 16_777_216]
  if (Math.max(height, width) / Math.min(height, width) > 200) {
    return new Refusal(`an image of ${width} x ${height} is more than 200 times as long as it is wide`)
  }
  const rows = roundHalfEven(height / factor)
  const columns = roundHalfEven(width / factor)
  const area = rows * columns * factor * factor
  if (area > most) {
    const scale = Math.sqrt((height * width) / most)
    return Math.max(1, Math.floor(height / scale / factor)) * Math.max(1, Math.floor(width / scale / factor))
  }
  if (area < least) {
    const scale = Math.sqrt(least / (height * width))
    return Math.ceil(height * scale / factor) * Math.ceil(width * scale / factor)
  }
  return rows * columns
}

/**
 * Kimi's processor: at most 16 384 patches of 14 x 14 pixels and 512 on a side, padded to whole groups of four.
 *
 * @internal
 */
export const kimiImageTokens: ImageTokens = ({ height, width }) => {
  const [patch, side, patches, group] = [14, 512, 16_384, 28]
  const many = Math.max(1, Math.floor(width / patch)) * Math.max(1, Math.floor(height / patch))
  const scale = Math.min(1, Math.sqrt(patches / many), side * patch / width, side * patch / height)
  const groups = (length: number) => Math.ceil(Math.min(Math.max(1, Math.floor(length * scale)), side * patch) / group)
  return groups(height) * groups(width)
}

/**
 * For a model whose processor is a program in its repository.
 *
 * @internal
 */
export const unknownImageTokens: ImageTokens = () =>
  new Refusal("how many tokens an image takes is not known for this model: say it with `imageTokens`")

/**
 * Inkling's processor: patches of 40 x 40 pixels, padded with black on the right by at least one pixel.
 *
 * @internal
 */
export const inklingImageTokens: ImageTokens = ({ height, width }) =>
  (Math.floor(width / 40) + 1) * Math.ceil(height / 40)
