/**
 * Looking for run directories.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { FindOptions } from "../../RunDirectory.js"

const passedOver = /^(\.|node_modules$|iteration_\d+$|__pycache__$)/

/** @internal */
export const find: (
  root: string,
  options?: FindOptions
) => Effect.Effect<ReadonlyArray<string>, never, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(root, options) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const maxDirectories = options?.maxDirectories ?? 20_000
    const found: Array<string> = []
    let level: Array<string> = ["."]
    let looked = 0
    for (let depth = 0; depth <= (options?.depth ?? 4) && level.length > 0; depth++) {
      const next: Array<string> = []
      for (const directory of level) {
        if (++looked > maxDirectories) return found
        const names = yield* Effect.orElseSucceed(fs.readDirectory(path.join(root, directory)), (): Array<string> => [])
        if (["journal.jsonl", "metrics.jsonl", "checkpoints.jsonl"].some((name) => names.includes(name))) {
          found.push(directory)
        }
        for (const name of names) {
          // A name with a suffix is a file nearly always; asking the file system costs more than all the rest.
          if (passedOver.test(name) || /\.(jsonl?|html|txt|diff|safetensors|bin|log|md|png|lock)$/.test(name)) continue
          const child = path.join(directory, name)
          const info = yield* Effect.option(fs.stat(path.join(root, child)))
          if (Option.exists(info, ({ type }) => type === "Directory")) next.push(child)
        }
      }
      level = next
    }
    return found
  }
)
