/**
 * One attempt of a call: a place in the pool, the credential, the exchange, and what its status means.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Credentials from "../Credentials.js"
import type * as Endpoint from "../Endpoint.js"
import type * as RetryPolicy from "../RetryPolicy.js"
import type * as TinkerConfig from "../TinkerConfig.js"
import * as TinkerError from "../TinkerError.js"
import type * as Wire from "./exchange.js"
import * as Failure from "./failure.js"
import * as Logs from "./logs.js"
import * as Meters from "./meters.js"
import type * as Observer from "./observer.js"
import type * as Prepared from "./prepared.js"
import * as Redirect from "./redirect.js"
import * as Sent from "./sent.js"
import * as Tenant from "./tenant.js"
import * as Tracing from "./tracing.js"

/** @internal */
export interface CallOptions {
  /** Module and method for errors. Defaults to the endpoint. */
  readonly from?: { readonly module: string; readonly method: string } | undefined
  /** Id of the server-side operation, for errors. */
  readonly requestId?: string | undefined
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** One for all attempts of a call. Defaults to a fresh one. */
  readonly idempotencyKey?: string | undefined
  /** Of one attempt. */
  readonly timeout?: Duration.DurationInput | undefined
  readonly retry?: RetryPolicy.Policy | undefined
  /** Told of every attempt that fails, also of those that are tried again. */
  readonly onFailed?: ((error: TinkerError.TinkerError) => void) | undefined
  /** Presented instead of the tenant's own. */
  readonly credential?: Redacted.Redacted | undefined
  /**
   * Where to leave the request under way, for a caller who abandons it when interrupted: one region of its own then
   * serves for all its requests, instead of one for each. Without it a call cleans up after itself.
   */
  readonly custody?: Custody | undefined
}

/** @internal */
export interface Custody {
  flight: Wire.Flight | undefined
}

/**
 * A request as it goes to the server, the same for all its attempts.
 *
 * @internal
 */
export interface Call {
  readonly endpoint: Prepared.Prepared
  readonly encoded: Endpoint.Encoded
  readonly origin: Failure.Origin
  readonly key: string | undefined
  readonly options: CallOptions | undefined
}

const isWireError = (result: Wire.Response | Wire.WireError): result is Wire.WireError => "_tag" in result

const isSettled = <A, E>(self: Effect.Effect<A, E>): self is Exit.Exit<A, E> => Exit.isExit(self)

const noSecret = (text: string) => text

/** @internal */
export const blank = (secrets: ReadonlyArray<string>) => (text: string): string =>
  secrets.reduce((result, secret) => secret === "" ? result : result.replaceAll(secret, "<redacted>"), text)

/** @internal */
export interface Attempts {
  /** The answer, or the tagged error. */
  readonly once: (call: Call, attempt: number) => Effect.Effect<Wire.Response, TinkerError.TinkerError>
  /** The same with a credential of the caller's choice, and outside the pool. */
  readonly exchange: (
    call: Call,
    attempt: number,
    secret: string | undefined
  ) => Effect.Effect<Wire.Response, TinkerError.TinkerError>
  /** The body as it arrives; its place in the pool is held until the scope closes. */
  readonly open: (
    call: Call,
    attempt: number
  ) => Effect.Effect<Stream.Stream<Uint8Array, TinkerError.TinkerError>, TinkerError.TinkerError, Scope.Scope>
}

/** @internal */
export const make = ({ config, credentials, fixedSecrets, isClosed, observers, tenant, tracing }: {
  readonly config: TinkerConfig.Service
  readonly credentials: Credentials.Service
  /** Of every request, besides the credential: they are blanked out of what servers say. */
  readonly fixedSecrets: ReadonlyArray<string>
  readonly isClosed: () => boolean
  readonly observers: Observer.Observers
  readonly tenant: Tenant.Tenant
  readonly tracing: Tracing.Tracing
}): Attempts => {
  const { wire } = tenant

  const failClosed = (origin: Failure.Origin) => Effect.fail(new TinkerError.Closed(origin))

  const fail = (
    call: Call,
    response: Wire.Response,
    secret: string | undefined
  ): Effect.Effect<never, TinkerError.TinkerError> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const endpoint = call.endpoint.endpoint
      const pool = tenant.pools[endpoint.pool]
      if (Failure.isEmpty400(response) && pool.forgiveness > 0) {
        pool.forgiveness--
        return Effect.zipRight(
          wire.reset(endpoint.pool),
          Effect.fail(
            new TinkerError.TransportFailed({
              module: call.origin.module,
              method: call.origin.method,
              requestId: call.origin.requestId,
              description: "a proxy on the way dropped the request (400 without a word)"
            })
          )
        )
      }
      // A report that is refused must not cost those who work a new token.
      if (response.status === 401 && endpoint.pool !== "telemetry") tenant.tokens?.invalidate()
      const scrub = secret === undefined && fixedSecrets.length === 0
        ? noSecret
        : blank(secret === undefined ? fixedSecrets : [secret, ...fixedSecrets])
      return Effect.fail(Failure.fromResponse(endpoint, call.origin, response, now, scrub, config.compatibility))
    })

  const succeeded = (call: Call, response: Wire.Response): Effect.Effect<Wire.Response> => {
    Tenant.refill(tenant.pools[call.endpoint.endpoint.pool])
    const note = response.headers["x-deprecation-note"]
    return note === undefined
      ? Effect.succeed(response)
      : (response.headers["x-deprecation-level"]?.trim().toLowerCase() === "error"
        ? Effect.logError(`Deprecation notice: ${note}`)
        : Effect.logWarning(`Deprecation notice: ${note}`)).pipe(
          Logs.of("Transport", { endpoint: call.endpoint.endpoint.name }),
          Effect.as(response)
        )
  }

  const settle = (
    call: Call,
    request: Wire.Request,
    response: Wire.Response,
    secret: string | undefined
  ): Effect.Effect<Wire.Response, TinkerError.TinkerError> => {
    const { status } = response
    Meters.received(call.endpoint.endpoint.name, response.body.length)
    if (status >= 200 && status < 300) return succeeded(call, response)
    const { redirects } = call.endpoint.endpoint
    if (status < 300 || status >= 400 || redirects === "refuse") return fail(call, response, secret)
    if (redirects === "return") return succeeded(call, response)
    return Effect.flatMap(
      Effect.mapError(Redirect.follow(wire, request, response), (error) => Failure.fromWire(call.origin, error)),
      (last) => last.status >= 200 && last.status < 300 ? succeeded(call, last) : fail(call, last, secret)
    )
  }

  const requestOf = (call: Call, attempt: number, secret: string | undefined): Wire.Request => {
    Meters.sent(call.endpoint.endpoint.name, call.encoded.body?.length ?? 0)
    return call.endpoint.request(call.encoded, {
      attempt,
      secret,
      idempotencyKey: call.key,
      headers: call.options?.headers,
      timeout: call.options?.timeout
    })
  }

  /** The first of the two: what was sent. The answer is told by `received`. */
  const sent = (call: Call, attempt: number, request: Wire.Request): void =>
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
    settled: Effect.Effect<Wire.Response, TinkerError.TinkerError>
  ): Effect.Effect<Wire.Response, TinkerError.TinkerError> =>
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

  const exchange = (call: Call, attempt: number, secret: string | undefined) => {
    const request = requestOf(call, attempt, secret)
    const send = Sent.mark(
      call.endpoint.endpoint.pool,
      Effect.matchEffect(wire.send(request), {
        onFailure: (error) => Effect.fail(Failure.fromWire(call.origin, error)),
        onSuccess: (response) => settle(call, request, response, secret)
      })
    )
    if (!observers.active()) return send
    return Effect.clockWith((clock) => {
      const start = clock.unsafeCurrentTimeMillis()
      sent(call, attempt, request)
      return received(call, attempt, start, clock, send)
    })
  }

  const secretOf = (call: Call): Effect.Effect<string | undefined, TinkerError.TinkerError> => {
    if (call.options?.credential !== undefined) return Effect.succeed(Redacted.value(call.options.credential))
    switch (call.endpoint.endpoint.auth) {
      case "none":
        return Effect.succeed(undefined)
      case "bearer":
        return Effect.map(credentials.current, (held) => Option.isSome(held) ? Redacted.value(held.value) : undefined)
      case "key":
        return tenant.tokens === undefined
          ? Effect.map(credentials.current, (held) => Option.isSome(held) ? Redacted.value(held.value) : undefined)
          : Effect.map(tenant.tokens.token, Redacted.value)
    }
  }

  const once = (call: Call, attempt: number): Effect.Effect<Wire.Response, TinkerError.TinkerError> =>
    tracing.spans || tracing.propagate ? traced(call, attempt) : untraced(call, attempt)

  const traced = (call: Call, attempt: number): Effect.Effect<Wire.Response, TinkerError.TinkerError> => {
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

  const patient = (call: Call, attempt: number): Effect.Effect<Wire.Response, TinkerError.TinkerError> =>
    tenant.pools[call.endpoint.endpoint.pool].gate.withPermit(
      Effect.flatMap(secretOf(call), (secret) => exchange(call, attempt, secret))
    )

  /** A credential that needs no finding out is read once. */
  const fixedKey = isSettled(credentials.current) && Exit.isSuccess(credentials.current)
    ? Option.match(credentials.current.value, { onNone: () => "", onSome: Redacted.value })
    : undefined

  /** The credential if it is at hand, empty if there is none to send; `undefined` if it must be waited for. */
  const secretAtHand = (call: Call, now: number): string | undefined => {
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

  /**
   * One attempt as one step of the fiber: what it must not wait for, a place in the pool and the credential, it takes
   * on the way. Where it would have to wait it is `patient`.
   */
  const swift = (
    dispatch: Wire.Dispatch,
    call: Call,
    attempt: number,
    fiber: Fiber.RuntimeFiber<Wire.Response, TinkerError.TinkerError>
  ): Effect.Effect<Wire.Response, TinkerError.TinkerError> =>
    Effect.async((resume) => {
      const clock = Context.get(fiber.currentDefaultServices, Clock.Clock)
      const { gate } = tenant.pools[call.endpoint.endpoint.pool]
      const start = clock.unsafeCurrentTimeMillis()
      const key = secretAtHand(call, start)
      if (key === undefined || !gate.tryEnter(1)) {
        resume(patient(call, attempt))
        return
      }
      const secret = key === "" ? undefined : key
      const request = requestOf(call, attempt, secret)
      const observed = observers.active()
      Sent.tell(request.pool, fiber)
      if (observed) sent(call, attempt, request)
      const custody = call.options?.custody
      let inside = true
      const leave = () => {
        if (!inside) return
        inside = false
        gate.leave(1)
      }
      const flight = dispatch(request, (result) => {
        leave()
        if (custody !== undefined) custody.flight = undefined
        const settled = isWireError(result)
          ? Effect.fail(Failure.fromWire(call.origin, result))
          : settle(call, request, result, secret)
        resume(observed ? received(call, attempt, start, clock, settled) : settled)
      })
      const abandon = () => {
        flight.abandon()
        leave()
      }
      if (custody === undefined) return Effect.sync(abandon)
      // An answer may already have come: some failures do before `dispatch` returns.
      if (inside) custody.flight = { abandon }
      return undefined
    })

  const untraced = (call: Call, attempt: number): Effect.Effect<Wire.Response, TinkerError.TinkerError> => {
    if (isClosed()) return failClosed(call.origin)
    const { dispatch } = wire
    return dispatch === undefined
      ? patient(call, attempt)
      : Effect.withFiberRuntime((fiber) => swift(dispatch, call, attempt, fiber))
  }

  const errorBody = (body: Stream.Stream<Uint8Array, TinkerError.TinkerError>) =>
    Stream.runFold(Stream.take(body, 16), new Uint8Array(0), (all, chunk) => {
      const joined = new Uint8Array(all.length + chunk.length)
      joined.set(all)
      joined.set(chunk, all.length)
      return joined
    }).pipe(Effect.orElseSucceed(() => new Uint8Array(0)))

  const open = Effect.fnUntraced(function*(call: Call, attempt: number) {
    if (isClosed()) return yield* failClosed(call.origin)
    const { gate } = tenant.pools[call.endpoint.endpoint.pool]
    yield* Effect.uninterruptibleMask((restore) =>
      Effect.zipRight(gate.enter(restore, 1), Effect.addFinalizer(() => gate.release(1)))
    )
    const secret = yield* secretOf(call)
    const toError = (error: Wire.WireError) => Failure.fromWire(call.origin, error)
    const head = yield* Effect.mapError(wire.stream(requestOf(call, attempt, secret)), toError)
    const body = Stream.mapError(head.body, toError)
    if (head.status >= 200 && head.status < 300) return body
    return yield* fail(call, { status: head.status, headers: head.headers, body: yield* errorBody(body) }, secret)
  })

  return { once, exchange, open }
}
