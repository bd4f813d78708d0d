/**
 * Where the tools of the Hugging Face hub keep what they downloaded: `hf download`, transformers, vLLM and the packages here
 * share one cache.
 *
 * @since 0.2.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

const variable = (name: string) => Effect.orElseSucceed(Config.nonEmptyString(name), () => undefined)

/**
 * The directory of the hub's tools: `HF_HOME`, else `huggingface` in the user's cache directory.
 *
 * @since 0.2.0
 * @category configuration
 */
export const home: Effect.Effect<string, never, Path.Path> = Effect.gen(function*() {
  const path = yield* Path.Path
  const named = yield* variable("HF_HOME")
  if (named !== undefined) return named
  const user = (yield* variable("HOME")) ?? (yield* variable("USERPROFILE")) ?? "."
  return path.join((yield* variable("XDG_CACHE_HOME")) ?? path.join(user, ".cache"), "huggingface")
})

/**
 * The directory of the cache: `HF_HUB_CACHE`, else `hub` in {@link home}.
 *
 * @since 0.2.0
 * @category configuration
 */
export const cache: Effect.Effect<string, never, Path.Path> = Effect.gen(function*() {
  const path = yield* Path.Path
  const named = (yield* variable("HF_HUB_CACHE")) ?? (yield* variable("HUGGINGFACE_HUB_CACHE"))
  return named ?? path.join(yield* home, "hub")
})

/**
 * The name of a repository's directory in the cache.
 *
 * @since 0.2.0
 * @category combinators
 */
export const nameOf = (repo: string, kind: "model" | "dataset" = "model"): string =>
  `${kind}s--${repo.replaceAll("/", "--")}`

/**
 * The repository whose directory has this name; none where it is not that of a model.
 *
 * @since 0.2.0
 * @category combinators
 */
export const modelOf = (name: string): Option.Option<string> =>
  name.startsWith("models--") ? Option.some(name.slice("models--".length).replaceAll("--", "/")) : Option.none()

/**
 * Whether a revision is a commit, and not the name of a branch or tag.
 *
 * @since 0.2.0
 * @category predicates
 */
export const isCommit = (revision: string): boolean => /^[0-9a-f]{40}$/.test(revision)

/**
 * The commit that a branch or tag stood for when it was last downloaded into a repository's directory.
 *
 * @since 0.2.0
 * @category combinators
 */
export const commitOf = (
  root: string,
  revision: string
): Effect.Effect<Option.Option<string>, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    if (isCommit(revision)) return Option.some(revision)
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const text = yield* Effect.option(fs.readFileString(path.join(root, "refs", revision)))
    return Option.filter(Option.map(text, (commit) => commit.trim()), isCommit)
  })
