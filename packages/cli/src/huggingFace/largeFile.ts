/**
 * Uploads large files to the Hugging Face Hub by their digest, whole or in parts. The state of an upload in parts is kept on
 * disk, so that a later run of the command resumes it.
 *
 * @since 0.1.0
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import { homedir } from "node:os"
import { CliFailure } from "../internal/CliFailure.js"
import * as hub from "./hub.js"

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
  /** Best effort: without it the upload cannot be resumed, but it still works. */
  readonly save: (state: UploadState) => Effect.Effect<void>
  readonly forget: Effect.Effect<void>
}

/** The uploads of one content to one repository. @internal */
const uploadStates: (
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
  const turn = yield* Permits.make(1)
  return {
    load: Effect.option(Effect.flatMap(fs.readFileString(file), decode)),
    save: (state) =>
      Effect.gen(function*() {
        yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
        // Anyone with these URLs can write to them.
        yield* fs.writeFileString(`${file}.new`, encode(state), { mode: 0o600 })
        yield* fs.rename(`${file}.new`, file)
      }).pipe(turn.withPermits(1), Effect.uninterruptible, Effect.ignore),
    forget: Effect.ignore(fs.remove(file, { force: true }))
  }
})

/** @internal */
export interface LargeFile {
  readonly path: string
  readonly source: string
  readonly size: number
  /** The SHA-256 of its content, in hexadecimal. */
  readonly oid: string
}

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

const lfsJson = "application/vnd.git-lfs+json"
const partName = /^\d+$/

/** The parts the hub asks for, if it asks for parts. */
const planned = (action: typeof Action.Type): UploadState | undefined => {
  const chunk = Number(action.header["chunk_size"])
  if (!Number.isSafeInteger(chunk) || chunk <= 0) return undefined
  const parts = Object.entries(action.header)
    .filter(([name]) => partName.test(name))
    .map(([name, url]) => ({ number: Number(name), url: String(url) }))
    .sort((a, b) => a.number - b.number)
  return { href: action.href, chunk, parts }
}

/** Uploads the content unless the hub has it. @internal */
export const upload = Effect.fnUntraced(function*(
  client: hub.Hub,
  target: { readonly repo: string; readonly revision: string },
  file: LargeFile,
  sent: (bytes: number) => Effect.Effect<void>
): Effect.fn.Return<void, CliFailure, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const { endpoint } = client
  const { oid, size } = file
  const doing = `Could not upload ${file.path}`
  const states = yield* uploadStates({ endpoint, repo: target.repo, oid })

  const batch = yield* client.call(client.authorized(
    hub.post(`${endpoint}/${target.repo}.git/info/lfs/objects/batch`, {
      operation: "upload",
      transfers: ["basic", "multipart"],
      objects: [{ oid, size }],
      hash_algo: "sha256",
      ref: { name: target.revision }
    }, lfsJson).pipe(HttpClientRequest.setHeader("accept", lfsJson))
  )).pipe(Effect.mapError(hub.failure(doing)), Effect.flatMap(hub.body(doing, Batch)))
  const object = batch.objects.find((candidate) => candidate.oid === oid)
  if (object?.error !== undefined) {
    return yield* new CliFailure({ what: `${doing}: ${object.error.message}` })
  }
  const action = object?.actions?.upload
  // The hub has these bytes already, from an upload that was interrupted later or from another repository.
  if (action === undefined) {
    yield* states.forget
    return yield* sent(size)
  }

  let counted = 0
  const count = (bytes: number) => {
    counted += bytes
    return sent(bytes)
  }

  /** To an address of the storage, which takes no token of ours. */
  const put = (url: string, offset: number, length: number) =>
    Effect.suspend(() => {
      let read = 0
      const content = fs.stream(file.source, { offset, bytesToRead: length }).pipe(
        Stream.tap((bytes) => {
          read += bytes.length
          return count(bytes.length)
        })
      )
      return client.execute(HttpClientRequest.put(url, {
        body: HttpBody.stream(content, "application/octet-stream", length)
      })).pipe(Effect.tapError(() => count(-read)))
    }).pipe(Effect.retry(hub.retry))

  const inParts = Effect.fnUntraced(function*(start: UploadState) {
    let state = start
    const parts = yield* Effect.forEach(
      start.parts,
      Effect.fnUntraced(function*({ etag: known, number, url }) {
        const offset = (number - 1) * start.chunk
        const length = Math.min(start.chunk, size - offset)
        if (known !== undefined) {
          yield* count(length)
          return { partNumber: number, etag: known }
        }
        const etag = (yield* put(url, offset, length)).headers["etag"] ?? ""
        state = {
          ...state,
          parts: state.parts.map((part) => part.number === number ? { ...part, etag } : part)
        }
        yield* states.save(state)
        return { partNumber: number, etag }
      }),
      { concurrency: 4 }
    )
    yield* client.call(hub.post(start.href, { oid, parts }, lfsJson))
  })

  /** The URLs of an earlier run have expired: start over with the new ones. */
  const startOver = (plan: UploadState) =>
    Effect.suspend(() => {
      const withdrawn = counted
      counted = 0
      return Effect.zipRight(states.forget, sent(-withdrawn))
    }).pipe(Effect.zipRight(inParts(plan)))

  const plan = planned(action)
  if (plan === undefined) yield* Effect.mapError(put(action.href, 0, size), hub.failure(doing))
  else {
    const left = Option.filter(yield* states.load, ({ chunk, parts }) => parts.length === Math.ceil(size / chunk))
    const sending = Option.match(left, {
      onNone: () => inParts(plan),
      onSome: (state) =>
        Effect.catchAll(inParts(state), (refusal) => hub.isTransient(refusal) ? Effect.fail(refusal) : startOver(plan))
    })
    yield* Effect.mapError(sending, hub.failure(doing))
  }
  yield* states.forget
  const verify = object?.actions?.verify
  if (verify !== undefined) {
    yield* Effect.mapError(
      client.call(client.authorized(hub.post(verify.href, { oid, size }, lfsJson))),
      hub.failure(doing)
    )
  }
})
