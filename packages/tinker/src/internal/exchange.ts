/**
 * The exchange of bytes below the transport: either over any `HttpClient`, or over a lean one of its own that an
 * `HttpClient` carries along (the Node entry).
 *
 * @since 0.1.0
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Method, Pool } from "../Endpoint.js"
import type * as TinkerConfig from "../TinkerConfig.js"
import { logging } from "./wireLog.js"

/** @internal */
export interface Request {
  readonly method: Method
  readonly origin: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | undefined
  readonly pool: Pool
  /** Milliseconds for the whole exchange. */
  readonly timeout: number
  /** Largest body to accept. */
  readonly maxBytes: number
}

/** @internal */
export interface Head {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
}

/** @internal */
export interface Response extends Head {
  readonly body: Uint8Array
}

/**
 * Why no answer came. `cause` never holds the request: it knows the key.
 *
 * @internal
 */
export class WireError {
  readonly _tag = "WireError"
  constructor(
    /** `setup`: as things are configured, it can never work. */
    readonly reason: "timeout" | "connection" | "setup" | "tooLarge" | "closed",
    readonly description: string,
    readonly cause: unknown
  ) {}
}

/**
 * A request under way.
 *
 * @internal
 */
export interface Flight {
  /** Nobody wants the answer any more: it is not told, and the request is aborted. */
  abandon(): void
}

/**
 * A request that is no longer under way.
 *
 * @internal
 */
export const landed: Flight = { abandon: () => undefined }

/**
 * Sends a request; `done` is called once, now or later, unless the flight is abandoned before.
 *
 * @internal
 */
export type Dispatch = (request: Request, done: (result: Response | WireError) => void) => Flight

/** @internal */
export interface Wire {
  readonly send: (request: Request) => Effect.Effect<Response, WireError>
  /**
   * `send` without an Effect around it, where the wire has it: for requests made thousands of times a second, where
   * every Effect between caller and socket counts.
   */
  readonly dispatch?: Dispatch | undefined
  /** The body as it arrives; `timeout` bounds the wait for the head and every silence, not the whole. */
  readonly stream: (
    request: Request
  ) => Effect.Effect<Head & { readonly body: Stream.Stream<Uint8Array, WireError> }, WireError, Scope.Scope>
  /** Gives up the connections of a pool, so that the next request opens a new one. */
  readonly reset: (pool: Pool) => Effect.Effect<void>
  /** zstd, where the runtime has it. */
  readonly compress: Option.Option<(body: Uint8Array) => Effect.Effect<Uint8Array>>
}

/**
 * Under this key an `HttpClient` may carry a wire of its own, made anew for every tenant.
 *
 * @internal
 */
export const Lean: unique symbol = Symbol.for("effect-tinker/internal/Lean")

/** @internal */
export type MakeWire = (config: TinkerConfig.Service) => Effect.Effect<Wire, never, Scope.Scope>

const leanOf = (client: HttpClient.HttpClient): MakeWire | undefined =>
  Lean in client && typeof client[Lean] === "function" ? client[Lean] as MakeWire : undefined

const fromClientError = (error: HttpClientError.HttpClientError): WireError =>
  new WireError(
    "connection",
    error._tag === "RequestError" ? "the request could not be sent" : "the answer broke off",
    error.cause ?? error.description
  )

/** @internal */
export const tooLarge = (limit: number) =>
  new WireError("tooLarge", `the answer is larger than ${limit} bytes`, undefined)

/** @internal */
export const timedOut = (millis: number) => new WireError("timeout", `no answer within ${millis / 1000} s`, undefined)

/** @internal */
export const concat = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const only = chunks[0]
  if (chunks.length === 1 && only !== undefined) return only
  const all = new Uint8Array(size)
  let offset = 0
  for (const chunk of chunks) {
    all.set(chunk, offset)
    offset += chunk.length
  }
  return all
}

const readBody = (
  response: HttpClientResponse.HttpClientResponse,
  limit: number
): Effect.Effect<Uint8Array, WireError> => {
  const declared = response.headers["content-length"]
  // With an encoding the declared length is that of the packed form, and says nothing about what comes out.
  if (declared !== undefined && response.headers["content-encoding"] === undefined) {
    return Number(declared) > limit
      ? Effect.fail(tooLarge(limit))
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
        return size > limit ? Effect.fail(tooLarge(limit)) : Effect.void
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

const portable = (client: HttpClient.HttpClient): Wire => {
  const execute = (request: Request) =>
    client.execute(toClientRequest(request)).pipe(
      // Redirects are ours to follow: fetch would carry the key along to any host.
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" }),
      // A span for each request costs more than the request; `tracing` opens one for each call.
      Effect.locally(HttpClient.currentTracerDisabledWhen, () => true),
      Effect.mapError(fromClientError)
    )
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
        Effect.timeoutFail({ duration: request.timeout, onTimeout: () => timedOut(request.timeout) })
      ),
    stream: (request) =>
      execute(request).pipe(
        Effect.timeoutFail({ duration: request.timeout, onTimeout: () => timedOut(request.timeout) }),
        Effect.map((response) => ({
          status: response.status,
          headers: response.headers,
          body: response.stream.pipe(
            Stream.mapError(fromClientError),
            Stream.timeoutFail(() => timedOut(request.timeout), request.timeout)
          )
        }))
      ),
    reset: () => Effect.void,
    compress: Option.none()
  }
}

/**
 * The wire of one tenant over the client it was given.
 *
 * @internal
 */
export const make = (
  client: HttpClient.HttpClient,
  config: TinkerConfig.Service
): Effect.Effect<Wire, never, Scope.Scope> => {
  const lean = leanOf(client)
  const wire = lean === undefined ? Effect.succeed(portable(client)) : lean(config)
  return Option.match(config.log, {
    onNone: () => wire,
    onSome: (level) => Effect.map(wire, (wire) => logging(wire, level))
  })
}
