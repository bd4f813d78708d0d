/**
 * One attempt of a request: a permit of the pool, the credential, the exchange, and the meaning of its status.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Credentials from "../../Credentials.js"
import * as TinkerError from "../../TinkerError.js"
import * as TinkerTransport from "../../TinkerTransport.js"
import * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import * as ApiRequest from "./apiRequest.js"
import type { Call } from "./apiRequest.js"
import * as Errors from "./errors.js"
import type * as ServerFacts from "./serverFacts.js"
import * as Tenants from "./tenants.js"
import * as UnsafeSends from "./unsafeSends.js"

// -----------------------------------------------------------------------------
// Redirects, followed here because a credential must stay with its origin.
// -----------------------------------------------------------------------------

const maxHops = 5

/** The only headers sent to another origin. */
const harmless = ["accept", "user-agent"]

const redirectRefused = (why: string) =>
  Effect.fail(new TinkerTransport.TransportError({ reason: "connection", description: `redirect refused: ${why}` }))

/**
 * Follows redirects, starting with `response`.
 */
const followRedirect = (
  transport: TinkerTransport.Service,
  request: TinkerTransport.Request,
  response: TinkerTransport.Response,
  hops = 0
): Effect.Effect<TinkerTransport.Response, TinkerTransport.TransportError> => {
  if (response.status < 300 || response.status >= 400) return Effect.succeed(response)
  if (hops === maxHops) return redirectRefused(`more than ${maxHops} in a row`)
  if (request.method !== "GET") return redirectRefused("only GET requests follow redirects")
  const location = response.headers["location"]
  if (location === undefined) return redirectRefused("it has no location")
  let target: URL
  try {
    target = new URL(location, `${request.origin}${request.path}`)
  } catch {
    return redirectRefused("its location is not a valid URL")
  }
  if (target.protocol !== "https:" && target.protocol !== new URL(request.origin).protocol) {
    return redirectRefused("it downgrades from https")
  }
  const next: TinkerTransport.Request = {
    ...request,
    origin: target.origin,
    path: `${target.pathname}${target.search}`,
    // Redirecting back to the original origin does not restore the credential: headers are only ever removed.
    headers: target.origin === request.origin
      ? request.headers
      : Object.fromEntries(Object.entries(request.headers).filter(([name]) => harmless.includes(name)))
  }
  return Effect.flatMap(transport.send(next), (following) => followRedirect(transport, next, following, hops + 1))
}

// -----------------------------------------------------------------------------
// From the response to a value or a tagged error.
// -----------------------------------------------------------------------------

const noSecret = (text: string) => text

/** @internal */
export const blank = (secrets: ReadonlyArray<string>) => (text: string): string =>
  secrets.reduce((result, secret) => secret === "" ? result : result.replaceAll(secret, "<redacted>"), text)

interface Responses {
  /** Of a complete response, redirects followed where the endpoint allows it. */
  readonly settle: (
    call: Call,
    attempt: number,
    request: TinkerTransport.Request,
    response: TinkerTransport.Response,
    secret: string | undefined
  ) => Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
  /** Of one whose status says that it failed. */
  readonly fail: (
    call: Call,
    attempt: number,
    response: TinkerTransport.Response,
    secret: string | undefined
  ) => Effect.Effect<never, TinkerError.TinkerError>
}

const makeResponses = ({ fixedSecrets, tenant, serverFacts, transport }: {
  /** Secrets of every request besides the credential: they are redacted from server messages. */
  readonly fixedSecrets: ReadonlyArray<string>
  readonly tenant: Tenants.Tenant
  readonly serverFacts: ServerFacts.ServerFacts
  readonly transport: TinkerTransport.Service
}): Responses => {
  const fail = (
    call: Call,
    attempt: number,
    response: TinkerTransport.Response,
    secret: string | undefined
  ): Effect.Effect<never, TinkerError.TinkerError> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const endpoint = call.endpoint.endpoint
      const pool = tenant.pools[endpoint.pool]
      if (Errors.isEmpty400(response) && pool.emptyResponsesLeft > 0) {
        pool.emptyResponsesLeft--
        return Effect.zipRight(
          transport.reset?.(endpoint.pool) ?? Effect.void,
          Effect.fail(
            new TinkerError.TransportFailed({
              module: call.origin.module,
              method: call.origin.method,
              requestId: call.origin.requestId,
              description: "a proxy dropped the request (400 with an empty body)"
            })
          )
        )
      }
      // A rejected telemetry report must not force a new token on everyone else.
      if (response.status === 401 && endpoint.pool !== "telemetry" && secret !== undefined) {
        tenant.tokens?.invalidate(secret)
      }
      const scrub = secret === undefined && fixedSecrets.length === 0
        ? noSecret
        : blank(secret === undefined ? fixedSecrets : [secret, ...fixedSecrets])
      return Effect.fail(Errors.fromResponse(endpoint, call.origin, response, now, scrub, {
        failedFutureIsBadRequest: serverFacts.failedFutureIsBadRequest(),
        conflictIsFinal: attempt === 0 && serverFacts.firstConflictIsFinal()
      }))
    })

  const succeeded = (
    call: Call,
    response: TinkerTransport.Response,
    secret: string | undefined
  ): Effect.Effect<TinkerTransport.Response> => {
    Tenants.refill(tenant.pools[call.endpoint.endpoint.pool])
    const given = response.headers["x-deprecation-note"]
    if (given === undefined) return Effect.succeed(response)
    const note = Logs.said(given, secret === undefined ? fixedSecrets : [secret, ...fixedSecrets])
    return (response.headers["x-deprecation-level"]?.trim().toLowerCase() === "error"
      ? Effect.logError(`Deprecation notice: ${note}`)
      : Effect.logWarning(`Deprecation notice: ${note}`)).pipe(
        Logs.of("ApiClient", { endpoint: call.endpoint.endpoint.name }),
        Effect.as(response)
      )
  }

  const settle = (
    call: Call,
    attempt: number,
    request: TinkerTransport.Request,
    response: TinkerTransport.Response,
    secret: string | undefined
  ): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
    const { status } = response
    Observer.received(call.endpoint.endpoint.name, response.body.length)
    if (status >= 200 && status < 300) return succeeded(call, response, secret)
    const { redirects } = call.endpoint.endpoint
    if (status < 300 || status >= 400 || redirects === "refuse") return fail(call, attempt, response, secret)
    if (redirects === "return") return succeeded(call, response, secret)
    return Effect.flatMap(
      Effect.mapError(
        followRedirect(transport, request, response),
        (error) => Errors.fromTransport(call.origin, error)
      ),
      (last) =>
        last.status >= 200 && last.status < 300 ? succeeded(call, last, secret) : fail(call, attempt, last, secret)
    )
  }

  return { fail, settle }
}

// -----------------------------------------------------------------------------
// Which credential a request carries.
// -----------------------------------------------------------------------------

const isSettled = <A, E>(self: Effect.Effect<A, E>): self is Exit.Exit<A, E> => Exit.isExit(self)

interface Presented {
  /** The credential, looked up or exchanged if necessary; `undefined` if there is none to send. */
  readonly find: (call: Call) => Effect.Effect<string | undefined, TinkerError.TinkerError>
  /** The credential if it is already known, empty if there is none to send; `undefined` if getting it takes a wait. */
  readonly atHand: (call: Call, now: number) => string | undefined
}

const makePresented = (credentials: Credentials.Service, tenant: Tenants.Tenant): Presented => {
  /** A constant credential is read once. */
  const fixedKey = isSettled(credentials.current) && Exit.isSuccess(credentials.current)
    ? Option.match(credentials.current.value, { onNone: () => "", onSome: Redacted.value })
    : undefined

  const atHand = (call: Call, now: number): string | undefined => {
    if (call.options?.credential !== undefined) return Redacted.value(call.options.credential)
    switch (call.endpoint.endpoint.auth) {
      case "none":
        return ""
      case "bearer":
        return fixedKey
      case "key": {
        if (tenant.tokens === undefined) return fixedKey
        const token = tenant.tokens.held(now)
        return token === undefined ? undefined : Redacted.value(token)
      }
    }
  }

  const held = Effect.map(credentials.current, (held) => Option.isSome(held) ? Redacted.value(held.value) : undefined)

  const find = (call: Call): Effect.Effect<string | undefined, TinkerError.TinkerError> => {
    if (call.options?.credential !== undefined) return Effect.succeed(Redacted.value(call.options.credential))
    switch (call.endpoint.endpoint.auth) {
      case "none":
        return Effect.succeed(undefined)
      case "bearer":
        return held
      case "key":
        return tenant.tokens === undefined
          ? held
          : Effect.map(tenant.tokens.token, Redacted.value)
    }
  }

  return { find, atHand }
}

// -----------------------------------------------------------------------------
// Attempts.
// -----------------------------------------------------------------------------

/** The beginning of a streamed error body: enough for its message. */
const errorBody = (body: Stream.Stream<Uint8Array, TinkerError.TinkerError>) =>
  Stream.runFold(Stream.take(body, 16), new Uint8Array(0), (all, chunk) => {
    const joined = new Uint8Array(all.length + chunk.length)
    joined.set(all)
    joined.set(chunk, all.length)
    return joined
  }).pipe(Effect.orElseSucceed(() => new Uint8Array(0)))

interface Attempts {
  /** The response, or the tagged error. */
  readonly once: (call: Call, attempt: number) => Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
  /** The same with a credential of the caller's choice, and outside the pool. */
  readonly exchange: (
    call: Call,
    attempt: number,
    secret: string | undefined
  ) => Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
  /** The body as it arrives; its place in the pool is held until the scope closes. */
  readonly open: (
    call: Call,
    attempt: number
  ) => Effect.Effect<Stream.Stream<Uint8Array, TinkerError.TinkerError>, TinkerError.TinkerError, Scope.Scope>
}

/** @internal */
export const make = ({ credentials, fixedSecrets, isClosed, observers, tenant, tracing, serverFacts, transport }: {
  readonly credentials: Credentials.Service
  /** Secrets of every request besides the credential: they are redacted from server messages. */
  readonly fixedSecrets: ReadonlyArray<string>
  readonly isClosed: () => boolean
  readonly observers: Observer.Observers
  readonly tenant: Tenants.Tenant
  readonly tracing: Tracing.Tracing
  readonly serverFacts: ServerFacts.ServerFacts
  readonly transport: TinkerTransport.Service
}): Attempts => {
  const responses = makeResponses({ fixedSecrets, tenant, serverFacts, transport })
  const presented = makePresented(credentials, tenant)

  const unsafeSend = UnsafeSends.of(transport.send)

  const failClosed = (origin: Errors.Origin) => Effect.fail(new TinkerError.Closed(origin))

  const requestOf = (call: Call, attempt: number, secret: string | undefined): TinkerTransport.Request => {
    Observer.sent(call.endpoint.endpoint.name, call.encoded.body?.length ?? 0)
    return call.endpoint.request(call.encoded, {
      attempt,
      secret,
      idempotencyKey: call.key,
      headers: call.options?.headers,
      sdkMethod: call.sdkMethod,
      timeout: call.options?.timeout
    })
  }

  /** The first of the two: what was sent. The response is reported by `received`. */
  const sent = (call: Call, attempt: number, request: TinkerTransport.Request): void =>
    observers.emit({
      _tag: "Sent",
      endpoint: call.endpoint.endpoint.name,
      attempt,
      bytes: request.body === undefined ? 0 : request.body.length
    })

  const received = (
    call: Call,
    attempt: number,
    start: number,
    clock: Clock.Clock,
    settled: Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
  ): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> =>
    Effect.map(settled, (response) => {
      observers.emit({
        _tag: "Received",
        endpoint: call.endpoint.endpoint.name,
        attempt,
        status: response.status,
        bytes: response.body.length,
        elapsed: clock.unsafeCurrentTimeMillis() - start
      })
      return response
    })

  /** The server refused the token itself: another one may do. */
  const isReplaceable = (
    call: Call,
    response: TinkerTransport.Response,
    secret: string | undefined
  ): secret is string =>
    response.status === 401 && secret !== undefined && tenant.tokens !== undefined &&
    call.options?.credential === undefined && call.endpoint.endpoint.auth === "key" &&
    call.endpoint.endpoint.pool !== "telemetry" &&
    (response.headers["www-authenticate"] ?? "").includes("error=\"invalid_token\"")

  const settled = (
    call: Call,
    attempt: number,
    request: TinkerTransport.Request,
    response: TinkerTransport.Response,
    secret: string | undefined,
    replays: boolean
  ): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> =>
    replays && isReplaceable(call, response, secret) && tenant.tokens !== undefined
      ? Effect.flatMap(
        tenant.tokens.replace(secret),
        (token) => exchange(call, attempt, Redacted.value(token), false)
      )
      : responses.settle(call, attempt, request, response, secret)

  const exchange = (
    call: Call,
    attempt: number,
    secret: string | undefined,
    /** Whether it is sent once more with another token when the server refuses this one. */
    replays = true
  ): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
    const request = requestOf(call, attempt, secret)
    const send = ApiRequest.markSent(
      call.endpoint.endpoint.pool,
      Effect.matchEffect(transport.send(request), {
        onFailure: (error) => Effect.fail(Errors.fromTransport(call.origin, error)),
        onSuccess: (response) => settled(call, attempt, request, response, secret, replays)
      })
    )
    if (!observers.active()) return send
    return Effect.clockWith((clock) => {
      const start = clock.unsafeCurrentTimeMillis()
      sent(call, attempt, request)
      return received(call, attempt, start, clock, send)
    })
  }

  const once = (call: Call, attempt: number): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> =>
    tracing.spans || tracing.propagate ? traced(call, attempt) : untraced(call, attempt)

  const traced = (call: Call, attempt: number): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
    const { name, pool } = call.endpoint.endpoint
    const iteration = call.options?.headers?.["x-tinker-request-iteration"]
    return Tracing.exchange(
      tracing,
      pool === "futures" ? "tinker.poll" : "tinker.send",
      {
        "tinker.endpoint": name,
        "tinker.attempt": iteration === undefined ? attempt : Number(iteration),
        "tinker.bytes": call.encoded.body?.length ?? 0,
        ...(call.origin.requestId === undefined ? {} : { "tinker.request_id": call.origin.requestId })
      },
      (traceparent) =>
        untraced(
          traceparent === undefined
            ? call
            : { ...call, options: { ...call.options, headers: { ...call.options?.headers, traceparent } } },
          attempt
        )
    )
  }

  const waiting = (call: Call, attempt: number): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> =>
    tenant.pools[call.endpoint.endpoint.pool].limit.withPermit(
      Effect.flatMap(presented.find(call), (secret) => exchange(call, attempt, secret))
    )

  /**
   * One attempt as one step of the fiber, for transports with a fast path: a permit of the pool and the credential are
   * taken on the way if that needs no waiting, otherwise the attempt goes through `waiting`.
   */
  const immediate = (
    unsafeSend: TinkerTransport.UnsafeSend,
    call: Call,
    attempt: number,
    fiber: Fiber.RuntimeFiber<TinkerTransport.Response, TinkerError.TinkerError>
  ): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> =>
    Effect.async((resume) => {
      const clock = Context.get(fiber.currentDefaultServices, Clock.Clock)
      const { limit } = tenant.pools[call.endpoint.endpoint.pool]
      const start = clock.unsafeCurrentTimeMillis()
      const key = presented.atHand(call, start)
      if (key === undefined || !limit.tryEnter(1)) {
        resume(waiting(call, attempt))
        return
      }
      const secret = key === "" ? undefined : key
      const request = requestOf(call, attempt, secret)
      const observed = observers.active()
      ApiRequest.notifySent(request.pool, fiber)
      if (observed) sent(call, attempt, request)
      const cancellation = call.options?.cancellation
      let holdsPermit = true
      const release = () => {
        if (!holdsPermit) return
        holdsPermit = false
        limit.leave(1)
      }
      const inFlight = unsafeSend(request, (result) => {
        release()
        cancellation?.end()
        const end = result instanceof TinkerTransport.TransportError
          ? Effect.fail(Errors.fromTransport(call.origin, result))
          : isReplaceable(call, result, secret)
          ? limit.withPermit(settled(call, attempt, request, result, secret, true))
          : responses.settle(call, attempt, request, result, secret)
        resume(observed ? received(call, attempt, start, clock, end) : end)
      })
      const cancel = () => {
        inFlight.cancel()
        release()
      }
      if (cancellation === undefined) return Effect.sync(cancel)
      // It may be over already: some failures are known before `unsafeSend` returns.
      if (holdsPermit) cancellation.begin({ cancel })
      return undefined
    })

  const untraced = (call: Call, attempt: number): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
    if (isClosed()) return failClosed(call.origin)
    return unsafeSend === undefined
      ? waiting(call, attempt)
      : Effect.withFiberRuntime((fiber) => immediate(unsafeSend, call, attempt, fiber))
  }

  const open = Effect.fnUntraced(function*(call: Call, attempt: number) {
    if (isClosed()) return yield* failClosed(call.origin)
    const { limit } = tenant.pools[call.endpoint.endpoint.pool]
    yield* Effect.uninterruptibleMask((restore) =>
      Effect.zipRight(limit.enter(restore, 1), Effect.addFinalizer(() => limit.release(1)))
    )
    const secret = yield* presented.find(call)
    const toError = (error: TinkerTransport.TransportError) => Errors.fromTransport(call.origin, error)
    const request = requestOf(call, attempt, secret)
    const head = yield* Effect.mapError(ApiRequest.markSent(request.pool, transport.stream(request)), toError)
    const body = Stream.mapError(head.body, toError)
    if (head.status >= 200 && head.status < 300) return body
    return yield* responses.fail(
      call,
      attempt,
      { status: head.status, headers: head.headers, body: yield* errorBody(body) },
      secret
    )
  })

  return { once, exchange, open }
}
