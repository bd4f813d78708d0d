/**
 * Files of any size from the Hugging Face hub: models and datasets. Downloads go into the cache that the Python libraries
 * use and in its layout, are continued where they broke off, and are compared with the checksum that the hub announces.
 *
 * @since 0.2.0
 */
import * as HubDirectory from "@effect-tinker/platform/HubDirectory"
import * as Permits from "@effect-tinker/platform/Permits"
import { Processes } from "@effect-tinker/platform/Processes"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as GlobalValue from "effect/GlobalValue"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import type * as HuggingFaceHub from "./HuggingFaceHub.js"
import * as hubHttp from "./internal/hubHttp.js"
import type { TokenizerError } from "./TokenizerError.js"
import { TokenizerMalformed, TokenizerNotFound, TokenizerOffline, TokenizerUnavailable } from "./TokenizerError.js"

/**
 * A repository of the hub.
 *
 * @since 0.2.0
 * @category models
 */
export interface Repository {
  /** Name, such as `HuggingFaceTB/SmolLM2-135M-Instruct`. */
  readonly repo: string
  /** Branch, tag or commit. Defaults to `main`. */
  readonly revision?: string | undefined
  /** Kind of the repository. Defaults to `model`. */
  readonly kind?: "model" | "dataset" | undefined
}

/**
 * A file of a repository.
 *
 * @since 0.2.0
 * @category models
 */
export interface RemoteFile {
  readonly name: string
  readonly bytes: number
  /** SHA-256 of a large file, or the id that git gives a small one: both are hashes of its content. */
  readonly hash: string
}

/**
 * Progress of a snapshot.
 *
 * @since 0.2.0
 * @category models
 */
export interface Progress {
  readonly file: string
  /** Bytes of this file that are on the disk, and its size. */
  readonly done: number
  readonly bytes: number
}

/**
 * Files of a repository on this machine.
 *
 * @since 0.2.0
 * @category models
 */
export interface Snapshot {
  readonly commit: string
  /** Directory with the files under their names. */
  readonly directory: string
  readonly files: ReadonlyArray<RemoteFile>
}

/**
 * Choice of files, and an observer of their downloads.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface SnapshotOptions {
  /** Files to have. Receives all names of the repository. */
  readonly choose: (files: ReadonlyArray<RemoteFile>) => Effect.Effect<ReadonlyArray<RemoteFile>, TokenizerError>
  /** Called about every megabyte. Defaults to nothing. */
  readonly onProgress?: ((progress: Progress) => Effect.Effect<void>) | undefined
}

/** Services that reach the hub and the disk. */
type Services = FileSystem.FileSystem | Path.Path | HttpClient.HttpClient

const Listing = Schema.parseJson(Schema.Struct({
  sha: Schema.String.pipe(Schema.filter(HubDirectory.isCommit)),
  siblings: Schema.Array(Schema.Struct({
    rfilename: Schema.String,
    size: Schema.optionalWith(Schema.NonNegativeInt, { nullable: true }),
    blobId: Schema.optionalWith(Schema.String, { nullable: true }),
    lfs: Schema.optionalWith(Schema.Struct({ sha256: Schema.String, size: Schema.NonNegativeInt }), { nullable: true })
  }))
}))

// A list of files is text; the largest repositories have some hundred thousand.
const maxListingBytes = 64 * 2 ** 20

const repositoryName = /^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/
const isHash = (text: string): boolean => /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(text)

/** A name that stays within a directory on every system. */
const isSafeName = (name: string): boolean =>
  name.length > 0 && name.length <= 1024 && !/[\\:\0]/.test(name) &&
  name.split("/").every((part) => part !== "" && part !== "." && part !== "..")

const checkName = (where: hubHttp.Where): Effect.Effect<void, TokenizerNotFound> =>
  repositoryName.test(where.repo) && !where.repo.includes("..") && isSafeName(where.revision)
    ? Effect.void
    : new TokenizerNotFound({ ...where, description: "this is not the name of a repository on the hub" })

/** One download of a file at a time in this process; the lock file keeps other processes away. */
const turns = GlobalValue.globalValue(
  "@effect-tinker/tokenizer/NodeHubSnapshot/turns",
  () => new Map<string, { readonly semaphore: Permits.Permits; users: number }>()
)

const oneAtATime = <A, E, R>(key: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const turn = turns.get(key) ?? { semaphore: Permits.unsafeMake(1), users: 0 }
      turn.users++
      turns.set(key, turn)
      return turn
    }),
    ({ semaphore }) => semaphore.withPermits(1)(effect),
    (turn) =>
      Effect.sync(() => {
        if (--turn.users === 0) turns.delete(key)
      })
  )

/** Holds a lock file while the scope lasts; waits while another process that is alive holds it. */
const lockFile = Effect.fnUntraced(function*(file: string, waiting: Effect.Effect<void>) {
  const fs = yield* FileSystem.FileSystem
  const { isRunning, pid: ownPid } = yield* Processes
  const claim = fs.writeFileString(file, String(ownPid), { flag: "wx" })
  const owner = Effect.map(Effect.option(fs.readFileString(file)), Option.map(Number))
  const acquire: Effect.Effect<boolean> = claim.pipe(
    Effect.as(true),
    Effect.catchAll(() =>
      Effect.flatMap(owner, (pid) =>
        Option.isSome(pid) && pid.value !== ownPid && isRunning(pid.value)
          ? Effect.as(waiting, false)
          : Effect.as(Effect.ignore(fs.remove(file)), false))
    )
  )
  yield* Effect.acquireRelease(
    Effect.interruptible(Effect.repeat(acquire, { until: (held) => held, schedule: Schedule.spaced("500 millis") })),
    () => Effect.ignore(fs.remove(file))
  )
})

const reportEvery = 2 ** 20

/**
 * The files of a repository at a revision.
 *
 * @since 0.2.0
 * @category constructors
 */
export const list: (
  hub: HuggingFaceHub.Options,
  repository: Repository
) => Effect.Effect<{ readonly commit: string; readonly files: ReadonlyArray<RemoteFile> }, TokenizerError, Services> =
  Effect.fnUntraced(function*(hub, { kind = "model", repo, revision = "main" }) {
    const where = { repo, revision, file: "" }
    yield* checkName(where)
    const endpoint = (hub.endpoint ?? "https://huggingface.co").replace(/\/+$/, "")
    const connection = { client: yield* HttpClient.HttpClient, endpoint, token: Option.fromNullable(hub.token) }
    const url = `${endpoint}/api/${kind}s/${repo}/revision/${encodeURIComponent(revision)}?blobs=true`
    const { response } = yield* hubHttp.exchange(connection, "GET", where, url).pipe(Effect.retry(hubHttp.policy))
    if (Option.isNone(response)) {
      return yield* new TokenizerNotFound({ ...where, description: "no such repository or revision" })
    }
    const text = yield* response.value.stream.pipe(
      Stream.mapError((error) => hubHttp.brokenOff(where, error.reason)),
      Stream.runFoldEffect(
        { size: 0, chunks: [] as ReadonlyArray<Uint8Array> },
        ({ chunks, size }, chunk) =>
          size + chunk.length > maxListingBytes
            ? new TokenizerMalformed({
              ...where,
              description: `the list of files has more than ${maxListingBytes} bytes`
            })
            : Effect.succeed({ size: size + chunk.length, chunks: [...chunks, chunk] })
      ),
      Effect.map(({ chunks }) => Buffer.concat(chunks).toString("utf8"))
    )
    const listing = yield* Effect.mapError(
      Schema.decode(Listing)(text),
      () => new TokenizerMalformed({ ...where, description: "the hub's list of files is malformed" })
    )
    const files: Array<RemoteFile> = []
    for (const { blobId, lfs, rfilename, size } of listing.siblings) {
      const bytes = lfs?.size ?? size
      const hash = lfs?.sha256 ?? blobId
      // what cannot be checked or stored safely is as good as not there
      if (bytes === undefined || hash === undefined || !isHash(hash) || !isSafeName(rfilename)) continue
      files.push({ name: rfilename, bytes, hash })
    }
    return { commit: listing.sha, files }
  }, Effect.scoped)

/** The hash that the hub names a file by: git's of small ones, SHA-256 of large ones. */
const hasherOf = (file: RemoteFile) =>
  file.hash.length === 64 ? createHash("sha256") : createHash("sha1").update(`blob ${file.bytes}\0`)

/** Downloads a file to `target`, continuing what is there, and checks it. */
const download = Effect.fnUntraced(function*(
  hub: HuggingFaceHub.Options,
  where: hubHttp.Where,
  url: string,
  file: RemoteFile,
  target: string,
  onProgress: (progress: Progress) => Effect.Effect<void>
) {
  const fs = yield* FileSystem.FileSystem
  const connection = {
    client: yield* HttpClient.HttpClient,
    endpoint: hub.endpoint ?? "https://huggingface.co",
    token: Option.fromNullable(hub.token)
  }
  const disk = (error: { readonly message: string }) =>
    new TokenizerUnavailable({
      ...where,
      description: `${target} cannot be written: ${error.message}`,
      isRetryable: false
    })
  const present = Number(yield* Effect.map(fs.stat(target), ({ size }) => size).pipe(Effect.orElseSucceed(() => 0)))
  const wanted = present > 0 && present < file.bytes ? present : 0
  const { response } = yield* hubHttp.exchange(
    connection,
    "GET",
    where,
    url,
    wanted > 0 ? { range: `bytes=${wanted}-` } : {}
  )
  if (Option.isNone(response)) {
    return yield* new TokenizerNotFound({ ...where, description: "the hub lists the file but does not have it" })
  }
  // a server that does not know ranges sends everything
  const start = response.value.status === 206 ? wanted : 0
  const hash = hasherOf(file)
  if (start > 0) {
    yield* Stream.runForEach(
      Stream.mapError(fs.stream(target, { bytesToRead: FileSystem.Size(start) }), disk),
      (chunk) => Effect.sync(() => hash.update(chunk))
    )
  }
  const handle = yield* Effect.mapError(fs.open(target, { flag: start > 0 ? "a" : "w", mode: 0o644 }), disk)
  let done = start
  let reported = start
  yield* onProgress({ file: file.name, done, bytes: file.bytes })
  yield* response.value.stream.pipe(
    Stream.mapError((error) => hubHttp.brokenOff(where, error.reason)),
    Stream.runForEach(Effect.fnUntraced(function*(chunk) {
      done += chunk.length
      if (done > file.bytes) {
        return yield* new TokenizerMalformed({ ...where, description: `the hub sends more than ${file.bytes} bytes` })
      }
      hash.update(chunk)
      yield* Effect.mapError(handle.writeAll(chunk), disk)
      if (done - reported >= reportEvery || done === file.bytes) {
        reported = done
        yield* onProgress({ file: file.name, done, bytes: file.bytes })
      }
    }))
  )
  if (done !== file.bytes) return yield* hubHttp.brokenOff(where, `${done} of ${file.bytes} bytes arrived`)
  if (hash.digest("hex") !== file.hash) {
    yield* Effect.ignore(fs.remove(target))
    return yield* new TokenizerMalformed({
      ...where,
      description: "the download does not have the checksum that the hub announced; it was removed"
    })
  }
}, Effect.scoped)

/**
 * Makes sure that files of a repository are on this machine. What the cache has is used as it is; offline, the commit
 * that the revision last stood for.
 *
 * @since 0.2.0
 * @category constructors
 */
export const ensure: (
  hub: HuggingFaceHub.Options,
  repository: Repository,
  options: SnapshotOptions
) => Effect.Effect<Snapshot, TokenizerError, Services> = Effect.fnUntraced(function*(hub, repository, options) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const { kind = "model", repo, revision = "main" } = repository
  const at = (file: string): hubHttp.Where => ({ repo, revision, file })
  yield* checkName(at(""))
  const root = path.join(hub.cacheDirectory, HubDirectory.nameOf(repo, kind))
  const snapshotOf = (commit: string) => path.join(root, "snapshots", commit)

  /** The files of a snapshot in the cache, as far as they are there. */
  const cached = Effect.fnUntraced(function*() {
    const known = yield* HubDirectory.commitOf(root, revision)
    if (Option.isNone(known)) return Option.none<Snapshot>()
    const directory = snapshotOf(known.value)
    const names = yield* Effect.orElseSucceed(fs.readDirectory(directory, { recursive: true }), () => [])
    const files: Array<RemoteFile> = []
    for (const name of names) {
      const info = yield* Effect.option(fs.stat(path.join(directory, name)))
      if (Option.isSome(info) && info.value.type === "File") {
        files.push({ name: name.replaceAll("\\", "/"), bytes: Number(info.value.size), hash: "" })
      }
    }
    if (files.length === 0) return Option.none<Snapshot>()
    return Option.some<Snapshot>({ commit: known.value, directory, files: yield* options.choose(files) })
  })

  if (hub.offline === true) {
    return yield* Effect.flatMap(
      cached(),
      Option.match({
        onNone: () =>
          new TokenizerOffline({
            ...at(""),
            description: `not in ${hub.cacheDirectory}, and downloads are off (HF_HUB_OFFLINE)`
          }),
        onSome: Effect.succeed
      })
    )
  }
  const listed = yield* Effect.either(list(hub, repository))
  if (listed._tag === "Left") {
    // without a network, what was downloaded before is as good
    const known = listed.left._tag === "TokenizerUnavailable" ? yield* cached() : Option.none()
    return Option.isSome(known) ? known.value : yield* listed.left
  }
  const { commit, files } = listed.right
  const chosen = yield* options.choose(files)
  const directory = snapshotOf(commit)
  const endpoint = hub.endpoint ?? "https://huggingface.co"

  const fetchFile = Effect.fnUntraced(function*(file: RemoteFile) {
    const where = at(file.name)
    const disk = (error: { readonly message: string }) =>
      new TokenizerUnavailable({ ...where, description: error.message, isRetryable: false })
    const target = path.join(directory, ...file.name.split("/"))
    const blob = path.join(root, "blobs", file.hash)
    const hasSize = (name: string) =>
      Effect.map(fs.stat(name), ({ size }) => Number(size) === file.bytes).pipe(Effect.orElseSucceed(() => false))
    if (yield* hasSize(target)) return
    yield* Effect.mapError(
      Effect.all([
        fs.makeDirectory(path.dirname(blob), { recursive: true }),
        fs.makeDirectory(path.dirname(target), { recursive: true })
      ]),
      disk
    )
    const source = hubHttp.fileUrl(
      `${endpoint.replace(/\/+$/, "")}${kind === "dataset" ? "/datasets" : ""}`,
      { ...where, revision: commit }
    )
    const waiting = Effect.logInfo(`Waiting for another process that downloads ${repo}/${file.name}`)
    yield* Effect.gen(function*() {
      yield* lockFile(`${blob}.lock`, waiting)
      // another process may have finished it meanwhile
      if (!(yield* hasSize(blob))) {
        const partial = `${blob}.incomplete`
        yield* download(hub, where, source, file, partial, options.onProgress ?? (() => Effect.void)).pipe(
          Effect.retry(hubHttp.policy)
        )
        yield* Effect.mapError(fs.rename(partial, blob), disk)
      }
      yield* Effect.ignore(fs.remove(target))
      yield* fs.symlink(path.relative(path.dirname(target), blob), target).pipe(
        // some systems have no symbolic links for ordinary users
        Effect.orElse(() => fs.copyFile(blob, target)),
        Effect.mapError(disk)
      )
    }).pipe(Effect.scoped, (effect) => oneAtATime(blob, effect))
  })
  yield* Effect.forEach(chosen, fetchFile, { discard: true })
  if (!HubDirectory.isCommit(revision)) {
    const ref = path.join(root, "refs", revision)
    yield* Effect.ignore(Effect.zipRight(
      fs.makeDirectory(path.dirname(ref), { recursive: true }),
      fs.writeFileString(ref, commit)
    ))
  }
  return { commit, directory, files: chosen }
})
