/**
 * HTTP/2 where the server offers it: directly over streams of `node:http2`.
 *
 * Chosen by measurement (`npm run bench -- http2`): undici's own HTTP/2 costs more than its HTTP/1.1, and shares
 * connections only in some cases. What many sockets would cost, hundreds of held polls, travels here over a few.
 *
 * @since 0.1.0
 */
import type { ClientHttp2Stream, IncomingHttpHeaders, IncomingHttpStatusHeader } from "node:http2"
import { constants } from "node:http2"
import type { Pool } from "../../Endpoint.js"
import * as TinkerTransport from "../../TinkerTransport.js"
import { concat } from "../transport/bytes.js"
import type { Authorities } from "./authorities.js"
import { hasProxy, keepAlive } from "./dispatchers.js"
import * as Failures from "./failures.js"
import type { Pending, Session } from "./sessions.js"
import { Sessions } from "./sessions.js"
import type { Settings } from "./settings.js"

/** @internal */
export interface Http2 {
  /** Undefined where HTTP/1.1 has to be used. */
  readonly send: (...args: Parameters<TinkerTransport.UnsafeSend>) => TinkerTransport.InFlight | undefined
  readonly reset: (pool: Pool) => void
  readonly destroy: () => void
}

/**
 * Where many wait at once for little. A large body is sent faster over a connection of its own, which no window of the
 * server's throttles, and the others need few connections anyway.
 */
const pools = new Set<Pool>(["sampling", "futures"])

const single = (headers: IncomingHttpHeaders): Record<string, string | undefined> => {
  const result: Record<string, string | undefined> = {}
  for (const name in headers) {
    const value = headers[name]
    if (!name.startsWith(":")) result[name] = Array.isArray(value) ? value.join(", ") : value
  }
  return result
}

class Http2Request implements Pending, TinkerTransport.InFlight {
  isDone = false
  private stream: ClientHttp2Stream | undefined
  private readonly chunks: Array<Uint8Array> = []
  private size = 0
  private status = 0
  private headers: Record<string, string | undefined> = {}
  private readonly startedAt: number
  private overHttp1: TinkerTransport.InFlight | undefined
  constructor(
    private readonly request: TinkerTransport.Request,
    private readonly sessions: Sessions,
    private readonly now: () => number,
    private readonly http1: TinkerTransport.UnsafeSend,
    private readonly done: Parameters<TinkerTransport.UnsafeSend>[1]
  ) {
    this.startedAt = now()
  }

  useHttp1(): void {
    if (this.isDone) return
    this.isDone = true
    this.overHttp1 = this.http1(this.request, this.done)
  }

  fail(error: TinkerTransport.TransportError): void {
    if (this.isDone) return
    this.cancel()
    this.done(error)
  }

  /** Ends the stream, if there is one; its session goes on. */
  cancel(): void {
    this.isDone = true
    this.overHttp1?.cancel()
    this.stream?.close(constants.NGHTTP2_CANCEL)
  }

  /** A stream that is reset ends as well, with or without an error, and before or after its answer. */
  private isWhole(stream: ClientHttp2Stream): boolean {
    const announced = this.headers["content-length"]
    return this.status !== 0 && stream.rstCode === constants.NGHTTP2_NO_ERROR &&
      (announced === undefined || Number(announced) === this.size)
  }

  start(session: Session): void {
    const { body, headers, maxBytes, method, path, timeout } = this.request
    const bytes = body === undefined ? 0 : typeof body === "string" ? Buffer.byteLength(body) : body.length
    let stream: ClientHttp2Stream
    try {
      stream = session.http2.request({
        ...headers,
        ":method": method,
        ":path": path,
        ...(body === undefined ? {} : { "content-length": String(bytes) })
      }, { endStream: body === undefined })
    } catch (error) {
      return this.fail(Failures.from(error, timeout))
    }
    this.stream = stream
    if (session.streams++ === 0) session.http2.ref()
    stream.setTimeout(timeout, () => {
      this.fail(TinkerTransport.TransportError.timeout(timeout))
      this.sessions.suspect(session, this.startedAt)
    })
    stream.on("response", (headers: IncomingHttpHeaders & IncomingHttpStatusHeader) => {
      session.heard = this.now()
      this.status = headers[":status"] ?? 0
      this.headers = single(headers)
      if (Number(this.headers["content-length"] ?? 0) > maxBytes) {
        this.fail(TinkerTransport.TransportError.tooLarge(maxBytes))
      }
    })
    stream.on("data", (chunk: Uint8Array) => {
      session.heard = this.now()
      this.size += chunk.length
      if (this.size > maxBytes) this.fail(TinkerTransport.TransportError.tooLarge(maxBytes))
      else if (session.heard > this.startedAt + timeout) this.fail(TinkerTransport.TransportError.timeout(timeout))
      else this.chunks.push(chunk)
    })
    stream.on("error", (error) => this.fail(Failures.from(error, timeout)))
    stream.on("end", () => {
      if (this.isDone || !this.isWhole(stream)) return
      this.isDone = true
      this.done({ status: this.status, headers: this.headers, body: concat(this.chunks, this.size) })
    })
    stream.on("close", () => {
      this.sessions.left(session)
      // Without an error, and without an answer that is whole.
      this.fail(
        new TinkerTransport.TransportError("connection", "the connection ended before the response did", undefined)
      )
    })
    if (body !== undefined) stream.end(body)
  }
}

interface Origin {
  /** Whether the server has not declined HTTP/2. */
  offered: boolean
  readonly pools: Map<Pool, Sessions>
}

/**
 * Undefined where HTTP/2 was not asked for, and through a proxy. Without TLS it is never used: nobody can offer it.
 *
 * @internal
 */
export const make = (
  settings: Settings,
  authorities: Authorities,
  now: () => number,
  http1: TinkerTransport.UnsafeSend
): Http2 | undefined => {
  if (!settings.http2 || hasProxy(settings.proxy)) return undefined
  const origins = new Map<string, Origin>()
  const originOf = (url: string): Origin => {
    const known = origins.get(url)
    if (known !== undefined) return known
    const origin: Origin = { offered: url.startsWith("https:"), pools: new Map() }
    origins.set(url, origin)
    return origin
  }
  const sessionsOf = (url: string, origin: Origin, pool: Pool): Sessions => {
    const known = origin.pools.get(pool)
    if (known !== undefined) return known
    const sessions = new Sessions({
      origin: url,
      tls: authorities.tls(),
      connectTimeout: settings.connectTimeout,
      idle: keepAlive,
      onHttp1: () => {
        origin.offered = false
      }
    })
    origin.pools.set(pool, sessions)
    return sessions
  }
  return {
    send: (request, done) => {
      if (!pools.has(request.pool)) return undefined
      const origin = originOf(request.origin)
      if (!origin.offered) return undefined
      let pending: Http2Request | undefined
      try {
        const sessions = sessionsOf(request.origin, origin, request.pool)
        pending = new Http2Request(request, sessions, now, http1, done)
        sessions.take(pending)
        return pending
      } catch (error) {
        const failure = error instanceof TinkerTransport.TransportError ? error : Failures.from(error, request.timeout)
        if (pending === undefined) done(failure)
        else pending.fail(failure)
        return pending ?? { cancel: () => undefined }
      }
    },
    reset: (pool) => {
      for (const origin of origins.values()) origin.pools.get(pool)?.reset()
    },
    destroy: () => {
      for (const origin of origins.values()) for (const sessions of origin.pools.values()) sessions.destroy()
    }
  }
}
