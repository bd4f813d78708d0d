/**
 * The HTTP/2 sessions of one pool: opened as they are needed, each request on the one with the fewest streams.
 *
 * A session counts once its server has said how many streams it takes, because streams beyond that are refused. One
 * that is going away takes no more requests; those it has, it ends.
 *
 * @since 0.1.0
 */
import type { ClientHttp2Session } from "node:http2"
import { connect } from "node:http2"
import { isIP } from "node:net"
import * as tls from "node:tls"
import type * as TinkerTransport from "../../TinkerTransport.js"
import * as Failures from "./failures.js"

/** @internal */
export interface Session {
  readonly http2: ClientHttp2Session
  /** Requests on it. */
  streams: number
  /** When anything last arrived on it, in milliseconds. */
  heard: number
}

/** A request that wants a session. @internal */
export interface Pending {
  /** Cancelled or over. */
  readonly isDone: boolean
  readonly start: (session: Session) => void
  /** The server speaks HTTP/1.1 only. */
  readonly useHttp1: () => void
  readonly fail: (error: TinkerTransport.TransportError) => void
}

/** @internal */
export interface Settings {
  readonly origin: string
  readonly tls: { readonly secureContext?: tls.SecureContext }
  /** Milliseconds. */
  readonly connectTimeout: number
  /** Milliseconds without a request after which a session is closed. */
  readonly idle: number
  /** Called when the server chooses HTTP/1.1. */
  readonly onHttp1: () => void
}

/** What servers usually grant; with more on one connection, a lost packet would hold up too many. */
const usualStreams = 100

/**
 * What a server may send before we have read it. The default of 64 KiB would make every larger answer wait for a round
 * trip, and we read what arrives at once.
 */
const streamWindow = 4 * 1024 * 1024
const sessionWindow = 32 * 1024 * 1024

/** @internal */
export class Sessions {
  private readonly live = new Set<Session>()
  private readonly leaving = new Set<Session>()
  private readonly connecting = new Set<tls.TLSSocket>()
  private waiting: Array<Pending> = []
  private ticket: Buffer | undefined
  private closed = false
  constructor(private readonly settings: Settings) {}

  take(request: Pending): void {
    if (this.closed) return request.fail(Failures.closed)
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

  /** A session on which a request timed out while nothing else arrived is probably connected to nobody. */
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
    this.refuse(Failures.closed)
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

  /** Until a first session is here nobody knows whether there will be one, so only one is tried. */
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
      // With other sessions there are streams to come: a server may well grant us no more connections.
      if (this.connecting.delete(socket) && this.live.size === 0) this.refuse(error)
      socket.destroy()
    }
    socket.setKeepAlive(true, this.settings.idle)
    socket.setTimeout(connectTimeout, () => failed(Failures.notAccepted(undefined)))
    socket.on("session", (ticket: Buffer) => {
      this.ticket = ticket
    })
    socket.on("error", (error) => failed(Failures.from(error, connectTimeout)))
    socket.on("close", () => failed(Failures.from(new Error("the host closed the connection"), connectTimeout)))
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
    // What breaks a session breaks its streams as well, and each of those tells its own request.
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
