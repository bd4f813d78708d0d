/**
 * Where the embedded backend keeps checkpoints and records: a directory that other tools can read, or memory.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { makeDirectory } from "./internal/storage/directory.js"
import { makeMemory } from "./internal/storage/memory.js"

/**
 * A file could not be read or written.
 *
 * @since 0.1.0
 * @category errors
 */
export class StorageFailed extends Schema.TaggedError<StorageFailed>("@effect-tinker/local/Storage/StorageFailed")(
  "StorageFailed",
  { path: Schema.String, operation: Schema.String, cause: Schema.Defect }
) {
  override get message(): string {
    return `cannot ${this.operation} ${this.path}: ${reasonOf(this.cause)}`
  }
}

/** Advice by the codes of the operating system. */
const reasons: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the file system is read-only",
  ENAMETOOLONG: "the name is too long for the file system",
  ENOTDIR: "a part of the path is a file, not a directory",
  ENOENT: "no such file or directory",
  EIO: "the disk reports an error"
}

const reasonOf = (cause: unknown): string => {
  for (let at: unknown = cause, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth++) {
    const reason = "code" in at && typeof at.code === "string" ? reasons[at.code] : undefined
    if (reason !== undefined) return reason
  }
  return cause instanceof Error ? cause.message : String(cause)
}

/**
 * Files under names such as `runs/a/run.json`. What an operation wrote is on the disk when it returns, and a process
 * killed in the middle leaves either all of it or nothing.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** Writes or replaces one file. */
  readonly put: (path: string, bytes: Uint8Array) => Effect.Effect<void, StorageFailed>
  /** Writes or replaces a whole directory of files. */
  readonly putAll: (
    path: string,
    files: ReadonlyMap<string, Uint8Array>
  ) => Effect.Effect<void, StorageFailed>
  readonly get: (path: string) => Effect.Effect<Option.Option<Uint8Array>, StorageFailed>
  /** The names directly below a directory, sorted; none when there is no such directory. */
  readonly list: (path: string) => Effect.Effect<ReadonlyArray<string>, StorageFailed>
  /** Removes a file or a directory; what is not there is removed already. */
  readonly remove: (path: string) => Effect.Effect<void, StorageFailed>
}

/**
 * Where a backend keeps its files.
 *
 * @since 0.1.0
 * @category services
 */
export class Storage extends Context.Tag("@effect-tinker/local/Storage")<Storage, Service>() {}

/**
 * Nothing survives the process.
 *
 * @since 0.1.0
 * @category constructors
 */
export const memory: Effect.Effect<Service> = Effect.sync(makeMemory)

/**
 * Files below `root`, which is created when it does not exist, readable for this user only. What an earlier process left
 * half done is undone or finished first. Until the scope closes no other process can open it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const directory: (
  root: string
) => Effect.Effect<Service, StorageFailed, FileSystem.FileSystem | Path.Path | Scope.Scope> = Effect.fnUntraced(
  function*(root) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    return yield* makeDirectory({
      fs,
      path,
      root,
      failed: (operation, path) => (cause) => new StorageFailed({ operation, path, cause })
    })
  }
)

/**
 * Files in memory, gone with the process.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerMemory: Layer.Layer<Storage> = Layer.effect(Storage, memory)

/**
 * Files below a directory, each replaced in one step.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDirectory = (
  root: string
): Layer.Layer<Storage, StorageFailed, FileSystem.FileSystem | Path.Path> => Layer.scoped(Storage, directory(root))
