/**
 * The part of the Hugging Face Hub's API that an upload needs: who am I, repositories, branches, large files, commits.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import { homedir } from "node:os"
import { CliFailure } from "./CliFailure.js"

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
const Action = Schema.Struct({
  href: Schema.String,
  header: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Unknown }), { default: () => ({}) })
})
const Batch = Schema.Struct({
  objects: Schema.Array(Schema.Struct({
    oid: Schema.String,
    actions: Schema.optional(Schema.Struct({ upload: Schema.optional(Action), verify: Schema.optional(Action) })),
    error: Schema.optional(Schema.Struct({ message: Schema.String }))
  }))
})
const Commit = Schema.Struct({
  commitUrl: Schema.String,
  pullRequestUrl: Schema.optional(Schema.NullOr(Schema.String))
})
const ErrorBody = Schema.parseJson(Schema.Struct({ error: Schema.String }))
const decodeError = Schema.decodeOption(ErrorBody)

const lfsJson = "application/vnd.git-lfs+json"
const loginHint = "Run `hf auth login`, or set HF_TOKEN."

interface Refusal {
  readonly status: number | undefined
  readonly message: string
}

const environment = Config.all({
  endpoint: Config.string("HF_ENDPOINT").pipe(Config.withDefault("https://huggingface.co")),
  token: Config.string("HF_TOKEN").pipe(Config.withDefault("")),
  tokenPath: Config.string("HF_TOKEN_PATH").pipe(Config.withDefault("")),
  home: Config.string("HF_HOME").pipe(Config.withDefault(""))
})

/** As the hub's own tools find it: the environment, then the file their login writes. */
const findToken = Effect.fnUntraced(function*(env: Config.Config.Success<typeof environment>) {
  if (env.token.trim() !== "") return Option.some(Redacted.make(env.token.trim()))
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = env.tokenPath !== ""
    ? env.tokenPath
    : path.join(env.home === "" ? path.join(homedir(), ".cache", "huggingface") : env.home, "token")
  return yield* fs.readFileString(file).pipe(
    Effect.map((text) => Option.map(Option.liftPredicate(text.trim(), (token) => token !== ""), Redacted.make)),
    Effect.orElseSucceed(() => Option.none<Redacted.Redacted>())
  )
})

const transient = (refusal: Refusal): boolean =>
  refusal.status === undefined || refusal.status === 408 || refusal.status === 429 || refusal.status >= 500

const retry = Schedule.exponential("500 millis", 2).pipe(
  Schedule.union(Schedule.spaced("10 seconds")),
  Schedule.jitteredWith({ min: 0.75, max: 1 }),
  Schedule.whileInput(transient),
  Schedule.intersect(Schedule.recurs(4))
)

const part = /^\d+$/

/**
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
    const client = yield* HttpClient.HttpClient
    const token = yield* findToken(env)
    if (Option.isNone(token)) {
      return yield* new CliFailure({ what: "Not logged in to the Hugging Face Hub", advice: loginHint })
    }
    const endpoint = env.endpoint.replace(/\/+$/, "")

    const execute = (request: HttpClientRequest.HttpClientRequest) =>
      client.execute(request).pipe(
        Effect.mapError((error): Refusal => ({ status: undefined, message: error.reason })),
        Effect.flatMap((response) =>
          response.status < 300
            ? Effect.succeed(response)
            : Effect.flatMap(Effect.orElseSucceed(response.text, () => ""), (text) =>
              Effect.fail<Refusal>({
                status: response.status,
                message: Option.match(decodeError(text), {
                  onNone: () => text.slice(0, 200),
                  onSome: ({ error }) => error
                })
              }))
        ),
        Effect.timeoutFail({
          duration: "5 minutes",
          onTimeout: (): Refusal => ({ status: undefined, message: "no answer" })
        })
      )
    const authorized = (request: HttpClientRequest.HttpClientRequest) =>
      HttpClientRequest.bearerToken(request, token.value)
    /** Idempotent requests are repeated; a large file's own address takes no token of ours. */
    const call = (request: HttpClientRequest.HttpClientRequest) => Effect.retry(execute(request), retry)

    const failure = (doing: string) => (refusal: Refusal): CliFailure =>
      new CliFailure({
        what: `${doing}: ${refusal.status === undefined ? "" : `status ${refusal.status}, `}${refusal.message}`,
        advice: refusal.status === 401 || refusal.status === 403
          ? "The token may not do this: create one with write access, then run `hf auth login`."
          : "Run the command again: what has been uploaded is not uploaded twice."
      })
    const body =
      <A, I>(doing: string, schema: Schema.Schema<A, I>) => (response: HttpClientResponse.HttpClientResponse) =>
        response.json.pipe(
          Effect.flatMap(Schema.decodeUnknown(schema)),
          Effect.mapError((cause) => new CliFailure({ what: `${doing}: the hub's answer was not understood`, cause }))
        )
    const post = (url: string, value: unknown, contentType = "application/json") =>
      HttpClientRequest.post(url).pipe(HttpClientRequest.bodyText(JSON.stringify(value), contentType))

    const digest = (source: string) =>
      Stream.runFold(fs.stream(source), createHash("sha256"), (hash, bytes) => hash.update(bytes)).pipe(
        Effect.map((hash) => hash.digest("hex"))
      )

    const put = Effect.fnUntraced(
      function*(url: string, file: LocalFile, offset: number, size: number, sent: (n: number) => Effect.Effect<void>) {
        const send = Effect.suspend(() => {
          let counted = 0
          const content = fs.stream(file.source, { offset, bytesToRead: size }).pipe(
            Stream.tap((bytes) => {
              counted += bytes.length
              return sent(bytes.length)
            })
          )
          return execute(HttpClientRequest.put(url, {
            body: HttpBody.stream(content, "application/octet-stream", size)
          })).pipe(Effect.tapError(() => sent(-counted)))
        })
        return yield* Effect.mapError(Effect.retry(send, retry), failure(`Could not upload ${file.path}`))
      }
    )

    const uploadLarge = Effect.fnUntraced(function*(
      repo: string,
      revision: string,
      file: LocalFile,
      oid: string,
      sent: (n: number) => Effect.Effect<void>
    ) {
      const doing = `Could not upload ${file.path}`
      const batch = yield* call(authorized(
        post(`${endpoint}/${repo}.git/info/lfs/objects/batch`, {
          operation: "upload",
          transfers: ["basic", "multipart"],
          objects: [{ oid, size: file.size }],
          hash_algo: "sha256",
          ref: { name: revision }
        }, lfsJson).pipe(HttpClientRequest.setHeader("accept", lfsJson))
      )).pipe(Effect.mapError(failure(doing)), Effect.flatMap(body(doing, Batch)))
      const object = batch.objects.find((candidate) => candidate.oid === oid)
      if (object?.error !== undefined) {
        return yield* failure(doing)({ status: undefined, message: object.error.message })
      }
      const action = object?.actions?.upload
      // The hub has these bytes already, from an upload that was interrupted later or from another repository.
      if (action === undefined) return yield* sent(file.size)
      const chunk = Number(action.header["chunk_size"])
      if (Number.isSafeInteger(chunk) && chunk > 0) {
        const addresses = Object.entries(action.header)
          .filter(([name]) => part.test(name))
          .map(([name, url]) => ({ number: Number(name), url: String(url) }))
          .sort((a, b) => a.number - b.number)
        const parts = yield* Effect.forEach(addresses, ({ number, url }) => {
          const offset = (number - 1) * chunk
          return Effect.map(put(url, file, offset, Math.min(chunk, file.size - offset), sent), (response) => ({
            partNumber: number,
            etag: response.headers["etag"] ?? ""
          }))
        }, { concurrency: 4 })
        yield* Effect.mapError(call(post(action.href, { oid, parts }, lfsJson)), failure(doing))
      } else yield* put(action.href, file, 0, file.size, sent)
      const verify = object?.actions?.verify
      if (verify !== undefined) {
        yield* Effect.mapError(call(authorized(post(verify.href, { oid, size: file.size }, lfsJson))), failure(doing))
      }
    })

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
            yield* uploadLarge(repo, revision, file, oid, sent)
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
