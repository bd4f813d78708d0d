/**
 * One attempt of a call: a place in the pool, the credential, the exchange, and what its status means.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Credentials from "../Credentials.js"
import type * as TinkerConfig from "../TinkerConfig.js"
import * as TinkerError from "../TinkerError.js"
import * as Answer from "./answer.js"
import type { Call } from "./call.js"
import type * as Wire from "./exchange.js"
import * as Failure from "./failure.js"
import * as Meters from "./meters.js"
import type * as Observer from "./observer.js"
import * as Presented from "./presented.js"
import * as Sent from "./sent.js"
import type * as Tenant from "./tenant.js"
import * as Tracing from "./tracing.js"

const isWireError = (result: Wire.Response | Wire.WireError): result is Wire.WireError => "_tag" in result

/** What is read of an error that comes as a stream: enough for its sentence. */
const errorBody = (body: Stream.Stream<Uint8Array, TinkerError.TinkerError>) =>
  Stream.runFold(Stream.take(body, 16), new Uint8Array(0), (all, chunk) => {
    const joined = new Uint8Array(all.length + chunk.length)
    joined.set(all)
    joined.set(chunk, all.length)
    return joined
  }).pipe(Effect.orElseSucceed(() => new Uint8Array(0)))

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
  const answers = Answer.make({ config, fixedSecrets, tenant })
  const presented = Presented.make(credentials, tenant)

  const failClosed = (origin: Failure.Origin) => Effect.fail(new TinkerError.Closed(origin))

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
        onSuccess: (response) => answers.settle(call, request, response, secret)
      })
    )
    if (!observers.active()) return send
    return Effect.clockWith((clock) => {
      const start = clock.unsafeCurrentTimeMillis()
      sent(call, attempt, request)
      return received(call, attempt, start, clock, send)
    })
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
      Effect.flatMap(presented.find(call), (secret) => exchange(call, attempt, secret))
    )

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
      const key = presented.atHand(call, start)
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
          : answers.settle(call, request, result, secret)
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

  const open = Effect.fnUntraced(function*(call: Call, attempt: number) {
    if (isClosed()) return yield* failClosed(call.origin)
    const { gate } = tenant.pools[call.endpoint.endpoint.pool]
    yield* Effect.uninterruptibleMask((restore) =>
      Effect.zipRight(gate.enter(restore, 1), Effect.addFinalizer(() => gate.release(1)))
    )
    const secret = yield* presented.find(call)
    const toError = (error: Wire.WireError) => Failure.fromWire(call.origin, error)
    const request = requestOf(call, attempt, secret)
    const head = yield* Effect.mapError(Sent.mark(request.pool, wire.stream(request)), toError)
    const body = Stream.mapError(head.body, toError)
    if (head.status >= 200 && head.status < 300) return body
    return yield* answers.fail(
      call,
      { status: head.status, headers: head.headers, body: yield* errorBody(body) },
      secret
    )
  })

  return { once, exchange, open }
}
