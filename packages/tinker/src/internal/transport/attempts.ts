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
import type * as Credentials from "../../Credentials.js"
import type * as TinkerConfig from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerTransport from "../../TinkerTransport.js"
import * as Meters from "../observability/meters.js"
import type * as Observer from "../observability/observer.js"
import * as Sent from "../observability/sent.js"
import * as Tracing from "../observability/tracing.js"
import * as Answer from "./answer.js"
import type { Call } from "./call.js"
import * as Failure from "./failure.js"
import * as Presented from "./presented.js"
import type * as Tenants from "./tenants.js"

const isTransportError = (
  result: TinkerTransport.Response | TinkerTransport.TransportError
): result is TinkerTransport.TransportError => "_tag" in result

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
export const make = ({ config, credentials, fixedSecrets, isClosed, observers, tenant, tracing, transport }: {
  readonly config: TinkerConfig.Service
  readonly credentials: Credentials.Service
  /** Of every request, besides the credential: they are blanked out of what servers say. */
  readonly fixedSecrets: ReadonlyArray<string>
  readonly isClosed: () => boolean
  readonly observers: Observer.Observers
  readonly tenant: Tenants.Tenant
  readonly tracing: Tracing.Tracing
  readonly transport: TinkerTransport.Service
}): Attempts => {
  const answers = Answer.make({ config, fixedSecrets, tenant, transport })
  const presented = Presented.make(credentials, tenant)

  const failClosed = (origin: Failure.Origin) => Effect.fail(new TinkerError.Closed(origin))

  const requestOf = (call: Call, attempt: number, secret: string | undefined): TinkerTransport.Request => {
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

  const exchange = (call: Call, attempt: number, secret: string | undefined) => {
    const request = requestOf(call, attempt, secret)
    const send = Sent.mark(
      call.endpoint.endpoint.pool,
      Effect.matchEffect(transport.send(request), {
        onFailure: (error) => Effect.fail(Failure.fromTransport(call.origin, error)),
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
      Sent.tell(request.pool, fiber)
      if (observed) sent(call, attempt, request)
      const slot = call.options?.slot
      let holdsPermit = true
      const release = () => {
        if (!holdsPermit) return
        holdsPermit = false
        limit.leave(1)
      }
      const inFlight = unsafeSend(request, (result) => {
        release()
        if (slot !== undefined) slot.inFlight = undefined
        const settled = isTransportError(result)
          ? Effect.fail(Failure.fromTransport(call.origin, result))
          : answers.settle(call, request, result, secret)
        resume(observed ? received(call, attempt, start, clock, settled) : settled)
      })
      const cancel = () => {
        inFlight.cancel()
        release()
      }
      if (slot === undefined) return Effect.sync(cancel)
      // It may be over already: some failures are known before `unsafeSend` returns.
      if (holdsPermit) slot.inFlight = { cancel }
      return undefined
    })

  const untraced = (call: Call, attempt: number): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
    if (isClosed()) return failClosed(call.origin)
    const { unsafeSend } = transport
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
    const toError = (error: TinkerTransport.TransportError) => Failure.fromTransport(call.origin, error)
    const request = requestOf(call, attempt, secret)
    const head = yield* Effect.mapError(Sent.mark(request.pool, transport.stream(request)), toError)
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
