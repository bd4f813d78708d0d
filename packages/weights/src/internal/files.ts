/**
 * Output that is either complete or absent: a partial directory that records what it was started from, files that get
 * their names when their last byte is written.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"

const plan = ".export-plan.json"

/** Reads bytes from `start`, into the beginning of `into` where it is given; fails if the file ends before them. @internal */
export type ReadRange<E> = (
  start: number,
  bytes: number,
  into?: Uint8Array
) => Effect.Effect<Uint8Array, PlatformError.PlatformError | E>

/** Ranges of an open file, one at a time; `cutOff` is the failure for those beyond its end. @internal */
export const makeReader = <E>(file: FileSystem.File, size: number, cutOff: E): Effect.Effect<ReadRange<E>> =>
  Effect.map(
    Permits.make(1),
    (lock): ReadRange<E> => (start, bytes, into) =>
      start + bytes > size ? Effect.fail(cutOff) : lock.withPermits(1)(Effect.gen(function*() {
        const buffer = into === undefined ? new Uint8Array(bytes) : into.subarray(0, bytes)
        yield* file.seek(FileSystem.Size(start), "start")
        let filled = 0
        while (filled < bytes) {
          const count = Number(yield* file.read(buffer.subarray(filled)))
          if (count === 0) return yield* Effect.fail(cutOff)
          filled += count
        }
        return buffer
      }))
  )

/** @internal */
export const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/**
 * Fingerprint of an export's inputs: names, sizes and times of its inputs, which are files or the files of directories, and its
 * options. @internal
 */
export const fingerprint: (
  sources: ReadonlyArray<string>,
  options: Readonly<Record<string, unknown>>
) => Effect.Effect<string, PlatformError.PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(sources, options) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const inputs: Array<readonly [file: string, bytes: number, modified: number]> = []
    for (const source of sources) {
      const isDirectory = (yield* fs.stat(source)).type === "Directory"
      const names = isDirectory ? (yield* fs.readDirectory(source)).slice().sort() : [""]
      for (const name of names) {
        const info = yield* fs.stat(path.join(source, name))
        if (info.type !== "File") continue
        const modified = Option.match(info.mtime, { onNone: () => 0, onSome: (time) => time.getTime() })
        inputs.push([path.resolve(source, name), Number(info.size), modified])
      }
    }
    return JSON.stringify({ format: 1, options, inputs })
  }
)

/** Makes the directory, or continues in the one that an interrupted export of the same inputs left. @internal */
export const claim: (
  directory: string,
  inputs: string
) => Effect.Effect<void, PlatformError.PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(directory, inputs) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const marker = path.join(directory, plan)
    const found = yield* Effect.option(fs.readFileString(marker))
    if (Option.contains(found, inputs)) return
    yield* fs.remove(directory, { recursive: true, force: true })
    yield* fs.makeDirectory(directory, { recursive: true })
    yield* fs.writeFileString(marker, inputs)
  }
)

/**
 * Writes a file under a temporary name, and renames it when its last byte is written. It is not flushed to the disk: like
 * a copied file it survives the end of the process, not a power cut in the seconds after it. @internal
 */
export const writeWhole = <E, R>(
  target: string,
  content: Stream.Stream<Uint8Array, E, R>
): Effect.Effect<void, E | PlatformError.PlatformError, R | FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.scoped(
      Effect.gen(function*() {
        const file = yield* fs.open(`${target}.tmp`, { flag: "w" })
        // The next block is read and computed while this one is written.
        yield* Stream.runForEach(Stream.buffer(content, { capacity: 1 }), (bytes) =>
          bytes.length === 0 ? Effect.void : file.writeAll(bytes))
      })
    ).pipe(Effect.zipRight(fs.rename(`${target}.tmp`, target))))

/** Bytes to be computed, and their place in a file. @internal */
export interface Patch<E> {
  readonly tensor: string
  readonly start: number
  readonly length: number
  /** Computes them, in the memory it is given. */
  readonly bytes: (into: Uint8Array) => Effect.Effect<Uint8Array, E>
}

/**
 * Copies a file. A copy cannot be broken off: interrupted half-way it would continue to write to a file we no longer own.
 * The copy of a read-only file is read-only, and could not be replaced by a second attempt. @internal
 */
export const copyWritable = (
  fs: FileSystem.FileSystem,
  source: string,
  target: string
): Effect.Effect<void, PlatformError.PlatformError> =>
  fs.remove(target, { force: true }).pipe(
    Effect.zipRight(fs.copyFile(source, target)),
    Effect.zipRight(fs.chmod(target, 0o644)),
    Effect.uninterruptible
  )

/** Patches in memory at a time: one is computed while the one before is written, the others wait for the copy to end. */
const patchBuffers = 4

/**
 * Copies a file and overwrites parts of the copy; like `writeWhole`, under a temporary name first. The operating system
 * copies without passing the bytes through this process, and on some file systems without copying them at all. @internal
 */
export const copyPatched = <E>(
  source: string,
  target: string,
  options: {
    readonly patches: ReadonlyArray<Patch<E>>
    readonly onCopied: Effect.Effect<void>
    readonly onPatched: (patch: Patch<E>) => Effect.Effect<void>
  }
): Effect.Effect<void, E | PlatformError.PlatformError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => {
    const temporary = `${target}.tmp`
    return Effect.scoped(
      Effect.gen(function*() {
        const copied = yield* copyWritable(fs, source, temporary).pipe(
          Effect.zipRight(options.onCopied),
          Effect.zipRight(fs.open(temporary, { flag: "r+" })),
          Effect.forkScoped
        )
        const largest = options.patches.reduce((most, { length }) => Math.max(most, length), 0)
        const free = yield* Queue.unbounded<Uint8Array>()
        yield* Queue.offerAll(free, Array.from({ length: patchBuffers }, () => new Uint8Array(largest)))
        const computed = Stream.mapEffect(
          Stream.fromIterable(options.patches),
          Effect.fnUntraced(function*(patch) {
            const buffer = yield* Queue.take(free)
            return { patch, buffer, bytes: yield* patch.bytes(buffer) }
          })
        )
        yield* Stream.runForEach(
          Stream.buffer(computed, { capacity: patchBuffers }),
          Effect.fnUntraced(function*({ buffer, bytes, patch }) {
            const file = yield* Fiber.join(copied)
            yield* file.seek(FileSystem.Size(patch.start), "start")
            yield* file.writeAll(bytes)
            yield* Queue.offer(free, buffer)
            yield* options.onPatched(patch)
          })
        )
        yield* Fiber.join(copied)
      })
    ).pipe(Effect.zipRight(fs.rename(temporary, target)))
  })

/** Whether a file is there with all its bytes. @internal */
export const isComplete = (
  file: string,
  bytes: number
): Effect.Effect<boolean, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.stat(file).pipe(
      Effect.map(({ size }) => Number(size) === bytes),
      Effect.orElseSucceed(() => false)
    ))

/** Writes text files into a directory. @internal */
export const writeTexts: (
  directory: string,
  texts: Readonly<Record<string, string>>
) => Effect.Effect<void, PlatformError.PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(directory, texts) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    for (const [name, text] of Object.entries(texts)) yield* fs.writeFileString(path.join(directory, name), text)
  }
)

/** Gives a complete directory its name. @internal */
export const publish: (
  partial: string,
  output: string
) => Effect.Effect<void, PlatformError.PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(partial, output) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    yield* fs.remove(path.join(partial, plan))
    yield* fs.rename(partial, output)
  }
)

/** A program that reports events, as a stream of them. @internal */
export const events = <A, E, R>(
  run: (emit: (event: A) => Effect.Effect<void>) => Effect.Effect<void, E, R>
): Stream.Stream<A, E, R> =>
  Stream.asyncPush<A, E, R>((emit) =>
    Effect.forkScoped(
      run((event) => Effect.sync(() => void emit.single(event))).pipe(
        Effect.matchCauseEffect({
          onFailure: (cause) => Effect.sync(() => emit.halt(cause)),
          onSuccess: () => Effect.sync(() => emit.end())
        })
      )
    ), { bufferSize: "unbounded" })
