/**
 * Safetensors files and directories of them, read by ranges: opening one reads headers only, so a model of any size
 * costs a few kilobytes until its tensors are asked for.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as files from "./internal/files.js"
import { InvalidFile } from "./WeightsError.js"

/**
 * Types of numbers a file may hold, and the bytes each takes.
 *
 * @since 0.1.0
 * @category models
 */
export const dtypeBytes: Readonly<Record<string, number>> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1
}

/**
 * Where a tensor is and how it is stored.
 *
 * @since 0.1.0
 * @category models
 */
export interface TensorInfo {
  readonly name: string
  readonly dtype: string
  readonly shape: ReadonlyArray<number>
  /** Offset of its first byte in the file. */
  readonly start: number
  readonly bytes: number
}

/**
 * An open file: its tensors in the order of their bytes.
 *
 * @since 0.1.0
 * @category models
 */
export interface SafetensorsFile {
  readonly path: string
  readonly tensors: ReadonlyArray<TensorInfo>
  readonly metadata: Readonly<Record<string, string>>
  /** Reads bytes of the file, into the beginning of `into` where it is given; fails if the file ends before them. */
  readonly read: (
    start: number,
    bytes: number,
    into?: Uint8Array
  ) => Effect.Effect<Uint8Array, PlatformError.PlatformError | InvalidFile>
}

const Entry = Schema.Struct({
  dtype: Schema.String,
  shape: Schema.Array(Schema.NonNegativeInt),
  data_offsets: Schema.Tuple(Schema.NonNegativeInt, Schema.NonNegativeInt)
})
const decodeHeader = ParseResult.decodeUnknownEither(
  Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
)
const decodeEntry = ParseResult.decodeUnknownEither(Entry)
const decodeMetadata = ParseResult.decodeUnknownEither(Schema.Record({ key: Schema.String, value: Schema.String }))
const decodeIndex = ParseResult.decodeUnknownEither(
  Schema.parseJson(Schema.Struct({ weight_map: Schema.Record({ key: Schema.String, value: Schema.String }) }))
)

const prefixBytes = 8
// The limit of the reference implementation.
const maxHeaderBytes = 100_000_000

/**
 * Number of elements of a shape.
 *
 * @since 0.1.0
 * @category combinators
 */
export const elements = (shape: ReadonlyArray<number>): number => shape.reduce((size, n) => size * n, 1)

const parseHeader = (path: string, json: string, dataStart: number, size: number) => {
  const invalid = (description: string) => Either.left(new InvalidFile({ path, description }))
  const header = decodeHeader(json)
  if (Either.isLeft(header)) return invalid("the safetensors header is not JSON")
  const tensors: Array<TensorInfo> = []
  let metadata: Readonly<Record<string, string>> = {}
  for (const [name, value] of Object.entries(header.right)) {
    if (name === "__metadata__") {
      metadata = Either.getOrElse(decodeMetadata(value), () => ({}))
      continue
    }
    const entry = decodeEntry(value)
    if (Either.isLeft(entry)) return invalid(`the header entry of ${name} is malformed`)
    const { data_offsets: [from, to], dtype, shape } = entry.right
    const width = dtypeBytes[dtype]
    if (width === undefined) return invalid(`${name} has the unknown dtype ${dtype}`)
    if (to < from || to - from !== elements(shape) * width) {
      return invalid(`${name} declares ${to - from} bytes for a ${dtype} tensor of shape [${shape.join(", ")}]`)
    }
    if (dataStart + to > size) return invalid(`${name} ends beyond the end of the file; was it cut off?`)
    tensors.push({ name, dtype, shape, start: dataStart + from, bytes: to - from })
  }
  tensors.sort((a, b) => a.start - b.start || (a.name < b.name ? -1 : 1))
  let end = dataStart
  for (const { bytes, name, start } of tensors) {
    // a header could otherwise make gigabytes of a small file
    if (bytes > 0 && start < end) return invalid(`${name} overlaps another tensor`)
    end = Math.max(end, start + bytes)
  }
  return Either.right({ tensors, metadata })
}

/**
 * Opens a file for as long as the scope lasts.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open: (
  path: string
) => Effect.Effect<
  SafetensorsFile,
  PlatformError.PlatformError | InvalidFile,
  FileSystem.FileSystem | Scope.Scope
> = Effect.fnUntraced(function*(path) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* fs.open(path)
  const size = Number((yield* file.stat).size)
  const cutOff = new InvalidFile({ path, description: "the file ends before its header says; was it cut off?" })
  const read: SafetensorsFile["read"] = yield* files.makeReader(file, size, cutOff)
  const prefix = yield* read(0, prefixBytes)
  const headerBytes = new DataView(prefix.buffer).getBigUint64(0, true)
  if (headerBytes > BigInt(Math.min(size - prefixBytes, maxHeaderBytes))) {
    return yield* new InvalidFile({ path, description: "not a safetensors file: its header length is impossible" })
  }
  const header = yield* read(prefixBytes, Number(headerBytes))
  const parsed = yield* parseHeader(
    path,
    new TextDecoder().decode(header),
    prefixBytes + Number(headerBytes),
    size
  )
  return { path, ...parsed, read }
})

/**
 * A header for tensors that will be written one after the other; padded so that the numbers are aligned.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encodeHeader = (
  tensors: ReadonlyArray<Pick<TensorInfo, "name" | "dtype" | "shape">>,
  metadata: Readonly<Record<string, string>> = {}
): Uint8Array => {
  const header: Record<string, unknown> = Object.keys(metadata).length === 0 ? {} : { __metadata__: metadata }
  let offset = 0
  for (const { dtype, name, shape } of tensors) {
    const end = offset + elements(shape) * (dtypeBytes[dtype] ?? 0)
    header[name] = { dtype, shape, data_offsets: [offset, end] }
    offset = end
  }
  const json = new TextEncoder().encode(JSON.stringify(header))
  const padded = Math.ceil(json.length / 8) * 8
  const bytes = new Uint8Array(prefixBytes + padded).fill(0x20, prefixBytes)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(padded), true)
  bytes.set(json, prefixBytes)
  return bytes
}

/**
 * The files of a model directory, in the order of their names: those its index lists, or every `.safetensors` file.
 *
 * @since 0.1.0
 * @category combinators
 */
export const shardNames: (
  directory: string
) => Effect.Effect<
  ReadonlyArray<string>,
  PlatformError.PlatformError | InvalidFile,
  FileSystem.FileSystem | Path.Path
> = Effect.fnUntraced(function*(directory) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const indexPath = path.join(directory, "model.safetensors.index.json")
  const index = yield* Effect.option(fs.readFileString(indexPath))
  if (Option.isSome(index)) {
    const { weight_map: map } = yield* Either.mapLeft(
      decodeIndex(index.value),
      () => new InvalidFile({ path: indexPath, description: "not an index of safetensors shards" })
    )
    const names = [...new Set(Object.values(map))].sort()
    const outside = names.find((name) => name.includes("/") || name.includes("\\") || name.includes(".."))
    return outside === undefined
      ? names
      : yield* new InvalidFile({ path: indexPath, description: `the shard ${outside} is outside the directory` })
  }
  const entries = yield* fs.readDirectory(directory)
  const names = entries.filter((name) => name.endsWith(".safetensors")).sort()
  if (names.length > 0) return names
  return yield* new InvalidFile({
    path: directory,
    description: entries.some((name) => name.endsWith(".bin"))
      ? "only PyTorch .bin files here; save the model in the safetensors format first"
      : "no .safetensors files here; was the model downloaded completely?"
  })
})
