/**
 * HTTP/2 where the server offers it: directly over streams of `node:http2`.
 *
 * Chosen by measurement (`npm run bench -- http2`): undici's own HTTP/2 costs more than its HTTP/1.1, and shares
 * connections only in some cases. What many sockets would cost, hundreds of held polls, travels here over a few.
 *
 * @since 0.1.0
 */
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders, IncomingHttpStatusHeader } from "node:http2"
import { connect, constants } from "node:http2"
import { isIP } from "node:net"
import * as tls from "node:tls"
import * as TinkerTransport from "../../TinkerTransport.js"
import type { Pool } from "../../wire/Endpoint.js"
import { concat } from "../transport/bytes.js"
import * as Connections from "./connections.js"
import type { Authorities, Settings } from "./connections.js"
import { hasProxy, keepAlive } from "./connections.js"

// -----------------------------------------------------------------------------
// The HTTP/2 sessions of one pool: opened as they are needed, each request on the one with the fewest streams.
//
// A session counts once its server has said how many streams it takes, because streams beyond that are refused. One
// that is going away takes no more requests; those it has, it ends.
// -----------------------------------------------------------------------------

interface Session {
  readonly http2: ClientHttp2Session
  /** Requests on it. */
  streams: number
  /** When anything last arrived on it, in milliseconds. */
  heard: number
}

/** A request that wants a session. @internal */
interface Pending {
  /** Cancelled or over. */
  readonly isDone: boolean
  readonly start: (session: Session) => void
  /** The server speaks HTTP/1.1 only. */
  readonly useHttp1: () => void
  readonly fail: (error: TinkerTransport.TransportError) => void
}

interface SessionSettings {
  readonly origin: string
  readonly tls: { readonly secureContext?: tls.SecureContext }
  /** Milliseconds. */
  readonly connectTimeout: number
  /** Milliseconds without a request after which a session is closed. */
  readonly idle: number
  /** Called when the server chooses HTTP/1.1. */
  readonly onHttp1: () => void
}

/** Number that servers usually grant; with more on one connection, a lost packet would hold up too many. */
const usualStreams = 100

/**
 * Bytes that a server may send before we have read them. The default of 64 KiB would make every larger response wait for a round
 * trip, and we read what arrives at once.
 */
const streamWindow = 4 * 1024 * 1024
const sessionWindow = 32 * 1024 * 1024

class Sessions {
  private readonly live = new Set<Session>()
  private readonly leaving = new Set<Session>()
  private readonly connecting = new Set<tls.TLSSocket>()
  private waiting: Array<Pending> = []
  private ticket: Buffer | undefined
  private closed = false
  constructor(private readonly settings: SessionSettings) {}

  take(request: Pending): void {
    if (this.closed) return request.fail(Connections.closed)
    const session = this.least()
    if (session !== undefined) return request.start(session)
    this.waiting.push(request)
    this.grow()
  }

  /** Called when a request that was started on it is over. */
  left(session: Session): void {
    session.streams--
    if (session.streams === 0) session.http2.unref()
    this.admit()
  }

  /** A session on which a request timed out while nothing else arrived is probably dead. */
  suspect(session: Session, since: number): void {
    if (session.heard < since) this.retire(session)
  }

  reset(): void {
    for (const session of this.live) this.retire(session)
  }

  destroy(): void {
    this.closed = true
    for (const socket of this.connecting) socket.destroy()
    for (const { http2 } of [...this.live, ...this.leaving]) http2.destroy()
    this.refuse(Connections.closed)
  }

  private least(): Session | undefined {
    let least: Session | undefined
    for (const session of this.live) {
      const room = Math.min(usualStreams, session.http2.remoteSettings.maxConcurrentStreams ?? usualStreams)
      if (session.streams < room && (least === undefined || session.streams < least.streams)) least = session
    }
    return least
  }

  private admit(): void {
    while (this.waiting.length > 0) {
      const session = this.least()
      if (session === undefined) return this.grow()
      const request = this.waiting.shift()
      if (request?.isDone === false) request.start(session)
    }
  }

  /** Until the first session is established, HTTP/2 may not be available at all, so only one is tried. */
  private grow(): void {
    this.waiting = this.waiting.filter((request) => !request.isDone)
    const needed = this.live.size === 0 ? 1 : Math.ceil(this.waiting.length / usualStreams)
    while (this.waiting.length > 0 && this.connecting.size < needed) this.open()
  }

  private refuse(error: TinkerTransport.TransportError): void {
    const requests = this.waiting
    this.waiting = []
    for (const request of requests) request.fail(error)
  }

  private retire(session: Session): void {
    if (!this.live.delete(session)) return
    this.leaving.add(session)
    session.http2.close()
  }

  private open(): void {
    const { connectTimeout, onHttp1, origin } = this.settings
    const { hostname, port } = new URL(origin)
    const host = hostname.replace(/^\[|\]$/g, "")
    const socket = tls.connect({
      host,
      port: port === "" ? 443 : Number(port),
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(this.ticket === undefined ? {} : { session: this.ticket }),
      ...this.settings.tls,
      ALPNProtocols: ["h2", "http/1.1"]
    })
    this.connecting.add(socket)
    const failed = (error: TinkerTransport.TransportError) => {
      // Other sessions will free up streams; the server may simply refuse more connections.
      if (this.connecting.delete(socket) && this.live.size === 0) this.refuse(error)
      socket.destroy()
    }
    socket.setKeepAlive(true, this.settings.idle)
    socket.setTimeout(connectTimeout, () => failed(Connections.notAccepted(undefined)))
    socket.on("session", (ticket: Buffer) => {
      this.ticket = ticket
    })
    socket.on("error", (error) => failed(Connections.from(error, connectTimeout)))
    socket.on("close", () => failed(Connections.from(new Error("the host closed the connection"), connectTimeout)))
    socket.once("secureConnect", () => {
      if (socket.alpnProtocol === "h2") return this.begin(socket)
      this.connecting.delete(socket)
      socket.destroy()
      onHttp1()
      const requests = this.waiting
      this.waiting = []
      for (const request of requests) request.useHttp1()
    })
  }

  private begin(socket: tls.TLSSocket): void {
    const http2 = connect(this.settings.origin, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: streamWindow }
    })
    const session: Session = { http2, streams: 0, heard: 0 }
    const gone = () => {
      this.live.delete(session)
      this.leaving.delete(session)
      this.admit()
    }
    // An error of the session also fails its streams, and each stream reports it to its own request.
    http2.on("error", () => undefined)
    http2.on("goaway", () => this.retire(session))
    http2.on("close", gone)
    http2.once("remoteSettings", () => {
      socket.setTimeout(0)
      this.connecting.delete(socket)
      if (this.closed) return http2.destroy()
      http2.setLocalWindowSize(sessionWindow)
      http2.setTimeout(this.settings.idle, () => {
        if (session.streams === 0) this.retire(session)
      })
      http2.unref()
      this.live.add(session)
      this.admit()
    })
  }
}

// -----------------------------------------------------------------------------
// The HTTP/2 transport.
// -----------------------------------------------------------------------------

interface Http2 {
  /** Undefined where HTTP/1.1 has to be used. */
  readonly send: (...args: Parameters<TinkerTransport.UnsafeSend>) => TinkerTransport.InFlight | undefined
  readonly reset: (pool: Pool) => void
  readonly destroy: () => void
}

/**
 * Pools in which many small requests wait at once. A large body is faster over a separate connection, where no flow-control
 * window throttles it, and the other pools need few connections anyway.
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

  /** A stream that is reset ends as well, with or without an error, and before or after its response. */
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
      return this.fail(Connections.from(error, timeout))
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
    stream.on("error", (error) => this.fail(Connections.from(error, timeout)))
    stream.on("end", () => {
      if (this.isDone || !this.isWhole(stream)) return
      this.isDone = true
      this.done({ status: this.status, headers: this.headers, body: concat(this.chunks, this.size) })
    })
    stream.on("close", () => {
      this.sessions.left(session)
      // Ended without an error, but before the response was complete.
      this.fail(
        new TinkerTransport.TransportError({
          reason: "connection",
          description: "the connection ended before the response did"
        })
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
 * Undefined where HTTP/2 was not requested, and through a proxy. Never used without TLS, which is needed to negotiate it.
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
        const failure = error instanceof TinkerTransport.TransportError
          ? error
          : Connections.from(error, request.timeout)
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
