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
import * as SafetensorsHeader from "./SafetensorsHeader.js"
import { InvalidFile } from "./WeightsError.js"

/**
 * An open file: its tensors in the order of their bytes.
 *
 * @since 0.1.0
 * @category models
 */
export interface SafetensorsFile extends SafetensorsHeader.SafetensorsHeader {
  readonly path: string
  /** Reads bytes of the file, into the beginning of `into` where it is given; fails if the file ends before them. */
  readonly read: (
    start: number,
    bytes: number,
    into?: Uint8Array
  ) => Effect.Effect<Uint8Array, PlatformError.PlatformError | InvalidFile>
}

const decodeIndex = ParseResult.decodeUnknownEither(
  Schema.parseJson(Schema.Struct({ weight_map: Schema.Record({ key: Schema.String, value: Schema.String }) }))
)

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
  const invalid = (description: string) => new InvalidFile({ path, description })
  const prefix = yield* read(0, Math.min(size, SafetensorsHeader.prefixBytes))
  const length = yield* Either.mapLeft(SafetensorsHeader.lengthOf(prefix, size), invalid)
  const header = yield* read(SafetensorsHeader.prefixBytes, length)
  const parsed = yield* Either.mapLeft(SafetensorsHeader.decode(header, size), invalid)
  return { path, ...parsed, read }
})

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
