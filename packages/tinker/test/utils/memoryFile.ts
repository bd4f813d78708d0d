import { FileSystem } from "@effect/platform"
import { SystemError } from "@effect/platform/Error"
import { Effect, Option, Stream } from "effect"

/** One file in memory, which a test writes and a reader looks at: no disk, so that `TestClock` is all the time there is. */
export const make = () => {
  let content: Uint8Array | undefined
  let version = 0
  let looks = 0
  const encoder = new TextEncoder()
  const set = (next: Uint8Array | undefined) => {
    content = next
    version++
  }
  const found = (method: string) =>
    Effect.suspend(() =>
      content === undefined
        ? Effect.fail(new SystemError({ module: "FileSystem", method, reason: "NotFound", pathOrDescriptor: "log" }))
        : Effect.succeed(content)
    )
  const layer = FileSystem.layerNoop({
    stat: () =>
      Effect.map(found("stat"), (bytes) => {
        looks++
        const none = Option.none()
        return {
          type: "File",
          size: FileSystem.Size(bytes.length),
          mtime: Option.some(new Date(version)),
          ino: Option.some(1),
          atime: none,
          birthtime: none,
          dev: 0,
          mode: 0,
          nlink: none,
          uid: none,
          gid: none,
          rdev: none,
          blksize: none,
          blocks: none
        }
      }),
    stream: (_, options) =>
      Stream.fromEffect(Effect.map(found("open"), (bytes) => {
        const from = Number(options?.offset ?? 0)
        return bytes.subarray(from, from + Number(options?.bytesToRead ?? bytes.length))
      }))
  })
  return {
    layer,
    looks: () => looks,
    remove: () => set(undefined),
    write: (text: string) => set(encoder.encode(text)),
    append: (text: string) => {
      const more = encoder.encode(text)
      const before = content ?? new Uint8Array(0)
      const next = new Uint8Array(before.length + more.length)
      next.set(before)
      next.set(more, before.length)
      set(next)
    }
  }
}
