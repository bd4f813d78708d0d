import { HttpClient, HttpClientResponse } from "@effect/platform"
import { Effect, Layer, Schema } from "effect"
import { Credentials, TinkerConfig, TinkerTransport } from "effect-tinker"
import type { RetryPolicy } from "effect-tinker"
import { Endpoint } from "effect-tinker/wire"
import * as ApiClient from "../../src/internal/transport/apiClient.js"

export interface Seen {
  readonly url: string
  readonly method: string
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
}

const textOf = (body: { readonly _tag: string; readonly body?: unknown }): string =>
  body._tag === "Uint8Array" && body.body instanceof Uint8Array ? new TextDecoder().decode(body.body) : ""

/** A transport over an `HttpClient`. */
export const over = (client: HttpClient.HttpClient) =>
  Layer.provide(TinkerTransport.layer(), Layer.succeed(HttpClient.HttpClient, client))

/** Answers with a function of what was asked and how often. */
export const answering = (answer: (seen: Seen, n: number) => Response) => {
  const seen: Array<Seen> = []
  const client = HttpClient.make((request, url) =>
    Effect.sync(() => {
      const one = { url: url.href, method: request.method, headers: request.headers, body: textOf(request.body) }
      seen.push(one)
      return HttpClientResponse.fromWeb(request, answer(one, seen.length - 1))
    })
  )
  return { seen, client: over(client) }
}

/** Answers with a script; the last answer is repeated. */
export const script = (answers: ReadonlyArray<() => Response>) =>
  answering((_, n) => answers[Math.min(n, answers.length - 1)]?.() ?? new Response("{}"))

export const live = <E>(client: Layer.Layer<TinkerTransport.TinkerTransport, E>, options: TinkerConfig.Options = {}) =>
  ApiClient.layer.pipe(
    Layer.provide(Credentials.layer),
    Layer.provide(TinkerConfig.layer({ baseUrl: "http://localhost:1/prefix/", apiKey: "tml-key", ...options })),
    Layer.provide(client)
  )

export const json = (body: unknown, init: ResponseInit = {}) => () => Response.json(body, init)

export const status = (code: number, headers: Record<string, string> = {}, body = "{\"detail\":\"no\"}") => () =>
  new Response(body === "" ? null : body, { status: code, headers })

/** An endpoint of the given class, which answers `{"ok":true}`. */
export const endpointOf = (retry: RetryPolicy.Class, settings: Partial<Endpoint.Settings> = {}) =>
  Endpoint.make(retry, "POST", `/api/v1/${retry}`, {
    pool: "training",
    retry,
    ...settings,
    request: Schema.Struct({ n: Schema.Number }),
    response: Endpoint.json(Schema.Struct({ ok: Schema.Boolean }))
  })
