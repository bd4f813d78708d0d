/**
 * The lean wire of Node: `Effect.async` directly over undici's `dispatch`, one dispatcher for each pool.
 *
 * No stream, no abort signal and no timer of its own for each request: undici watches the head and every silence, and
 * the arrival of data is when we look at the total. A request interrupted while it still waits for a socket is marked
 * dead, because undici would send it otherwise.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Dispatcher } from "undici"
import * as Exchange from "../exchange.js"
import * as Authorities from "./authorities.js"
import * as Dispatchers from "./dispatchers.js"
import * as Failures from "./failures.js"
import * as Http2 from "./http2.js"
import { compress } from "./zstd.js"

type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2]

const abandoned = new Error("abandoned")

const thrown = (error: unknown, request: Exchange.Request): Exchange.WireError =>
  error instanceof Exchange.WireError ? error : Failures.from(error, request.timeout)

const isSingle = (headers: Headers): headers is Record<string, string | undefined> => {
  for (const name in headers) if (Array.isArray(headers[name])) return false
  return true
}

const single = (headers: Headers): Record<string, string | undefined> => {
  // A header that comes twice is rare, and copying them all for every answer is not free.
  if (isSingle(headers)) return headers
  const result: Record<string, string | undefined> = {}
  for (const name in headers) {
    const value = headers[name]
    result[name] = typeof value === "string" ? value : value?.join(", ")
  }
  return result
}

const dispatchOptions = (request: Exchange.Request): Dispatcher.DispatchOptions => ({
  origin: request.origin,
  path: request.path,
  method: request.method,
  headers: request.headers,
  body: request.body ?? null,
  headersTimeout: request.timeout,
  bodyTimeout: request.timeout
})

/** What both ways of reading have in common: knowing the controller, and being dead before it is known. */
abstract class Handler implements Dispatcher.DispatchHandler, Exchange.Flight {
  protected controller: Dispatcher.DispatchController | undefined
  protected dead = false
  protected status = 0
  protected headers: Record<string, string | undefined> = {}
  constructor(protected readonly request: Exchange.Request) {}

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.dead) controller.abort(abandoned)
    else this.controller = controller
  }

  abandon(): void {
    this.dead = true
    this.controller?.abort(abandoned)
  }
}

class Whole extends Handler {
  private readonly chunks: Array<Buffer> = []
  private size = 0
  private readonly deadline: number
  constructor(
    request: Exchange.Request,
    private readonly clock: Clock.Clock,
    private readonly done: (result: Exchange.Response | Exchange.WireError) => void
  ) {
    super(request)
    this.deadline = clock.unsafeCurrentTimeMillis() + request.timeout
  }

  fail(error: Exchange.WireError): void {
    if (this.dead) return
    this.abandon()
    this.done(error)
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    this.status = status
    this.headers = single(headers)
    if (Number(this.headers["content-length"] ?? 0) > this.request.maxBytes) {
      this.fail(Exchange.tooLarge(this.request.maxBytes))
    }
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.size += chunk.length
    if (this.size > this.request.maxBytes) this.fail(Exchange.tooLarge(this.request.maxBytes))
    else if (this.clock.unsafeCurrentTimeMillis() > this.deadline) this.fail(Exchange.timedOut(this.request.timeout))
    else this.chunks.push(chunk)
  }

  onResponseEnd(): void {
    if (this.dead) return
    this.dead = true
    this.done({ status: this.status, headers: this.headers, body: Exchange.concat(this.chunks, this.size) })
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.fail(Failures.from(error, this.request.timeout))
  }
}

class Flowing extends Handler {
  private readonly chunks: Array<Uint8Array> = []
  private ended: Exchange.WireError | "end" | undefined
  private waiting: (() => void) | undefined
  constructor(
    request: Exchange.Request,
    private readonly begin: (result: Effect.Effect<Exchange.Head, Exchange.WireError>) => void
  ) {
    super(request)
  }

  private wake(): void {
    const { waiting } = this
    this.waiting = undefined
    waiting?.()
  }

  private end(how: Exchange.WireError | "end"): void {
    this.ended ??= how
    this.dead = true
    this.wake()
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    this.begin(Effect.succeed({ status, headers: single(headers) }))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // undici hands over nothing when it resumes; to pause for that would be to turn in circles.
    if (chunk.length === 0) return
    this.chunks.push(chunk)
    controller.pause()
    this.wake()
  }

  onResponseEnd(): void {
    this.end("end")
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.dead) return
    const failure = Failures.from(error, this.request.timeout)
    this.begin(Effect.fail(failure))
    this.end(failure)
  }

  private readonly take: Effect.Effect<Uint8Array, Option.Option<Exchange.WireError>> = Effect.suspend(() => {
    const chunk = this.chunks.shift()
    if (chunk !== undefined) return Effect.succeed(chunk)
    if (this.ended === "end") return Effect.fail(Option.none())
    return this.ended === undefined ? this.more : Effect.fail(Option.some(this.ended))
  })

  private readonly more: Effect.Effect<Uint8Array, Option.Option<Exchange.WireError>> = Effect.flatMap(
    Effect.async<void>((resume) => {
      this.waiting = () => resume(Effect.void)
      // Not from within a parser's callback, where this may well run: undici resumes no parser while another works.
      queueMicrotask(() => this.controller?.resume())
    }),
    () => this.take
  )

  readonly body: Stream.Stream<Uint8Array, Exchange.WireError> = Stream.repeatEffectOption(this.take)
}

/** @internal */
export const make: Exchange.MakeWire = (config) =>
  Effect.gen(function*() {
    const clock = yield* Effect.clock
    const now = () => clock.unsafeCurrentTimeMillis()
    const authorities = Authorities.make(config)
    const dispatchers = yield* Effect.acquireRelease(
      Effect.sync(() => Dispatchers.make(config, authorities)),
      (dispatchers) => Effect.promise(() => dispatchers.destroy())
    )

    const http1: Exchange.Dispatch = (request, done) => {
      const handler = new Whole(request, clock, done)
      try {
        dispatchers.get(request.pool).dispatch(dispatchOptions(request), handler)
      } catch (error) {
        handler.fail(thrown(error, request))
      }
      return handler
    }

    const http2 = yield* Effect.acquireRelease(
      Effect.sync(() => Http2.make(config, authorities, now, http1)),
      (http2) => Effect.sync(() => http2?.destroy())
    )

    const dispatch: Exchange.Dispatch = http2 === undefined
      ? http1
      : (request, done) => http2.dispatch(request, done) ?? http1(request, done)

    const send: Exchange.Wire["send"] = (request) =>
      Effect.async((resume) => {
        const flight = dispatch(
          request,
          (result) => resume(result instanceof Exchange.WireError ? Effect.fail(result) : Effect.succeed(result))
        )
        return Effect.sync(() => flight.abandon())
      })

    const stream = (
      request: Exchange.Request
    ): Effect.Effect<
      Exchange.Head & { readonly body: Stream.Stream<Uint8Array, Exchange.WireError> },
      Exchange.WireError,
      Scope.Scope
    > =>
      Effect.flatMap(Effect.scope, () => {
        let opened: Flowing | undefined
        const head = Effect.async<Exchange.Head, Exchange.WireError>((resume) => {
          const handler = opened = new Flowing(request, resume)
          try {
            dispatchers.get(request.pool).dispatch(dispatchOptions(request), handler)
          } catch (error) {
            resume(Effect.fail(thrown(error, request)))
          }
        })
        return Effect.addFinalizer(() => Effect.sync(() => opened?.abandon())).pipe(
          Effect.zipRight(head),
          Effect.map((answer) => ({ ...answer, body: opened === undefined ? Stream.empty : opened.body }))
        )
      })

    return {
      send,
      dispatch,
      stream,
      reset: (pool) =>
        Effect.sync(() => {
          dispatchers.reset(pool)
          http2?.reset(pool)
        }),
      compress
    }
  })
