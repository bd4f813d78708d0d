/**
 * From a request to its response: which route, who calls, the body, the handler, and injected faults. The order is the
 * point: nothing is read of a body before its sender is known.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import type * as Endpoint from "effect-tinker/wire/Endpoint"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import type { Fault, Service as FaultsService } from "../../Faults.js"
import type { StorageFailed } from "../../Storage.js"
import type { AccountsShape, Caller } from "./accounts.js"
import { readBody, reservation, unpack } from "./body.js"
import type { Incoming } from "./message.js"
import { badRequest, concat, Dropped, HttpFailure, json, Reply, unprocessable } from "./message.js"
import type { Limits } from "./settings.js"

/** A request on its way to its handler. @internal */
export interface Call {
  readonly caller: Caller
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Scheme, host and whatever stands before the path of the API. */
  readonly base: string
  /** The body, decompressed. */
  readonly body: Uint8Array
  /** Logs fields that only a newer client knows, each once. */
  readonly noteIgnored: (endpoint: string, fields: ReadonlyArray<string>) => Effect.Effect<void>
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

/** A checkpoint's id has two segments, everything else one. @internal */
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
    // our own response does not fit our own schema
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

/** Defaults of a list request. */
const queryDefaults: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  listTrainingRuns: { limit: "20", offset: "0", access_scope: "owned" },
  getTrainingRun: { access_scope: "owned" },
  listUserCheckpoints: { limit: "100", offset: "0" },
  listSessions: { limit: "20", offset: "0", access_scope: "owned" },
  getSession: { access_scope: "owned" },
  audit: { event_type: "all" }
}

/**
 * Serves an endpoint of the SDK's table. A handler returns the response's value, or a `Reply`. `undecodable` runs when
 * the request does not fit its schema.
 *
 * @internal
 */
export const route = <Request, Response, R, R2 = never>(
  endpoint: Endpoint.Endpoint<Request, Response>,
  handler: (request: Request, call: Call) => Effect.Effect<Response | Reply, Failure, R>,
  undecodable?: (call: Call) => Effect.Effect<void, never, R2>
): Route<R | R2> => ({
  name: endpoint.name,
  method: endpoint.method,
  pattern: pattern(endpoint.path),
  params: endpoint.params,
  auth: endpoint.auth,
  handle: (call, params, query): Effect.Effect<Reply, Failure, R | R2> =>
    Either.match(
      endpoint.decodeRequest({
        params,
        query: { ...queryDefaults[endpoint.name], ...query },
        body: call.body,
        contentType: call.headers["content-type"]
      }),
      {
        onLeft: (problem) =>
          Effect.zipRight(undecodable === undefined ? Effect.void : undecodable(call), unprocessable(problem)),
        onRight: ({ ignored, request }) =>
          Effect.flatMap(
            Effect.zipRight(call.noteIgnored(endpoint.name, ignored), handler(request, call)),
            (answer) => answer instanceof Reply ? Effect.succeed(answer) : reply(endpoint, answer)
          )
      }
    )
})

interface Match<R> {
  readonly route: Route<R>
  readonly params: Readonly<Record<string, string>>
}

const decodeSegment = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
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
      const params: Record<string, string> = {}
      for (const [i, name] of route.params.entries()) {
        const value = decodeSegment(match[i + 1] ?? "")
        if (value === undefined) return Either.left(badRequest("The path has a malformed percent-encoding"))
        params[name] = value
      }
      return Either.right({ route, params })
    }
    return Either.left(
      known
        ? new HttpFailure({ status: 405, detail: "Method Not Allowed" })
        : new HttpFailure({ status: 404, detail: "Not Found" })
    )
  }
}

const nobody: Caller = { urn: "", email: "", name: "", orgId: "", keyId: 0, keyName: "", key: undefined }

/** Whatever stands before the API in the path belongs to the address of the server. */
const split = (path: string): { readonly prefix: string; readonly rest: string } => {
  const at = /\/(oai\/)?api\/v1(\/|$)/.exec(path)?.index ?? 0
  return { prefix: path.slice(0, at), rest: path.slice(at) }
}

const failed = ({ detail, headers, status }: HttpFailure): Reply => json(status, { detail }, headers)

const internalError = json(500, { detail: "Internal Server Error" })

const truncated = (reply: Reply, bytes: number): Effect.Effect<Reply, Dropped> =>
  Effect.gen(function*() {
    const { body = new Uint8Array(0), headers, status } = reply
    const whole = body instanceof Uint8Array ? body : concat(yield* Stream.runCollect(body))
    return new Reply({
      status,
      headers: { ...headers, "content-length": String(whole.length) },
      body: Stream.concat(Stream.make(whole.slice(0, bytes)), Stream.fail(new Dropped()))
    })
  })

const injected = ({ body, headers, status }: Fault & { readonly _tag: "Status" }): Reply =>
  body instanceof Uint8Array
    ? new Reply({ status, headers: headers ?? {}, body })
    : json(status, body ?? { detail: "Injected fault" }, headers)

/** A client could send any number of names; as many are remembered, and later ones are not logged. */
const maxIgnoredFields = 200

const makeNoteIgnored = (): Call["noteIgnored"] => {
  const known = new Set<string>()
  return (endpoint, fields) =>
    Effect.forEach(fields, (field) => {
      const name = `${endpoint}.${field.slice(0, 100)}`
      if (known.has(name) || known.size >= maxIgnoredFields) return Effect.void
      known.add(name)
      return Effect.logInfo(
        `Ignoring ${JSON.stringify(name)}: a field of a newer client, which this server does not know`
      )
    }, { discard: true })
}

/** Bytes that callers without a key may send. */
const anonymousBodyBytes = 64 * 1024

/** @internal */
export const makeHandle = <R>(options: {
  readonly routes: ReadonlyArray<Route<R>>
  readonly accounts: AccountsShape
  readonly faults: FaultsService
  readonly limits: Limits
}): (incoming: Incoming) => Effect.Effect<Reply, Dropped, R> => {
  const { accounts, faults, limits } = options
  const router = makeRouter(options.routes)
  const bodies = Permits.unsafeMake(limits.bufferedBytes)
  const noteIgnored = makeNoteIgnored()
  let served = 0

  const credential = (auth: Route<R>["auth"], headers: Incoming["headers"]): string | undefined =>
    headers["x-api-key"] ?? (auth === "bearer" ? headers["authorization"]?.replace(/^Bearer\s+/i, "") : undefined)

  /** Bodies are read within a budget for all of them; the rest waits in the sockets. */
  const bodyOf = (incoming: Incoming, limit: number) =>
    bodies.withPermits(reservation(incoming.headers, limit))(
      Effect.flatMap(
        readBody(incoming, limit),
        (body) => unpack(body, incoming.headers["content-encoding"], limit)
      )
    )

  const serve = Effect.fnUntraced(function*({ params, route }: Match<R>, incoming: Incoming, base: string) {
    const { headers, url } = incoming
    const known = route.auth !== "none"
    const caller = known ? yield* accounts.authenticate(credential(route.auth, headers)) : nobody
    const body = yield* bodyOf(incoming, known ? limits.bodyBytes : anonymousBodyBytes)
    return yield* route.handle(
      { caller, headers, base, body, noteIgnored },
      params,
      Object.fromEntries(url.searchParams)
    )
  })

  return Effect.fnUntraced(function*(incoming) {
    const { prefix, rest } = split(incoming.url.pathname)
    const head = incoming.method === "HEAD"
    const match = router(head ? "GET" : incoming.method, rest)
    const plan = yield* faults.decide(Either.isRight(match) ? match.right.route.name : "unknown")
    for (const fault of plan) {
      if (fault._tag === "Delay") yield* Effect.sleep(fault.duration)
      if (fault._tag === "Drop" && fault.when === "before") return yield* new Dropped()
      if (fault._tag === "Status" && fault.when !== "after") return injected(fault)
    }
    let reply = yield* Effect.flatMap(match, (found) => serve(found, incoming, incoming.url.origin + prefix)).pipe(
      Effect.catchTags({
        HttpFailure: (failure) => Effect.succeed(failed(failure)),
        StorageFailed: (error) =>
          Effect.as(Effect.logError("Storage failed", error), json(500, { detail: error.message }))
      }),
      Effect.catchAllDefect((defect) => Effect.as(Effect.logError("A request died", defect), internalError))
    )
    for (const fault of plan) {
      if (fault._tag === "Drop") return yield* new Dropped()
      if (fault._tag === "Status") return injected(fault)
      if (fault._tag === "Truncate") reply = yield* truncated(reply, fault.bytes)
    }
    const length = reply.body instanceof Uint8Array ? { "content-length": String(reply.body.length) } : {}
    return new Reply({
      status: reply.status,
      headers: { "x-request-id": `local-${++served}`, ...length, ...reply.headers },
      body: head ? undefined : reply.body
    })
  })
}
