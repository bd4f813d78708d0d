/**
 * How bytes reach a Tinker server: one request in, one response out. Everything above it (encoding, credentials,
 * retries, decoding) is the same whatever the transport.
 *
 * - {@link layer} builds it over any `HttpClient` of `@effect/platform`: browsers, Bun, Deno, tests.
 * - `NodeTinker.layer` builds it on undici, with proxy, certificate authorities and HTTP/2 as its own options.
 * - To observe or change traffic, wrap the service; to replace the network in a test, provide your own.
 *
 * @since 0.1.0
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { concat } from "./internal/transport/bytes.js"
import * as Internal from "./internal/transport/tenants.js"
import * as UnsafeSends from "./internal/transport/unsafeSends.js"
import type { Method, Pool } from "./wire/Endpoint.js"

/**
 * A request as it goes to the network. Its headers contain the credential.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request {
  readonly method: Method
  /** Scheme, host and port. */
  readonly origin: string
  /** Path and query. */
  readonly path: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | undefined
  /** Requests of one pool may share connections. */
  readonly pool: Pool
  /** Milliseconds for the whole exchange. */
  readonly timeout: number
  /** Largest response body to accept. */
  readonly maxBytes: number
}

/**
 * Status and headers of a response.
 *
 * @since 0.1.0
 * @category models
 */
export interface ResponseHead {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
}

/**
 * A complete response.
 *
 * @since 0.1.0
 * @category models
 */
export interface Response extends ResponseHead {
  readonly body: Uint8Array
}

/**
 * A response whose body is read as it arrives.
 *
 * @since 0.1.0
 * @category models
 */
export interface StreamingResponse extends ResponseHead {
  readonly body: Stream.Stream<Uint8Array, TransportError>
}

/**
 * The reason for which there is no response. `cause` never holds the request, which contains the key.
 *
 * @since 0.1.0
 * @category errors
 */
export class TransportError extends Schema.TaggedError<TransportError>("effect-tinker/TinkerTransport/TransportError")(
  "TransportError",
  {
    /** `setup`: it can never work as configured, so it is not retried. */
    reason: Schema.Literal("timeout", "connection", "setup", "tooLarge", "closed"),
    description: Schema.String,
    cause: Schema.optional(Schema.Defect)
  }
) {
  override get message(): string {
    return this.description
  }

  /**
   * No response within the request's timeout.
   *
   * @since 0.1.0
   */
  static timeout(millis: number): TransportError {
    return new TransportError({ reason: "timeout", description: `no response within ${millis / 1000} s` })
  }

  /**
   * More than `maxBytes`.
   *
   * @since 0.1.0
   */
  static tooLarge(limit: number): TransportError {
    return new TransportError({ reason: "tooLarge", description: `the response is larger than ${limit} bytes` })
  }
}

/**
 * A request in flight.
 *
 * @since 0.1.0
 * @category models
 */
export interface InFlight {
  /** Aborts the request. Its callback is not called afterwards. */
  cancel(): void
}

/**
 * Sends a request without an Effect around it; `done` is called once, before or after this returns, unless the request
 * is cancelled first.
 *
 * @since 0.1.0
 * @category models
 */
export type UnsafeSend = (request: Request, done: (result: Response | TransportError) => void) => InFlight

/**
 * Exchanges bytes with a server. Redirects are not followed and nothing is retried at this level.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly send: (request: Request) => Effect.Effect<Response, TransportError>
  /** The body as it arrives; `timeout` bounds the wait for the head and every silence, not the whole. */
  readonly stream: (request: Request) => Effect.Effect<StreamingResponse, TransportError, Scope.Scope>
  /** Drops the connections of a pool, so that the next request opens a new one. */
  readonly reset?: ((pool: Pool) => Effect.Effect<void>) | undefined
  /** zstd, where the runtime has it. */
  readonly compress?: ((body: Uint8Array) => Effect.Effect<Uint8Array>) | undefined
}

/**
 * The `send` of a transport that sends through a callback. Clients whose transport has this very `send` call
 * `unsafeSend` without an Effect for each request, which thousands of requests a second are worth; any other `send`,
 * one that wraps it included, is run for every request.
 *
 * @since 0.2.0
 * @category constructors
 */
export const fromUnsafeSend = (unsafeSend: UnsafeSend): Service["send"] => {
  const send: Service["send"] = (request) =>
    Effect.async((resume) => {
      const inFlight = unsafeSend(
        request,
        (result) => resume(result instanceof TransportError ? Effect.fail(result) : Effect.succeed(result))
      )
      return Effect.sync(() => inFlight.cancel())
    })
  UnsafeSends.remember(send, unsafeSend)
  return send
}

/**
 * The transport as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class TinkerTransport extends Context.Tag("effect-tinker/TinkerTransport")<TinkerTransport, Service>() {}

/**
 * State that the clients of one tenant (a base URL and a credential) share: request limits, back-off, exchanged tokens.
 * Opaque; {@link layerTenants} makes it.
 *
 * @since 0.2.0
 * @category models
 */
export interface TenantStates {
  readonly [TenantsTypeId]: TenantsTypeId
}

/**
 * Unique identifier of the state of tenants.
 *
 * @since 0.2.0
 * @category models
 */
export const TenantsTypeId: Internal.TypeId = Internal.TypeId

/**
 * Unique identifier of the state of tenants.
 *
 * @since 0.2.0
 * @category models
 */
export type TenantsTypeId = Internal.TypeId

/**
 * The state of the tenants of a transport, kept while a client of the tenant lives. The transport layers provide it, so
 * clients built apart over one transport share it; a client over a transport without it has its own.
 *
 * @since 0.1.0
 * @category services
 */
export class Tenants extends Context.Tag("effect-tinker/TinkerTransport/Tenants")<Tenants, TenantStates>() {}

/**
 * The state of no tenant yet.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerTenants: Layer.Layer<Tenants> = Layer.scoped(Tenants, Internal.make)

/**
 * Changes or observes every request of a transport. The result has another `send` and is otherwise the same.
 *
 * @example
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { TinkerTransport } from "effect-tinker"
 * import * as NodeTinker from "effect-tinker/NodeTinker"
 *
 * // proxy, authorities and HTTP/2 of the layer below stay in force
 * const Logged = Layer.effect(
 *   TinkerTransport.TinkerTransport,
 *   Effect.map(
 *     TinkerTransport.TinkerTransport,
 *     TinkerTransport.mapSend((send) => (request) => Effect.zipRight(Effect.logDebug(request.path), send(request)))
 *   )
 * ).pipe(Layer.provide(NodeTinker.layer({ caFile: "/etc/ssl/company.pem" })))
 * ```
 *
 * @since 0.1.0
 * @category combinators
 */
export const mapSend = (f: (send: Service["send"]) => Service["send"]) => (self: Service): Service => ({
  ...self,
  send: f(self.send)
})

/**
 * How to build a transport over an `HttpClient`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Applied to the client once, before any request. */
  readonly transformClient?: ((client: HttpClient.HttpClient) => HttpClient.HttpClient) | undefined
  /**
   * Keep the `HttpClient`'s own spans and trace headers for every request. Defaults to false: the SDK opens one
   * `tinker.send` or `tinker.poll` span per exchange already, where a tracer is installed.
   */
  readonly httpTracing?: boolean | undefined
}

const fromClientError = (error: HttpClientError.HttpClientError): TransportError =>
  new TransportError({
    reason: "connection",
    description: error._tag === "RequestError" ? "the request could not be sent" : "the response was cut off",
    cause: error.cause ?? error.description
  })

const readBody = (
  response: HttpClientResponse.HttpClientResponse,
  limit: number
): Effect.Effect<Uint8Array, TransportError> => {
  const declared = response.headers["content-length"]
  // With an encoding the declared length is that of the compressed form, and says nothing about the real size.
  if (declared !== undefined && response.headers["content-encoding"] === undefined) {
    return Number(declared) > limit
      ? Effect.fail(TransportError.tooLarge(limit))
      : Effect.mapBoth(response.arrayBuffer, {
        onFailure: fromClientError,
        onSuccess: (buffer) => new Uint8Array(buffer)
      })
  }
  return Effect.suspend(() => {
    const chunks: Array<Uint8Array> = []
    let size = 0
    return response.stream.pipe(
      // A 204 has no stream at all, which is not a failure.
      Stream.catchAll((error) => error.reason === "EmptyBody" ? Stream.empty : Stream.fail(fromClientError(error))),
      Stream.runForEach((chunk) => {
        size += chunk.length
        chunks.push(chunk)
        return size > limit ? Effect.fail(TransportError.tooLarge(limit)) : Effect.void
      }),
      Effect.map(() => concat(chunks, size))
    )
  })
}

const toClientRequest = (request: Request): HttpClientRequest.HttpClientRequest => {
  const { "content-type": contentType, ...headers } = request.headers
  const base = HttpClientRequest.make(request.method)(`${request.origin}${request.path}`, { headers })
  if (request.body === undefined) {
    return contentType === undefined ? base : HttpClientRequest.setHeader(base, "content-type", contentType)
  }
  return HttpClientRequest.setBody(
    base,
    typeof request.body === "string"
      ? HttpBody.text(request.body, contentType)
      : HttpBody.uint8Array(request.body, contentType)
  )
}

/**
 * A transport over an `HttpClient`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromHttpClient = (given: HttpClient.HttpClient, options: Options = {}): Service => {
  const client = options.transformClient === undefined ? given : options.transformClient(given)
  const traced = options.httpTracing === true
  const execute = (request: Request): Effect.Effect<HttpClientResponse.HttpClientResponse, TransportError> => {
    const response = client.execute(toClientRequest(request)).pipe(
      // fetch would follow a redirect with the key, to any host.
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" }),
      Effect.mapError(fromClientError)
    )
    // A span for each request costs more than the request.
    return traced ? response : Effect.locally(response, HttpClient.currentTracerDisabledWhen, () => true)
  }
  const timeout = (request: Request) => ({
    duration: request.timeout,
    onTimeout: () => TransportError.timeout(request.timeout)
  })
  return {
    send: (request) =>
      execute(request).pipe(
        Effect.flatMap((response) =>
          Effect.map(readBody(response, request.maxBytes), (body): Response => ({
            status: response.status,
            headers: response.headers,
            body
          }))
        ),
        Effect.timeoutFail(timeout(request))
      ),
    stream: (request) =>
      execute(request).pipe(
        Effect.timeoutFail(timeout(request)),
        Effect.map((response) => ({
          status: response.status,
          headers: response.headers,
          body: response.stream.pipe(
            Stream.mapError(fromClientError),
            Stream.timeoutFail(() => TransportError.timeout(request.timeout), request.timeout)
          )
        }))
      )
  }
}

/**
 * The transport over the `HttpClient` in the context.
 *
 * @example
 * ```ts
 * import { FetchHttpClient, HttpClient, HttpClientRequest } from "@effect/platform"
 * import { Layer } from "effect"
 * import { Tinker, TinkerTransport } from "effect-tinker"
 *
 * const Live = Tinker.layer({ apiKey: "tml-…" }).pipe(
 *   Layer.provide(TinkerTransport.layer({
 *     transformClient: HttpClient.mapRequest(HttpClientRequest.setHeader("x-team", "research"))
 *   })),
 *   Layer.provide(FetchHttpClient.layer)
 * )
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options?: Options
): Layer.Layer<TinkerTransport | Tenants, never, HttpClient.HttpClient> =>
  Layer.merge(
    Layer.effect(TinkerTransport, Effect.map(HttpClient.HttpClient, (client) => fromHttpClient(client, options))),
    // Two transports in one program have nothing in common.
    Layer.fresh(layerTenants)
  )

/**
 * The transport over the platform's `fetch`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFetch: Layer.Layer<TinkerTransport | Tenants> = Layer.provide(layer(), FetchHttpClient.layer)
