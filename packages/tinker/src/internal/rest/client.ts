/**
 * The REST client over a transport: each method checks what it was given, and calls its endpoint.
 *
 * @since 0.1.0
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Checkpoint from "../../Checkpoint.js"
import type { Scoped, Service } from "../../RestClient.js"
import * as TinkerError from "../../TinkerError.js"
import * as Account from "../../wire/Account.js"
import * as Api from "../../wire/Api.js"
import type * as Endpoint from "../../wire/Endpoint.js"
import * as Id from "../../wire/Id.js"
import type { SessionId } from "../../wire/Id.js"
import * as Session from "../../wire/Session.js"
import * as SessionSearch from "../../wire/SessionSearch.js"
import * as Weights from "../../wire/Weights.js"
import * as Observer from "../observability/observer.js"
import * as SharedConfig from "../session/clientConfig.js"
import * as Creation from "../training/creation.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as Errors from "../transport/errors.js"
import * as Tokens from "../transport/tokens.js"

/** @internal */
export type Call<A> = Effect.Effect<A, TinkerError.RestError>

const module = "RestClient"

const invalid = (method: string, description: string) => new TinkerError.InvalidInput({ module, method, description })

const build = <A>(method: string, build: () => A): Call<A> => Errors.buildRequest({ module, method }, build)

const id = <A>(method: string, what: string, value: string, make: (value: string) => A): Call<A> =>
  value === "" ? invalid(method, `the ${what} is empty`) : Effect.sync(() => make(value))

const checkRunId = (method: string, value: string) => id(method, "training run id", value, Id.ModelId.make)

const checkSessionId = (method: string, value: string) => id(method, "session id", value, Id.SessionId.make)

const checkSamplerId = (method: string, value: string) => id(method, "sampler id", value, Id.SamplingSessionId.make)

const checkPath = (method: string, tinkerPath: string): Call<Checkpoint.ParsedPath> =>
  Either.mapLeft(Checkpoint.parsePath(tinkerPath), (error) => invalid(method, error.description ?? "not a path"))

interface Caller {
  readonly via: ApiClient.Service
  /** Reads the server's configuration, once: it decides which credential the calls present. */
  readonly begin: Call<void>
  readonly call: <Request, Response>(
    method: string,
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: ApiClient.CallOptions
  ) => Call<Response>
}

const makeCaller = (via: ApiClient.Service): Caller => {
  let configured = false
  const begin: Call<void> = Effect.suspend(() =>
    configured ?
      Effect.void :
      Effect.map(Errors.toRequestError(SharedConfig.configure(via, { from: { module, method: "connect" } })), () => {
        configured = true
      })
  )
  return {
    via,
    begin,
    call: (method, endpoint, request, options = {}) =>
      Observer.reported(
        via.emit,
        Effect.zipRight(
          begin,
          Errors.toRequestError(via.call(endpoint, request, { ...options, from: { module, method } }))
        )
      )
  }
}

// -----------------------------------------------------------------------------
// Paginated lists as streams: a page is requested when its first item is.
// -----------------------------------------------------------------------------

/**
 * By offset. Servers may give shorter pages than asked for, so the next offset is what was received; without a total,
 * the end is the first empty page.
 */
const paginate = <A, E, R>(
  options: {
    readonly pageSize: number
    readonly offset?: number | undefined
    readonly onTotal?: ((total: number) => Effect.Effect<void>) | undefined
  },
  page: (
    limit: number,
    offset: number
  ) => Effect.Effect<{ readonly items: ReadonlyArray<A>; readonly total: number | undefined }, E, R>
): Stream.Stream<A, E, R> =>
  Stream.paginateChunkEffect(options.offset ?? 0, (offset) =>
    page(options.pageSize, offset).pipe(
      Effect.tap(({ total }) => total === undefined ? Effect.void : options.onTotal?.(total) ?? Effect.void),
      Effect.map(({ items, total }) => {
        const next = offset + items.length
        const more = items.length > 0 && (total === undefined || next < total)
        return [Chunk.unsafeFromArray(items), more ? Option.some(next) : Option.none<number>()] as const
      })
    ))

/**
 * By a cursor that each page hands out.
 */
const paginateByCursor = <A, Cursor, E, R>(
  first: Cursor | undefined,
  page: (
    cursor: Cursor | undefined
  ) => Effect.Effect<{ readonly items: ReadonlyArray<A>; readonly next: Cursor | undefined }, E, R>
): Stream.Stream<A, E, R> =>
  Stream.paginateChunkEffect(first, (cursor) =>
    Effect.map(page(cursor), ({ items, next }) =>
      [
        Chunk.unsafeFromArray(items),
        next === undefined ? Option.none<Cursor | undefined>() : Option.some<Cursor | undefined>(next)
      ] as const))

// -----------------------------------------------------------------------------
// The owner of the credential.
// -----------------------------------------------------------------------------

/**
 * The owner of the credential, from the claims of the token the server issues for it.
 */
const whoami: (caller: Caller) => Call<Account.WhoamiResponse> = Effect.fnUntraced(function*({ begin, via }) {
  yield* begin
  const token = yield* via.identityToken
  const own = Option.isSome(token) ? token : yield* via.credentials.current
  const claims = Option.match(own, {
    onNone: () => Either.left("there is no credential"),
    onSome: Tokens.claims
  })
  const text = (key: string): string | undefined => {
    const value = Either.isRight(claims) ? claims.right[key] : undefined
    return typeof value === "string" && value !== "" ? value : undefined
  }
  const userUrn = text("sub")
  if (userUrn === undefined) {
    return yield* invalid("whoami", "the server issues no tokens, and a plain API key does not identify its owner")
  }
  const organization = text("org_id")
  return new Account.WhoamiResponse({
    userUrn,
    orgUrn: organization === undefined ? undefined : `tml:organization:${organization}`,
    email: text("email")
  })
}, Errors.toRequestError)

// -----------------------------------------------------------------------------
// Checkpoints by name.
// -----------------------------------------------------------------------------

const nameOf = (checkpointId: string): string => checkpointId.slice(checkpointId.indexOf("/") + 1)

/**
 * Under the id of the checkpoint, `KIND/NAME`, and under its bare name where a server has no such route: SkyRL, whose
 * routes have one segment for it. The tenant remembers. For reading alone: a bare name may be that of two kinds.
 */
const byItsName = <A>(
  { serverFacts }: ApiClient.Service,
  { checkpointId }: Checkpoint.ParsedPath,
  call: (checkpointId: Id.CheckpointId) => Effect.Effect<A, TinkerError.TinkerError>
): Effect.Effect<A, TinkerError.TinkerError> =>
  Effect.suspend(() => {
    const bare = Id.CheckpointId.make(nameOf(checkpointId))
    if (bare === checkpointId || serverFacts.hasBareNames()) return call(bare)
    return Effect.catchTag(call(checkpointId), "Unsupported", (error) =>
      call(bare).pipe(
        Effect.tap(() => serverFacts.foundBareNames()),
        Effect.catchTag("Unsupported", () => error)
      ))
  })

/** Whether a listed checkpoint is the one of a path, which may lack the kind. */
const isAt = (checkpoint: Checkpoint.Checkpoint, path: Checkpoint.ParsedPath): boolean =>
  checkpoint.tinkerPath === path.tinkerPath ||
  (checkpoint.checkpointType === path.checkpointType && nameOf(checkpoint.checkpointId) === nameOf(path.checkpointId))

// -----------------------------------------------------------------------------
// Archive URLs.
// -----------------------------------------------------------------------------

/** When a redirect does not say how long its address lives. */
const unsaidLife = Duration.minutes(15)

/**
 * The address of a checkpoint's archive, from a response body or from a redirect.
 */
const archiveUrl: (
  caller: Caller,
  path: Checkpoint.ParsedPath
) => Call<Checkpoint.CheckpointArchiveUrlResponse> = Effect.fnUntraced(
  function*({ begin, via }, path) {
    const from = { module, method: "getCheckpointArchiveUrl" }
    yield* begin
    const answer = yield* byItsName(
      via,
      path,
      (checkpointId) =>
        via.response(Api.checkpointArchive, { checkpointId, trainingRunId: path.trainingRunId }, {
          from,
          headers: { accept: "application/json" }
        })
    )
    if (answer.status < 300) {
      return yield* Either.mapLeft(
        Api.checkpointArchive.response.decode(answer.body, answer.headers["content-type"]),
        (description) => new TinkerError.MalformedResponse({ ...from, status: answer.status, description })
      )
    }
    const location = answer.headers["location"]
    if (location === undefined) {
      return yield* new TinkerError.MalformedResponse({
        ...from,
        status: answer.status,
        description: "a redirect without a location"
      })
    }
    const now = yield* Clock.currentTimeMillis
    const stated = Date.parse(answer.headers["expires"] ?? "")
    return new Checkpoint.CheckpointArchiveUrlResponse({
      url: location,
      expires: DateTime.unsafeMake(Number.isNaN(stated) ? now + Duration.toMillis(unsaidLife) : stated)
    })
  },
  Errors.toRequestError
)

// -----------------------------------------------------------------------------
// Trace exports.
// -----------------------------------------------------------------------------

const traceMethod = "exportSessionTrace"

/**
 * Asks for a session's trace until it is built, has failed, or took too long.
 */
const exportTrace: (
  caller: Caller,
  sessionId: SessionId,
  options: {
    readonly interval?: Duration.DurationInput | undefined
    readonly timeout?: Duration.DurationInput | undefined
    readonly onPending?: ((elapsed: Duration.Duration) => Effect.Effect<void>) | undefined
  }
) => Effect.Effect<string, TinkerError.RestError | TinkerError.RequestFailed> = Effect.fnUntraced(
  function*({ call }, sessionId, options) {
    const started = yield* Clock.currentTimeMillis
    const limit = Duration.decode(options.timeout ?? "30 minutes")
    while (true) {
      const answer = yield* call(traceMethod, Api.traceExport, { sessionId })
      if (answer.status === "ready" && answer.url !== undefined) return answer.url
      if (answer.status === "failed") {
        return yield* new TinkerError.RequestFailed({
          module,
          method: traceMethod,
          category: "server",
          description: answer.error ?? "the trace could not be built"
        })
      }
      const elapsed = Duration.millis((yield* Clock.currentTimeMillis) - started)
      if (Duration.greaterThanOrEqualTo(elapsed, limit)) {
        return yield* new TinkerError.TimedOut({
          module,
          method: traceMethod,
          description: `the trace was not ready after ${Duration.format(elapsed)}`
        })
      }
      yield* options.onPending?.(elapsed) ?? Effect.void
      yield* Effect.sleep(options.interval ?? "5 seconds")
    }
  }
)

// -----------------------------------------------------------------------------
// The REST client.
// -----------------------------------------------------------------------------

const secondsOf = (method: string, ttl: Duration.DurationInput): Call<number> => {
  const seconds = Math.round(Duration.toSeconds(ttl))
  return seconds > 0 && Number.isSafeInteger(seconds)
    ? Effect.succeed(seconds)
    : invalid(method, "the time to live must be positive and finite")
}

/** @internal */
export const make = (via: ApiClient.Service): Service => {
  const caller = makeCaller(via)
  const { call } = caller

  const onCheckpoint = (
    method: string,
    endpoint: Endpoint.Endpoint<Api.CheckpointRequest, void>
  ) =>
  (tinkerPath: string): Call<void> =>
    Effect.flatMap(
      checkPath(method, tinkerPath),
      ({ checkpointId, trainingRunId }) => call(method, endpoint, { checkpointId, trainingRunId })
    )

  const getTrainingRun = (method: string, trainingRunId: Id.ModelId, options?: Scoped, from?: ApiClient.CallOptions) =>
    call(method, Api.getTrainingRun, { trainingRunId, accessScope: options?.accessScope ?? "owned" }, from)

  const listTrainingRuns: Service["listTrainingRuns"] = (options = {}) =>
    call("listTrainingRuns", Api.listTrainingRuns, {
      limit: options.limit ?? 20,
      offset: options.offset ?? 0,
      accessScope: options.accessScope ?? "owned",
      projectId: options.projectId
    })

  const listCheckpoints: Service["listCheckpoints"] = (trainingRunId) =>
    Effect.flatMap(
      checkRunId("listCheckpoints", trainingRunId),
      (trainingRunId) => call("listCheckpoints", Api.listCheckpoints, { trainingRunId })
    )

  const listUserCheckpoints: Service["listUserCheckpoints"] = (options = {}) =>
    call("listUserCheckpoints", Api.listUserCheckpoints, { limit: options.limit ?? 100, offset: options.offset ?? 0 })

  const listSessions: Service["listSessions"] = (options = {}) =>
    call("listSessions", Api.listSessions, {
      limit: options.limit ?? 20,
      offset: options.offset ?? 0,
      accessScope: options.accessScope ?? "owned"
    })

  const searchSessions: Service["searchSessions"] = (request) => call("searchSessions", Api.searchSessions, request)

  return {
    getTrainingRun: (trainingRunId, options) =>
      Effect.flatMap(
        checkRunId("getTrainingRun", trainingRunId),
        (trainingRunId) => getTrainingRun("getTrainingRun", trainingRunId, options)
      ),
    getTrainingRunByPath: (tinkerPath, options) =>
      Effect.flatMap(
        checkPath("getTrainingRunByPath", tinkerPath),
        ({ trainingRunId }) =>
          getTrainingRun("getTrainingRunByPath", trainingRunId, options, {
            headers: { "x-sdk-method": "RestClient.get_training_run_by_tinker_path" }
          })
      ),
    listTrainingRuns,
    streamTrainingRuns: (options = {}) =>
      paginate(
        { ...options, pageSize: options.pageSize ?? 100 },
        (limit, offset) =>
          Effect.map(listTrainingRuns({ ...options, limit, offset }), ({ cursor, trainingRuns }) => ({
            items: trainingRuns,
            total: cursor.totalCount
          }))
      ),
    getWeightsInfo: (tinkerPath) =>
      Effect.flatMap(
        build("getWeightsInfo", () => new Weights.WeightsInfoRequest({ tinkerPath })),
        (request) => call("getWeightsInfo", Api.weightsInfo, request)
      ),
    listCheckpoints,
    getCheckpoint: Effect.fnUntraced(function*(tinkerPath) {
      const path = yield* checkPath("getCheckpoint", tinkerPath)
      const { checkpoints } = yield* listCheckpoints(path.trainingRunId)
      const found = checkpoints.find((checkpoint) => isAt(checkpoint, path))
      return found ?? (yield* new TinkerError.NotFound({
        module,
        method: "getCheckpoint",
        description: `${tinkerPath} is not among the ${checkpoints.length} checkpoints of its run`
      }))
    }),
    listUserCheckpoints,
    streamUserCheckpoints: (options = {}) =>
      paginate(
        { ...options, pageSize: options.pageSize ?? 1000 },
        (limit, offset) =>
          Effect.map(listUserCheckpoints({ limit, offset }), ({ checkpoints, cursor }) => ({
            items: checkpoints,
            total: cursor?.totalCount
          }))
      ),
    getCheckpointArchiveUrl: (tinkerPath) =>
      Effect.flatMap(
        checkPath("getCheckpointArchiveUrl", tinkerPath),
        (path) => archiveUrl(caller, path)
      ),
    getExternalWeightsUrls: Effect.fnUntraced(function*(tinkerPath) {
      const method = "getExternalWeightsUrls"
      const parsed = yield* checkPath(method, tinkerPath)
      if (parsed.checkpointType !== "external") {
        return yield* invalid(method, `${tinkerPath} is not external: tinker://RUN/external_weights/NAME`)
      }
      return yield* call(method, Api.externalWeightsUrls, {
        checkpointId: parsed.checkpointId,
        trainingRunId: parsed.trainingRunId
      })
    }),
    deleteCheckpoint: onCheckpoint("deleteCheckpoint", Api.deleteCheckpoint),
    publishCheckpoint: onCheckpoint("publishCheckpoint", Api.publishCheckpoint),
    unpublishCheckpoint: onCheckpoint("unpublishCheckpoint", Api.unpublishCheckpoint),
    setCheckpointTtl: Effect.fnUntraced(function*(tinkerPath, ttl) {
      const method = "setCheckpointTtl"
      const { checkpointId, trainingRunId } = yield* checkPath(method, tinkerPath)
      const ttlSeconds = ttl === null ? null : yield* secondsOf(method, ttl)
      return yield* call(method, Api.setCheckpointTtl, { checkpointId, trainingRunId, ttlSeconds })
    }),
    copyWeights: Effect.fnUntraced(function*(tinkerPath, options = {}) {
      const method = "copyWeights"
      yield* checkPath(method, tinkerPath)
      const projectId = options.projectId ?? Option.getOrUndefined(via.config.projectId)
      if (projectId === undefined) {
        return yield* invalid(method, "specify a project for the copy, or configure one (TINKER_PROJECT_ID)")
      }
      const ttlSeconds = options.ttl === undefined ? undefined : yield* secondsOf(method, options.ttl)
      const request = yield* build(
        method,
        () => new Weights.CopyWeightsRequest({ sourcePath: tinkerPath, destinationProjectId: projectId, ttlSeconds })
      )
      const token = Creation.token(options.weightsAccessToken)
      const headers = token === undefined ? {} : { "x-tinker-weights-access-token": token }
      return (yield* call(method, Api.copyWeights, request, { headers })).tinkerPath
    }),
    getSession: (sessionId, options) =>
      Effect.flatMap(
        checkSessionId("getSession", sessionId),
        (sessionId) => call("getSession", Api.getSession, { sessionId, accessScope: options?.accessScope ?? "owned" })
      ),
    listSessions,
    streamSessions: (options = {}) =>
      paginate({ ...options, pageSize: options.pageSize ?? 100 }, (limit, offset) =>
        Effect.map(
          listSessions({ ...options, limit, offset }),
          ({ sessions }) => ({ items: sessions, total: undefined })
        )),
    searchSessions,
    streamSessionSearch: (request) =>
      paginateByCursor(request.cursor, (cursor) =>
        Effect.map(
          searchSessions(new SessionSearch.SessionSearchRequest({ ...request, cursor })),
          ({ nextCursor, sessions }) => ({ items: sessions, next: nextCursor })
        )),
    assignSessionProject: Effect.fnUntraced(function*(given, projectId) {
      const method = "assignSessionProject"
      const sessionId = yield* checkSessionId(method, given)
      const request = yield* build(method, () => new Session.AssignProjectRequest({ projectId }))
      return yield* call(method, Api.assignProject, { ...request, sessionId })
    }),
    exportSessionTrace: (sessionId, options = {}) =>
      Effect.flatMap(
        checkSessionId("exportSessionTrace", sessionId),
        (sessionId) => exportTrace(caller, sessionId, options)
      ),
    getSampler: (samplerId) =>
      Effect.flatMap(
        checkSamplerId("getSampler", samplerId),
        (samplerId) => call("getSampler", Api.getSampler, { samplerId })
      ),
    getAuditLog: (options = {}) =>
      call("getAuditLog", Api.audit, {
        eventType: options.eventType ?? "all",
        day: options.day === undefined ? undefined : DateTime.formatIsoDateUtc(options.day)
      }),
    getBillingUsage: (window) => call("getBillingUsage", Api.billingUsage, window),
    getCheckpointStorageUsage: (options = {}) =>
      call("getCheckpointStorageUsage", Api.checkpointStorage, { projectId: options.projectId }),
    whoami: whoami(caller),
    getApiKey: Errors.toRequestError(
      via.call(Api.apiKeyInfo, {}, { from: { module, method: "getApiKey" } })
    ),
    deleteApiKey: Errors.toRequestError(
      via.call(Api.deleteApiKey, {}, { from: { module, method: "deleteApiKey" } })
    ),
    getServerCapabilities: call("getServerCapabilities", Api.capabilities, {})
  }
}
