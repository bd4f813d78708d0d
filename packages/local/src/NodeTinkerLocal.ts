/**
 * The embedded backend behind a port of this machine: for other languages, browsers and the official Python client. Safe
 * by default: loopback only, a random key per data directory, no web pages, no foreign host names.
 *
 * @since 0.1.0
 */
import * as DirectoryLock from "@effect-tinker/platform/DirectoryLock"
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as HostGuard from "@effect-tinker/platform/HostGuard"
import { Processes } from "@effect-tinker/platform/Processes"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Headers from "@effect/platform/Headers"
import type * as HttpApp from "@effect/platform/HttpApp"
import type * as HttpServerError from "@effect/platform/HttpServerError"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Path from "@effect/platform/Path"
import * as Checkpoint from "effect-tinker/Checkpoint"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Http from "node:http"
import * as Os from "node:os"
import type * as Engine from "./Engine.js"
import type { ModelUnavailable } from "./EngineError.js"
import { timeSlicedScheduler } from "./internal/eventLoop.js"
import { Dropped } from "./internal/server/message.js"
import * as LocalServer from "./LocalServer.js"
import * as NodeEngine from "./NodeEngine.js"
import * as Storage from "./Storage.js"
import * as TinkerLocal from "./TinkerLocal.js"

/**
 * Who can reach the server over its port.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface ListenOptions {
  /** Defaults to any free port. */
  readonly port?: number | undefined
  /** Defaults to `127.0.0.1`, which other machines cannot reach. */
  readonly host?: string | undefined
  /**
   * Names under which clients may address the server, without port. Loopback names are always accepted; so are the
   * machine's own name and IP addresses when it listens beyond loopback. Defaults to none.
   */
  readonly allowHosts?: ReadonlyArray<string> | undefined
  /** Which web pages may call: an origin such as `https://example.org`, or `*`. Defaults to none. */
  readonly allowOrigin?: string | undefined
}

/**
 * Where to listen, and how to treat clients.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends TinkerLocal.Options, ListenOptions {
  /** Compute on this many worker threads. Defaults to none: in short slices of the server's own thread. */
  readonly threads?: number | undefined
  /**
   * Models to serve beside the package's own: names on the Hugging Face hub, directories, GGUF files, or `ollama:NAME`, as
   * `NodeModels.resolve` takes them; clients ask for them by the same. Defaults to none.
   */
  readonly models?: ReadonlyArray<string> | undefined
  /** Keep the frozen matrices of `models` in eight bits. Defaults to the precision of their files. */
  readonly quantize?: "int8" | undefined
  /** Where to keep checkpoints and records. Defaults to memory. */
  readonly directory?: string | undefined
  /**
   * Accepts every key that starts with `tml-`, every host name and every web page: anyone who reaches the port can do
   * everything. Defaults to false.
   */
  readonly open?: boolean | undefined
}

/**
 * A server that is listening.
 *
 * @since 0.1.0
 * @category models
 */
export interface Listening {
  /** The base URL for clients on this machine. */
  readonly baseUrl: string
  readonly port: number
  readonly server: LocalServer.Service
}

/**
 * A server that is listening, and the key it accepts.
 *
 * @since 0.1.0
 * @category models
 */
export interface Running extends Listening {
  /** The first of `apiKeys`, or the key of the data directory, or with `open` one of many. */
  readonly apiKey: Redacted.Redacted
}

const refuse = (status: number, detail: string) => HttpServerResponse.unsafeJson({ detail }, { status })

const makeHostCheck = ({ allowHosts = [], host = "127.0.0.1" }: ListenOptions): (name: string) => boolean =>
  HostGuard.make({ host, allow: HostGuard.isLoopback(host) ? allowHosts : [...allowHosts, Os.hostname()] })

const cors = (origin: string): Readonly<Record<string, string>> => ({
  "access-control-allow-origin": origin,
  "access-control-expose-headers": "*",
  vary: "origin"
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

/** The next piece of a body. Unlike the platform's stream, stopping early leaves the socket open for the response. */
const nextChunk = (request: Http.IncomingMessage): Effect.Effect<Uint8Array, Option.Option<Dropped>> =>
  Effect.async((resume) => {
    const finish = (result: Effect.Effect<Uint8Array, Option.Option<Dropped>>) => {
      stop()
      resume(result)
    }
    const poll = () => {
      const chunk: unknown = request.read()
      if (chunk instanceof Uint8Array) finish(Effect.succeed(chunk))
      else if (request.readableEnded || request.complete && request.readableLength === 0) end()
    }
    const end = () => finish(Effect.fail(Option.none()))
    const lost = () => finish(Effect.fail(request.readableEnded ? Option.none() : Option.some(new Dropped())))
    const stop = () => {
      request.off("readable", poll).off("end", end).off("close", lost).off("error", lost)
    }
    request.on("readable", poll).on("end", end).on("close", lost).on("error", lost)
    if (request.destroyed) lost()
    else poll()
    return Effect.sync(stop)
  })

const bodyOf = (request: HttpServerRequest.HttpServerRequest): Stream.Stream<Uint8Array, Dropped> => {
  const incoming = NodeHttpServerRequest.toIncomingMessage(request)
  // What is left of a refused body is discarded as it arrives, so that the client reads the response.
  return Stream.ensuring(
    Stream.repeatEffectOption(nextChunk(incoming)),
    Effect.sync(() => {
      if (!incoming.readableEnded) incoming.resume()
    })
  )
}

const disconnect = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.sync(() => NodeHttpServerRequest.toServerResponse(request).destroy())

const makeApp = (server: LocalServer.Service, options: ListenOptions): HttpApp.Default => {
  const isKnownHost = makeHostCheck(options)
  const allowed = options.allowOrigin

  const app = Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const host = request.headers["host"]
    const name = HostGuard.nameOf(host)
    if (Option.isNone(name)) return refuse(400, "The Host header is missing or malformed")
    if (!isKnownHost(name.value)) {
      return refuse(403, `Host ${name.value} is not allowed; start the server with that name among its hosts`)
    }
    const url = request.url.startsWith("/")
      ? Option.liftThrowable(() => new URL(`http://${host}${request.url}`))()
      : Option.none()
    if (Option.isNone(url)) return refuse(400, "The URL of the request is malformed")
    const origin = request.headers["origin"]
    const granted = allowed === "*" ? "*" : origin !== undefined && origin === allowed ? origin : undefined
    if (origin !== undefined && granted === undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
      return refuse(403, `Web pages of ${origin} may not call this server; start it with that origin allowed`)
    }
    if (request.method === "OPTIONS") {
      return granted === undefined ? refuse(405, "Method Not Allowed") : preflight(request, granted)
    }
    const response = yield* server.handle({
      method: request.method,
      url: url.value,
      headers: request.headers,
      body: bodyOf(request)
    })
    const headers = granted === undefined ? response.headers : { ...response.headers, ...cors(granted) }
    const settings = { status: response.status, headers: Headers.fromInput(headers) }
    if (response.body === undefined) return HttpServerResponse.empty(settings)
    if (response.body instanceof Uint8Array) return HttpServerResponse.uint8Array(response.body, settings)
    // a body that breaks takes its connection with it
    return HttpServerResponse.stream(
      Stream.catchAll(
        response.body,
        () => Stream.drain(Stream.fromEffect(Effect.zipRight(disconnect(request), Effect.never)))
      ),
      settings
    )
  }).pipe(
    Effect.catchTag("Dropped", () =>
      Effect.gen(function*() {
        yield* disconnect(yield* HttpServerRequest.HttpServerRequest)
        // nobody reads this: the connection is gone
        return HttpServerResponse.empty({ status: 500 })
      }))
  )
  // The platform runs handlers uninterruptibly. Interruptible, the hold of a poll can end, and a client that disconnects
  // interrupts the work for it.
  return Effect.interruptible(app)
}

/**
 * Puts a server behind a port until the scope is closed: the embedded one, or one that answers in its place.
 *
 * @since 0.1.0
 * @category constructors
 */
export const listen: (
  server: LocalServer.Service,
  options?: ListenOptions
) => Effect.Effect<Listening, HttpServerError.ServeError, Scope.Scope> = Effect.fnUntraced(
  function*(server, options = {}) {
    const host = options.host ?? "127.0.0.1"
    const http = yield* NodeHttpServer.make(() => Http.createServer(), { port: options.port ?? 0, host })
    yield* http.serve(makeApp(server, options))
    const port = http.address._tag === "TcpAddress" ? http.address.port : 0
    const reachable = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host
    return { baseUrl: `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`, port, server }
  }
)

const keyFile = "api-key"

const keyPattern = /^tml-[\x21-\x7e]+$/

/** The key of a data directory, made when it has none. */
const ensureApiKey = Effect.gen(function*() {
  const storage = yield* Storage.Storage
  const stored = Option.map(yield* storage.get(keyFile), (bytes) => new TextDecoder().decode(bytes).trim())
  if (Option.isSome(stored) && keyPattern.test(stored.value)) return Redacted.make(stored.value)
  const key = `tml-${yield* Entropy.token}`
  yield* storage.put(keyFile, new TextEncoder().encode(`${key}\n`))
  return Redacted.make(key)
})

/** Where the server of a directory listens, and the id of its process, while one does that accepts the directory's key. */
const addressFile = "address"

const announce = Effect.fnUntraced(function*(baseUrl: string) {
  const storage = yield* Storage.Storage
  const { pid } = yield* Processes
  yield* Effect.acquireRelease(
    storage.put(addressFile, new TextEncoder().encode(`${baseUrl} ${pid}\n`)),
    () => Effect.ignore(storage.remove(addressFile))
  )
})

/** The address in such a file, and the process that wrote it. */
const parseAddress = (text: string) => {
  const [baseUrl = "", pid] = text.trim().split(" ")
  return { baseUrl, pid: Number(pid) }
}

/** Loopback addresses are one machine, whatever they are called. */
const sameServer = (a: string, b: string): boolean => {
  const parts = [a, b].map((text) => Option.getOrUndefined(Option.liftThrowable(() => new URL(text))()))
  const [left, right] = parts
  if (left === undefined || right === undefined || left.port !== right.port) return false
  const name = ({ hostname }: URL) => hostname.replace(/^\[|\]$/g, "")
  return name(left) === name(right) || (HostGuard.isLoopback(name(left)) && HostGuard.isLoopback(name(right)))
}

/**
 * The key that the server of a data directory accepts, for clients on the same machine; nothing before the first start.
 * With a `baseUrl`, only if it is that server which listens there.
 *
 * @since 0.1.0
 * @category constructors
 */
export const readApiKey: (
  directory: string,
  options?: { readonly baseUrl?: string | undefined }
) => Effect.Effect<Option.Option<Redacted.Redacted>, never, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(directory, options) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const read = (name: string) =>
      Effect.map(
        Effect.option(fs.readFileString(path.join(directory, name))),
        Option.map((text) => text.trim())
      )
    const { baseUrl } = options ?? {}
    if (
      baseUrl !== undefined &&
      !Option.exists(yield* read(addressFile), (at) => sameServer(parseAddress(at).baseUrl, baseUrl))
    ) {
      return Option.none()
    }
    return (yield* read(keyFile)).pipe(
      Option.filter((key) => keyPattern.test(key)),
      Option.map((key) => Redacted.make(key))
    )
  }
)

/**
 * Where another process that has a data directory open answers, and the key it accepts; none where no process has the
 * directory, or the one that has it does not listen.
 *
 * @since 0.2.0
 * @category constructors
 */
export const neighbour: (
  directory: string
) => Effect.Effect<
  Option.Option<{ readonly baseUrl: string; readonly apiKey: Redacted.Redacted }>,
  never,
  FileSystem.FileSystem | Path.Path
> = Effect.fnUntraced(function*(directory) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const read = Effect.gen(function*() {
    const holder = yield* DirectoryLock.holder(directory)
    if (!Option.exists(holder, ({ isRunning }) => isRunning)) return Option.none()
    const text = yield* Effect.option(fs.readFileString(path.join(directory, addressFile)))
    // The file may be left of a process that was killed.
    const address = Option.filter(
      Option.map(text, parseAddress),
      ({ pid }) => Option.exists(holder, (owner) => owner.pid === pid)
    )
    const apiKey = yield* readApiKey(directory)
    return Option.some(Option.zipWith(address, apiKey, ({ baseUrl }, apiKey) => ({ baseUrl, apiKey })))
  })
  // A process that is starting has the directory a moment before it listens.
  const found = yield* Effect.repeat(read, {
    while: Option.exists(Option.isNone),
    schedule: Schedule.zipRight(
      Schedule.spaced("100 millis").pipe(Schedule.upTo("5 seconds")),
      Schedule.identity<Effect.Effect.Success<typeof read>>()
    )
  })
  return Option.flatten(found)
})

/** The engine with the package's models, or those of the engine's options, and the ones asked for by name. */
const engineOf = (
  options: Pick<Options, "engine" | "models" | "quantize" | "threads">
): Layer.Layer<Engine.Engine, ModelUnavailable> =>
  Layer.unwrapEffect(Effect.map(
    options.engine?.models === undefined ? NodeEngine.bundledModels : Effect.succeed(options.engine.models),
    (own) =>
      NodeEngine.layerFor({
        ...options.engine,
        threads: options.threads,
        quantize: options.quantize,
        models: [...own, ...options.models ?? []]
      })
  ))

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
      const storage = yield* Layer.build(
        options.directory === undefined
          ? Storage.layerMemory
          : Layer.provide(Storage.layerDirectory(options.directory), NodeContext.layer)
      )
      const own = yield* Effect.provide(ensureApiKey, storage)
      const isOpen = options.open === true && options.apiKeys === undefined
      const apiKeys = isOpen ? undefined : options.apiKeys ?? [{ key: own, name: "local" }]
      const context = yield* Layer.build(
        LocalServer.layer({ ...options, apiKeys }).pipe(
          Layer.provide([
            engineOf(options),
            Layer.succeedContext(storage)
          ])
        )
      )
      const listening = yield* listen(
        Context.get(context, LocalServer.LocalServer),
        options.open === true ? { ...options, allowOrigin: options.allowOrigin ?? "*", allowHosts: ["*"] } : options
      )
      if (options.apiKeys === undefined) yield* Effect.provide(announce(listening.baseUrl), storage)
      return { ...listening, apiKey: options.apiKeys?.[0]?.key ?? own }
    },
    Effect.withScheduler(timeSlicedScheduler)
  )

/**
 * The backend of a process: its models, its threads, and where it keeps checkpoints.
 *
 * @since 0.2.0
 * @category models
 */
export type InProcessOptions = TinkerLocal.Options & Pick<Options, "directory" | "models" | "quantize" | "threads">

/**
 * The backend in this process over a directory, and a server on loopback for as long as the layer lives, which accepts the
 * directory's key: other processes of this user find it with {@link neighbour} and join. The clients of this process use
 * `client.apiKey` where it is given, else the directory's key too.
 *
 * @since 0.2.0
 * @category layers
 */
export const layerShared = (
  options: InProcessOptions & { readonly directory: string }
): Layer.Layer<
  TinkerLocal.Provided,
  HttpServerError.ServeError | ModelUnavailable | Storage.StorageFailed | TinkerError.TinkerError
> =>
  Layer.unwrapScoped(Effect.gen(function*() {
    const storage = yield* Layer.build(Layer.provide(Storage.layerDirectory(options.directory), NodeContext.layer))
    const directoryKey: LocalServer.ApiKey = { key: yield* Effect.provide(ensureApiKey, storage), name: "local" }
    const given = options.client?.apiKey
    const ownKey = given === undefined ? directoryKey.key : Redacted.isRedacted(given) ? given : Redacted.make(given)
    const clients = TinkerLocal.layerClients({ ...options.client, apiKey: ownKey })
    const announced = Layer.scopedDiscard(Effect.gen(function*() {
      const { baseUrl } = yield* listen(yield* LocalServer.LocalServer)
      yield* Effect.provide(announce(baseUrl), storage)
    }))
    return Layer.merge(clients, announced).pipe(
      Layer.provideMerge(
        LocalServer.layer({ ...options, apiKeys: [directoryKey, { key: ownKey, name: "in process" }] })
      ),
      Layer.provide([engineOf(options), Layer.succeedContext(storage)]),
      Layer.provideMerge(Layer.setScheduler(timeSlicedScheduler))
    )
  }))

/**
 * The backend in this process with the models whose files are on this machine, `local/chat` among them, and its clients:
 * what `TinkerLocal.layer` is without files. Without a `directory` checkpoints are gone with the process, and a run that is to
 * be resumed refuses to begin. The layer also sets the scheduler: fibers of the program that uses it let
 * the event loop turn every few milliseconds.
 *
 * @example
 * ```ts
 * import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
 * import { Effect } from "effect"
 * import { TrainingClient } from "effect-tinker"
 *
 * const program = TrainingClient.makeLora({ baseModel: "local/chat", rank: 16 }).pipe(
 *   Effect.flatMap((training) => training.getInfo),
 *   Effect.scoped,
 *   Effect.provide(NodeTinkerLocal.layerInProcess())
 * )
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: InProcessOptions = {}
): Layer.Layer<TinkerLocal.Provided, ModelUnavailable | Storage.StorageFailed | TinkerError.TinkerError> =>
  TinkerLocal.layerClients(options.client).pipe(
    Layer.provideMerge(LocalServer.layer(options)),
    Layer.provide([
      engineOf(options),
      options.directory === undefined
        ? Storage.layerMemory
        : Layer.provide(Storage.layerDirectory(options.directory), NodeContext.layer)
    ]),
    Layer.merge(
      options.directory === undefined
        ? Layer.succeed(Checkpoint.Lifetime, {
          of: "process",
          keepWith:
            "NodeTinkerLocal.layerInProcess({ directory }), in plain async code connectLocal({ backend: { directory } })"
        })
        : Layer.empty
    ),
    Layer.provideMerge(Layer.setScheduler(timeSlicedScheduler))
  )

/**
 * {@link layer}, by a name that says where it computes: in this process, with no server.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerInProcess: typeof layer = layer

/**
 * A server for as long as the layer lives.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerServer = (
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
