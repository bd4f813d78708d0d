/**
 * The embedded backend behind a port of this machine: for other languages, browsers and the official Python client.
 *
 * @since 0.1.0
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Headers from "@effect/platform/Headers"
import type * as HttpApp from "@effect/platform/HttpApp"
import type * as HttpServerError from "@effect/platform/HttpServerError"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Http from "node:http"
import type { ModelUnavailable } from "./EngineError.js"
import * as LocalServer from "./LocalServer.js"
import * as NodeEngine from "./NodeEngine.js"
import * as Storage from "./Storage.js"
import type * as TinkerLocal from "./TinkerLocal.js"

/**
 * Where to listen, and how to treat clients.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends TinkerLocal.Options {
  /** Defaults to any free port. */
  readonly port?: number | undefined
  /** Defaults to `127.0.0.1`, which other machines cannot reach. */
  readonly host?: string | undefined
  /** Compute on this many worker threads. Defaults to none: in short slices of the server's own thread. */
  readonly threads?: number | undefined
  /** Directories of Hugging Face models (Llama or Qwen3) to serve beside the package's own. Defaults to none. */
  readonly modelDirectories?: ReadonlyArray<string> | undefined
  /** Where to keep checkpoints and records. Defaults to memory. */
  readonly directory?: string | undefined
  /** Which web pages may call: an origin, or `*`. Defaults to `*`. */
  readonly allowOrigin?: string | undefined
}

/**
 * A server that is listening.
 *
 * @since 0.1.0
 * @category models
 */
export interface Running {
  /** What clients take as their base URL. */
  readonly baseUrl: string
  readonly port: number
  readonly server: LocalServer.Service
}

const dropped = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.sync(() => NodeHttpServerRequest.toServerResponse(request).destroy())

const cors = (origin: string): Readonly<Record<string, string>> => ({
  "access-control-allow-origin": origin,
  "access-control-expose-headers": "*"
})

const preflight = (request: HttpServerRequest.HttpServerRequest, origin: string) =>
  HttpServerResponse.empty({
    status: 204,
    headers: {
      ...cors(origin),
      "access-control-allow-methods": "GET, POST, PUT, DELETE, OPTIONS",
      // "*" does not cover Authorization, so what is asked for is granted by name
      "access-control-allow-headers": request.headers["access-control-request-headers"] ?? "*",
      "access-control-max-age": "600"
    }
  })

const makeApp = (server: LocalServer.Service, origin: string): HttpApp.Default =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    if (request.method === "OPTIONS") return preflight(request, origin)
    const body = yield* Effect.orDie(request.arrayBuffer)
    const answer = yield* server.handle({
      method: request.method,
      url: new URL(request.url, `http://${request.headers["host"] ?? "localhost"}`),
      headers: request.headers,
      body: new Uint8Array(body)
    })
    const options = { status: answer.status, headers: Headers.fromInput({ ...answer.headers, ...cors(origin) }) }
    if (answer.body === undefined) return HttpServerResponse.empty(options)
    if (answer.body instanceof Uint8Array) return HttpServerResponse.uint8Array(answer.body, options)
    // a body that breaks off takes its connection with it
    return HttpServerResponse.stream(
      Stream.catchAll(answer.body, () =>
        Stream.drain(Stream.fromEffect(Effect.zipRight(dropped(request), Effect.never)))),
      options
    )
  }).pipe(
    Effect.catchTag("Dropped", () =>
      Effect.gen(function*() {
        const request = yield* HttpServerRequest.HttpServerRequest
        yield* dropped(request)
        // nobody reads this: its connection is gone
        return HttpServerResponse.empty({ status: 500 })
      }))
  )

/**
 * Puts a server behind a port until the scope is closed: the embedded one, or one that answers in its place.
 *
 * @since 0.1.0
 * @category constructors
 */
export const listen: (
  server: LocalServer.Service,
  options?: Pick<Options, "port" | "host" | "allowOrigin">
) => Effect.Effect<Running, HttpServerError.ServeError, Scope.Scope> = Effect.fnUntraced(
  function*(server, options = {}) {
    const host = options.host ?? "127.0.0.1"
    const http = yield* NodeHttpServer.make(() => Http.createServer(), { port: options.port ?? 0, host })
    yield* http.serve(makeApp(server, options.allowOrigin ?? "*"))
    const port = http.address._tag === "TcpAddress" ? http.address.port : 0
    return { baseUrl: `http://${host.includes(":") ? `[${host}]` : host}:${port}`, port, server }
  }
)

/**
 * Listens until the scope is closed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const serve: (
  options?: Options
) => Effect.Effect<Running, HttpServerError.ServeError | ModelUnavailable | Storage.StorageFailed, Scope.Scope> = Effect
  .fnUntraced(
    function*(options = {}) {
      const storage = options.directory === undefined
        ? Storage.layerMemory
        : Layer.provide(Storage.layerDirectory(options.directory), NodeContext.layer)
      const context = yield* Layer.build(
        LocalServer.layer(options).pipe(
          Layer.provide([
            NodeEngine.layerFor({
              ...options.engine,
              threads: options.threads,
              directories: options.modelDirectories
            }),
            storage
          ])
        )
      )
      return yield* listen(Context.get(context, LocalServer.LocalServer), options)
    }
  )

/**
 * A server for as long as the layer lives.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options?: Options
): Layer.Layer<LocalServerAddress, HttpServerError.ServeError | ModelUnavailable | Storage.StorageFailed> =>
  Layer.scoped(LocalServerAddress, serve(options))

/**
 * Where the server of a layer listens.
 *
 * @since 0.1.0
 * @category services
 */
export class LocalServerAddress
  extends Context.Tag("@effect-tinker/local/NodeTinkerLocal/LocalServerAddress")<LocalServerAddress, Running>()
{}
