/**
 * From the table of endpoints to handlers: what each is called with, and how a path finds its own.
 */
import type * as Endpoint from "effect-tinker/wire/Endpoint"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { StorageFailed } from "../../Storage.js"
import type { Caller } from "./accounts.js"
import { HttpFailure, unprocessable } from "./failure.js"
import { Reply } from "./message.js"

/** One request on its way to its handler. @internal */
export interface Call {
  readonly caller: Caller
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Scheme, host and whatever stands before the path of the API. */
  readonly base: string
  /** The body, unpacked. */
  readonly body: Uint8Array
}

/** @internal */
export type Failure = HttpFailure | StorageFailed

/** @internal */
export interface Route<R> {
  readonly name: string
  readonly method: string
  readonly pattern: RegExp
  readonly params: ReadonlyArray<string>
  /** Whether it is for known callers only. */
  readonly auth: "key" | "bearer" | "none"
  readonly handle: (
    call: Call,
    params: Readonly<Record<string, string>>,
    query: Readonly<Record<string, string>>
  ) => Effect.Effect<Reply, Failure, R>
}

/** A checkpoint's id has two segments; everything else has one. @internal */
export const pattern = (template: string): RegExp =>
  new RegExp(
    `^${
      template.replace(
        /\{([a-z_]+)\}/g,
        (_, name: string) => name === "checkpoint_id" ? "([^/]+(?:/[^/]+)?)" : "([^/]+)"
      )
    }/?$`
  )

const reply = <Response>(
  endpoint: Pick<Endpoint.Endpoint<never, Response>, "name" | "response">,
  value: Response
): Effect.Effect<Reply> =>
  Either.match(endpoint.response.encode(value), {
    // our own answer does not fit our own schema
    onLeft: (problem) => Effect.dieMessage(`${endpoint.name}: ${problem}`),
    onRight: (body) =>
      Effect.succeed(
        new Reply({
          status: body === undefined ? 204 : 200,
          headers: endpoint.response.contentType === undefined ? {} : { "content-type": endpoint.response.contentType },
          body: typeof body === "string" ? new TextEncoder().encode(body) : body
        })
      )
  })

/** Lists may leave out what the service has a default for. */
const queryDefaults: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  listTrainingRuns: { limit: "20", offset: "0", access_scope: "owned" },
  getTrainingRun: { access_scope: "owned" },
  listUserCheckpoints: { limit: "100", offset: "0" },
  listSessions: { limit: "20", offset: "0", access_scope: "owned" },
  getSession: { access_scope: "owned" },
  audit: { event_type: "all" }
}

/** Serves an endpoint of the table. A handler gives the answer, or a reply of its own making. @internal */
export const route = <Request, Response, R>(
  endpoint: Endpoint.Endpoint<Request, Response>,
  handler: (request: Request, call: Call) => Effect.Effect<Response | Reply, Failure, R>
): Route<R> => ({
  name: endpoint.name,
  method: endpoint.method,
  pattern: pattern(endpoint.path),
  params: endpoint.params,
  auth: endpoint.auth,
  handle: (call, params, query) =>
    Either.match(
      endpoint.decodeRequest({
        params,
        query: { ...queryDefaults[endpoint.name], ...query },
        body: call.body,
        contentType: call.headers["content-type"]
      }),
      {
        onLeft: (problem) => Effect.fail(unprocessable(problem)),
        onRight: (request) =>
          Effect.flatMap(
            handler(request, call),
            (answer) => answer instanceof Reply ? Effect.succeed(answer) : reply(endpoint, answer)
          )
      }
    )
})

/** @internal */
export interface Match<R> {
  readonly route: Route<R>
  readonly params: Readonly<Record<string, string>>
}

const decodeSegment = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Finds the route of a request; longer patterns first, so that `…/archive` is not taken for a name. @internal */
export const makeRouter = <R>(
  routes: ReadonlyArray<Route<R>>
): (method: string, path: string) => Either.Either<Match<R>, HttpFailure> => {
  const sorted = Array.from(routes).sort((a, b) => b.pattern.source.length - a.pattern.source.length)
  return (method, path) => {
    let known = false
    for (const route of sorted) {
      const match = route.pattern.exec(path)
      if (match === null) continue
      known = true
      if (route.method !== method) continue
      return Either.right({
        route,
        params: Object.fromEntries(route.params.map((name, i) => [name, decodeSegment(match[i + 1] ?? "")]))
      })
    }
    return Either.left(
      known
        ? new HttpFailure({ status: 405, detail: "Method Not Allowed" })
        : new HttpFailure({ status: 404, detail: "Not Found" })
    )
  }
}
