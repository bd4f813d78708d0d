/**
 * Spans as they are sent: an OTLP/HTTP receiver on this machine that writes them to a file of JSON lines, as the collector
 * does. OpenTelemetry's exporters and Langfuse's send to it when their URL is its own.
 *
 * @since 0.2.0
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpServerError from "@effect/platform/HttpServerError"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Ref from "effect/Ref"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Http from "node:http"
import * as Net from "node:net"
import * as Zlib from "node:zlib"
import * as Messages from "./internal/traces/messages.js"
import * as Protobuf from "./internal/traces/protobuf.js"

/**
 * Where to listen, and where to write.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Options {
  /** The file of requests, which is added to: a source for `TraceImport.run`. */
  readonly out: string
  /** Defaults to 4318, the usual port of OTLP/HTTP; 0 for any free one. */
  readonly port?: number | undefined
  /** Largest request after unpacking. Defaults to 64 MiB. */
  readonly maxBytes?: number | undefined
}

/**
 * A receiver that is listening on loopback.
 *
 * @since 0.2.0
 * @category models
 */
export interface Running {
  /** Without a path: exporters add `/v1/traces`, Langfuse's `/api/public/otel/v1/traces`. */
  readonly url: string
  /** Requests written so far. */
  readonly received: Effect.Effect<number>
}

const isLocal = (host: string | undefined): boolean => {
  const name = (host ?? "").replace(/:\d+$/, "").replace(/^\[|\]$/g, "").toLowerCase()
  return name === "localhost" || Net.isIP(name) !== 0
}

const answer = (status: number, message?: string) =>
  HttpServerResponse.unsafeJson(message === undefined ? {} : { message }, { status })

class TooLarge {
  readonly _tag = "TooLarge"
}

/** The bytes of a request, at most so many. */
const bodyOf = (request: HttpServerRequest.HttpServerRequest, limit: number) =>
  Stream.runFoldEffect(
    request.stream,
    { parts: new Array<Uint8Array>(), size: 0 },
    ({ parts, size }, part) =>
      size + part.length > limit
        ? Effect.fail(new TooLarge())
        : Effect.sync(() => {
          parts.push(part)
          return { parts, size: size + part.length }
        })
  ).pipe(Effect.map(({ parts }) => Buffer.concat(parts)))

/**
 * Listens until the scope is closed. Requests from web pages and under foreign host names are refused.
 *
 * @since 0.2.0
 * @category constructors
 */
export const serve: (options: Options) => Effect.Effect<
  Running,
  HttpServerError.ServeError | PlatformError.PlatformError,
  FileSystem.FileSystem | Scope.Scope
> = Effect.fnUntraced(function*(options) {
  const fs = yield* FileSystem.FileSystem
  const limit = options.maxBytes ?? 64 * 1024 * 1024
  const file = yield* fs.open(options.out, { flag: "a", mode: 0o600 })
  const one = yield* Permits.make(1)
  const received = yield* Ref.make(0)

  const app = Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { headers } = request
    if (!isLocal(headers["host"]) || headers["origin"] !== undefined) {
      return answer(403, "only for programs of this machine")
    }
    if (request.method !== "POST" || !/\/v1\/traces\/?(\?|$)/.test(request.url)) {
      return answer(404, "traces are sent to /v1/traces")
    }
    // Refused before it is read, with a reason for the exporter.
    if (Number(headers["content-length"] ?? 0) > limit) return yield* Effect.fail(new TooLarge())
    const raw = yield* bodyOf(request, limit)
    const bytes = headers["content-encoding"] === "gzip"
      ? yield* Effect.try({ try: () => Zlib.gunzipSync(raw, { maxOutputLength: limit }), catch: () => new TooLarge() })
      : raw
    const parsed: Either.Either<unknown, string> = (headers["content-type"] ?? "").includes("json")
      ? Either.try({ try: (): unknown => JSON.parse(bytes.toString("utf8")), catch: () => "not JSON" })
      : Protobuf.request(bytes)
    if (Either.isLeft(parsed)) return answer(400, parsed.left)
    if (!Array.isArray(Messages.record(parsed.right)?.["resourceSpans"])) return answer(400, "no resourceSpans in it")
    yield* one.withPermits(1)(file.writeAll(Buffer.from(`${JSON.stringify(parsed.right)}\n`)))
    yield* Ref.update(received, (n) => n + 1)
    return answer(200)
  }).pipe(
    Effect.catchTag("TooLarge", () => Effect.succeed(answer(413, `a request may have ${limit} bytes`))),
    Effect.catchTag("RequestError", () => Effect.succeed(answer(400, "the request was cut short"))),
    // exporters try again
    Effect.catchAll(() => Effect.succeed(answer(503, "the file could not be written")))
  )
  const http = yield* NodeHttpServer.make(() => Http.createServer({ keepAliveTimeout: 60_000 }), {
    port: options.port ?? 4318,
    host: "127.0.0.1"
  })
  yield* http.serve(app)
  const port = http.address._tag === "TcpAddress" ? http.address.port : 0
  return { url: `http://127.0.0.1:${port}`, received: Ref.get(received) }
})
