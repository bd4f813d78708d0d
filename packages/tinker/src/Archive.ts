/**
 * Extraction of tar archives that come from elsewhere: only regular files and directories are written, only below the
 * target, only within limits, and only all or nothing.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as tar from "./internal/archive/tar.js"

/**
 * The archive was not extracted, and nothing of it was kept.
 *
 * @since 0.1.0
 * @category errors
 */
export class ArchiveRefused extends Schema.TaggedError<ArchiveRefused>("effect-tinker/Archive/ArchiveRefused")(
  "ArchiveRefused",
  {
    reason: Schema.Literal(
      "absolute-path",
      "escaping-path",
      "unsafe-name",
      "link",
      "special-file",
      "duplicate",
      "too-many-entries",
      "too-large",
      "truncated",
      "malformed",
      "unsupported"
    ),
    description: Schema.String,
    /** The member at fault, as the archive names it. */
    entry: Schema.optional(Schema.String),
    cause: Schema.optional(Schema.Defect)
  }
) {
  override get message(): string {
    return `Archive refused: ${this.description}${this.entry === undefined ? "" : ` (${JSON.stringify(this.entry)})`}`
  }
}

/**
 * Limits of an archive.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Limits {
  /** Members, directories included. Defaults to 10,000. */
  readonly maxEntries?: number | undefined
  /** Bytes of all files together, after decompression. Defaults to 256 GiB. */
  readonly maxTotalBytes?: number | undefined
}

/**
 * Extracted files.
 *
 * @since 0.1.0
 * @category models
 */
export interface Summary {
  readonly files: number
  readonly bytes: number
}

const gzipMagic = [0x1f, 0x8b]
const otherCompression: ReadonlyArray<readonly [name: string, magic: ReadonlyArray<number>]> = [
  ["zstd", [0x28, 0xb5, 0x2f, 0xfd]],
  ["xz", [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
  ["bzip2", [0x42, 0x5a, 0x68]],
  ["zip", [0x50, 0x4b, 0x03, 0x04]]
]

const startsWith = (bytes: Uint8Array, magic: ReadonlyArray<number>): boolean =>
  bytes.length >= magic.length && magic.every((byte, i) => bytes[i] === byte)

const concat = (left: Uint8Array, right: Uint8Array): Uint8Array => {
  const bytes = new Uint8Array(left.length + right.length)
  bytes.set(left)
  bytes.set(right, left.length)
  return bytes
}

const gunzip = <E, R>(source: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, ArchiveRefused | E, R> =>
  Stream.unwrap(Effect.map(Stream.toReadableStreamEffect(source), (readable) =>
    Stream.fromReadableStream({
      // The declared element types of the two ends differ between lib.dom and Node, the bytes do not.
      evaluate: () => readable.pipeThrough<Uint8Array>(new DecompressionStream("gzip") as ReadableWritablePair),
      onError: (cause) =>
        new ArchiveRefused({ reason: "malformed", description: "the compressed data is damaged or incomplete", cause })
    })))

/**
 * The bytes of a tar archive, decompressed when they are gzip.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decompress = <E, R>(
  source: Stream.Stream<Uint8Array, E, R>
): Stream.Stream<Uint8Array, ArchiveRefused | E, R> =>
  Stream.unwrapScoped(Effect.gen(function*() {
    const pull = yield* Stream.toPull(source)
    // Enough to recognise every format below; the source may deliver single bytes.
    let head: Uint8Array = new Uint8Array(0)
    while (head.length < 6) {
      const next = yield* Effect.catchAll(
        Effect.asSome(pull),
        Option.match({ onNone: () => Effect.succeedNone, onSome: Effect.fail })
      )
      if (Option.isNone(next)) break
      head = Chunk.reduce(next.value, head, concat)
    }
    const whole = Stream.concat(Stream.succeed(head), Stream.fromPull(Effect.succeed(pull)))
    const other = otherCompression.find(([, magic]) => startsWith(head, magic))
    if (other !== undefined) {
      return Stream.fail(
        new ArchiveRefused({ reason: "unsupported", description: `${other[0]} archives are not supported` })
      )
    }
    return startsWith(head, gzipMagic) ? gunzip(whole) : whole
  }))

const refused = (refusal: tar.Refusal): ArchiveRefused => new ArchiveRefused(refusal)

const events = <E, R>(
  source: Stream.Stream<Uint8Array, E, R>,
  limits: tar.Limits
): Stream.Stream<tar.TarEvent, ArchiveRefused | E, R> =>
  Stream.suspend(() => {
    const reader = tar.makeReader(limits)
    return source.pipe(
      Stream.mapChunksEffect((chunk) => {
        const out: Array<tar.TarEvent> = []
        for (const bytes of chunk) {
          const refusal = reader.push(bytes, out)
          if (refusal !== undefined) return Effect.fail(refused(refusal))
        }
        return Effect.succeed(Chunk.unsafeFromArray(out))
      }),
      Stream.concat(Stream.suspend(() => {
        const refusal = reader.end()
        return refusal === undefined ? Stream.empty : Stream.fail(refused(refusal))
      }))
    )
  })

const isEmptyOrMissing = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, directory: string) {
  if (!(yield* fs.exists(directory))) return true
  return (yield* fs.readDirectory(directory)).length === 0
})

/**
 * Writes the members of a tar archive (plain or gzip) below `directory`, which must be empty or absent. When anything
 * is wrong with the archive, or the extraction is interrupted, the directory is removed again.
 *
 * @since 0.1.0
 * @category combinators
 */
export const extract: <E, R>(
  source: Stream.Stream<Uint8Array, E, R>,
  options: Limits & {
    readonly directory: string
    /** Called after each write with the bytes so far. */
    readonly onProgress?: ((bytes: number) => Effect.Effect<void>) | undefined
  }
) => Effect.Effect<
  Summary,
  ArchiveRefused | PlatformError.PlatformError | E,
  FileSystem.FileSystem | Path.Path | R
> = Effect.fnUntraced(function*(source, options) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  if (!(yield* isEmptyOrMissing(fs, options.directory))) {
    return yield* new ArchiveRefused({
      reason: "duplicate",
      description: `the target directory ${options.directory} is not empty`
    })
  }
  const limits = {
    maxEntries: options.maxEntries ?? 10_000,
    maxTotalBytes: options.maxTotalBytes ?? 256 * 2 ** 30
  }
  const onProgress = options.onProgress ?? (() => Effect.void)

  return yield* Effect.acquireUseRelease(
    Effect.zipRight(
      fs.makeDirectory(options.directory, { recursive: true }),
      Effect.sync(() => ({ files: 0, bytes: 0, open: Option.none<readonly [FileSystem.File, Scope.CloseableScope]>() }))
    ),
    Effect.fnUntraced(function*(state) {
      const made = new Set<string>()
      const makeDirectory = (segments: ReadonlyArray<string>) => {
        const directory = path.join(options.directory, ...segments)
        if (made.has(directory)) return Effect.void
        made.add(directory)
        return fs.makeDirectory(directory, { recursive: true })
      }
      yield* Stream.runForEach(
        events(decompress(source), limits),
        Effect.fnUntraced(function*(event) {
          switch (event._tag) {
            case "Directory":
              return yield* makeDirectory(event.path)
            case "File": {
              yield* makeDirectory(event.path.slice(0, -1))
              const scope = yield* Scope.make()
              // "wx" also catches names that differ for the archive and are equal for this file system
              const file = yield* fs.open(path.join(options.directory, ...event.path), { flag: "wx" }).pipe(
                Scope.extend(scope),
                Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
              )
              state.open = Option.some([file, scope])
              return
            }
            case "Data": {
              if (Option.isNone(state.open)) return
              yield* state.open.value[0].writeAll(event.bytes)
              state.bytes += event.bytes.length
              return yield* onProgress(state.bytes)
            }
            case "FileEnd": {
              if (Option.isNone(state.open)) return
              const scope = state.open.value[1]
              state.open = Option.none()
              state.files++
              return yield* Scope.close(scope, Exit.void)
            }
          }
        })
      )
      return { files: state.files, bytes: state.bytes }
    }),
    (state, exit) =>
      Effect.zipRight(
        Option.isSome(state.open) ? Scope.close(state.open.value[1], Exit.void) : Effect.void,
        Exit.isSuccess(exit)
          ? Effect.void
          : Effect.ignore(fs.remove(options.directory, { recursive: true, force: true }))
      )
  )
})
