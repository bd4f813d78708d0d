import { HttpClient, HttpClientResponse } from "@effect/platform"
import { Effect, Layer } from "effect"

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

export type Handler = (seen: Seen) => Effect.Effect<Response> | Response | undefined

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
      return Response.json({})
    case "/api/v1/create_session":
      return Response.json({ session_id: "session-1" })
    case "/api/v1/session_heartbeat":
      return Response.json({ type: "session_heartbeat" })
    default:
      return path.endsWith("/finish")
        ? Response.json({})
        : new Response("{\"detail\":\"no such route\"}", { status: 404 })
  }
}

/** A server without a socket that records what reaches it. */
export const make = (handler: Handler) => {
  const seen: Array<Seen> = []
  const client = HttpClient.make((request, url) => {
    const body = bytesOf("body" in request.body ? request.body.body : undefined)
    const one: Seen = {
      path: url.pathname,
      headers: request.headers,
      body,
      json: parse(body),
      aborted: false,
      answered: false
    }
    seen.push(one)
    const answer = handler(one) ?? usual(one) ?? Response.json({})
    return (Effect.isEffect(answer) ? answer : Effect.succeed(answer)).pipe(
      Effect.tap(() => {
        one.answered = true
      }),
      Effect.onInterrupt(() =>
        Effect.sync(() => {
          one.aborted = true
        })
      ),
      Effect.map((response) => HttpClientResponse.fromWeb(request, response))
    )
  })
  return {
    seen,
    /** Paths seen, shortened. */
    paths: () => seen.map(({ path }) => path.replace("/api/v1/", "")),
    of: (path: string) => seen.filter((one) => one.path === `/api/v1/${path}`),
    layer: Layer.succeed(HttpClient.HttpClient, client)
  }
}

export const options = { baseUrl: "http://localhost:1", apiKey: "tml-key" } as const

export const refuse = (status: number, body: unknown = { detail: "no" }, headers: Record<string, string> = {}) =>
  new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers })
