/**
 * Models that are on this machine already: in a directory, or in the cache that `hf download`, vLLM, transformers and
 * every other user of the Hugging Face Hub share.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ModelNotFound } from "./WeightsError.js"

/**
 * The cache's directory, as the Hub's own tools find it: `HF_HUB_CACHE`, then `HF_HOME`, then the user's cache directory.
 *
 * @since 0.1.0
 * @category configuration
 */
export const directory: Effect.Effect<string, never, Path.Path> = Effect.gen(function*() {
  const path = yield* Path.Path
  const variable = (name: string) => Effect.orElseSucceed(Config.nonEmptyString(name), () => undefined)
  const hub = (yield* variable("HF_HUB_CACHE")) ?? (yield* variable("HUGGINGFACE_HUB_CACHE"))
  if (hub !== undefined) return hub
  const home = yield* variable("HF_HOME")
  if (home !== undefined) return path.join(home, "hub")
  const user = (yield* variable("HOME")) ?? (yield* variable("USERPROFILE")) ?? "."
  const cache = (yield* variable("XDG_CACHE_HOME")) ?? path.join(user, ".cache")
  return path.join(cache, "huggingface", "hub")
})

const repository = /^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/

/**
 * The directory of a model: itself, if it is one, or the snapshot that the cache has of the repository of that name.
 *
 * @since 0.1.0
 * @category constructors
 */
export const find: (
  model: string,
  options?: {
    /** Branch, tag or commit of the repository. Defaults to `main`. */
    readonly revision?: string | undefined
  }
) => Effect.Effect<string, ModelNotFound, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(model, options) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const hasConfig = (place: string) => Effect.orElseSucceed(fs.exists(path.join(place, "config.json")), () => false)
    if (yield* hasConfig(model)) return model
    const cache = yield* directory
    const missing = (description: string) => new ModelNotFound({ model, description })
    if (yield* Effect.orElseSucceed(fs.exists(model), () => false)) {
      return yield* missing(`the directory has no config.json; was the model downloaded completely?`)
    }
    if (!repository.test(model)) return yield* missing("there is no such directory")
    const own = path.join(cache, `models--${model.replaceAll("/", "--")}`)
    const revision = options?.revision ?? "main"
    const commit = yield* fs.readFileString(path.join(own, "refs", revision)).pipe(
      Effect.map((text) => text.trim()),
      Effect.option
    )
    const snapshot = path.join(own, "snapshots", Option.getOrElse(commit, () => revision))
    if (yield* hasConfig(snapshot)) return snapshot
    return yield* missing(`it is neither a directory nor in the cache ${cache}; fetch it with \`hf download ${model}\``)
  }
)
