/**
 * Files as datasets: JSON lines and Parquet, streamed or read by number, and whole JSON files. A row that does not fit its
 * schema is skipped, with the reason and its number.
 *
 * @since 0.1.0
 */
import * as Lines from "@effect-tinker/platform/Lines"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { ParseError } from "effect/ParseResult"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Dataset from "./Dataset.js"
import * as Parquet from "./internal/parquet.js"
import * as JsonText from "./JsonText.js"

/**
 * How files are read.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** A row of more bytes is skipped as too long before it is held in memory. Defaults to 16 MiB. */
  readonly maxRowBytes?: number | undefined
}

const malformed = (detail: string) => ({ reason: "malformed" as const, detail })

/** From what stands in a file to a row. */
const reader = <A, I>(schema: Schema.Schema<A, I>) => {
  const decode = Schema.decodeUnknownEither(schema)
  return (input: unknown, at: Pick<Dataset.Skipped, "origin" | "next">): Dataset.Row<A> =>
    Either.match(decode(input), {
      onLeft: (error) => Dataset.skipped(malformed(ParseResult.TreeFormatter.formatErrorSync(error)), at),
      onRight: (value) => ({ _tag: "Kept", value, ...at })
    })
}

/**
 * One JSON value a line, streamed. Blank lines are no rows. A file whose name ends in `.gz` is unpacked while it is read; its rows
 * cannot be read by number, so that it is shuffled within windows.
 *
 * @since 0.1.0
 * @category constructors
 */
export const jsonl = <A, I>(
  path: string,
  schema: Schema.Schema<A, I>,
  options?: Options
): Dataset.Dataset<A, PlatformError.PlatformError, FileSystem.FileSystem> => {
  const limit = options?.maxRowBytes ?? 16 * 1024 * 1024
  const read = reader(schema)
  const toRow = (line: Lines.Line, row: number, next: Dataset.Position): Dataset.Row<A> => {
    const at = { origin: { source: path, row }, next }
    if (line.bytes === undefined) {
      const detail = `the line has ${line.end - line.offset} bytes, of ${limit} allowed`
      return Dataset.skipped({ reason: "too_long", detail }, at)
    }
    return Either.match(Either.flatMap(JsonText.decode(line.bytes), (text) => JsonText.parse(text)), {
      onLeft: (detail) => Dataset.skipped(malformed(detail), at),
      onRight: (json) => read(json, at)
    })
  }
  return Dataset.make({
    rows: (from) =>
      Lines.stream(path, { offset: from.offset, limit }).pipe(
        Stream.zipWithIndex,
        Stream.map(([line, i]) => {
          const row = from.index + i
          return toRow(line, row, { epoch: from.epoch, index: row + 1, offset: line.end })
        })
      ),
    indexed: Lines.isCompressed(path) ? undefined : Effect.map(Lines.index(path, limit), (index) => ({
      size: index.size,
      read: (rows) =>
        Effect.forEach(rows, (row) => Effect.map(index.read(row), (line) => toRow(line, row, Dataset.start())))
    }))
  })
}

const ArrayFromBytes = Schema.transformOrFail(Schema.Uint8ArrayFromSelf, Schema.Array(Schema.Unknown), {
  strict: true,
  // A level more than rows may have: that of the array.
  decode: (bytes, _, ast) =>
    Either.flatMap(JsonText.decode(bytes), (text) => JsonText.parse(text, JsonText.maxNesting + 1)).pipe(
      Either.mapLeft((detail) => new ParseResult.Type(ast, bytes, detail)),
      Either.filterOrLeft(Array.isArray, () => new ParseResult.Type(ast, bytes, "not an array"))
    ),
  encode: (list) => ParseResult.succeed(new TextEncoder().encode(JSON.stringify(list)))
})

/**
 * A JSON file that holds one array. It is read whole.
 *
 * @since 0.1.0
 * @category constructors
 */
export const json = <A, I>(
  path: string,
  schema: Schema.Schema<A, I>
): Dataset.Dataset<A, PlatformError.PlatformError | ParseError, FileSystem.FileSystem> => {
  const read = reader(schema)
  const items = Schema.decodeUnknown(ArrayFromBytes)
  return Dataset.fromIndexed(
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const list = yield* items(yield* fs.readFile(path))
      return {
        size: list.length,
        read: (rows: ReadonlyArray<number>) =>
          Effect.sync(() =>
            rows.map((row) => read(list[row], { origin: { source: path, row }, next: Dataset.start() }))
          )
      }
    })
  )
}

/** Parquet's 64-bit integers are bigints; JSON-like schemas want numbers. */
const plain = (value: unknown): unknown => {
  if (typeof value === "bigint") return Number(value)
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
}

/** Pages of rows that lie beside each other, however many were asked for at once. */
const runsOf = (rows: ReadonlyArray<number>): ReadonlyArray<readonly [from: number, to: number]> => {
  const runs: Array<readonly [number, number]> = []
  for (const row of rows) {
    const last = runs.at(-1)
    if (last !== undefined && last[1] === row) runs[runs.length - 1] = [last[0], row + 1]
    else runs.push([row, row + 1])
  }
  return runs
}

/**
 * Rows of a Parquet file, or of several one after another, as objects by column. Needs the package `hyparquet`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const parquet = <A, I>(
  path: string | ReadonlyArray<string>,
  schema: Schema.Schema<A, I>
): Dataset.Dataset<A, PlatformError.PlatformError, FileSystem.FileSystem> => {
  const read = reader(schema)
  const paths = typeof path === "string" ? [path] : path
  return Dataset.fromIndexed(
    Effect.map(Effect.forEach(paths, Parquet.open), (tables) => {
      const starts = [0]
      for (const { size } of tables) starts.push((starts.at(-1) ?? 0) + size)
      /** A run of rows may reach over several files. */
      const ofRun = ([from, to]: readonly [number, number]) =>
        Effect.map(
          Effect.forEach(tables, (table, i) => {
            const start = starts[i] ?? 0
            const [first, end] = [Math.max(from, start), Math.min(to, start + table.size)]
            return first >= end ? Effect.succeed([]) : Effect.map(
              table.rows(first - start, end - start),
              (values) => values.map((value, n) => ({ value, source: paths[i] ?? "", row: first - start + n }))
            )
          }),
          (parts) => parts.flat()
        )
      return {
        size: starts.at(-1) ?? 0,
        read: (rows: ReadonlyArray<number>) =>
          Effect.map(
            Effect.forEach(runsOf(rows), ofRun),
            (parts) =>
              parts.flat().map(({ row, source, value }) =>
                read(plain(value), { origin: { source, row }, next: Dataset.start() })
              )
          )
      }
    }),
    { page: 256 }
  )
}
