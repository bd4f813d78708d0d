/**
 * A file of lines that only grows. A line is written whole, in one go; what a killed writer left of its last one is removed
 * when the file is opened again.
 */
import * as Lines from "@effect-tinker/platform/Lines"
import * as Permits from "@effect-tinker/platform/Permits"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

const block = 64 * 1024
const encoder = new TextEncoder()

/** Removes what follows the last newline. */
const removeTornLine = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string) {
  if (!(yield* fs.exists(path))) return
  const file = yield* fs.open(path, { flag: "r+" })
  const size = Number((yield* file.stat).size)
  let from = size
  while (from > 0) {
    const begin = Math.max(0, from - block)
    yield* file.seek(begin, "start")
    const end = (yield* Lines.readExactly(file, from - begin)).lastIndexOf(10)
    if (end >= 0) {
      if (begin + end + 1 < size) yield* file.truncate(begin + end + 1)
      return
    }
    from = begin
  }
  if (size > 0) yield* file.truncate(0)
}, Effect.scoped)

/** @internal */
export interface AppendFile {
  /** Writes text that ends with a newline; one writer at a time. */
  readonly append: (text: string) => Effect.Effect<void, PlatformError.PlatformError>
}

/**
 * Opens a file until the scope closes; a new one can be read by its user only. Read it afterwards: what is torn is gone then.
 *
 * @internal
 */
export const open: (
  fs: FileSystem.FileSystem,
  path: string,
  options?: {
    /** Wait until each line is on the disk. */
    readonly sync?: boolean | undefined
  }
) => Effect.Effect<AppendFile, PlatformError.PlatformError, Scope.Scope> = Effect.fnUntraced(
  function*(fs, path, options) {
    yield* removeTornLine(fs, path)
    const file = yield* fs.open(path, { flag: "a", mode: 0o600 })
    const one = yield* Permits.make(1)
    return {
      append: (text) =>
        one.withPermits(1)(Effect.uninterruptible(
          Effect.zipRight(file.writeAll(encoder.encode(text)), options?.sync === true ? file.sync : Effect.void)
        ))
    }
  }
)
