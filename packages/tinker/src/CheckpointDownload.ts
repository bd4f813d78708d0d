/**
 * A checkpoint on disk: fetched, resumed, checked, unpacked path-safely, and visible only when it is complete.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Archive from "./Archive.js"
import * as Checkpoint from "./Checkpoint.js"
import * as Download from "./Download.js"
import * as fileLock from "./internal/archive/fileLock.js"
import * as tar from "./internal/archive/tar.js"
import * as RestClient from "./RestClient.js"
import * as TinkerError from "./TinkerError.js"

/**
 * Progress of a checkpoint's download.
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  /** The server is being asked for the data, and may have to build it first. */
  | { readonly _tag: "Preparing" }
  /** Bytes of one of several files are arriving. */
  | {
    readonly _tag: "Downloading"
    readonly file: string
    readonly index: number
    readonly files: number
    readonly received: number
    readonly total?: number | undefined
  }
  | { readonly _tag: "Extracting"; readonly bytes: number }
  | ({ readonly _tag: "Completed" } & Summary)

/**
 * Files that are on disk now.
 *
 * @since 0.1.0
 * @category models
 */
export interface Summary {
  readonly directory: string
  readonly files: number
  readonly bytes: number
  /** Bytes that were fetched, less than all when an earlier download was resumed. */
  readonly fetched: number
}

/**
 * Which checkpoint, and where to.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends Archive.Limits {
  readonly tinkerPath: string
  /** Where the checkpoint's files will be. It must not exist unless `overwrite` is set. */
  readonly directory: string
  /** Replace the directory once everything is there. Defaults to false. */
  readonly overwrite?: boolean | undefined
  /**
   * Unpack an archive as it arrives instead of storing it first: it never takes its space twice, but a download that was
   * broken off by the end of the process starts over. Defaults to false.
   */
  readonly streamArchive?: boolean | undefined
  /** How long the server of the data may stay silent. Defaults to 60 seconds. */
  readonly stallTimeout?: Duration.DurationInput | undefined
  /**
   * Used for a checkpoint the server offers no archive of: makes an external one of it and yields its path. It is
   * released when the download is over.
   */
  readonly exportExternal?:
    | ((tinkerPath: string) => Effect.Effect<string, TinkerError.TinkerError, Scope.Scope>)
    | undefined
}

/**
 * Someone else is downloading to the same place.
 *
 * @since 0.1.0
 * @category errors
 */
export class DownloadInProgress
  extends Schema.TaggedError<DownloadInProgress>("effect-tinker/CheckpointDownload/DownloadInProgress")(
    "DownloadInProgress",
    { directory: Schema.String }
  )
{
  override get message(): string {
    return `another download to ${this.directory} is in progress`
  }
}

/**
 * Failures of a download.
 *
 * @since 0.1.0
 * @category errors
 */
export type Failure =
  | TinkerError.TinkerError
  | Archive.ArchiveRefused
  | DownloadInProgress
  | PlatformError.PlatformError

type Services = RestClient.RestClient | HttpClient.HttpClient | FileSystem.FileSystem | Path.Path

const origin = { module: "CheckpointDownload", method: "run" }

/** Signed addresses are renewed this long before they end. */
const early = Duration.minutes(5)

/**
 * The name a checkpoint's directory gets by default: its path, in characters every file system has.
 *
 * @since 0.1.0
 * @category combinators
 */
export const directoryName = (path: Checkpoint.ParsedPath): string =>
  `${path.trainingRunId}_${path.checkpointId}`.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^\.+/, "_")

/** Answers that mean "there is no such endpoint here" rather than "there is no such checkpoint". */
const offersNoArchive = (error: TinkerError.TinkerError): boolean =>
  error.status === 404 || error.status === 405 || error.status === 410 || error.status === 501

/**
 * Runs a download that goes on with new addresses when the old ones have ended.
 *
 * A signed address that is refused while we hold it has ended early or its clock is not ours.
 */
const withRenewal = <A, S, R>(
  sign: Effect.Effect<S, TinkerError.TinkerError>,
  use: (signed: S) => Effect.Effect<A, Failure, R>
): Effect.Effect<A, Failure, R> =>
  Effect.catchIf(
    Effect.flatMap(sign, use),
    (error) => error._tag === "PermissionDenied" && error.module === "Download",
    () => Effect.flatMap(sign, use)
  )

const expiresSoon = (expires: DateTime.Utc): Effect.Effect<boolean> =>
  Effect.map(Clock.currentTimeMillis, (now) => now >= expires.epochMillis - Duration.toMillis(early))

const download = Effect.fnUntraced(function*(options: Options, emit: (event: Event) => Effect.Effect<void>) {
  const rest = yield* RestClient.RestClient
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const parsed = yield* Either.mapLeft(
    Checkpoint.parsePath(options.tinkerPath),
    (error) => new TinkerError.InvalidInput({ ...origin, ...(error.description && { description: error.description }) })
  )
  const directory = path.resolve(options.directory)
  yield* fs.makeDirectory(path.dirname(directory), { recursive: true })
  yield* fileLock.acquire(`${directory}.download.lock`, () => new DownloadInProgress({ directory }))
  if (options.overwrite !== true && (yield* fs.exists(directory))) {
    return yield* new TinkerError.InvalidInput({ ...origin, description: `${directory} exists already` })
  }
  // Next to the target, so that the last step is a rename within one file system; kept after an interruption, to resume.
  const staging = `${directory}.download`
  const source = path.join(staging, "source")
  const archive = path.join(staging, "archive.tar")
  const files = path.join(staging, "files")
  const discard = fs.remove(staging, { recursive: true, force: true })
  const left = yield* fs.readFileString(source).pipe(Effect.option)
  if (!Option.contains(left, options.tinkerPath)) yield* discard
  yield* fs.makeDirectory(staging, { recursive: true })
  yield* fs.writeFileString(source, options.tinkerPath)
  const limit = options.maxTotalBytes
  let fetched = 0

  const fetch = (url: string, target: string, label: string, index: number, count: number) => {
    let before: number | undefined
    return Download.toFile({
      url,
      path: target,
      maxBytes: limit,
      stallTimeout: options.stallTimeout,
      onProgress: ({ received, total }) => {
        before ??= received
        fetched += received - before
        before = received
        return emit({ _tag: "Downloading", file: label, index, files: count, received, total })
      }
    })
  }

  const fromArchive = Effect.gen(function*() {
    const sign = rest.getCheckpointArchiveUrl(options.tinkerPath)
    const limits = { directory: files, maxEntries: options.maxEntries, maxTotalBytes: limit }
    if (options.streamArchive === true) {
      return yield* withRenewal(sign, ({ url }) =>
        Effect.zipRight(
          fs.remove(files, { recursive: true, force: true }),
          Archive.extract(
            Download.stream({
              url,
              maxBytes: limit,
              stallTimeout: options.stallTimeout,
              onProgress: ({ received, total }) => {
                fetched = received
                return emit({ _tag: "Downloading", file: "archive", index: 1, files: 1, received, total })
              }
            }),
            limits
          )
        ))
    }
    yield* withRenewal(sign, ({ url }) => fetch(url, archive, "archive", 1, 1))
    yield* fs.remove(files, { recursive: true, force: true })
    const summary = yield* Archive.extract(fs.stream(archive), {
      ...limits,
      onProgress: (bytes) => emit({ _tag: "Extracting", bytes })
    })
    yield* fs.remove(archive, { force: true })
    return summary
  })

  const fromExternal = Effect.fnUntraced(function*(externalPath: string) {
    let signed = yield* rest.getExternalWeightsUrls(externalPath)
    const names = Object.keys(signed.urls).sort()
    const max = options.maxEntries ?? 10_000
    const refuse = (reason: "too-many-entries" | "truncated", description: string) =>
      new Archive.ArchiveRefused({ reason, description })
    if (names.length === 0) return yield* refuse("truncated", "the checkpoint has no files")
    if (names.length > max) return yield* refuse("too-many-entries", `the checkpoint has more than ${max} files`)
    const targets: Array<readonly [name: string, target: string]> = []
    for (const name of names) {
      const safe = tar.safePath(name)
      if (tar.isRefusal(safe)) return yield* new Archive.ArchiveRefused(safe)
      if (safe.length === 0) {
        return yield* new Archive.ArchiveRefused({ reason: "unsafe-name", description: "a file has no name" })
      }
      targets.push([name, path.join(files, ...safe)])
    }
    const renew = Effect.map(rest.getExternalWeightsUrls(externalPath), (next) => {
      signed = next
    })
    let bytes = 0
    for (const [i, [name, target]] of targets.entries()) {
      // What an earlier attempt finished has its final name.
      if (!(yield* fs.exists(target))) {
        yield* fs.makeDirectory(path.dirname(target), { recursive: true })
        if (yield* expiresSoon(signed.expires)) yield* renew
        let attempts = 0
        yield* withRenewal(
          Effect.suspend(() => attempts++ === 0 ? Effect.void : renew),
          () => Effect.suspend(() => fetch(signed.urls[name] ?? "", target, name, i + 1, targets.length))
        )
      }
      bytes += Number((yield* fs.stat(target)).size)
      if (limit !== undefined && bytes > limit) {
        return yield* new Archive.ArchiveRefused({
          reason: "too-large",
          description: `the checkpoint's files exceed ${limit} bytes`
        })
      }
    }
    return { files: targets.length, bytes }
  })

  const { exportExternal } = options
  yield* emit({ _tag: "Preparing" })
  const summary = yield* (parsed.checkpointType === "external" ? fromExternal(options.tinkerPath) : Effect.catchIf(
    fromArchive,
    (error): error is TinkerError.TinkerError =>
      exportExternal !== undefined && TinkerError.isTinkerError(error) && error.module === "RestClient" &&
      offersNoArchive(error),
    (error) =>
      exportExternal === undefined
        ? Effect.fail(error)
        : Effect.scoped(Effect.flatMap(exportExternal(options.tinkerPath), fromExternal))
  )).pipe(Effect.tapErrorTag("ArchiveRefused", () => Effect.ignore(discard)))

  // From here on there is a complete copy: it takes its place, or the old one stays.
  yield* Effect.uninterruptible(Effect.gen(function*() {
    const aside = `${directory}.old-${yield* Clock.currentTimeMillis}`
    const replaced = yield* fs.exists(directory)
    if (replaced) yield* fs.rename(directory, aside)
    yield* fs.rename(files, directory).pipe(
      Effect.tapError(() => replaced ? Effect.ignore(fs.rename(aside, directory)) : Effect.void)
    )
    if (replaced) yield* Effect.ignore(fs.remove(aside, { recursive: true, force: true }))
    yield* Effect.ignore(discard)
  }))
  const completed: Summary = { directory, ...summary, fetched }
  yield* emit({ _tag: "Completed", ...completed })
  return completed
}, Effect.scoped)

/**
 * Downloads a checkpoint. External checkpoints are fetched file by file, others as an archive, which is unpacked
 * path-safely. Data is stored next to the target, in `DIRECTORY.download`, until it is complete: a second call resumes from
 * there. An archive that is refused leaves nothing behind. Two downloads to one place, in this process or another, do not
 * mix: the second fails with `DownloadInProgress`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const run = (options: Options): Effect.Effect<Summary, Failure, Services> => download(options, () => Effect.void)

/**
 * The same as a stream of what happens; the last event is `Completed`.
 *
 * @example
 * ```ts
 * import { Console, Stream } from "effect"
 * import { CheckpointDownload } from "effect-tinker"
 *
 * const download = CheckpointDownload.stream({ tinkerPath: "tinker://run/weights/final", directory: "./final" }).pipe(
 *   Stream.runForEach((event) =>
 *     event._tag === "Downloading"
 *       ? Console.log(`${event.file}: ${event.received} of ${event.total ?? "?"} bytes`)
 *       : Console.log(event._tag)
 *   )
 * )
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const stream = (options: Options): Stream.Stream<Event, Failure, Services> =>
  Stream.asyncPush<Event, Failure, Services>((emit) =>
    Effect.forkScoped(
      download(options, (event) => Effect.sync(() => void emit.single(event))).pipe(
        Effect.matchCauseEffect({
          onFailure: (cause) => Effect.sync(() => emit.halt(cause)),
          onSuccess: () => Effect.sync(() => emit.end())
        })
      )
    ), { bufferSize: "unbounded" })
