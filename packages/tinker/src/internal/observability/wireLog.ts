/**
 * What happens on the wire as log lines, for those who set `log` (TINKER_LOG): one for each answer, and with `debug` one
 * for each request and each failure as well. Headers and bodies are never among it.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Scope from "effect/Scope"
import type { Request, Service } from "../../TinkerTransport.js"
import * as Logs from "./logs.js"

const plain = (path: string): string => path.replace(/\?.*$/, "")

/** The setting is an order of its own, whatever level the program logs at. */
const info = (text: string) => Effect.logInfo(text).pipe(Logger.withMinimumLogLevel(LogLevel.Info), Logs.of("Wire"))
const debug = (text: string) => Effect.logDebug(text).pipe(Logger.withMinimumLogLevel(LogLevel.Debug), Logs.of("Wire"))

const logged = <A, E>(
  request: Request,
  all: boolean,
  send: Effect.Effect<A, E>,
  answer: (a: A) => string,
  failure: (e: E) => string
): Effect.Effect<A, E> =>
  Effect.gen(function*() {
    const what = `${request.method} ${plain(request.path)}`
    const start = yield* Clock.currentTimeMillis
    if (all) yield* debug(`${what}: ${request.body?.length ?? 0} bytes`)
    const since = Effect.map(Clock.currentTimeMillis, (now) => `after ${now - start} ms`)
    return yield* send.pipe(
      Effect.tap((a) => Effect.flatMap(since, (time) => info(`${what}: ${answer(a)} ${time}`))),
      Effect.tapError((e) =>
        all ? Effect.flatMap(since, (time) => debug(`${what}: ${failure(e)} ${time}`)) : Effect.void
      )
    )
  })

/** @internal */
export const logging = (transport: Service, level: "debug" | "info"): Service => ({
  ...transport,
  // Everything goes through `send`, which logs.
  unsafeSend: undefined,
  send: (request) =>
    logged(
      request,
      level === "debug",
      transport.send(request),
      (response) => `${response.status}, ${response.body.length} bytes,`,
      (error) => error.description
    ),
  stream: (request) =>
    Effect.scopeWith((scope) =>
      logged(
        request,
        level === "debug",
        Effect.provideService(transport.stream(request), Scope.Scope, scope),
        (response) => `${response.status}, a stream,`,
        (error) => error.description
      )
    )
})
