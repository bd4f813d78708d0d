/**
 * From an endpoint and a request to its answer or a tagged error: encoding, attempts, retries, decoding.
 *
 * The happy path is kept short: no schedule is driven, no timer is raced and no span is opened unless something fails
 * or tracing is asked for.
 *
 * @since 0.1.0
 */
import * as HttpClient from "@effect/platform/HttpClient"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Api from "../Api.js"
import * as Credentials from "../Credentials.js"
import type * as Endpoint from "../Endpoint.js"
import * as RetryPolicy from "../RetryPolicy.js"
import * as TinkerConfig from "../TinkerConfig.js"
import * as TinkerError from "../TinkerError.js"
import * as Answer from "./answer.js"
import * as Attempts from "./attempts.js"
import type * as Call from "./call.js"
import type * as Wire from "./exchange.js"
import type * as Failure from "./failure.js"
import * as Meters from "./meters.js"
import * as Observer from "./observer.js"
import * as Prepared from "./prepared.js"
import * as Retrying from "./retrying.js"
import * as Tenant from "./tenant.js"
import * as TokenExchange from "./tokenExchange.js"
import * as Tracing from "./tracing.js"

/** @internal */
export type CallOptions = Call.CallOptions

/** @internal */
export type Custody = Call.Custody

/** @internal */
export interface Flags {
  /** Bound of the billing pause. */
  readonly billingPause?: Duration.DurationInput | undefined
  /** Compress the bodies of endpoints that may be large, where the runtime can. */
  readonly compress?: boolean | undefined
  /** Exchange the credential for short-lived tokens from now on. `enforced`: that of the credential command. */
  readonly tokenExchange?: "default" | "enforced" | undefined
}

/** @internal */
export interface Service {
  readonly config: TinkerConfig.Service
  readonly credentials: Credentials.Service
  /** The answer, after as many attempts as the endpoint's policy allows. */
  readonly call: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: Call.CallOptions
  ) => Effect.Effect<Response, TinkerError.TinkerError>
  /** One attempt: the raw 2xx answer (or a redirect where the endpoint returns them), or the tagged error. */
  readonly attempt: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: Call.CallOptions
  ) => Effect.Effect<Wire.Response, TinkerError.TinkerError>
  /** The body of a 2xx answer as it arrives. Retried until the answer begins, not after. */
  readonly stream: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: Call.CallOptions
  ) => Stream.Stream<Uint8Array, TinkerError.TinkerError>
  /** For loops of their own: the retry policies in force. */
  readonly policies: Effect.Effect<RetryPolicy.Policies>
  /**
   * For loops of their own: on a `BillingBlocked` within the bound, waits a little and answers true (try again);
   * answers false at once for anything else.
   */
  readonly pauseForBilling: (error: TinkerError.TinkerError, endpoint: string) => Effect.Effect<boolean>
  /** What the server's client configuration asks for. */
  readonly configure: (flags: Flags) => Effect.Effect<void>
  /** The token we hold, where tokens are exchanged: it carries the caller's identity. */
  readonly identityToken: Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.TinkerError>
  readonly tenant: Tenant.Tenant
  readonly tracing: Tracing.Tracing
  /** Listens until the scope closes. */
  readonly observe: (
    listener: Observer.Listener,
    interest?: Observer.Interest
  ) => Effect.Effect<void, never, Scope.Scope>
  readonly emit: Observer.Listener
}

/** @internal */
export class Transport extends Context.Tag("effect-tinker/internal/Transport")<Transport, Service>() {}

/** @internal */
export const make: Effect.Effect<
  Service,
  never,
  TinkerConfig.TinkerConfig | Credentials.Credentials | HttpClient.HttpClient | Scope.Scope
> = Effect.gen(function*() {
  const config = yield* TinkerConfig.TinkerConfig
  const credentials = yield* Credentials.Credentials
  const client = yield* HttpClient.HttpClient
  const policies = yield* RetryPolicy.RetryPolicy
  const observers = Observer.make((yield* Observer.Observer).listener)
  observers.add(Meters.listener, { traffic: false })
  const tracing = yield* Tracing.make(config)
  const tenant = yield* Tenant.acquire(client, config, credentials)
  const { wire } = tenant
  const { again, inForce, pauseForBilling } = Retrying.make({ billing: tenant.billing, observers, policies })
  const fixedSecrets = Object.values(config.headers).map(Redacted.value)
  const prepare = Prepared.make(config)
  const idPrefix = `effect-tinker-${
    (yield* Effect.replicateEffect(Random.nextIntBetween(0, 2 ** 32), 4))
      .map((part) => part.toString(16).padStart(8, "0")).join("")
  }`
  let ids = 0
  let closed = false
  let compress = false
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      closed = true
    })
  )

  const { exchange, once, open } = Attempts.make({
    config,
    credentials,
    fixedSecrets,
    isClosed: () => closed,
    observers,
    tenant,
    tracing
  })

  const begin = <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options: Call.CallOptions | undefined
  ): Either.Either<Call.Call, TinkerError.InvalidInput> => {
    const origin: Failure.Origin = {
      module: options?.from?.module ?? "Api",
      method: options?.from?.method ?? endpoint.name,
      requestId: options?.requestId
    }
    const prepared = prepare(endpoint)
    return Either.mapBoth(Either.flatMap(endpoint.encodeRequest(request), prepared.check), {
      onLeft: (description) => new TinkerError.InvalidInput({ ...origin, description }),
      onRight: (encoded) => ({
        endpoint: prepared,
        encoded,
        origin,
        options,
        key: endpoint.method === "GET" ? undefined : options?.idempotencyKey ?? `${idPrefix}-${++ids}`
      })
    })
  }

  const compressed = (call: Call.Call): Effect.Effect<Call.Call> => {
    const { body } = call.encoded
    return compress && call.endpoint.endpoint.compress && Option.isSome(wire.compress) && body instanceof Uint8Array
      ? Effect.map(wire.compress.value(body), (packed) => ({
        ...call,
        encoded: { ...call.encoded, body: packed },
        options: { ...call.options, headers: { ...call.options?.headers, "content-encoding": "zstd" } }
      }))
      : Effect.succeed(call)
  }

  const told = (call: Call.Call, attempt: number): Effect.Effect<Wire.Response, TinkerError.TinkerError> => {
    const onFailed = call.options?.onFailed
    return onFailed === undefined
      ? once(call, attempt)
      : Effect.tapError(once(call, attempt), (error) => Effect.sync(() => onFailed(error)))
  }

  const retrying = (call: Call.Call) =>
    Effect.catchAll(
      told(call, 0),
      (error) => again(call.endpoint.endpoint, call.options?.retry, error, (attempt) => told(call, attempt))
    )

  const decode = <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    call: Call.Call,
    response: Wire.Response
  ): Effect.Effect<Response, TinkerError.MalformedResponse> => {
    const decoded = endpoint.response.decode(response.body, response.headers["content-type"])
    return Either.isRight(decoded)
      ? Effect.succeed(decoded.right)
      : Effect.fail(
        new TinkerError.MalformedResponse({
          ...call.origin,
          requestId: call.origin.requestId ?? response.headers["x-request-id"],
          status: response.status,
          description: Answer.blank(fixedSecrets)(decoded.left)
        })
      )
  }

  const begun = <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options: Call.CallOptions | undefined
  ) =>
    Tracing.step("tinker.encode", () => begin(endpoint, request, options), (result) => ({
      "tinker.endpoint": endpoint.name,
      ...(Either.isRight(result) ? { "tinker.bytes": result.right.encoded.body?.length ?? 0 } : {})
    }))

  const answered = <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    begun: Either.Either<Call.Call, TinkerError.InvalidInput>
  ): Effect.Effect<Response, TinkerError.TinkerError> => {
    if (Either.isLeft(begun)) return Effect.fail(begun.left)
    const plain = begun.right
    if (!endpoint.compress) return Effect.flatMap(retrying(plain), (response) => decode(endpoint, plain, response))
    return Effect.flatMap(
      compressed(plain),
      (packed) => Effect.flatMap(retrying(packed), (response) => decode(endpoint, packed, response))
    )
  }

  const call: Service["call"] = (endpoint, request, options) =>
    tracing.spans
      ? Effect.flatMap(begun(endpoint, request, options), (result) => answered(endpoint, result))
      : Effect.suspend(() => answered(endpoint, begin(endpoint, request, options)))

  const attempt: Service["attempt"] = (endpoint, request, options) =>
    Effect.suspend(() => {
      const begun = begin(endpoint, request, options)
      return Either.isLeft(begun) ? Effect.fail(begun.left) : once(begun.right, 0)
    })

  const stream: Service["stream"] = (endpoint, request, options) =>
    Stream.unwrapScoped(Effect.flatMap(Effect.scope, (scope) => {
      const begun = begin(endpoint, request, options)
      if (Either.isLeft(begun)) return Effect.fail(begun.left)
      // A failed attempt gives back its permit and socket before the next one begins.
      const run = (attempt: number) =>
        Effect.flatMap(Scope.fork(scope, ExecutionStrategy.sequential), (own) =>
          Effect.onExit(
            Effect.provideService(open(begun.right, attempt), Scope.Scope, own),
            (exit) => Exit.isFailure(exit) ? Scope.close(own, exit) : Effect.void
          ))
      return Effect.catchAll(run(0), (error) => again(endpoint, options?.retry, error, run))
    }))

  // Outside the pools, because those who wait for the token hold their permits; and a single attempt, because the
  // request that needs the token has a policy of its own.
  const exchangeToken = (
    credential: Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.TinkerError>
  ): Effect.Effect<Redacted.Redacted, TinkerError.TinkerError> =>
    Effect.suspend(() => {
      const begun = begin(Api.authToken, {}, { from: { module: "Credentials", method: "exchange" } })
      if (Either.isLeft(begun)) return Effect.fail(begun.left)
      return credential.pipe(
        Effect.flatMap((held) => exchange(begun.right, 0, Option.getOrUndefined(Option.map(held, Redacted.value)))),
        Effect.flatMap((response) => decode(Api.authToken, begun.right, response)),
        Effect.map((answer) => answer.jwt)
      )
    })

  const configure: Service["configure"] = (flags) =>
    Effect.sync(() => {
      if (flags.billingPause !== undefined) tenant.billing.limit(Duration.decode(flags.billingPause))
      if (flags.compress !== undefined) compress = flags.compress
      if (flags.tokenExchange !== undefined && tenant.tokens === undefined) {
        tenant.tokens = TokenExchange.make(
          exchangeToken(flags.tokenExchange === "enforced" ? credentials.enforced : credentials.current),
          tenant.scope
        )
      }
    })

  return Transport.of({
    config,
    credentials,
    call,
    attempt,
    stream,
    pauseForBilling,
    policies: inForce,
    tenant,
    tracing,
    emit: observers.emit,
    configure,
    identityToken: Effect.suspend(() =>
      tenant.tokens === undefined ? Effect.succeedNone : Effect.asSome(tenant.tokens.token)
    ),
    observe: (listener, interest) =>
      Effect.acquireRelease(Effect.sync(() => observers.add(listener, interest)), (remove) => Effect.sync(remove))
  })
})

/** @internal */
export const layer: Layer.Layer<
  Transport,
  never,
  TinkerConfig.TinkerConfig | Credentials.Credentials | HttpClient.HttpClient
> = Layer.scoped(Transport, make)
