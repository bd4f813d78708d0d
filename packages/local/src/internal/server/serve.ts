/**
 * From a request to its answer: route, caller, body, handler, and the faults that come between.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import type { Fault, Service as FaultsService } from "../../Faults.js"
import type { AccountsShape, Caller } from "./accounts.js"
import type { HttpFailure } from "./failure.js"
import type { Incoming } from "./message.js"
import { concat, Dropped, json, Reply } from "./message.js"
import type { Match, Route } from "./route.js"
import { makeRouter } from "./route.js"
import { unpack } from "./unpack.js"

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

/** @internal */
export const makeHandle = <R>(options: {
  readonly routes: ReadonlyArray<Route<R>>
  readonly accounts: AccountsShape
  readonly faults: FaultsService
}): (incoming: Incoming) => Effect.Effect<Reply, Dropped, R> => {
  const { accounts, faults } = options
  const router = makeRouter(options.routes)
  let served = 0

  const credential = (auth: Route<R>["auth"], headers: Incoming["headers"]): string | undefined =>
    headers["x-api-key"] ?? (auth === "bearer" ? headers["authorization"]?.replace(/^Bearer\s+/i, "") : undefined)

  const serve = Effect.fnUntraced(function*({ params, route }: Match<R>, incoming: Incoming, base: string) {
    const { headers, url } = incoming
    const caller = route.auth === "none"
      ? nobody
      : yield* accounts.authenticate(credential(route.auth, headers))
    const body = yield* unpack(incoming.body, headers["content-encoding"])
    return yield* route.handle({ caller, headers, base, body }, params, Object.fromEntries(url.searchParams))
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
        StorageFailed: (error) => Effect.as(Effect.logError("Storage failed", error), internalError)
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
