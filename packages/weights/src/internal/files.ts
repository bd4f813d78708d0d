/**
 * Output that is either complete or not there: a partial directory that knows what it is the beginning of, files that
 * get their name when their last byte is on disk.
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"

const plan = ".export-plan.json"

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

/** What an export is made from: names, sizes and times of the files of its inputs, and its options. @internal */
export const fingerprint: (
  directories: ReadonlyArray<string>,
  options: Readonly<Record<string, unknown>>
) => Effect.Effect<string, PlatformError.PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(directories, options) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const inputs: Array<readonly [file: string, bytes: number, modified: number]> = []
    for (const directory of directories) {
      for (const name of (yield* fs.readDirectory(directory)).slice().sort()) {
        const info = yield* fs.stat(path.join(directory, name))
        if (info.type !== "File") continue
        const modified = Option.match(info.mtime, { onNone: () => 0, onSome: (time) => time.getTime() })
        inputs.push([path.resolve(directory, name), Number(info.size), modified])
      }
    }
    return JSON.stringify({ format: 1, options, inputs })
  }
)

/** Makes the directory, or takes up the one an interrupted export of the same inputs left. @internal */
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

/** Writes a file under a temporary name, and renames it once it is on disk. @internal */
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
        yield* file.sync
      })
    ).pipe(Effect.zipRight(fs.rename(`${target}.tmp`, target))))

/** Gives a complete directory its name. @internal */
export const publish: (
  partial: string,
  output: string
) => Effect.Effect<void, PlatformError.PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(partial, output) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    yield* fs.rename(partial, output)
    yield* fs.remove(path.join(output, plan))
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
