/**
 * Node's transport: `Effect.async` directly over undici's `dispatch`, one dispatcher for each pool.
 *
 * There is no stream, abort signal or timer per request: undici times the head and every silence, and the total is
 * checked whenever data arrives. A request cancelled while it waits for a socket is marked as such, because undici
 * would send it otherwise.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as zlib from "node:zlib"
import type { Dispatcher } from "undici"
import * as TinkerTransport from "../../TinkerTransport.js"
import { concat } from "../transport/bytes.js"
import * as Connections from "./connections.js"
import type { Settings } from "./connections.js"
import * as Http2 from "./http2.js"

// -----------------------------------------------------------------------------
// zstd from Node's own zlib, which has it since 22.15.
// -----------------------------------------------------------------------------

type Compress = (body: Uint8Array, callback: (error: Error | null, packed: Uint8Array) => void) => void

const isCompress = (u: unknown): u is Compress => typeof u === "function"

const native: unknown = "zstdCompress" in zlib ? zlib.zstdCompress : undefined

/**
 * A body that cannot be compressed is a defect: any bytes can be.
 */
const compress: ((body: Uint8Array) => Effect.Effect<Uint8Array>) | undefined = isCompress(native)
  ? (body) =>
    Effect.async<Uint8Array>((resume) => {
      native(body, (error, packed) => resume(error === null ? Effect.succeed(packed) : Effect.die(error)))
    })
  : undefined

// -----------------------------------------------------------------------------
// The undici transport.
// -----------------------------------------------------------------------------

type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2]

const cancelled = new Error("cancelled")

const thrown = (error: unknown, request: TinkerTransport.Request): TinkerTransport.TransportError =>
  error instanceof TinkerTransport.TransportError ? error : Connections.from(error, request.timeout)

const isSingle = (headers: Headers): headers is Record<string, string | undefined> => {
  for (const name in headers) if (Array.isArray(headers[name])) return false
  return true
}

const single = (headers: Headers): Record<string, string | undefined> => {
  // Repeated headers are rare, and copying all headers for every response is not free.
  if (isSingle(headers)) return headers
  const result: Record<string, string | undefined> = {}
  for (const name in headers) {
    const value = headers[name]
    result[name] = typeof value === "string" ? value : value?.join(", ")
  }
  return result
}

const dispatchOptions = (request: TinkerTransport.Request): Dispatcher.DispatchOptions => ({
  origin: request.origin,
  path: request.path,
  method: request.method,
  headers: request.headers,
  body: request.body ?? null,
  headersTimeout: request.timeout,
  bodyTimeout: request.timeout
})

/** Shared by whole and streamed responses. A request may be cancelled before undici provides its controller. */
abstract class Handler implements Dispatcher.DispatchHandler, TinkerTransport.InFlight {
  protected controller: Dispatcher.DispatchController | undefined
  protected isDone = false
  protected status = 0
  protected headers: Record<string, string | undefined> = {}
  constructor(protected readonly request: TinkerTransport.Request) {}

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.isDone) controller.abort(cancelled)
    else this.controller = controller
  }

  cancel(): void {
    this.isDone = true
    this.controller?.abort(cancelled)
  }
}

class WholeResponse extends Handler {
  private readonly chunks: Array<Buffer> = []
  private size = 0
  private readonly deadline: number
  constructor(
    request: TinkerTransport.Request,
    private readonly clock: Clock.Clock,
    private readonly done: (result: TinkerTransport.Response | TinkerTransport.TransportError) => void
  ) {
    super(request)
    this.deadline = clock.unsafeCurrentTimeMillis() + request.timeout
  }

  fail(error: TinkerTransport.TransportError): void {
    if (this.isDone) return
    this.cancel()
    this.done(error)
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    this.status = status
    this.headers = single(headers)
    if (Number(this.headers["content-length"] ?? 0) > this.request.maxBytes) {
      this.fail(TinkerTransport.TransportError.tooLarge(this.request.maxBytes))
    }
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.size += chunk.length
    if (this.size > this.request.maxBytes) this.fail(TinkerTransport.TransportError.tooLarge(this.request.maxBytes))
    else if (this.clock.unsafeCurrentTimeMillis() > this.deadline) {
      this.fail(TinkerTransport.TransportError.timeout(this.request.timeout))
    } else this.chunks.push(chunk)
  }

  onResponseEnd(): void {
    if (this.isDone) return
    this.isDone = true
    this.done({ status: this.status, headers: this.headers, body: concat(this.chunks, this.size) })
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.fail(Connections.from(error, this.request.timeout))
  }
}

class StreamedResponse extends Handler {
  private readonly chunks: Array<Uint8Array> = []
  private ended: TinkerTransport.TransportError | "end" | undefined
  private waiting: (() => void) | undefined
  constructor(
    request: TinkerTransport.Request,
    private readonly onHead: (
      result: Effect.Effect<TinkerTransport.ResponseHead, TinkerTransport.TransportError>
    ) => void
  ) {
    super(request)
  }

  private wake(): void {
    const { waiting } = this
    this.waiting = undefined
    waiting?.()
  }

  private end(how: TinkerTransport.TransportError | "end"): void {
    this.ended ??= how
    this.isDone = true
    this.wake()
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    this.onHead(Effect.succeed({ status, headers: single(headers) }))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // undici delivers an empty chunk when it resumes; pausing for it would loop forever.
    if (chunk.length === 0) return
    this.chunks.push(chunk)
    controller.pause()
    this.wake()
  }

  onResponseEnd(): void {
    this.end("end")
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.isDone) return
    const failure = Connections.from(error, this.request.timeout)
    this.onHead(Effect.fail(failure))
    this.end(failure)
  }

  private readonly take: Effect.Effect<Uint8Array, Option.Option<TinkerTransport.TransportError>> = Effect.suspend(
    () => {
      const chunk = this.chunks.shift()
      if (chunk !== undefined) return Effect.succeed(chunk)
      if (this.ended === "end") return Effect.fail(Option.none())
      return this.ended === undefined ? this.more : Effect.fail(Option.some(this.ended))
    }
  )

  private readonly more: Effect.Effect<Uint8Array, Option.Option<TinkerTransport.TransportError>> = Effect.flatMap(
    Effect.async<void>((resume) => {
      this.waiting = () => resume(Effect.void)
      // Not from within a parser callback, where this may run: undici resumes no parser while another one is active.
      queueMicrotask(() => this.controller?.resume())
    }),
    () => this.take
  )

  readonly body: Stream.Stream<Uint8Array, TinkerTransport.TransportError> = Stream.repeatEffectOption(this.take)
}

/** @internal */
export const make = (settings: Settings): Effect.Effect<TinkerTransport.Service, never, Scope.Scope> =>
  Effect.gen(function*() {
    const clock = yield* Effect.clock
    const now = () => clock.unsafeCurrentTimeMillis()
    const authorities = Connections.makeAuthorities(settings.caFile)
    const dispatchers = yield* Effect.acquireRelease(
      Effect.sync(() => Connections.makeDispatchers(settings, authorities)),
      (dispatchers) => Effect.promise(() => dispatchers.destroy())
    )

    const http1: TinkerTransport.UnsafeSend = (request, done) => {
      const handler = new WholeResponse(request, clock, done)
      try {
        dispatchers.get(request.pool).dispatch(dispatchOptions(request), handler)
      } catch (error) {
        handler.fail(thrown(error, request))
      }
      return handler
    }

    const http2 = yield* Effect.acquireRelease(
      Effect.sync(() => Http2.make(settings, authorities, now, http1)),
      (http2) => Effect.sync(() => http2?.destroy())
    )

    const unsafeSend: TinkerTransport.UnsafeSend = http2 === undefined
      ? http1
      : (request, done) => http2.send(request, done) ?? http1(request, done)

    const stream: TinkerTransport.Service["stream"] = (request) => {
      let opened: StreamedResponse | undefined
      const head = Effect.async<TinkerTransport.ResponseHead, TinkerTransport.TransportError>((resume) => {
        const handler = opened = new StreamedResponse(request, resume)
        try {
          dispatchers.get(request.pool).dispatch(dispatchOptions(request), handler)
        } catch (error) {
          resume(Effect.fail(thrown(error, request)))
        }
      })
      return Effect.addFinalizer(() => Effect.sync(() => opened?.cancel())).pipe(
        Effect.zipRight(head),
        Effect.map((answer) => ({ ...answer, body: opened === undefined ? Stream.empty : opened.body }))
      )
    }

    return {
      send: TinkerTransport.fromUnsafeSend(unsafeSend),
      stream,
      reset: (pool) =>
        Effect.sync(() => {
          dispatchers.reset(pool)
          http2?.reset(pool)
        }),
      compress
    }
  })
