/**
 * Rows of a Parquet file through `hyparquet`, which is loaded only when a file is opened.
 */
import * as Lines from "@effect-tinker/platform/Lines"
import * as Permits from "@effect-tinker/platform/Permits"
import * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"

/** @internal */
export interface Table {
  readonly size: number
  /** Rows `start` to `end` (not included) as objects by column. */
  readonly rows: (start: number, end: number) => Effect.Effect<ReadonlyArray<unknown>, PlatformError.PlatformError>
}

const failed = (path: string, method: string, cause: unknown) =>
  new PlatformError.SystemError({
    module: "FileSystem",
    method,
    reason: "InvalidData",
    pathOrDescriptor: path,
    description: cause instanceof Error ? cause.message : String(cause),
    cause
  })

/** @internal */
export const open: (
  path: string
) => Effect.Effect<Table, PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> = Effect.fnUntraced(
  function*(path) {
    const hyparquet = yield* Effect.tryPromise({
      try: () => import("hyparquet"),
      catch: () => failed(path, "open", new Error("a Parquet file needs the package hyparquet: npm install hyparquet"))
    })
    const fs = yield* FileSystem.FileSystem
    const file = yield* fs.open(path, { flag: "r" })
    const byteLength = Number((yield* file.stat).size)
    const cursor = yield* Permits.make(1)
    const run = Runtime.runPromise(yield* Effect.runtime<never>())
    const buffer = {
      byteLength,
      slice: (start: number, end = byteLength): Promise<ArrayBuffer> =>
        run(
          cursor.withPermits(1)(
            Effect.zipRight(file.seek(start, "start"), Lines.readExactly(file, end - start))
          )
        ).then((bytes) => Uint8Array.from(bytes).buffer)
    }
    const metadata = yield* Effect.tryPromise({
      try: () => hyparquet.parquetMetadataAsync(buffer),
      catch: (cause) => failed(path, "parquet", cause)
    })
    return {
      size: Number(metadata.num_rows),
      rows: (rowStart, rowEnd) =>
        Effect.tryPromise({
          try: () => hyparquet.parquetReadObjects({ file: buffer, metadata, rowStart, rowEnd }),
          catch: (cause) => failed(path, "parquet", cause)
        })
    }
  }
)
