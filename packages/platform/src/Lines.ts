/**
 * Lines of a file with their byte offsets: streamed from any of them, or read by number. Files whose name ends in `.gz` are
 * decompressed.
 *
 * @since 0.2.0
 */
import * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Bytes from "./Bytes.js"
import * as Permits from "./Permits.js"

/**
 * A line, and where it is.
 *
 * @since 0.2.0
 * @category models
 */
export interface Line {
  /** The bytes of the line without its newline; `undefined` when it has more than `limit` of them. */
  readonly bytes: Uint8Array | undefined
  readonly offset: number
  /** Where the next line begins. */
  readonly end: number
}

const newline = 10

const isBlank = (bytes: Uint8Array) => {
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0
    if (byte !== 32 && byte !== 9 && byte !== 13) return false
  }
  return true
}

/** Cuts chunks of bytes into lines; holds at most `limit` bytes of one that has not ended. */
const cutter = (start: number, limit: number) => {
  let held: Array<Uint8Array> = []
  let heldBytes = 0
  let oversized = false
  let lineStart = start
  let at = start
  const finish = (tail: Uint8Array, end: number, out: Array<Line>) => {
    const length = heldBytes + tail.length
    if (oversized || length > limit) out.push({ bytes: undefined, offset: lineStart, end })
    else {
      const bytes = held.length === 0 ? tail : Bytes.concat([...held, tail])
      if (!isBlank(bytes)) out.push({ bytes, offset: lineStart, end })
    }
    held = []
    heldBytes = 0
    oversized = false
    lineStart = end
  }
  return {
    push: (chunk: Uint8Array): Array<Line> => {
      const out: Array<Line> = []
      let from = 0
      for (;;) {
        const end = chunk.indexOf(newline, from)
        if (end < 0) break
        finish(chunk.subarray(from, end), at + end + 1, out)
        from = end + 1
      }
      const rest = chunk.subarray(from)
      at += chunk.length
      if (rest.length > 0) {
        heldBytes += rest.length
        if (oversized || heldBytes > limit) {
          oversized = true
          held = []
        } else held.push(rest)
      }
      return out
    },
    end: (): Array<Line> => {
      const out: Array<Line> = []
      if (heldBytes > 0) finish(new Uint8Array(0), at, out)
      return out
    }
  }
}

const damaged = (path: string, cause: unknown) =>
  new PlatformError.SystemError({
    module: "FileSystem",
    method: "gunzip",
    reason: "InvalidData",
    pathOrDescriptor: path,
    description: cause instanceof Error ? cause.message : String(cause),
    cause
  })

/** The content of a compressed file from an offset on; everything before it is decompressed and dropped. */
const unzipped = (
  fs: FileSystem.FileSystem,
  path: string,
  offset: number
): Stream.Stream<Uint8Array, PlatformError.PlatformError> =>
  Stream.unwrap(
    Effect.map(
      Stream.toReadableStreamEffect(Stream.map(fs.stream(path), (bytes) => new Uint8Array(bytes))),
      (compressed) => {
        let left = offset
        return Stream.fromReadableStream({
          evaluate: () => compressed.pipeThrough(new DecompressionStream("gzip")),
          onError: (cause) => damaged(path, cause)
        }).pipe(Stream.map((bytes) => {
          const rest = bytes.subarray(Math.min(left, bytes.length))
          left -= bytes.length - rest.length
          return rest
        }))
      }
    )
  )

/**
 * Whether a file is compressed, by its name.
 *
 * @since 0.2.0
 * @category predicates
 */
export const isCompressed = (path: string): boolean => path.endsWith(".gz")

/**
 * Lines from an offset on, which is the beginning of a line. Blank lines are left out.
 *
 * @since 0.2.0
 * @category constructors
 */
export const stream = (
  path: string,
  options: { readonly offset: number; readonly limit: number }
): Stream.Stream<Line, PlatformError.PlatformError, FileSystem.FileSystem> =>
  Stream.unwrap(Effect.map(FileSystem.FileSystem, (fs) => {
    const lines = cutter(options.offset, options.limit)
    const bytes = isCompressed(path)
      ? unzipped(fs, path, options.offset)
      : fs.stream(path, { offset: options.offset })
    return bytes.pipe(
      Stream.mapConcat(lines.push),
      Stream.concat(Stream.suspend(() => Stream.fromIterable(lines.end())))
    )
  }))

/**
 * Lines of an open file by number.
 *
 * @since 0.2.0
 * @category models
 */
export interface Index {
  readonly size: number
  readonly read: (line: number) => Effect.Effect<Line, PlatformError.PlatformError>
}

/**
 * Scans a file once, keeps 16 bytes a line, and reads lines by number until the scope closes.
 *
 * @since 0.2.0
 * @category constructors
 */
export const index: (
  path: string,
  limit: number
) => Effect.Effect<Index, PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> = Effect.fnUntraced(
  function*(path, limit) {
    const fs = yield* FileSystem.FileSystem
    let bounds = new Float64Array(2048)
    let size = 0
    yield* Stream.runForEachChunk(stream(path, { offset: 0, limit }), (chunk) =>
      Effect.sync(() => {
        for (const { end, offset } of Chunk.toReadonlyArray(chunk)) {
          if (2 * size + 2 > bounds.length) {
            const larger = new Float64Array(bounds.length * 2)
            larger.set(bounds)
            bounds = larger
          }
          bounds[2 * size] = offset
          bounds[2 * size + 1] = end
          size++
        }
      }))
    const file = yield* fs.open(path, { flag: "r" })
    // A file has one cursor: seek and read belong together.
    const cursor = yield* Permits.make(1)
    return {
      size,
      read: (line) => {
        const offset = bounds[2 * line] ?? 0
        const end = bounds[2 * line + 1] ?? 0
        if (end - offset > limit + 1) return Effect.succeed({ bytes: undefined, offset, end })
        const length = end - offset
        return cursor.withPermits(1)(
          Effect.zipRight(file.seek(offset, "start"), readExactly(file, length))
        ).pipe(
          Effect.map((bytes) => ({
            bytes: bytes[bytes.length - 1] === newline ? bytes.subarray(0, -1) : bytes,
            offset,
            end
          }))
        )
      }
    }
  }
)

/**
 * That many bytes from where the file stands, or fewer at its end.
 *
 * @since 0.2.0
 * @category combinators
 */
export const readExactly = (
  file: FileSystem.File,
  length: number
): Effect.Effect<Uint8Array, PlatformError.PlatformError> =>
  Effect.gen(function*() {
    const out = new Uint8Array(length)
    let at = 0
    while (at < length) {
      const part = yield* file.readAlloc(length - at)
      if (Option.isNone(part)) return out.subarray(0, at)
      out.set(part.value, at)
      at += part.value.length
    }
    return out
  })
