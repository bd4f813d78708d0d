/**
 * Where the files of tokenizers come from: memory, a directory, or (in `HuggingFaceHub`) the hub.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { TokenizerError } from "./TokenizerError.js"
import { TokenizerNotFound, TokenizerUnavailable } from "./TokenizerError.js"
import type { TokenizerRef } from "./TokenizerId.js"

/**
 * Answer of a source about one file.
 *
 * @since 0.1.0
 * @category models
 */
export interface TokenizerFile {
  /** `None` when the repository exists but has no such file. */
  readonly content: Option.Option<Uint8Array>
  /** The commit it belongs to: reading the other files at this commit makes the set coherent. */
  readonly commit: Option.Option<string>
}

/**
 * A source of tokenizer files.
 *
 * @since 0.1.0
 * @category services
 */
export class TokenizerFiles extends Context.Tag("@effect-tinker/tokenizer/TokenizerFiles")<TokenizerFiles, {
  /**
   * Reads one file. Fails with `TokenizerNotFound` when the repository does not exist.
   *
   * An `optional` file that cannot be asked for, because downloads are off, counts as absent.
   */
  readonly get: (
    ref: TokenizerRef,
    file: string,
    options?: { readonly optional?: boolean | undefined }
  ) => Effect.Effect<TokenizerFile, TokenizerError>
}>() {}

/**
 * Files kept in memory: repository → file name → content.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerMemory = (
  repositories: Readonly<Record<string, Readonly<Record<string, string | Uint8Array>>>>
): Layer.Layer<TokenizerFiles> =>
  Layer.succeed(TokenizerFiles, {
    get: (ref, file) => {
      const files = Object.hasOwn(repositories, ref.repo) ? repositories[ref.repo] : undefined
      if (files === undefined) {
        return Effect.fail(
          new TokenizerNotFound({
            repo: ref.repo,
            revision: ref.revision,
            file,
            description: "not among the repositories in memory"
          })
        )
      }
      const content = Object.hasOwn(files, file) ? files[file] : undefined
      return Effect.succeed({
        content: Option.map(
          Option.fromNullable(content),
          (content) => typeof content === "string" ? new TextEncoder().encode(content) : content
        ),
        commit: Option.none()
      })
    }
  })

/**
 * Reads a file, telling absence from failure.
 */
const readOptional = (fs: FileSystem.FileSystem, path: string) =>
  fs.readFile(path).pipe(
    Effect.map(Option.some),
    Effect.catchIf(
      (error) => error._tag === "SystemError" && error.reason === "NotFound",
      () => Effect.succeed(Option.none<Uint8Array>())
    ),
    Effect.mapError((cause) =>
      new TokenizerUnavailable({ file: path, description: cause.message, isRetryable: false, cause })
    )
  )

/**
 * Files in directories: `repo` is looked for below `directory`, or taken as it is when it is an absolute path.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeDirectory: (
  directory: string
) => Effect.Effect<TokenizerFiles["Type"], never, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(directory) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    return TokenizerFiles.of({
      get: Effect.fnUntraced(function*(ref: TokenizerRef, file: string) {
        const root = path.isAbsolute(ref.repo) ? ref.repo : path.join(directory, ref.repo)
        const content = yield* readOptional(fs, path.join(root, file))
        if (Option.isNone(content)) {
          const exists = yield* Effect.orElseSucceed(fs.exists(root), () => false)
          if (!exists) {
            return yield* new TokenizerNotFound({ repo: ref.repo, file, description: `there is no directory ${root}` })
          }
        }
        return { content, commit: Option.none() }
      })
    })
  }
)

/**
 * The files of {@link makeDirectory}.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDirectory = (
  directory: string
): Layer.Layer<TokenizerFiles, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(TokenizerFiles, makeDirectory(directory))
