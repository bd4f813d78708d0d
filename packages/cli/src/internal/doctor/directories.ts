/**
 * Checks of the directories that commands write to: the hub's cache, and the data of the embedded backend.
 *
 * @since 0.2.0
 */
import * as HubDirectory from "@effect-tinker/platform/HubDirectory"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { statfs } from "node:fs/promises"
import * as text from "../../terminal/text.js"
import * as LocalModels from "../LocalModels.js"
import type { Check } from "./check.js"
import { failed, ok, warning } from "./check.js"

/** The weights of a small model, with room for checkpoints. */
const leastFree = 4 * 2 ** 30

/** The directory, or the nearest one above it that there is: where the first command makes it. */
const existing = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  let place = path.resolve(directory)
  while (!(yield* Effect.orElseSucceed(fs.exists(place), () => false))) {
    const above = path.dirname(place)
    if (above === place) break
    place = above
  }
  return place
})

const directory = Effect.fnUntraced(function*(check: string, name: string, variable: string, note = "") {
  const fs = yield* FileSystem.FileSystem
  const place = yield* existing(name)
  const info = yield* Effect.option(fs.stat(place))
  if (info._tag === "Some" && info.value.type !== "Directory") {
    return failed(check, `${place} is not a directory`, `Remove the file, or name another directory with ${variable}.`)
  }
  const isWritable = yield* Effect.isSuccess(fs.access(place, { writable: true }))
  if (!isWritable) {
    return failed(
      check,
      `${name} cannot be written to`,
      `Give yourself permission to write to ${place}, or name another directory with ${variable}.`
    )
  }
  const { bavail, bsize } = yield* Effect.promise(() => statfs(place))
  const free = bavail * bsize
  const detail = `${name}, ${text.size(free)} free${note}`
  return free < leastFree
    ? warning(check, detail, `Make room, or name a directory on a larger disk with ${variable}.`)
    : ok(check, detail)
})

const setting = (name: string) => Config.string(name).pipe(Config.withDefault(""))

/** @internal */
export const directories: Effect.Effect<ReadonlyArray<Check>, never, FileSystem.FileSystem | Path.Path> = Effect.gen(
  function*() {
    const [offline, token] = yield* Effect.all([setting("HF_HUB_OFFLINE"), setting("HF_TOKEN")])
    const isOffline = /^(1|true|yes|on)$/i.test(offline)
    const note = `${token === "" ? "" : ", with a token"}${isOffline ? ", offline" : ""}`
    return [
      yield* directory("hub cache", yield* HubDirectory.cache, "HF_HUB_CACHE", note),
      yield* directory("data", yield* LocalModels.directory, "TINKER_LOCAL_DIR")
    ]
  }
).pipe(Effect.orDie)
