/**
 * A file fetched from a signed URL: resumed where it broke off, checked against its announced length, and visible under
 * its name only when it is complete.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Headers from "@effect/platform/Headers"
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as RetryPolicy from "./RetryPolicy.js"
import * as TinkerError from "./TinkerError.js"

/**
 * How far a download is.
 *
 * @since 0.1.0
 * @category models
 */
export interface Progress {
  readonly received: number
  /** Absent while the server has not announced a length. */
  readonly total?: number | undefined
}

/**
 * Result of a download.
 *
 * @since 0.1.0
 * @category models
 */
export interface Summary {
  readonly bytes: number
  /** Bytes that an earlier, interrupted download had already brought. */
  readonly resumedFrom: number
}

/**
 * File to fetch, and where to write it.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** Fetched without any credential of ours. */
  readonly url: string
  readonly path: string
  /** Largest file accepted. Defaults to 256 GiB. */
  readonly maxBytes?: number | undefined
  /** How long the server may stay silent. Defaults to 60 seconds. */
  readonly stallTimeout?: Duration.DurationInput | undefined
  /** Retries after failures; it starts over after each attempt that brought new bytes. Defaults to `RetryPolicy`'s `download`. */
  readonly retry?: RetryPolicy.Policy | undefined
  readonly onProgress?: ((progress: Progress) => Effect.Effect<void>) | undefined
}

type Failure = TinkerError.TinkerError | PlatformError.PlatformError

/** Facts known of a partial file: without a validator there is no way to know whether the rest belongs to it. */
const PartState = Schema.parseJson(Schema.Struct({
  validator: Schema.String,
  total: Schema.optional(Schema.Number)
}))
const decodeState = Schema.decodeOption(PartState)
const encodeState = Schema.encodeSync(PartState)

const origin = { module: "Download", method: "toFile" }

/** A disk that is full is not retried. */
const ofDisk = new TinkerError.InvalidInput({ ...origin, description: "the file could not be written" })

const defaultMaxBytes = 256 * 2 ** 30
const defaultStallTimeout: Duration.DurationInput = "60 seconds"

/** The signed address is itself a credential: it must appear neither in spans nor in headers to a storage host. */
const untraced = (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  client.pipe(
    HttpClient.followRedirects(5),
    HttpClient.withTracerPropagation(false),
    HttpClient.withTracerDisabledWhen(() => true)
  )

/** Where, without the query: that is where a signed URL keeps its signature. */
const place = (url: string): string => url.replace(/[?#].*$/s, "")

const contentRange = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/

const statusError = (status: number, url: string): TinkerError.TinkerError => {
  const fields = { ...origin, status, description: place(url) }
  switch (status) {
    case 401:
    case 403:
      return new TinkerError.PermissionDenied({
        ...fields,
        description: `${place(url)}: the signed URL was not accepted`
      })
    case 404:
    case 410:
      return new TinkerError.NotFound(fields)
    case 429:
      return new TinkerError.RateLimited(fields)
    default:
      return status === 408 || status >= 500 ? new TinkerError.Unavailable(fields) : new TinkerError.BadRequest(fields)
  }
}

const wholeNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined

/** A weak entity tag promises equal meaning, not equal bytes. */
const validatorOf = (headers: Headers.Headers): string | undefined => {
  const tag = Option.getOrUndefined(Headers.get(headers, "etag"))
  return tag !== undefined && !tag.startsWith("W/") ? tag : Option.getOrUndefined(Headers.get(headers, "last-modified"))
}

/**
 * Downloads `url` to `path`. Partial data is kept next to it as `path.part`, so that a later call resumes from there; the
 * file itself appears by an atomic rename when all announced bytes are there.
 *
 * @since 0.1.0
 * @category constructors
 */
export const toFile: (
  options: Options
) => Effect.Effect<
  Summary,
  Failure,
  HttpClient.HttpClient | FileSystem.FileSystem
> = Effect.fnUntraced(function*(options) {
  const fs = yield* FileSystem.FileSystem
  const client = untraced(yield* HttpClient.HttpClient)
  const part = `${options.path}.part`
  const stateFile = `${part}.json`
  const maxBytes = options.maxBytes ?? defaultMaxBytes
  const stallTimeout = options.stallTimeout ?? defaultStallTimeout
  const onProgress = options.onProgress ?? (() => Effect.void)
  const silent = () =>
    new TinkerError.TimedOut({
      ...origin,
      description: `${place(options.url)}: no data for ${Duration.format(Duration.decode(stallTimeout))}`
    })
  const broken = (error: HttpClientError.HttpClientError) =>
    new TinkerError.TransportFailed({
      ...origin,
      description: `${place(options.url)}: ${error.reason}`,
      ...(error.cause === undefined ? {} : { cause: error.cause })
    })
  const tooLarge = new TinkerError.MalformedResponse({
    ...origin,
    description: `${place(options.url)}: more than ${maxBytes} bytes`
  })

  const sizeOf = (path: string) =>
    fs.stat(path).pipe(Effect.map((info) => Number(info.size)), Effect.orElseSucceed(() => 0))
  const discard = Effect.zipRight(fs.remove(part, { force: true }), fs.remove(stateFile, { force: true }))
  const readState = fs.readFileString(stateFile).pipe(
    Effect.map(decodeState),
    Effect.orElseSucceed(() => Option.none())
  )

  let received = 0
  /** How far any attempt before this one came. */
  let furthest = 0
  let resumedFrom: number | undefined

  const receive = Effect.fnUntraced(function*(
    response: HttpClientResponse.HttpClientResponse,
    start: number,
    total: number | undefined
  ) {
    if ((total ?? 0) > maxBytes) return yield* tooLarge
    const validator = validatorOf(response.headers)
    received = start
    resumedFrom ??= start
    if (validator === undefined) yield* fs.remove(stateFile, { force: true })
    else yield* fs.writeFileString(stateFile, encodeState({ validator, total }))
    yield* Effect.scoped(Effect.gen(function*() {
      const file = yield* fs.open(part, { flag: start === 0 ? "w" : "a" })
      yield* onProgress({ received, total })
      yield* response.stream.pipe(
        Stream.catchAll((error) => error.reason === "EmptyBody" ? Stream.empty : Stream.fail(broken(error))),
        Stream.timeoutFail(silent, stallTimeout),
        Stream.runForEach(Effect.fnUntraced(function*(bytes) {
          if (received + bytes.length > (total ?? maxBytes)) return yield* tooLarge
          yield* file.writeAll(bytes)
          received += bytes.length
          yield* onProgress({ received, total })
        }))
      )
      yield* file.sync
    }))
    if (total !== undefined && received !== total) {
      return yield* new TinkerError.TransportFailed({
        ...origin,
        description: `${place(options.url)}: the connection ended after ${received} of ${total} bytes`
      })
    }
  })

  const attempt = Effect.gen(function*() {
    const state = yield* readState
    const start = Option.isSome(state) ? yield* sizeOf(part) : 0
    furthest = Math.max(furthest, received, start)
    received = start
    const response = yield* client.execute(
      HttpClientRequest.get(options.url).pipe(
        HttpClientRequest.setHeader("accept-encoding", "identity"),
        start > 0 && Option.isSome(state)
          ? HttpClientRequest.setHeaders({ range: `bytes=${start}-`, "if-range": state.value.validator })
          : (request) => request
      )
    ).pipe(
      Effect.mapError(broken),
      Effect.timeoutFail({ duration: stallTimeout, onTimeout: silent })
    )
    if (response.status === 200) {
      return yield* receive(response, 0, wholeNumber(response.headers["content-length"]))
    }
    const range = contentRange.exec(response.headers["content-range"] ?? "")
    if (response.status === 206 && range !== null && Number(range[1]) === start) {
      return yield* receive(response, start, wholeNumber(range[3]) ?? Number(range[2]) + 1)
    }
    if (response.status === 416 && start > 0 && wholeNumber(range?.[3]) === start) {
      resumedFrom ??= start
      return
    }
    if (response.status === 206 || (response.status === 416 && start > 0)) {
      // What is on disk is not the beginning of what is there now.
      yield* discard
      return yield* new TinkerError.TransportFailed({
        ...origin,
        status: response.status,
        description: `${place(options.url)}: the file has changed`
      })
    }
    return yield* statusError(response.status, options.url)
  }).pipe(Effect.scoped)

  const policy = (options.retry ?? (yield* RetryPolicy.RetryPolicy).download).pipe(
    Schedule.whileInput(TinkerError.isRetryable),
    Schedule.mapInput((error: Failure) => TinkerError.isTinkerError(error) ? error : ofDisk),
    // A break after some progress costs nothing of the budget: only a server that stopped sending does. What begins again
    // because the server names no version has made progress when it has come further than before.
    Schedule.resetWhen(() => received > furthest)
  )
  yield* Effect.retry(attempt, policy)
  yield* fs.rename(part, options.path)
  yield* fs.remove(stateFile, { force: true })
  return { bytes: received, resumedFrom: resumedFrom ?? 0 }
})

/**
 * The bytes of `url` as they arrive, for what needs no file. A connection that breaks is continued where it broke off; the
 * stream fails if the file has changed by then, or ends before its announced length.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stream = (
  options: Omit<Options, "path">
): Stream.Stream<Uint8Array, TinkerError.TinkerError, HttpClient.HttpClient> =>
  Stream.unwrap(Effect.gen(function*() {
    const client = untraced(yield* HttpClient.HttpClient)
    const origin = { module: "Download", method: "stream" }
    const at = place(options.url)
    const maxBytes = options.maxBytes ?? defaultMaxBytes
    const stallTimeout = options.stallTimeout ?? defaultStallTimeout
    const onProgress = options.onProgress ?? (() => Effect.void)
    const silent = () => new TinkerError.TimedOut({ ...origin, description: `${at}: no data for a while` })
    const broken = (error: HttpClientError.HttpClientError) =>
      new TinkerError.TransportFailed({ ...origin, description: `${at}: ${error.reason}` })
    const malformed = (description: string) =>
      new TinkerError.MalformedResponse({ ...origin, description: `${at}: ${description}` })
    let received = 0
    let validator: string | undefined

    const attempt = Stream.unwrapScoped(Effect.gen(function*() {
      const start = received
      if (start > 0 && validator === undefined) return yield* malformed("broke off and cannot be continued")
      const response = yield* client.execute(
        HttpClientRequest.get(options.url).pipe(
          HttpClientRequest.setHeader("accept-encoding", "identity"),
          start > 0 && validator !== undefined
            ? HttpClientRequest.setHeaders({ range: `bytes=${start}-`, "if-range": validator })
            : (request) => request
        )
      ).pipe(Effect.mapError(broken), Effect.timeoutFail({ duration: stallTimeout, onTimeout: silent }))
      if (response.status !== 200 && response.status !== 206) return yield* statusError(response.status, options.url)
      const range = contentRange.exec(response.headers["content-range"] ?? "")
      const continued = response.status === 206 && range !== null && Number(range[1]) === start
      if (start > 0 && !continued) return yield* malformed("the file has changed")
      validator = validatorOf(response.headers)
      const total = continued
        ? wholeNumber(range[3]) ?? Number(range[2]) + 1
        : wholeNumber(response.headers["content-length"])
      if ((total ?? 0) > maxBytes) return yield* malformed(`more than ${maxBytes} bytes`)
      const ended = Stream.suspend(() =>
        total === undefined || received === total ? Stream.empty : Stream.fail(
          new TinkerError.TransportFailed({
            ...origin,
            description: `${at}: the connection ended after ${received} of ${total} bytes`
          })
        )
      )
      return response.stream.pipe(
        Stream.catchAll((error) => error.reason === "EmptyBody" ? Stream.empty : Stream.fail(broken(error))),
        Stream.timeoutFail(silent, stallTimeout),
        Stream.tap((bytes) => {
          received += bytes.length
          return received > (total ?? maxBytes)
            ? Effect.fail(malformed(`more than ${total ?? maxBytes} bytes`))
            : onProgress({ received, total })
        }),
        Stream.concat(ended)
      )
    }))
    const policy = options.retry ?? (yield* RetryPolicy.RetryPolicy).download
    return Stream.retry(attempt, policy.pipe(Schedule.whileInput(TinkerError.isRetryable)))
  }))

/**
 * `toFile` as a stream of its progress; it ends when the file is there.
 *
 * @since 0.1.0
 * @category constructors
 */
export const progress = (
  options: Omit<Options, "onProgress">
): Stream.Stream<
  Progress,
  Failure,
  HttpClient.HttpClient | FileSystem.FileSystem
> =>
  Stream.asyncPush((emit) =>
    Effect.forkScoped(
      toFile({ ...options, onProgress: (value) => Effect.sync(() => void emit.single(value)) }).pipe(
        Effect.matchCauseEffect({
          onFailure: (cause) => Effect.sync(() => emit.halt(cause)),
          onSuccess: () => Effect.sync(() => emit.end())
        })
      )
    ), { bufferSize: "unbounded" })
