/**
 * Models that are on this machine already: in a directory, or in the cache that `hf download`, vLLM, transformers and
 * every other user of the Hugging Face Hub share.
 *
 * @since 0.1.0
 */
import * as HubDirectory from "@effect-tinker/platform/HubDirectory"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ModelNotFound } from "./WeightsError.js"

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
    const cache = yield* HubDirectory.cache
    const missing = (description: string) => new ModelNotFound({ model, description })
    if (yield* Effect.orElseSucceed(fs.exists(model), () => false)) {
      return yield* missing(`the directory has no config.json; was the model downloaded completely?`)
    }
    if (!repository.test(model)) return yield* missing("there is no such directory")
    const own = path.join(cache, HubDirectory.nameOf(model))
    const revision = options?.revision ?? "main"
    const commit = yield* HubDirectory.commitOf(own, revision)
    const snapshot = path.join(own, "snapshots", Option.getOrElse(commit, () => revision))
    if (yield* hasConfig(snapshot)) return snapshot
    return yield* missing(`it is neither a directory nor in the cache ${cache}; fetch it with \`hf download ${model}\``)
  }
)
