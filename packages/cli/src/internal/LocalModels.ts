/**
 * Models that the embedded backend of this user serves beside the bundled ones: a list of references in its data
 * directory, so that a checkpoint finds its base model again.
 *
 * @since 0.2.0
 */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"

/** The data directory of the embedded backend. @internal */
export const directory: Effect.Effect<string> = Config.string("TINKER_LOCAL_DIR").pipe(
  Config.withDefault(join(homedir(), ".tinker", "local")),
  Effect.orDie
)

/** The models that a command asks for by name. @internal */
export class Requested extends Context.Reference<Requested>()("@effect-tinker/cli/LocalModels/Requested", {
  defaultValue: (): ReadonlyArray<string> => []
}) {}

/** How a command keeps the matrices of real models. @internal */
export class Quantize extends Context.Reference<Quantize>()("@effect-tinker/cli/LocalModels/Quantize", {
  defaultValue: (): "int8" | undefined => undefined
}) {}

const file = Effect.map(directory, (root) => join(root, "models"))

/** The references of earlier commands. @internal */
export const references: Effect.Effect<ReadonlyArray<string>> = Effect.flatMap(
  file,
  (name) =>
    Effect.tryPromise(() => readFile(name, "utf8")).pipe(
      Effect.map((text) => text.split("\n").map((line) => line.trim()).filter((line) => line !== "")),
      Effect.orElseSucceed(() => [])
    )
)

/** Keeps a reference for later commands. @internal */
export const remember = Effect.fnUntraced(function*(reference: string) {
  const known = yield* references
  if (known.includes(reference)) return
  const root = yield* directory
  const name = yield* file
  yield* Effect.promise(async () => {
    await mkdir(root, { recursive: true, mode: 0o700 })
    await writeFile(name, [...known, reference].map((line) => `${line}\n`).join(""), { mode: 0o600 })
  })
})
