/**
 * The embedded backend without a socket: the clients of `effect-tinker` over a server in this process, with real
 * training and sampling behind them. It reads the time from Effect's `Clock`, so it works under `TestClock`.
 *
 * @since 0.1.0
 */
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type { TokenizerError } from "@effect-tinker/tokenizer/TokenizerError"
import * as TokenizerFiles from "@effect-tinker/tokenizer/TokenizerFiles"
import * as Tokenizers from "@effect-tinker/tokenizer/Tokenizers"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import type * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import type * as Path from "@effect/platform/Path"
import * as Tinker from "effect-tinker/Tinker"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as TinkerTransport from "effect-tinker/TinkerTransport"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as Engine from "./Engine.js"
import { concat } from "./internal/server/message.js"
import * as LocalServer from "./LocalServer.js"
import * as LocalTokenizer from "./LocalTokenizer.js"
import * as Storage from "./Storage.js"

/**
 * An address for clients of the in-process server. Any other does as well.
 *
 * @since 0.1.0
 * @category configuration
 */
export const baseUrl: string = "https://tinker.local"

/**
 * A key the server accepts unless `apiKeys` lists others.
 *
 * @since 0.1.0
 * @category configuration
 */
export const apiKey: Redacted.Redacted = Redacted.make("tml-local")

/**
 * How the server treats its clients, and how the engine computes.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends LocalServer.Options {
  /** How the engine computes. */
  readonly engine?: Engine.Options | undefined
  /** How the clients behave. They need neither a base URL nor a key, unless the server has its own keys. */
  readonly client?: Tinker.Options | undefined
}

/**
 * The clients of the backend, the tokenizers of its models, what they stand on, and the server itself.
 *
 * @since 0.1.0
 * @category models
 */
export type Provided =
  | Tinker.Tinker
  | TinkerTransport.TinkerTransport
  | TinkerTransport.Tenants
  | HttpClient.HttpClient
  | Tokenizers.Tokenizers
  | LocalServer.LocalServer

const encoder = new TextEncoder()

const failure = (request: HttpClientRequest.HttpClientRequest, reason: "Transport" | "Encode", cause: unknown) =>
  new HttpClientError.RequestError({ request, reason, cause })

const bodyOf = (
  request: HttpClientRequest.HttpClientRequest
): Effect.Effect<Uint8Array, HttpClientError.RequestError> => {
  const { body } = request
  switch (body._tag) {
    case "Empty":
      return Effect.succeed(new Uint8Array(0))
    case "Uint8Array":
      return Effect.succeed(body.body)
    case "Stream":
      return Stream.runCollect(body.stream).pipe(
        Effect.mapBoth({ onFailure: (cause) => failure(request, "Encode", cause), onSuccess: concat })
      )
    case "Raw":
      return typeof body.body === "string"
        ? Effect.succeed(encoder.encode(body.body))
        : body.body instanceof Uint8Array
        ? Effect.succeed(body.body)
        : Effect.fail(failure(request, "Encode", "the in-process server takes text, bytes and streams"))
    case "FormData":
      return Effect.fail(failure(request, "Encode", "the in-process server takes no forms"))
  }
}

/** Statuses whose responses must not have a body, not even an empty one. */
const bodiless = new Set([101, 204, 205, 304])

const toWeb = ({ body, headers, status }: LocalServer.Response): Effect.Effect<Response> => {
  const init = { status, headers }
  if (body === undefined || bodiless.has(status)) return Effect.sync(() => new Response(null, init))
  return body instanceof Uint8Array
    ? Effect.sync(() => new Response(Uint8Array.from(body), init))
    : Effect.map(Stream.toReadableStreamEffect(body), (content) => new Response(content, init))
}

/**
 * An `HttpClient` all of whose requests this server answers, whatever their host.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeClient = (server: LocalServer.Service): HttpClient.HttpClient =>
  HttpClient.make((request, url) =>
    Effect.gen(function*() {
      const contentType = request.body.contentType
      yield* server.yieldIfDue
      const response = yield* server.handle({
        method: request.method,
        url,
        headers: contentType === undefined || "content-type" in request.headers
          ? request.headers
          : { ...request.headers, "content-type": contentType },
        body: yield* bodyOf(request)
      }).pipe(
        Effect.catchTag("Dropped", () => failure(request, "Transport", "the connection broke off"))
      )
      return HttpClientResponse.fromWeb(request, yield* toWeb(response))
    })
  )

/**
 * An `HttpClient` that the server in the context answers.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerClient: Layer.Layer<HttpClient.HttpClient, never, LocalServer.LocalServer> = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(LocalServer.LocalServer, makeClient)
)

/**
 * The tokenizers of the models that the server in the context serves; there are no others.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerTokenizers: Layer.Layer<Tokenizers.Tokenizers, never, LocalServer.LocalServer> = Layer.unwrapEffect(
  Effect.map(LocalServer.LocalServer, ({ models }) => {
    const registry: Record<string, Effect.Effect<Tokenizer.Tokenizer, TokenizerError>> = { ...LocalTokenizer.registry }
    for (const { name, tokenizer } of models) {
      if (tokenizer !== undefined) registry[name] = Effect.succeed(tokenizer)
    }
    return Tokenizers.layer({ registry })
  })
).pipe(Layer.provide(TokenizerFiles.layerMemory({})))

/**
 * The clients over the server in the context, the tokenizers of its models, and an `HttpClient` that it answers.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerClients = (
  options?: Tinker.Options
): Layer.Layer<Exclude<Provided, LocalServer.LocalServer>, TinkerError.TinkerError, LocalServer.LocalServer> =>
  Tinker.layer({ baseUrl, apiKey, ...options }).pipe(
    Layer.provideMerge(TinkerTransport.layer()),
    Layer.provideMerge(layerClient),
    Layer.merge(layerTokenizers)
  )

/**
 * The backend in this process, with its checkpoints in memory, and its clients.
 *
 * @example
 * ```ts
 * import { TinkerLocal } from "@effect-tinker/local"
 * import { Effect } from "effect"
 * import { RestClient, TrainingClient } from "effect-tinker"
 *
 * const program = Effect.gen(function*() {
 *   yield* TrainingClient.makeLora({ baseModel: "local/small" })
 *   const rest = yield* RestClient.RestClient
 *   return yield* rest.listTrainingRuns()
 * }).pipe(Effect.scoped, Effect.provide(TinkerLocal.layer()))
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options = {}): Layer.Layer<Provided, TinkerError.TinkerError> =>
  layerClients(options.client).pipe(
    Layer.provideMerge(Layer.orDie(LocalServer.layer(options))),
    Layer.provide([Engine.layer(options.engine), Storage.layerMemory])
  )

/**
 * The backend in this process, with its checkpoints in a directory: what was saved is there when it is opened again.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDirectory = (
  root: string,
  options: Options = {}
): Layer.Layer<
  Provided,
  Storage.StorageFailed | TinkerError.TinkerError,
  FileSystem.FileSystem | Path.Path
> =>
  layerClients(options.client).pipe(
    Layer.provideMerge(LocalServer.layer(options)),
    Layer.provide([Engine.layer(options.engine), Storage.layerDirectory(root)])
  )
