/**
 * HTTP/2 where the server offers it: directly over streams of `node:http2`.
 *
 * Chosen by measurement (`npm run bench -- http2`): undici's own HTTP/2 costs more than its HTTP/1.1, and shares
 * connections only in some cases. What many sockets would cost, hundreds of held polls, travels here over a few.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import type { ClientHttp2Stream, IncomingHttpHeaders, IncomingHttpStatusHeader } from "node:http2"
import { constants } from "node:http2"
import type { Pool } from "../../Endpoint.js"
import type * as TinkerConfig from "../../TinkerConfig.js"
import * as Exchange from "../exchange.js"
import type { Authorities } from "./authorities.js"
import { hasProxy, keepAlive } from "./dispatchers.js"
import * as Failures from "./failures.js"
import type { Guest, Session } from "./sessions.js"
import { Sessions } from "./sessions.js"

/** @internal */
export interface Http2 {
  /** Undefined where HTTP/1.1 is the one to ask. */
  readonly dispatch: (...args: Parameters<Exchange.Dispatch>) => Exchange.Flight | undefined
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

class Whole implements Guest, Exchange.Flight {
  dead = false
  private stream: ClientHttp2Stream | undefined
  private readonly chunks: Array<Uint8Array> = []
  private size = 0
  private status = 0
  private headers: Record<string, string | undefined> = {}
  private readonly start: number
  private detour: Exchange.Flight | undefined
  constructor(
    private readonly request: Exchange.Request,
    private readonly sessions: Sessions,
    private readonly now: () => number,
    private readonly elsewhere: Exchange.Dispatch,
    private readonly done: Parameters<Exchange.Dispatch>[1]
  ) {
    this.start = now()
  }

  turnAway(): void {
    if (this.dead) return
    this.dead = true
    this.detour = this.elsewhere(this.request, this.done)
  }

  fail(error: Exchange.WireError): void {
    if (this.dead) return
    this.abandon()
    this.done(error)
  }

  /** Ends the stream, if there is one; its session goes on. */
  abandon(): void {
    this.dead = true
    this.detour?.abandon()
    this.stream?.close(constants.NGHTTP2_CANCEL)
  }

  /** A stream that is reset ends as well, with or without an error, and before or after its answer. */
  private isWhole(stream: ClientHttp2Stream): boolean {
    const announced = this.headers["content-length"]
    return this.status !== 0 && stream.rstCode === constants.NGHTTP2_NO_ERROR &&
      (announced === undefined || Number(announced) === this.size)
  }

  enter(session: Session): void {
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
      this.fail(Exchange.timedOut(timeout))
      this.sessions.suspect(session, this.start)
    })
    stream.on("response", (headers: IncomingHttpHeaders & IncomingHttpStatusHeader) => {
      session.heard = this.now()
      this.status = headers[":status"] ?? 0
      this.headers = single(headers)
      if (Number(this.headers["content-length"] ?? 0) > maxBytes) this.fail(Exchange.tooLarge(maxBytes))
    })
    stream.on("data", (chunk: Uint8Array) => {
      session.heard = this.now()
      this.size += chunk.length
      if (this.size > maxBytes) this.fail(Exchange.tooLarge(maxBytes))
      else if (session.heard > this.start + timeout) this.fail(Exchange.timedOut(timeout))
      else this.chunks.push(chunk)
    })
    stream.on("error", (error) => this.fail(Failures.from(error, timeout)))
    stream.on("end", () => {
      if (this.dead || !this.isWhole(stream)) return
      this.dead = true
      this.done({ status: this.status, headers: this.headers, body: Exchange.concat(this.chunks, this.size) })
    })
    stream.on("close", () => {
      this.sessions.left(session)
      // Without an error, and without an answer that is whole.
      this.fail(new Exchange.WireError("connection", "the connection ended before the answer did", undefined))
    })
    if (body !== undefined) stream.end(body)
  }
}

/**
 * Nothing where it cannot be spoken: without TLS nobody can offer it, and through a proxy it stays with HTTP/1.1.
 *
 * @internal
 */
export const make = (
  config: TinkerConfig.Service,
  authorities: Authorities,
  now: () => number,
  http1: Exchange.Dispatch
): Http2 | undefined => {
  const { origin, protocol } = new URL(config.baseUrl)
  if (!config.http2 || protocol !== "https:" || hasProxy(config.proxy)) return undefined
  const open = new Map<Pool, Sessions>()
  let offered = true
  const sessionsOf = (pool: Pool): Sessions => {
    const known = open.get(pool)
    if (known !== undefined) return known
    const sessions = new Sessions({
      origin,
      tls: authorities.tls(),
      connectTimeout: Duration.toMillis(config.connectTimeout),
      idle: keepAlive,
      onHttp1: () => {
        offered = false
      }
    })
    open.set(pool, sessions)
    return sessions
  }
  return {
    dispatch: (request, done) => {
      if (!offered || request.origin !== origin || !pools.has(request.pool)) return undefined
      let guest: Whole | undefined
      try {
        const sessions = sessionsOf(request.pool)
        guest = new Whole(request, sessions, now, http1, done)
        sessions.take(guest)
        return guest
      } catch (error) {
        const failure = error instanceof Exchange.WireError ? error : Failures.from(error, request.timeout)
        if (guest === undefined) done(failure)
        else guest.fail(failure)
        return guest ?? Exchange.landed
      }
    },
    reset: (pool) => open.get(pool)?.reset(),
    destroy: () => {
      for (const sessions of open.values()) sessions.destroy()
    }
  }
}
