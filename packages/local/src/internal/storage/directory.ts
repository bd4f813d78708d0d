/**
 * Storage in a directory. Everything new is written next to its place under a name that starts with a dot, made durable,
 * and renamed into place; a replaced directory steps aside first, under a name from which it can return. One process at a
 * time owns the directory (see `lock.ts`); only its user can read it.
 */
import * as DirectoryLock from "@effect-tinker/platform/DirectoryLock"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Service, StorageFailed } from "../../Storage.js"

const unfinished = ".new-"
const replaced = ".old-"

// Checkpoints may be private: nobody else on the machine reads them.
const directoryMode = 0o700
const fileMode = 0o600

const isHidden = (name: string): boolean => name.startsWith(".")

const isMissing = (error: PlatformError): boolean => error._tag === "SystemError" && error.reason === "NotFound"

/** @internal */
export interface DirectoryOptions {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly root: string
  readonly failed: (operation: string, path: string) => (cause: unknown) => StorageFailed
}

/** @internal */
export const makeDirectory = Effect.fnUntraced(function*({ failed, fs, path, root }: DirectoryOptions) {
  let counter = 0

  const sync = (name: string) =>
    Effect.scoped(Effect.flatMap(fs.open(name, { flag: "r" }), (file) => file.sync)).pipe(
      // some systems cannot sync a directory; there a rename is as durable as it gets
      Effect.catchTag("SystemError", (error) => isMissing(error) ? Effect.fail(error) : Effect.void)
    )

  const writeFile = (name: string, bytes: Uint8Array) =>
    Effect.scoped(
      Effect.flatMap(fs.open(name, { flag: "w", mode: fileMode }), (file) =>
        Effect.zipRight(bytes.length === 0 ? Effect.void : file.writeAll(bytes), file.sync))
    )

  /** Creates a directory and makes each new level durable in the one above. */
  const ensure: (name: string) => Effect.Effect<void, PlatformError> = Effect.fnUntraced(function*(name) {
    if (yield* fs.exists(name)) return
    const parent = path.dirname(name)
    if (parent !== name) yield* ensure(parent)
    // One level at a time: on some file systems (/proc) Node never returns from making several.
    yield* fs.makeDirectory(name, { mode: directoryMode }).pipe(
      // somebody was faster
      Effect.catchIf((error) => error._tag === "SystemError" && error.reason === "AlreadyExists", () => Effect.void)
    )
    yield* sync(parent)
  })

  const beside = (name: string, mark: string) =>
    path.join(path.dirname(name), `${mark}${counter++}-${path.basename(name)}`)

  const recover: (name: string) => Effect.Effect<void, PlatformError> = Effect.fnUntraced(function*(name) {
    for (const entry of yield* fs.readDirectory(name)) {
      // those of other processes come and go
      if (DirectoryLock.isClaim(entry)) continue
      const full = path.join(name, entry)
      if (entry.startsWith(unfinished)) {
        yield* fs.remove(full, { recursive: true })
      } else if (entry.startsWith(replaced)) {
        const place = path.join(name, entry.slice(replaced.length).replace(/^\d+-/, ""))
        // it stepped aside, but its successor never arrived
        if (yield* fs.exists(place)) yield* fs.remove(full, { recursive: true })
        else yield* fs.rename(full, place)
      } else if ((yield* fs.stat(full)).type === "Directory") {
        yield* recover(full)
      }
    }
  })

  const put = Effect.fnUntraced(function*(name: string, bytes: Uint8Array) {
    yield* ensure(path.dirname(name))
    const fresh = beside(name, unfinished)
    yield* writeFile(fresh, bytes).pipe(
      Effect.zipRight(fs.rename(fresh, name)),
      Effect.onError(() => Effect.ignore(fs.remove(fresh, { force: true })))
    )
    yield* sync(path.dirname(name))
  })

  const stepAside = Effect.fnUntraced(function*(name: string) {
    const aside = beside(name, replaced)
    return yield* fs.rename(name, aside).pipe(
      Effect.as(Option.some(aside)),
      Effect.catchIf(isMissing, () => Effect.succeedNone)
    )
  })

  const discard = (aside: Option.Option<string>) =>
    Option.match(aside, {
      onNone: () => Effect.void,
      onSome: (name) => Effect.ignore(fs.remove(name, { recursive: true, force: true }))
    })

  const putAll = Effect.fnUntraced(function*(name: string, files: ReadonlyMap<string, Uint8Array>) {
    yield* ensure(path.dirname(name))
    const fresh = beside(name, unfinished)
    yield* fs.makeDirectory(fresh, { mode: directoryMode })
    yield* Effect.forEach(files, ([file, bytes]) => writeFile(path.join(fresh, file), bytes), { discard: true }).pipe(
      Effect.zipRight(sync(fresh)),
      Effect.onError(() => Effect.ignore(fs.remove(fresh, { recursive: true, force: true })))
    )
    const aside = yield* stepAside(name)
    yield* fs.rename(fresh, name)
    yield* sync(path.dirname(name))
    yield* discard(aside)
  })

  const remove = Effect.fnUntraced(function*(name: string) {
    // hidden in one step, under the name of something unfinished, then removed piece by piece
    const aside = beside(name, unfinished)
    yield* fs.rename(name, aside).pipe(
      Effect.zipRight(sync(path.dirname(name))),
      Effect.zipRight(fs.remove(aside, { recursive: true, force: true })),
      Effect.catchIf(isMissing, () => Effect.void)
    )
  })

  const at = (name: string) => path.join(root, ...name.split("/"))

  yield* Effect.mapError(ensure(root), failed("open", root))
  // a directory of somebody else stays as it is
  yield* Effect.ignore(fs.chmod(root, directoryMode))
  const refused = (why: string) => failed("open", root)(new Error(why))
  const lock = yield* DirectoryLock.acquire(root).pipe(
    Effect.provideService(FileSystem.FileSystem, fs),
    Effect.mapError(failed("lock", root))
  )
  if (Option.isSome(lock.owner)) {
    return yield* refused(
      `process ${lock.owner.value} is using it; stop that process, talk to its server, or choose another directory`
    )
  }
  yield* Effect.mapError(recover(root), failed("open", root))

  const checkHeld = Effect.suspend(() => lock.isHeld() ? Effect.void : refused("another process has taken it over"))

  /** Once started, a change is completed: an interrupted request leaves nothing half done. */
  const change = (operation: string, name: string, effect: Effect.Effect<void, PlatformError>) =>
    Effect.uninterruptible(Effect.zipRight(checkHeld, Effect.mapError(effect, failed(operation, name))))

  const service: Service = {
    put: (name, bytes) => change("write", name, put(at(name), bytes)),
    putAll: (name, files) => change("write", name, putAll(at(name), files)),
    remove: (name) => change("remove", name, remove(at(name))),
    get: (name) =>
      fs.readFile(at(name)).pipe(
        Effect.map(Option.some),
        Effect.catchIf(isMissing, () => Effect.succeedNone),
        Effect.mapError(failed("read", name))
      ),
    list: (name) =>
      fs.readDirectory(at(name)).pipe(
        Effect.map((names) => names.filter((entry) => !isHidden(entry)).sort()),
        Effect.catchIf(isMissing, () => Effect.succeed([])),
        Effect.mapError(failed("list", name))
      )
  }
  return service
})
