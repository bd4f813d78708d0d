/**
 * Calls of endpoints: encodes a request, sends it with the tenant's limits and credential, retries it by its policy, and
 * decodes the response or fails with a tagged error.
 *
 * The happy path is short: no schedule is stepped, no timer is raced and no span is opened unless something fails or
 * tracing is on.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Credentials from "../../Credentials.js"
import type * as RetryPolicy from "../../RetryPolicy.js"
import type * as TinkerConfig from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerTransport from "../../TinkerTransport.js"
import * as Api from "../../wire/Api.js"
import type * as Endpoint from "../../wire/Endpoint.js"
import type * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import * as ApiRequest from "./apiRequest.js"
import * as Attempt from "./attempt.js"
import type * as Errors from "./errors.js"
import type * as Retry from "./retry.js"
import * as SdkMethod from "./sdkMethod.js"
import type * as ServerFacts from "./serverFacts.js"
import type * as Tenants from "./tenants.js"

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

/**
 * The calls of a client.
 *
 * @internal
 */
export interface Calls {
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
}

/** The calls, with the switches of the client they belong to. */
interface Owned extends Calls {
  /** Compresses bodies from now on, or no longer. */
  readonly setCompression: (compress: boolean) => void
  /** A short-lived token for a credential. */
  readonly exchangeToken: (
    credential: Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.TinkerError>
  ) => Effect.Effect<Redacted.Redacted, TinkerError.TinkerError>
}

/** @internal */
export const make: (options: {
  readonly config: TinkerConfig.Service
  readonly credentials: Credentials.Service
  /** Secrets of every request besides the credential. */
  readonly fixedSecrets: ReadonlyArray<string>
  readonly observers: Observer.Observers
  readonly retry: Retry.Retry
  readonly tenant: Tenants.Tenant
  readonly tracing: Tracing.Tracing
  readonly serverFacts: ServerFacts.ServerFacts
  readonly transport: TinkerTransport.Service
}) => Effect.Effect<Owned, never, Scope.Scope> = Effect.fnUntraced(function*({
  config,
  credentials,
  fixedSecrets,
  observers,
  retry,
  tenant,
  tracing,
  serverFacts,
  transport
}) {
  const prepare = ApiRequest.prepare(config)
  const idPrefix = `effect-tinker-${
    (yield* Effect.replicateEffect(Random.nextIntBetween(0, 2 ** 32), 4))
      .map((part) => part.toString(16).padStart(8, "0")).join("")
  }`
  let ids = 0
  let isClosed = false
  let compresses = false
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      isClosed = true
    })
  )

  const { exchange, once, open } = Attempt.make({
    credentials,
    fixedSecrets,
    isClosed: () => isClosed,
    observers,
    tenant,
    tracing,
    serverFacts,
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
      sdkMethod: options?.background === true ? undefined : SdkMethod.of(options?.from),
      key: endpoint.method === "GET" ? undefined : options?.idempotencyKey ?? `${idPrefix}-${++ids}`
    })
  }

  const compressed = (call: ApiRequest.Call): Effect.Effect<ApiRequest.Call> => {
    const { body } = call.encoded
    return compresses && call.endpoint.endpoint.compress && transport.compress !== undefined &&
        body instanceof Uint8Array
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

  const prepared: Calls["prepare"] = (endpoint, request, options) =>
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

  const call: Calls["call"] = (endpoint, request, options) => run(endpoint, request, options)

  const outcome: Calls["outcome"] = (endpoint, request, options) =>
    Effect.suspend(() => {
      const failures: Array<TinkerError.TinkerError> = []
      return Effect.map(Effect.either(run(endpoint, request, options, failures)), (result) => ({ failures, result }))
    })

  const response: Calls["response"] = (endpoint, request, options) =>
    Effect.suspend(() => {
      const encoded = encode(endpoint, request, options)
      return Either.isLeft(encoded) ? Effect.fail(encoded.left) : retrying(encoded.right)
    })

  const attempt: Calls["attempt"] = (endpoint, request, options) =>
    Effect.suspend(() => {
      const encoded = encode(endpoint, request, options)
      return Either.isLeft(encoded) ? Effect.fail(encoded.left) : once(encoded.right, 0)
    })

  const stream: Calls["stream"] = (endpoint, request, options) =>
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
  const exchangeToken: Owned["exchangeToken"] = (credential) =>
    Effect.suspend(() => {
      const encoded = encode(Api.authToken, {}, { from: { module: "Credentials", method: "exchange" } })
      if (Either.isLeft(encoded)) return Effect.fail(encoded.left)
      return credential.pipe(
        Effect.flatMap((held) => exchange(encoded.right, 0, Option.getOrUndefined(Option.map(held, Redacted.value)))),
        Effect.flatMap((response) => decode(Api.authToken, encoded.right, response)),
        Effect.map((answer) => answer.jwt)
      )
    })

  return {
    call,
    outcome,
    prepare: prepared,
    response,
    attempt,
    stream,
    exchangeToken,
    setCompression: (compress) => {
      compresses = compress
    }
  }
})
