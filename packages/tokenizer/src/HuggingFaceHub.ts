/**
 * Tokenizer files from the Hugging Face hub, through the cache the Python libraries use.
 *
 * @since 0.1.0
 */
import * as HubDirectory from "@effect-tinker/platform/HubDirectory"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as hubCache from "./internal/hubCache.js"
import * as hubHttp from "./internal/hubHttp.js"
import type { TokenizerError } from "./TokenizerError.js"
import { TokenizerNotFound, TokenizerOffline } from "./TokenizerError.js"
import type { TokenizerFile } from "./TokenizerFiles.js"
import { makeDirectory, TokenizerFiles } from "./TokenizerFiles.js"
import type { TokenizerRef } from "./TokenizerId.js"

/**
 * Where the hub is, what is sent to it, and where its files are kept.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** Where downloads are kept: a directory of `models--org--name` directories. */
  readonly cacheDirectory: string
  /** The hub, or a mirror of it. Defaults to `https://huggingface.co`. */
  readonly endpoint?: string | undefined
  /** An access token, sent to the endpoint, and to no host it redirects to. Defaults to none. */
  readonly token?: Redacted.Redacted | undefined
  /** Whether only the cache may be used. Defaults to `false`. */
  readonly offline?: boolean | undefined
  /** How long one attempt may take. Defaults to five minutes. */
  readonly timeout?: Duration.DurationInput | undefined
}

/**
 * A source of tokenizer files on the hub. A name that is an absolute path is a directory of this machine, as self-hosted
 * servers name the models they were started with.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (
  options: Options
) => Effect.Effect<
  TokenizerFiles["Type"],
  never,
  FileSystem.FileSystem | HttpClient.HttpClient | Path.Path
> = Effect.fnUntraced(function*(options) {
  const path = yield* Path.Path
  const directories = yield* makeDirectory(options.cacheDirectory)
  const cache = yield* hubCache.make(options.cacheDirectory)
  const ask = hubHttp.make({
    client: yield* HttpClient.HttpClient,
    endpoint: options.endpoint ?? "https://huggingface.co",
    token: Option.fromNullable(options.token),
    timeout: options.timeout ?? "5 minutes"
  })
  const offline = options.offline ?? false

  const fromCache = Effect.fnUntraced(function*(where: hubHttp.Where, commit: string) {
    const cached = yield* cache.read(where.repo, commit, where.file)
    return cached._tag === "Unknown" ? Option.none<TokenizerFile>() : Option.some<TokenizerFile>({
      content: cached._tag === "Present" ? Option.some(cached.content) : Option.none(),
      commit: Option.some(commit)
    })
  })

  const missing = (where: hubHttp.Where) =>
    new TokenizerOffline({
      ...where,
      description: `not in ${options.cacheDirectory}, and downloads are off (HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE)`
    })

  const getOffline = Effect.fnUntraced(function*(where: hubHttp.Where, optional: boolean) {
    const commit = yield* cache.commit(where.repo, where.revision)
    const known = Option.isSome(commit) ? yield* fromCache(where, commit.value) : Option.none<TokenizerFile>()
    if (Option.isSome(known)) return known.value
    return optional ? { content: Option.none(), commit } : yield* missing(where)
  })

  /** The commit a branch or tag stands for now; without a network, the one it last stood for. */
  const currentCommit = Effect.fnUntraced(function*(where: hubHttp.Where) {
    if (HubDirectory.isCommit(where.revision)) return Option.some(where.revision)
    return yield* ask("HEAD", where).pipe(
      Effect.map((answer) => answer.commit),
      Effect.catchTag("TokenizerUnavailable", (error) =>
        cache.commit(where.repo, where.revision).pipe(
          Effect.flatMap(Option.match({
            onNone: () => Effect.fail<TokenizerError>(error),
            onSome: (commit) => Effect.succeed(Option.some(commit))
          }))
        ))
    )
  })

  const getOnline = Effect.fnUntraced(function*(where: hubHttp.Where) {
    const commit = yield* currentCommit(where)
    if (Option.isSome(commit)) {
      yield* cache.setCommit(where.repo, where.revision, commit.value)
      const known = yield* fromCache(where, commit.value)
      if (Option.isSome(known)) return known.value
    }
    const answer = yield* ask("GET", { ...where, revision: Option.getOrElse(commit, () => where.revision) })
    const at = Option.orElse(answer.commit, () => commit)
    if (Option.isSome(at)) {
      yield* Option.match(answer.content, {
        onNone: () => cache.writeAbsent(where.repo, at.value, where.file),
        onSome: (content) => cache.write(where.repo, at.value, where.file, content)
      })
    }
    return { content: answer.content, commit: at }
  })

  const valid = /^[\w.-]+(\/[\w.-]+)?$/

  return TokenizerFiles.of({
    get: Effect.fnUntraced(function*(ref: TokenizerRef, file, get) {
      if (path.isAbsolute(ref.repo)) return yield* directories.get(ref, file, get)
      const where = { repo: ref.repo, revision: ref.revision ?? "main", file }
      // a name becomes part of a URL and of a path
      if (!valid.test(ref.repo) || ref.repo.includes("..") || where.revision.split("/").includes("..")) {
        return yield* new TokenizerNotFound({
          ...where,
          description: "this is not the name of a repository on the hub"
        })
      }
      return yield* offline ? getOffline(where, get?.optional ?? false) : getOnline(where)
    })
  })
})

/**
 * The hub with settings given here; the environment is not asked.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<TokenizerFiles, never, FileSystem.FileSystem | HttpClient.HttpClient | Path.Path> =>
  Layer.effect(TokenizerFiles, make(options))

const optional = (name: string) => Config.option(Config.nonEmptyString(name))

const switchedOn = (name: string): Config.Config<boolean> =>
  Config.map(optional(name), Option.exists((value) => ["1", "ON", "YES", "TRUE"].includes(value.toUpperCase())))

const environment = Config.all({
  endpoint: optional("HF_ENDPOINT"),
  token: Config.option(Config.redacted("HF_TOKEN")),
  tokenPath: optional("HF_TOKEN_PATH"),
  hubOffline: switchedOn("HF_HUB_OFFLINE"),
  transformersOffline: switchedOn("TRANSFORMERS_OFFLINE")
})

/**
 * The settings the Python libraries read: `HF_ENDPOINT`; `HF_TOKEN`, or the file `HF_TOKEN_PATH` or `$HF_HOME/token`;
 * `HF_HUB_CACHE`, `$HF_HOME/hub` or `~/.cache/huggingface/hub`; `HF_HUB_OFFLINE` and `TRANSFORMERS_OFFLINE`.
 *
 * @since 0.1.0
 * @category configuration
 */
export const fromEnvironment: Effect.Effect<Options, ConfigError, FileSystem.FileSystem | Path.Path> = Effect.gen(
  function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const env = yield* environment
    const home = yield* HubDirectory.home
    const tokenFile = Option.getOrElse(env.tokenPath, () => path.join(home, "token"))
    const saved = yield* Effect.option(fs.readFileString(tokenFile))
    const token = env.token.pipe(
      Option.filter((token) => Redacted.value(token) !== ""),
      Option.orElse(() =>
        saved.pipe(Option.map((text) => text.trim()), Option.filter((text) => text !== ""), Option.map(Redacted.make))
      )
    )
    return {
      cacheDirectory: yield* HubDirectory.cache,
      endpoint: Option.getOrUndefined(env.endpoint),
      token: Option.getOrUndefined(token),
      offline: env.hubOffline || env.transformersOffline
    }
  }
)

/**
 * The hub with the settings of the environment; what is given here wins.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFromEnv = (
  options: Partial<Options> = {}
): Layer.Layer<TokenizerFiles, ConfigError, FileSystem.FileSystem | HttpClient.HttpClient | Path.Path> =>
  Layer.effect(TokenizerFiles, Effect.flatMap(fromEnvironment, (found) => make({ ...found, ...options })))
