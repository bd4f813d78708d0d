/**
 * The hub's cache on disk in the layout of the Python library, so that both share what was downloaded:
 *
 *     models--org--name/refs/main                      the commit a name stood for when last asked
 *     models--org--name/snapshots/COMMIT/FILE          the file (a plain file, as Python writes without symbolic links)
 *     models--org--name/.no_exist/COMMIT/FILE          an empty file: this commit has no such file
 */
import * as HubDirectory from "@effect-tinker/platform/HubDirectory"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"

/** @internal */
export interface HubCache {
  /** The commit that `revision` last stood for. */
  readonly commit: (repo: string, revision: string) => Effect.Effect<Option.Option<string>>
  readonly setCommit: (repo: string, revision: string, commit: string) => Effect.Effect<void>
  readonly read: (repo: string, commit: string, file: string) => Effect.Effect<Cached>
  readonly write: (repo: string, commit: string, file: string, content: Uint8Array) => Effect.Effect<void>
  readonly writeAbsent: (repo: string, commit: string, file: string) => Effect.Effect<void>
}

/** @internal */
export type Cached =
  | { readonly _tag: "Present"; readonly content: Uint8Array }
  | { readonly _tag: "Absent" }
  | { readonly _tag: "Unknown" }

/** @internal */
export const make: (directory: string) => Effect.Effect<HubCache, never, FileSystem.FileSystem | Path.Path> = Effect
  .fnUntraced(function*(directory) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = (repo: string) => path.join(directory, HubDirectory.nameOf(repo))

    // a cache that cannot be read or written is an empty one, not a failure
    const read = (file: string) => Effect.option(fs.readFile(file))
    const write = (file: string, content: Uint8Array) =>
      Effect.gen(function*() {
        yield* fs.makeDirectory(path.dirname(file), { recursive: true })
        const unique = yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)
        const draft = `${file}.${unique.toString(36)}.incomplete`
        yield* fs.writeFile(draft, content).pipe(
          Effect.zipRight(fs.rename(draft, file)),
          Effect.onError(() => Effect.ignore(fs.remove(draft)))
        )
      }).pipe(
        Effect.catchAll((error: PlatformError) => Effect.logDebug(`cannot keep ${file}: ${error.message}`)),
        Effect.annotateLogs({ package: "@effect-tinker/tokenizer", module: "HuggingFaceHub" })
      )

    return {
      commit: (repo, revision) =>
        HubDirectory.commitOf(root(repo), revision).pipe(
          Effect.provideService(FileSystem.FileSystem, fs),
          Effect.provideService(Path.Path, path)
        ),
      setCommit: (repo, revision, commit) =>
        HubDirectory.isCommit(revision)
          ? Effect.void
          : write(path.join(root(repo), "refs", revision), new TextEncoder().encode(commit)),
      read: Effect.fnUntraced(function*(repo, commit, file) {
        const content = yield* read(path.join(root(repo), "snapshots", commit, file))
        if (Option.isSome(content)) return { _tag: "Present" as const, content: content.value }
        const absent = yield* read(path.join(root(repo), ".no_exist", commit, file))
        return { _tag: Option.isSome(absent) ? "Absent" as const : "Unknown" as const }
      }),
      write: (repo, commit, file, content) => write(path.join(root(repo), "snapshots", commit, file), content),
      writeAbsent: (repo, commit, file) => write(path.join(root(repo), ".no_exist", commit, file), new Uint8Array(0))
    }
  })
