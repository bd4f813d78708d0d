/**
 * Calls the endpoints of a server: encodes a request, sends it with the tenant's limits and credential, retries it by
 * its policy, and decodes the response or fails with a tagged error.
 *
 * The happy path is short: no schedule is stepped, no timer is raced and no span is opened unless something fails or
 * tracing is on.
 *
 * @since 0.1.0
 */
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
import * as Credentials from "../../Credentials.js"
import * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerConfig from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
import * as TinkerTransport from "../../TinkerTransport.js"
import * as Api from "../../wire/Api.js"
import type * as Endpoint from "../../wire/Endpoint.js"
import { logging, said } from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import * as ApiRequest from "./apiRequest.js"
import * as Attempt from "./attempt.js"
import type * as Errors from "./errors.js"
import * as Retry from "./retry.js"
import * as Tenants from "./tenants.js"
import * as Tokens from "./tokens.js"
import * as Traits from "./traits.js"

/** @internal */
export type CallOptions = ApiRequest.CallOptions

/**
 * The end of a call.
 *
 * @internal
 */
export interface Outcome<A> {
  readonly result: Either.Either<A, TinkerError.TinkerError>
  /** The error of every attempt that failed, retried or not, the final one included. */
  readonly failures: ReadonlyArray<TinkerError.TinkerError>
}

/**
 * An encoded request, for a caller that decides about its attempts.
 *
 * @internal
 */
export interface Prepared<Response> {
  readonly name: string
  /** Class of its retries. */
  readonly retry: RetryPolicy.Class
  /** Sends it once; `attempt` counts from 0. */
  readonly send: (attempt: number) => Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
  readonly decode: (response: TinkerTransport.Response) => Effect.Effect<Response, TinkerError.TinkerError>
}

interface Flags {
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
  /** The decoded response, after as many attempts as the endpoint's policy allows. */
  readonly call: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: ApiRequest.CallOptions
  ) => Effect.Effect<Response, TinkerError.TinkerError>
  /** The same with the history of its attempts. */
  readonly outcome: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: ApiRequest.CallOptions
  ) => Effect.Effect<Outcome<Response>>
  /** Encodes the request now, and attempts nothing. */
  readonly prepare: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: ApiRequest.CallOptions
  ) => Effect.Effect<Prepared<Response>, TinkerError.TinkerError>
  /** The raw 2xx response (or a redirect where the endpoint returns them), retried in the same way. */
  readonly response: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: ApiRequest.CallOptions
  ) => Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
  /** One attempt at the same. */
  readonly attempt: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: ApiRequest.CallOptions
  ) => Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
  /** The body of a 2xx response as it arrives. Retried until the response begins, not after. */
  readonly stream: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: ApiRequest.CallOptions
  ) => Stream.Stream<Uint8Array, TinkerError.TinkerError>
  /** The retry policies in force. */
  readonly policies: Effect.Effect<RetryPolicy.Policies>
  /** Retries a failed step by the policy of its class. */
  readonly again: Retry.Retry["again"]
  /** What the server's client configuration asks for. */
  readonly configure: (flags: Flags) => Effect.Effect<void>
  /** The token we hold, where tokens are exchanged: it carries the caller's identity. */
  readonly identityToken: Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.TinkerError>
  /** A message of the server as it may be shown or logged: one line, without our secrets. */
  readonly said: (text: string) => Effect.Effect<string>
  readonly tenant: Tenants.Tenant
  /** What is known about the server. */
  readonly traits: Traits.Traits
  readonly tracing: Tracing.Tracing
  /** Listens until the scope closes. */
  readonly observe: (
    listener: Observer.Listener,
    interest?: Observer.Interest
  ) => Effect.Effect<void, never, Scope.Scope>
  readonly emit: Observer.Listener
}

/** @internal */
export class ApiClient extends Context.Tag("effect-tinker/internal/ApiClient")<ApiClient, Service>() {}

/**
 * Why there is no client: the configuration or the credential is unusable.
 *
 * @internal
 */
export type StartupError = TinkerError.InvalidInput | TinkerError.MissingCredential | TinkerError.MalformedCredential

type Requirements = TinkerConfig.TinkerConfig | Credentials.Credentials | TinkerTransport.TinkerTransport

const tenantOf = Effect.fnUntraced(function*(config: TinkerConfig.Service, credentials: Credentials.Service) {
  const provided = yield* Effect.serviceOption(TinkerTransport.Tenants)
  const shared = Option.getOrUndefined(provided)
  const tenants = shared instanceof Tenants.Tenants ? shared : yield* Tenants.make
  return yield* tenants.acquire(new Tenants.TenantKey(config.baseUrl, credentials.identity, config))
})

/** @internal */
export const make: Effect.Effect<Service, never, Requirements | Scope.Scope> = Effect.gen(function*() {
  const config = yield* TinkerConfig.TinkerConfig
  const credentials = yield* Credentials.Credentials
  const given = yield* TinkerTransport.TinkerTransport
  const transport = Option.match(config.log, { onNone: () => given, onSome: (level) => logging(given, level) })
  const policies = yield* RetryPolicy.RetryPolicy
  const observers = Observer.make((yield* Observer.Observer).listener)
  observers.add(Observer.listener, { traffic: false })
  const tracing = yield* Tracing.make(config)
  const tenant = yield* tenantOf(config, credentials)
  const traits = Traits.make(config.compatibility, tenant)
  const retry = Retry.make({ billing: tenant.billing, observers, policies })
  const fixedSecrets = Object.values(config.headers).map(Redacted.value)
  const prepare = ApiRequest.prepare(config)
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

  const { exchange, once, open } = Attempt.make({
    credentials,
    fixedSecrets,
    isClosed: () => closed,
    observers,
    tenant,
    tracing,
    traits,
    transport
  })

  const encode = <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options: ApiRequest.CallOptions | undefined
  ): Either.Either<ApiRequest.Call, TinkerError.InvalidInput> => {
    const origin: Errors.Origin = {
      module: options?.from?.module ?? "Api",
      method: options?.from?.method ?? endpoint.name,
      requestId: options?.requestId
    }
    const prepared = prepare(endpoint)
    const encoded = endpoint.encodeRequest(request)
    const problem = Either.isLeft(encoded) ? encoded.left : prepared.problem(encoded.right)
    if (Either.isLeft(encoded) || problem !== undefined) {
      return Either.left(new TinkerError.InvalidInput({ ...origin, description: problem }))
    }
    return Either.right({
      endpoint: prepared,
      encoded: encoded.right,
      origin,
      options,
      key: endpoint.method === "GET" ? undefined : options?.idempotencyKey ?? `${idPrefix}-${++ids}`
    })
  }

  const compressed = (call: ApiRequest.Call): Effect.Effect<ApiRequest.Call> => {
    const { body } = call.encoded
    return compress && call.endpoint.endpoint.compress && transport.compress !== undefined && body instanceof Uint8Array
      ? Effect.map(transport.compress(body), (packed) => ({
        ...call,
        encoded: { ...call.encoded, body: packed },
        options: { ...call.options, headers: { ...call.options?.headers, "content-encoding": "zstd" } }
      }))
      : Effect.succeed(call)
  }

  const retried = <A>(
    { endpoint: { endpoint }, options }: ApiRequest.Call,
    run: (attempt: number) => Effect.Effect<A, TinkerError.TinkerError>
  ): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.catchAll(run(0), (error) =>
      retry.again({
        name: endpoint.name,
        class: endpoint.retry,
        error,
        policy: options?.retry,
        run
      }))

  /** The failures of its attempts are added to `history`. */
  const retrying = (call: ApiRequest.Call, history?: Array<TinkerError.TinkerError>) =>
    retried(
      call,
      history === undefined
        ? (attempt) => once(call, attempt)
        : (attempt) => Effect.tapError(once(call, attempt), (error) => Effect.sync(() => history.push(error)))
    )

  const decode = <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    call: ApiRequest.Call,
    response: TinkerTransport.Response
  ): Effect.Effect<Response, TinkerError.MalformedResponse> => {
    const decoded = endpoint.response.decode(response.body, response.headers["content-type"])
    return Either.isRight(decoded)
      ? Effect.succeed(decoded.right)
      : Effect.fail(
        new TinkerError.MalformedResponse({
          ...call.origin,
          requestId: call.origin.requestId ?? response.headers["x-request-id"],
          status: response.status,
          description: Attempt.blank(fixedSecrets)(decoded.left)
        })
      )
  }

  const encoded = <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options: ApiRequest.CallOptions | undefined
  ) =>
    Tracing.step("tinker.encode", () => encode(endpoint, request, options), (result) => ({
      "tinker.endpoint": endpoint.name,
      ...(Either.isRight(result) ? { "tinker.bytes": result.right.encoded.body?.length ?? 0 } : {})
    }))

  /** Encodes a request and goes on with it; without another Effect where it need be neither shown nor compressed. */
  const withEncoded = <Request, Response, A>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options: ApiRequest.CallOptions | undefined,
    use: (call: ApiRequest.Call) => Effect.Effect<A, TinkerError.TinkerError>
  ): Effect.Effect<A, TinkerError.TinkerError> => {
    const plain = tracing.spans
      ? Effect.flatten(encoded(endpoint, request, options))
      : encode(endpoint, request, options)
    if (endpoint.compress) return Effect.flatMap(Effect.flatMap(plain, compressed), use)
    if (!Either.isEither(plain)) return Effect.flatMap(plain, use)
    return Either.isLeft(plain) ? Effect.fail(plain.left) : use(plain.right)
  }

  const prepared: Service["prepare"] = (endpoint, request, options) =>
    withEncoded(endpoint, request, options, (call) =>
      Effect.succeed({
        name: endpoint.name,
        retry: endpoint.retry,
        send: (attempt: number) => once(call, attempt),
        decode: (response: TinkerTransport.Response) => decode(endpoint, call, response)
      }))

  const run = <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options: ApiRequest.CallOptions | undefined,
    history?: Array<TinkerError.TinkerError>
  ): Effect.Effect<Response, TinkerError.TinkerError> =>
    Effect.suspend(() =>
      withEncoded(
        endpoint,
        request,
        options,
        (call) => Effect.flatMap(retrying(call, history), (response) => decode(endpoint, call, response))
      )
    )

  const call: Service["call"] = (endpoint, request, options) => run(endpoint, request, options)

  const outcome: Service["outcome"] = (endpoint, request, options) =>
    Effect.suspend(() => {
      const failures: Array<TinkerError.TinkerError> = []
      return Effect.map(Effect.either(run(endpoint, request, options, failures)), (result) => ({ failures, result }))
    })

  const response: Service["response"] = (endpoint, request, options) =>
    Effect.suspend(() => {
      const encoded = encode(endpoint, request, options)
      return Either.isLeft(encoded) ? Effect.fail(encoded.left) : retrying(encoded.right)
    })

  const attempt: Service["attempt"] = (endpoint, request, options) =>
    Effect.suspend(() => {
      const encoded = encode(endpoint, request, options)
      return Either.isLeft(encoded) ? Effect.fail(encoded.left) : once(encoded.right, 0)
    })

  const stream: Service["stream"] = (endpoint, request, options) =>
    Stream.unwrapScoped(Effect.flatMap(Effect.scope, (scope) => {
      const encoded = encode(endpoint, request, options)
      if (Either.isLeft(encoded)) return Effect.fail(encoded.left)
      // A failed attempt gives back its permit and socket before the next one begins.
      return retried(
        encoded.right,
        (attempt) =>
          Effect.flatMap(Scope.fork(scope, ExecutionStrategy.sequential), (own) =>
            Effect.onExit(
              Effect.provideService(open(encoded.right, attempt), Scope.Scope, own),
              (exit) => Exit.isFailure(exit) ? Scope.close(own, exit) : Effect.void
            ))
      )
    }))

  // Outside the pools, because requests that wait for the token hold their permits; and a single attempt, because the
  // request that needs the token is retried by its own policy.
  const exchangeToken = (
    credential: Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.TinkerError>
  ): Effect.Effect<Redacted.Redacted, TinkerError.TinkerError> =>
    Effect.suspend(() => {
      const encoded = encode(Api.authToken, {}, { from: { module: "Credentials", method: "exchange" } })
      if (Either.isLeft(encoded)) return Effect.fail(encoded.left)
      return credential.pipe(
        Effect.flatMap((held) => exchange(encoded.right, 0, Option.getOrUndefined(Option.map(held, Redacted.value)))),
        Effect.flatMap((response) => decode(Api.authToken, encoded.right, response)),
        Effect.map((answer) => answer.jwt)
      )
    })

  const configure: Service["configure"] = (flags) =>
    Effect.sync(() => {
      if (flags.billingPause !== undefined) tenant.billing.limit(Duration.decode(flags.billingPause))
      if (flags.compress !== undefined) compress = flags.compress
      if (flags.tokenExchange !== undefined && tenant.tokens === undefined) {
        tenant.tokens = Tokens.make(
          exchangeToken(flags.tokenExchange === "enforced" ? credentials.enforced : credentials.current),
          tenant.scope
        )
      }
    })

  return ApiClient.of({
    config,
    credentials,
    call,
    outcome,
    prepare: prepared,
    response,
    attempt,
    stream,
    again: retry.again,
    policies: retry.policies,
    said: (text) =>
      Effect.map(Effect.option(credentials.current), (held) =>
        said(text, [
          ...fixedSecrets,
          ...Option.match(Option.flatten(held), { onNone: () => [], onSome: (key) => [Redacted.value(key)] })
        ])),
    tenant,
    traits,
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
export const layer: Layer.Layer<ApiClient, never, Requirements> = Layer.scoped(ApiClient, make)

/**
 * A client with its own configuration and credential. Layer memoisation does not apply: two configurations in one
 * program get two clients.
 *
 * @internal
 */
export const connect = <E, R>(
  config: Effect.Effect<TinkerConfig.Service, E, R>
): Effect.Effect<
  { readonly api: Service; readonly config: TinkerConfig.Service; readonly credentials: Credentials.Service },
  E | TinkerError.MissingCredential | TinkerError.MalformedCredential,
  R | TinkerTransport.TinkerTransport | Scope.Scope
> =>
  Effect.flatMap(config, (config) =>
    Effect.gen(function*() {
      const credentials = yield* Credentials.make
      const api = yield* Effect.provideService(make, Credentials.Credentials, credentials)
      return { api, config, credentials }
    }).pipe(Effect.provideService(TinkerConfig.TinkerConfig, config)))
