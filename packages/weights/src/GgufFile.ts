/**
 * GGUF files as llama.cpp, Ollama and LM Studio keep them: metadata, and tensors read by ranges as 32-bit floats.
 *
 * @since 0.2.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as files from "./internal/files.js"
import type { BlockFormat } from "./internal/ggufBlocks.js"
import { formats } from "./internal/ggufBlocks.js"
import * as format from "./internal/ggufFormat.js"
import * as names from "./internal/ggufNames.js"
import type { RawTensor } from "./internal/ggufReader.js"
import { parseHeader } from "./internal/ggufReader.js"
import * as tokenizer from "./internal/ggufTokenizerReader.js"
import { InvalidFile, UnsupportedFormat } from "./WeightsError.js"

/**
 * A value of the metadata. 64-bit integers are rounded to the nearest number.
 *
 * @since 0.2.0
 * @category models
 */
export type MetadataValue = number | boolean | string | ReadonlyArray<number> | ReadonlyArray<string>

/**
 * A tensor of a file.
 *
 * @since 0.2.0
 * @category models
 */
export interface TensorInfo {
  readonly name: string
  /** Slowest dimension first. */
  readonly shape: ReadonlyArray<number>
  /** The format's name in llama.cpp, such as `F16`, `Q8_0` or `Q4_K`. */
  readonly format: string
  /** Number of bytes in the file. */
  readonly bytes: number
}

/**
 * The files of a tokenizer as Hugging Face directories have them, made from a file's metadata.
 *
 * @since 0.2.0
 * @category models
 */
export interface TokenizerFiles {
  /** Content of `tokenizer.json`. */
  readonly tokenizerJson: unknown
  /** Content of `tokenizer_config.json`. */
  readonly tokenizerConfig: Readonly<Record<string, unknown>>
  /** Content of `chat_template.jinja`, where the file has one. */
  readonly chatTemplate: string | undefined
}

/**
 * A file whose header has been read. No handle stays open; each read opens the file again.
 *
 * @since 0.2.0
 * @category models
 */
export interface GgufFile {
  readonly path: string
  /** Size of the whole file in bytes. */
  readonly size: number
  readonly metadata: ReadonlyMap<string, MetadataValue>
  readonly tensors: ReadonlyMap<string, TensorInfo>
  /** Reads rows of a tensor as floats; a row is its last dimension. */
  readonly floats: (
    tensor: string,
    firstRow: number,
    rows: number
  ) => Effect.Effect<Float32Array, PlatformError.PlatformError | InvalidFile, FileSystem.FileSystem>
  /** The tokenizer that the metadata describes. */
  readonly tokenizer: Effect.Effect<TokenizerFiles, InvalidFile | UnsupportedFormat>
}

/**
 * The name of a weight in a file of an architecture, given its name in Hugging Face directories.
 *
 * @since 0.2.0
 * @category combinators
 */
export const tensorName: (architecture: string, huggingFaceName: string) => string | undefined = names.ggufName

/**
 * Whether the rows of a weight, given by its name in the file, are stored in another order: the two halves of each head
 * of Llama's queries and keys alternate.
 *
 * @since 0.2.0
 * @category guards
 */
export const isInterleaved: (architecture: string, tensor: string) => boolean = names.isInterleaved

/** A tensor whose place in the file has been checked. */
interface Placed extends TensorInfo {
  readonly start: number
  readonly rowValues: number
  readonly blocks: BlockFormat
}

// most headers of real models have less than this; the rest is read as needed
const firstRead = 1 << 20

const elements = (shape: ReadonlyArray<number>): number => shape.reduce((product, size) => product * size, 1)

/** Ranges of a file for as long as the scope lasts. */
const openRanges = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* fs.open(path)
  const size = Number((yield* file.stat).size)
  const cutOff = new InvalidFile({ path, description: "the file ends before its header says; was it cut off?" })
  return { size, read: yield* files.makeReader(file, size, cutOff) }
})

/**
 * Reads and checks the header of a file: tensors lie within the file, do not overlap, and have formats that can be read.
 *
 * @since 0.2.0
 * @category constructors
 */
export const open: (
  path: string
) => Effect.Effect<
  GgufFile,
  PlatformError.PlatformError | InvalidFile | UnsupportedFormat,
  FileSystem.FileSystem
> = Effect.fnUntraced(function*(path) {
  const invalid = (description: string) => new InvalidFile({ path, description })
  const { read, size } = yield* openRanges(path)
  let prefix = yield* read(0, Math.min(size, firstRead))
  let header = yield* Effect.mapError(parseHeader(prefix, size), invalid)
  while (typeof header === "number") {
    prefix = yield* read(0, Math.min(size, Math.max(header, prefix.length * 2)))
    header = yield* Effect.mapError(parseHeader(prefix, size), invalid)
  }
  const { metadata } = header

  const alignment = metadata.get("general.alignment") ?? format.alignment
  if (typeof alignment !== "number" || !(alignment >= 8 && alignment <= 4096 && (alignment & (alignment - 1)) === 0)) {
    return yield* invalid(`general.alignment is ${String(alignment)}, expected a power of two from 8 to 4096`)
  }
  const dataStart = Math.ceil(header.bytes / alignment) * alignment
  const place = Effect.fnUntraced(function*({ name, offset, shape, type }: RawTensor) {
    const blocks = formats.get(type)
    if (blocks === undefined) {
      return yield* new UnsupportedFormat({
        description: `${path}: ${name} has format ${type} of llama.cpp, which is not supported; supported: ${
          [...formats.values()].map((one) => one.name).join(", ")
        }`
      })
    }
    const rowValues = shape.at(-1) ?? 1
    if (rowValues % blocks.values !== 0) {
      return yield* invalid(`${name} has rows of ${rowValues} values, which are no whole blocks of ${blocks.name}`)
    }
    const bytes = elements(shape) / blocks.values * blocks.bytes
    const start = dataStart + offset
    if (offset % alignment !== 0) return yield* invalid(`${name} does not begin at a multiple of ${alignment} bytes`)
    if (start + bytes > size) return yield* invalid(`${name} ends beyond the end of the file; was it cut off?`)
    return { name, shape, format: blocks.name, bytes, start, rowValues, blocks } satisfies Placed
  })
  const placed = yield* Effect.forEach(header.tensors, place)
  let end = dataStart
  for (const tensor of [...placed].sort((a, b) => a.start - b.start)) {
    if (tensor.start < end && tensor.bytes > 0) return yield* invalid(`${tensor.name} overlaps another tensor`)
    end = Math.max(end, tensor.start + tensor.bytes)
  }
  const tensors = new Map(placed.map((tensor) => [tensor.name, tensor]))

  return {
    path,
    size,
    metadata,
    tensors,
    floats: Effect.fnUntraced(function*(name, firstRow, rows) {
      const tensor = tensors.get(name)
      if (tensor === undefined) return yield* invalid(`there is no tensor ${name}`)
      const { blocks, rowValues } = tensor
      const rowBytes = rowValues / blocks.values * blocks.bytes
      const all = elements(tensor.shape) / Math.max(1, rowValues)
      if (firstRow < 0 || rows < 0 || firstRow + rows > all) return yield* invalid(`${name} has only ${all} rows`)
      const { read } = yield* openRanges(path)
      const bytes = yield* read(tensor.start + firstRow * rowBytes, rows * rowBytes)
      const values = new Float32Array(rows * rowValues)
      blocks.decode(bytes, values)
      return values
    }, Effect.scoped),
    tokenizer: Effect.suspend(() => tokenizer.fromMetadata(path, metadata))
  }
}, Effect.scoped)
