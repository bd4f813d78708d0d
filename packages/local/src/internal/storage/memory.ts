/**
 * Storage in memory.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Service } from "../../Storage.js"

type Directory = Map<string, Uint8Array | Directory>

/** @internal */
export const makeMemory = (): Service => {
  const root: Directory = new Map()

  const find = (path: string): Uint8Array | Directory | undefined => {
    let at: Uint8Array | Directory | undefined = root
    for (const name of path.split("/")) at = at instanceof Map ? at.get(name) : undefined
    return at
  }
  /** The directory of a path, made if need be, and the last name of the path. */
  const reach = (path: string): readonly [directory: Directory, name: string] => {
    const names = path.split("/")
    const name = names.pop() ?? ""
    let at = root
    for (const step of names) {
      const next = at.get(step)
      const directory: Directory = next instanceof Map ? next : new Map()
      at.set(step, directory)
      at = directory
    }
    return [at, name]
  }
  const write = (path: string, content: Uint8Array | Directory) => {
    const [directory, name] = reach(path)
    directory.set(name, content)
  }
  const remove = (path: string) => {
    const [directory, name] = reach(path)
    directory.delete(name)
  }

  return {
    put: (path, bytes) => Effect.sync(() => write(path, bytes.slice())),
    putAll: Effect.fnUntraced(function*(path, contents) {
      const copies: Directory = new Map()
      for (const [name, bytes] of contents) {
        copies.set(name, bytes.slice())
        yield* Effect.yieldNow()
      }
      // at once, so that nobody sees some of the files
      write(path, copies)
    }),
    get: (path) =>
      Effect.sync(() => {
        const found = find(path)
        return found instanceof Uint8Array ? Option.some(found) : Option.none()
      }),
    list: (path) =>
      Effect.sync(() => {
        const found = find(path)
        return found instanceof Map ? Array.from(found.keys()).sort() : []
      }),
    remove: (path) => Effect.sync(() => remove(path))
  }
}
