/**
 * The part of the Hugging Face Hub API that an upload needs: account, repositories, branches, large files, commits.
 *
 * @since 0.1.0
 */
import * as HubDirectory from "@effect-tinker/platform/HubDirectory"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import { CliFailure } from "../internal/CliFailure.js"
import * as hub from "./hub.js"
import * as largeFile from "./largeFile.js"

/**
 * A file to upload, and where it goes in the repository.
 *
 * @since 0.1.0
 * @category models
 */
export interface LocalFile {
  readonly path: string
  readonly source: string
  readonly size: number
}

/**
 * The hub as a command needs it.
 *
 * @since 0.1.0
 * @category services
 */
export class HuggingFace extends Context.Tag("@effect-tinker/cli/HuggingFace")<HuggingFace, {
  /** The name of the account the token belongs to. */
  readonly whoami: Effect.Effect<string, CliFailure>
  /** Creates the repository unless it is there; answers whether it was created. */
  readonly createRepository: (
    repo: string,
    options: { readonly private: boolean }
  ) => Effect.Effect<boolean, CliFailure>
  /** Creates the branch unless it is there. */
  readonly createBranch: (repo: string, branch: string) => Effect.Effect<void, CliFailure>
  /** A small text file, if it is there. */
  readonly readText: (repo: string, revision: string, path: string) => Effect.Effect<Option.Option<string>, CliFailure>
  /** Uploads what is not there yet and commits all files at once; answers the address of the commit. */
  readonly upload: (options: {
    readonly repo: string
    readonly revision: string
    readonly files: ReadonlyArray<LocalFile>
    readonly message: string
    readonly createPullRequest: boolean
    readonly onProgress: (uploaded: number, total: number) => Effect.Effect<void>
  }) => Effect.Effect<{ readonly url: string }, CliFailure | PlatformError.PlatformError>
}>() {}

const Whoami = Schema.Struct({ name: Schema.String })
const Preupload = Schema.Struct({
  files: Schema.Array(Schema.Struct({
    path: Schema.String,
    uploadMode: Schema.Literal("lfs", "regular"),
    shouldIgnore: Schema.optionalWith(Schema.Boolean, { default: () => false })
  }))
})
const Commit = Schema.Struct({
  commitUrl: Schema.String,
  pullRequestUrl: Schema.optional(Schema.NullOr(Schema.String))
})
const loginHint = "Run `hf auth login`, or set HF_TOKEN."

const environment = Config.all({
  endpoint: Config.string("HF_ENDPOINT").pipe(Config.withDefault("https://huggingface.co")),
  token: Config.string("HF_TOKEN").pipe(Config.withDefault("")),
  tokenPath: Config.string("HF_TOKEN_PATH").pipe(Config.withDefault(""))
})

/** As the hub's own tools find it: the environment, then the file their login writes. */
const findToken = Effect.fnUntraced(function*(env: Config.Config.Success<typeof environment>) {
  if (env.token.trim() !== "") return Option.some(Redacted.make(env.token.trim()))
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = env.tokenPath !== ""
    ? env.tokenPath
    : path.join(yield* HubDirectory.home, "token")
  return yield* fs.readFileString(file).pipe(
    Effect.map((text) => Option.map(Option.liftPredicate(text.trim(), (token) => token !== ""), Redacted.make)),
    Effect.orElseSucceed(() => Option.none<Redacted.Redacted>())
  )
})

/**
 * The hub over the `HttpClient` in the context.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<
  HuggingFace,
  CliFailure,
  HttpClient.HttpClient | FileSystem.FileSystem | Path.Path
> = Layer.effect(
  HuggingFace,
  Effect.gen(function*() {
    const env = yield* Effect.orDie(environment)
    const fs = yield* FileSystem.FileSystem
    const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
    const token = yield* findToken(env)
    if (Option.isNone(token)) {
      return yield* new CliFailure({ what: "Not logged in to the Hugging Face Hub", advice: loginHint })
    }
    const endpoint = env.endpoint.replace(/\/+$/, "")
    const client = yield* hub.make(endpoint, token.value)
    const { authorized, call, execute } = client
    const { body, failure, post } = hub

    const digest = (source: string) =>
      Stream.runFold(fs.stream(source), createHash("sha256"), (hash, bytes) => hash.update(bytes)).pipe(
        Effect.map((hash) => hash.digest("hex"))
      )

    return {
      whoami: call(authorized(HttpClientRequest.get(`${endpoint}/api/whoami-v2`))).pipe(
        Effect.mapError((refusal) =>
          refusal.status === 401
            ? new CliFailure({ what: "The Hugging Face Hub rejected the token", advice: loginHint })
            : failure("Could not reach the Hugging Face Hub")(refusal)
        ),
        Effect.flatMap(body("Could not log in to the hub", Whoami)),
        Effect.map(({ name }) => name)
      ),
      createRepository: Effect.fnUntraced(function*(repo, options) {
        const [organization, name] = repo.split("/")
        return yield* execute(authorized(post(`${endpoint}/api/repos/create`, {
          type: "model",
          name,
          organization,
          private: options.private
        }))).pipe(
          Effect.as(true),
          Effect.catchAll((refusal) =>
            refusal.status === 409 ? Effect.succeed(false) : failure(`Could not create ${repo}`)(refusal)
          )
        )
      }),
      createBranch: Effect.fnUntraced(function*(repo, branch) {
        yield* execute(
          authorized(post(`${endpoint}/api/models/${repo}/branch/${encodeURIComponent(branch)}`, {}))
        ).pipe(
          Effect.catchAll((refusal) =>
            refusal.status === 409 ? Effect.void : failure(`Could not create the branch ${branch}`)(refusal)
          )
        )
      }),
      readText: Effect.fnUntraced(function*(repo, revision, path) {
        return yield* call(
          authorized(HttpClientRequest.get(`${endpoint}/${repo}/resolve/${encodeURIComponent(revision)}/${path}`))
        ).pipe(
          Effect.flatMap((response) => Effect.orElseSucceed(response.text, () => "")),
          Effect.asSome,
          Effect.catchAll((refusal) =>
            refusal.status === 404 ? Effect.succeedNone : failure(`Could not read ${path} of ${repo}`)(refusal)
          )
        )
      }),
      upload: Effect.fnUntraced(function*(options) {
        const { files, onProgress, repo, revision } = options
        const total = files.reduce((sum, file) => sum + file.size, 0)
        let uploaded = 0
        const sent = (bytes: number) => {
          uploaded += bytes
          return onProgress(uploaded, total)
        }
        const samples = yield* Effect.forEach(
          files,
          (file) =>
            Stream.runCollect(fs.stream(file.source, { bytesToRead: 512 })).pipe(
              Effect.map((chunks) => Buffer.concat([...chunks]).toString("base64")),
              Effect.map((sample) => ({ path: file.path, size: file.size, sample }))
            )
        )
        const doing = `Could not upload to ${repo}`
        const plan = yield* call(authorized(
          post(`${endpoint}/api/models/${repo}/preupload/${encodeURIComponent(revision)}`, { files: samples })
        )).pipe(Effect.mapError(failure(doing)), Effect.flatMap(body(doing, Preupload)))
        const lines: Array<unknown> = [{ key: "header", value: { summary: options.message, description: "" } }]
        for (const file of files) {
          const planned = plan.files.find((candidate) => candidate.path === file.path)
          if (planned?.shouldIgnore === true) continue
          if (planned?.uploadMode === "lfs") {
            const oid = yield* digest(file.source)
            yield* Effect.provide(largeFile.upload(client, { repo, revision }, { ...file, oid }, sent), context)
            lines.push({ key: "lfsFile", value: { path: file.path, algo: "sha256", oid, size: file.size } })
          } else {
            const content = Buffer.from(yield* fs.readFile(file.source)).toString("base64")
            lines.push({ key: "file", value: { path: file.path, encoding: "base64", content } })
            yield* sent(file.size)
          }
        }
        const commit = yield* execute(authorized(
          HttpClientRequest.post(`${endpoint}/api/models/${repo}/commit/${encodeURIComponent(revision)}`).pipe(
            HttpClientRequest.setUrlParams(options.createPullRequest ? { create_pr: "1" } : {}),
            HttpClientRequest.bodyText(
              `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`,
              "application/x-ndjson"
            )
          )
        )).pipe(Effect.mapError(failure(doing)), Effect.flatMap(body(doing, Commit)))
        return { url: commit.pullRequestUrl ?? commit.commitUrl }
      })
    }
  })
)
