/**
 * The entry point for Node: an `HttpClient` whose requests to Tinker travel over a lean transport of their own, with
 * sockets of their own for each tenant and pool.
 *
 * @since 0.1.0
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Credentials from "./Credentials.js"
import * as Exchange from "./internal/exchange.js"
import * as Undici from "./internal/node/undici.js"
import * as NodeCredentials from "./NodeCredentials.js"

/**
 * The `HttpClient` to give to the clients of this package on Node. For other requests it is a plain `fetch` client; a
 * client derived from it (`HttpClient.mapRequest` and the like) uses that for Tinker as well.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerHttpClient: Layer.Layer<HttpClient.HttpClient> = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(
    HttpClient.HttpClient,
    (client): HttpClient.HttpClient =>
      Object.assign(Object.create(Object.getPrototypeOf(client)), client, { [Exchange.Lean]: Undici.make })
  )
).pipe(Layer.provide(FetchHttpClient.layer))

/**
 * All that Node can add: the transport, the credentials file and credential commands.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<HttpClient.HttpClient | Credentials.CommandRunner | Credentials.StoredKey> = Layer
  .merge(
    layerHttpClient,
    NodeCredentials.layer
  )
