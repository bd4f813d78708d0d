/**
 * Annotations of the SDK's log lines, so that programs can recognise and filter them.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Scope from "effect/Scope"
import * as QueueState from "../../QueueState.js"
import type { Request, Service } from "../../TinkerTransport.js"

/**
 * Lines of this module, and what else is known as fields.
 *
 * @internal
 */
export const of = (module: string, fields: Readonly<Record<string, unknown>> = {}) =>
  Effect.annotateLogs({ ...fields, package: "effect-tinker", module })

// -----------------------------------------------------------------------------
// What servers say, before it is shown or logged.
// -----------------------------------------------------------------------------

/** Patterns of credentials: keys of Tinker and of the Hugging Face hub, JSON web tokens, bearer headers. */
const credentials = /\b(?:tml-|hf_)[\w-]{6,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|\b(Bearer\s+)[\w.~+/-]{8,}=*/gi

/** Line ends forge log lines, escapes move the cursor, and marks of direction reorder what is read. */
const controls = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu

const longest = 2_000

/**
 * A message of a server in one line: without the given secrets or anything that looks like one, without control
 * characters, and not too long.
 *
 * @internal
 */
export const said = (text: string, secrets: ReadonlyArray<string> = []): string => {
  const blanked = secrets.reduce((all, secret) => secret === "" ? all : all.replaceAll(secret, "<redacted>"), text)
    .replace(credentials, (_, bearer: string | undefined) => `${bearer ?? ""}<redacted>`)
    .replace(controls, (char) => /\s/.test(char) ? " " : "\ufffd")
  return blanked.length > longest ? `${blanked.slice(0, longest)}…` : blanked
}

/**
 * The same for text whose lines are kept.
 *
 * @internal
 */
export const saidLines = (text: string, secrets: ReadonlyArray<string> = []): string =>
  text.split("\n").map((line) => said(line, secrets)).join("\n")

// -----------------------------------------------------------------------------
// HTTP traffic as log lines, if `log` (TINKER_LOG) is set: one for each response, and with `debug` one
// for each request and each failure as well. Headers and bodies are never among it.
// -----------------------------------------------------------------------------

const plain = (path: string): string => path.replace(/\?.*$/, "")

/** Logged whatever the program's minimum log level is: the setting asks for it explicitly. */
const info = (text: string) => Effect.logInfo(text).pipe(Logger.withMinimumLogLevel(LogLevel.Info), of("Wire"))
const debug = (text: string) => Effect.logDebug(text).pipe(Logger.withMinimumLogLevel(LogLevel.Debug), of("Wire"))

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

// -----------------------------------------------------------------------------
// Log lines while an operation waits: the first at once, a change at once, and otherwise one a minute, however many
// operations wait.
// -----------------------------------------------------------------------------

/** @internal */
export type Report = (event: QueueState.Event) => Effect.Effect<void>

const interval = 60_000

/** A single failed poll is not worth a log line: the next one usually succeeds. */
const quietFailures = 1

const kindOf = (event: QueueState.Event): string => event._tag === "Queued" ? event.state : event._tag

/**
 * @param label whose operations these are
 * @internal
 */
export const makeQueueLog = (label: string): Report => {
  let lastKind = "active"
  let lastTime = Number.NEGATIVE_INFINITY
  return (event) => {
    if (event._tag === "Retrying" && event.attempt <= quietFailures) return Effect.void
    const kind = kindOf(event)
    if (kind === "active" && lastKind === "active") return Effect.void
    return Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (kind === lastKind && now - lastTime < interval) return Effect.void
      // Many operations may disagree on their state: alternation does not lift the limit.
      if (kind !== lastKind && kind !== "active" && lastKind !== "active" && now - lastTime < interval / 10) {
        return Effect.void
      }
      lastKind = kind
      lastTime = now
      const line = `${label}: ${QueueState.describe(event)}`
      return QueueState.isPaused(event) ? Effect.logWarning(line) : Effect.logInfo(line)
    }).pipe(of("QueueState", {
      requestId: event.requestId,
      requestType: event.requestType,
      state: kind,
      elapsed: Duration.toMillis(event.elapsed)
    }))
  }
}
