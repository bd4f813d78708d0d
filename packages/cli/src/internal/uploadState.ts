/**
 * What is known of an upload in parts that has not been completed: where its parts go, and which are there. It lets a
 * later run of the command go on where this one broke off.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import { homedir } from "node:os"

const UploadState = Schema.Struct({
  /** Where the list of parts goes in the end. */
  href: Schema.String,
  chunk: Schema.Int.pipe(Schema.positive()),
  parts: Schema.Array(Schema.Struct({ number: Schema.Int, url: Schema.String, etag: Schema.optional(Schema.String) }))
})

/** @internal */
export type UploadState = typeof UploadState.Type

const Json = Schema.parseJson(UploadState)
const decode = Schema.decode(Json)
const encode = Schema.encodeSync(Json)

/** @internal */
export interface UploadStates {
  readonly load: Effect.Effect<Option.Option<UploadState>>
  /** Best effort: an upload that cannot be remembered is still an upload. */
  readonly save: (state: UploadState) => Effect.Effect<void>
  readonly forget: Effect.Effect<void>
}

/** The uploads of one content to one repository. @internal */
export const make: (
  key: { readonly endpoint: string; readonly repo: string; readonly oid: string }
) => Effect.Effect<UploadStates, never, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(function*(key) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const cache = yield* Config.string("XDG_CACHE_HOME").pipe(
    Config.withDefault(path.join(homedir(), ".cache")),
    Effect.orDie
  )
  const directory = path.join(cache, "tinker", "uploads")
  const name = createHash("sha256").update(JSON.stringify([key.endpoint, key.repo, key.oid])).digest("hex")
  const file = path.join(directory, `${name}.json`)
  const turn = yield* Effect.makeSemaphore(1)
  return {
    load: Effect.option(Effect.flatMap(fs.readFileString(file), decode)),
    save: (state) =>
      Effect.gen(function*() {
        yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
        // Whoever has these addresses may write to them.
        yield* fs.writeFileString(`${file}.new`, encode(state), { mode: 0o600 })
        yield* fs.rename(`${file}.new`, file)
      }).pipe(turn.withPermits(1), Effect.uninterruptible, Effect.ignore),
    forget: Effect.ignore(fs.remove(file, { force: true }))
  }
})
