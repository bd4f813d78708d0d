import { HttpClient, HttpClientResponse } from "@effect/platform"
import { Effect, Layer } from "effect"
import { TinkerTransport } from "effect-tinker"

/** One request as the server saw it. */
export interface Seen {
  readonly path: string
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Uint8Array
  readonly json: Readonly<Record<string, unknown>>
  /** Whether the client gave up on it before it was answered. */
  aborted: boolean
  answered: boolean
}

/** An answer without the weight of a web `Response`. */
export interface Plain {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

export type Answer = Response | Plain

export type Handler = (seen: Seen) => Effect.Effect<Answer> | Answer | undefined

const encoder = new TextEncoder()

export const json = (value: unknown): Plain => ({
  status: 200,
  headers: { "content-type": "application/json" },
  body: encoder.encode(JSON.stringify(value))
})

export const protobuf = (body: Uint8Array): Plain => ({
  status: 200,
  headers: { "content-type": "application/x-protobuf" },
  body
})

const bytesOf = (body: unknown): Uint8Array => {
  if (body instanceof Uint8Array) return body
  return typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(0)
}

const parse = (body: Uint8Array): Readonly<Record<string, unknown>> => {
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return {}
  }
}

/** What a server answers where a test does not care. */
const usual: Handler = ({ path }) => {
  switch (path) {
    case "/api/v1/client/config":
    case "/api/v1/client/dynamic_config":
      return json({})
    case "/api/v1/create_session":
      return json({ session_id: "session-1" })
    case "/api/v1/session_heartbeat":
      return json({ type: "session_heartbeat" })
    default:
      return path.endsWith("/finish")
        ? json({})
        : refuse(404)
  }
}

const toWeb = (answer: Answer): Response =>
  answer instanceof Response
    ? answer
    : new Response(Uint8Array.from(answer.body), { status: answer.status, headers: answer.headers })

const toPlain = (answer: Answer): Effect.Effect<Plain> =>
  answer instanceof Response
    ? Effect.map(Effect.promise(() => answer.arrayBuffer()), (body) => ({
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
      body: new Uint8Array(body)
    }))
    : Effect.succeed(answer)

/** A server without a socket that records what reaches it. */
export const make = (handler: Handler) => {
  const seen: Array<Seen> = []
  const answer = (path: string, headers: Seen["headers"], body: Uint8Array): Effect.Effect<Answer> => {
    const one: Seen = { path, headers, body, json: parse(body), aborted: false, answered: false }
    seen.push(one)
    const given = handler(one) ?? usual(one) ?? json({})
    return (Effect.isEffect(given) ? given : Effect.succeed(given)).pipe(
      Effect.tap(() => {
        one.answered = true
      }),
      Effect.onInterrupt(() =>
        Effect.sync(() => {
          one.aborted = true
        })
      )
    )
  }
  const client = HttpClient.make((request, url) =>
    Effect.map(
      answer(url.pathname, request.headers, bytesOf("body" in request.body ? request.body.body : undefined)),
      (response) => HttpClientResponse.fromWeb(request, toWeb(response))
    )
  )
  const transport: TinkerTransport.Service = {
    send: (request) => Effect.flatMap(answer(request.path, request.headers, bytesOf(request.body)), toPlain),
    stream: () => Effect.dieMessage("this server has no streams")
  }
  return {
    seen,
    /** Paths seen, shortened. */
    paths: () => seen.map(({ path }) => path.replace("/api/v1/", "")),
    of: (path: string) => seen.filter((one) => one.path === `/api/v1/${path}`),
    layer: Layer.provide(TinkerTransport.layer(), Layer.succeed(HttpClient.HttpClient, client)),
    /** The same without an `HttpClient`: an order of magnitude cheaper. */
    directLayer: Layer.succeed(TinkerTransport.TinkerTransport, transport)
  }
}

/** Reports to the service have tests of their own. */
export const options = { baseUrl: "http://localhost:1", apiKey: "tml-key", telemetry: false } as const

export const refuse = (
  status: number,
  body: unknown = { detail: "no" },
  headers: Record<string, string> = {}
): Plain => ({
  status,
  headers,
  body: encoder.encode(typeof body === "string" ? body : JSON.stringify(body))
})
