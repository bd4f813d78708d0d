/**
 * Follows a file that others append lines to. Every call to `read` hands over the lines that were completed since the
 * last one. A line without its newline is still being written and stays for the next call.
 *
 * Writers also truncate, rotate and rewrite files. The reader notices when the file shrinks, when another file has taken
 * its name, and when the bytes before its position have changed; it then starts over and says so.
 */
import * as Bytes from "@effect-tinker/platform/Bytes"
import * as Lines from "@effect-tinker/platform/Lines"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"

/** @internal */
export interface Listener {
  /** The file was replaced or truncated: what was read of it before no longer counts. */
  readonly restarted: () => void
  readonly line: (text: string, offset: number, bytes: number) => void
  /** A line longer than the limit was passed over. */
  readonly oversized: (offset: number) => void
}

/** @internal */
export interface Tail {
  /** Reads on, and yields whether there was anything new. */
  readonly read: Effect.Effect<boolean, PlatformError.PlatformError, FileSystem.FileSystem>
  /** Bytes of complete lines read so far. */
  readonly offset: () => number
  /** When the file was last written to, in milliseconds since 1970. */
  readonly modified: () => number | undefined
}

const blockBytes = 1024 * 1024
const anchorBytes = 64
const newline = 10
const decoder = new TextDecoder()

/** Reads up to `length` bytes at `offset`. */
const readAt = (file: FileSystem.File, offset: number, length: number) =>
  Effect.zipRight(file.seek(offset, "start"), Lines.readExactly(file, length))

/** @internal */
export const make = (path: string, listener: Listener, options?: { readonly maxLineBytes?: number }): Tail => {
  const maxLineBytes = options?.maxLineBytes ?? 64 * 1024 * 1024
  let offset = 0
  let anchor: Uint8Array = new Uint8Array(0)
  let inode: number | undefined
  let modified: number | undefined
  let seen = ""
  let skipping = false

  const restart = () => {
    offset = 0
    anchor = new Uint8Array(0)
    skipping = false
    listener.restarted()
  }

  const remember = (bytes: Uint8Array, end: number) => {
    const from = Math.max(0, end - anchorBytes)
    const kept = bytes.subarray(from, end)
    anchor = end - from === anchorBytes
      ? Uint8Array.from(kept)
      : Bytes.concat([anchor.subarray(Math.max(0, anchor.length + kept.length - anchorBytes)), kept]).slice()
  }

  /** Reads blocks up to the end the file had when we looked: a writer that is faster than us does not hold us up. */
  const blocks = Effect.fnUntraced(function*(file: FileSystem.File, size: number) {
    let want = blockBytes
    while (offset < size) {
      const bytes = yield* readAt(file, offset, Math.min(want, size - offset))
      if (bytes.length === 0) return
      let from = 0
      for (;;) {
        const end = bytes.indexOf(newline, from)
        if (end < 0) break
        if (skipping) skipping = false
        else if (end > from) listener.line(decoder.decode(bytes.subarray(from, end)), offset + from, end - from)
        from = end + 1
      }
      if (from > 0) {
        remember(bytes, from)
        offset += from
        want = blockBytes
      } else if (bytes.length >= maxLineBytes || skipping) {
        // Longer than we are willing to hold: passed over up to its newline.
        if (!skipping) listener.oversized(offset)
        skipping = true
        remember(bytes, bytes.length)
        offset += bytes.length
      } else if (offset + bytes.length >= size) return
      else want = Math.min(maxLineBytes, want * 2)
      // One block at a time: others get their turn in between.
      yield* Effect.yieldNow()
    }
  })

  const reading: Effect.Effect<boolean, PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> = Effect.gen(
    function*() {
      const fs = yield* FileSystem.FileSystem
      const stat = yield* fs.stat(path)
      const size = Number(stat.size)
      const found = Option.getOrUndefined(stat.ino)
      const mark = `${found} ${size} ${Option.getOrUndefined(stat.mtime)?.getTime()}`
      if (mark === seen) return false
      const file = yield* fs.open(path, { flag: "r" })
      const before = offset
      let restarted = false
      if (offset > 0) {
        const other = (inode !== undefined && found !== inode) || size < offset
        restarted = other || !Bytes.equals(yield* readAt(file, offset - anchor.length, anchor.length), anchor)
        if (restarted) restart()
      }
      inode = found
      modified = Option.getOrUndefined(stat.mtime)?.getTime()
      yield* blocks(file, size)
      seen = mark
      return restarted || offset !== before
    }
  )

  return {
    offset: () => offset,
    modified: () => modified,
    read: Effect.scoped(reading).pipe(
      Effect.catchIf(
        (error) => error._tag === "SystemError" && error.reason === "NotFound",
        () =>
          Effect.sync(() => {
            if (offset === 0) return false
            seen = ""
            inode = undefined
            restart()
            return true
          })
      )
    )
  }
}
