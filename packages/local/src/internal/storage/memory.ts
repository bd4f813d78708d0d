/**
 * Storage in memory.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Service } from "../../Storage.js"

/** @internal */
export const makeMemory = (): Service => {
  const files = new Map<string, Uint8Array>()
  const below = (path: string) => Array.from(files.keys()).filter((name) => name.startsWith(`${path}/`))
  const clear = (path: string) => {
    files.delete(path)
    for (const name of below(path)) files.delete(name)
  }
  return {
    put: (path, bytes) => Effect.sync(() => files.set(path, bytes.slice())),
    putAll: (path, contents) =>
      Effect.sync(() => {
        clear(path)
        for (const [name, bytes] of contents) files.set(`${path}/${name}`, bytes.slice())
      }),
    get: (path) => Effect.sync(() => Option.fromNullable(files.get(path))),
    list: (path) =>
      Effect.sync(() =>
        Array.from(new Set(below(path).map((name) => name.slice(path.length + 1).split("/")[0] ?? ""))).sort()
      ),
    remove: (path) => Effect.sync(() => clear(path))
  }
}
