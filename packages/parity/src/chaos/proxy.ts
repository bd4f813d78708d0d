/**
 * A TCP proxy that misbehaves: it knows just enough of HTTP/1.1 to tell where one request ends and the next begins, and
 * decides for each what happens to it.
 */
import type { Scope } from "effect"
import { Effect } from "effect"
import { PCGRandom } from "effect/Utils"
import * as Net from "node:net"

/** What happens to one request and its answer. */
export const faults = [
  /** Both directions wait. */
  "latency",
  /** The connection is reset before the server sees the request. */
  "resetBefore",
  /** The connection is reset when the answer comes. */
  "resetAfter",
  /** The answer ends in the middle, politely. */
  "truncate",
  /** Nothing arrives any more, and nobody says so. */
  "halfOpen",
  /** The server gets the request twice, the second time perhaps much later. */
  "duplicate",
  /** The answer trickles in. */
  "slowAnswer",
  /** The request trickles out. */
  "slowRequest"
] as const

export type Fault = typeof faults[number]

/** How often each strikes, 0 to 1. */
export type Rates = { readonly [F in Fault]?: number }

export interface Proxy {
  readonly port: number
  /** How often each has struck. */
  readonly struck: () => Readonly<Record<string, number>>
  /** Requests seen, by path. */
  readonly seen: () => Readonly<Record<string, number>>
}

const headEnd = Buffer.from("\r\n\r\n")

/** The length of the first whole request in these bytes, or nothing. */
export const requestLength = (bytes: Buffer): number | undefined => {
  const end = bytes.indexOf(headEnd)
  if (end < 0) return undefined
  const length = /^content-length: *(\d+)/im.exec(bytes.toString("latin1", 0, end))
  const total = end + headEnd.length + Number(length?.[1] ?? 0)
  return bytes.length < total ? undefined : total
}

/** `/api/v1/training_runs/…` → `training_runs`. */
const endpointOf = (request: Buffer): string => {
  const line = request.toString("latin1", 0, request.indexOf("\r\n"))
  return /\/api\/v1\/([a-z_]+(?:\/(?:config|dynamic_config))?)/.exec(line)?.[1] ?? "other"
}

/** Listens on a free port until the scope closes. */
export const make = (options: {
  readonly target: number
  readonly seed: number
  readonly rates: Rates
  /** Endpoints whose connections do not fall silent: a poll waits 45 s for an answer, too long for a short run. */
  readonly neverSilent?: ReadonlyArray<string> | undefined
}): Effect.Effect<Proxy, Error, Scope.Scope> =>
  Effect.gen(function*() {
    const struck: Record<string, number> = {}
    const seen: Record<string, number> = {}
    const sockets = new Set<Net.Socket>()
    const timers = new Set<NodeJS.Timeout>()
    let connections = 0

    const later = (millis: number, run: () => void) => {
      const timer = setTimeout(() => {
        timers.delete(timer)
        run()
      }, millis)
      timers.add(timer)
    }

    const keep = (socket: Net.Socket) => {
      sockets.add(socket)
      socket.setNoDelay(true)
      // what happens to a connection is told by its end
      socket.on("error", () => undefined)
      socket.on("close", () => sockets.delete(socket))
      return socket
    }

    const connect = () => keep(Net.connect(options.target, "127.0.0.1"))

    const draw = (random: PCGRandom, endpoint: string): Fault | undefined => {
      let chance = random.number()
      for (const fault of faults) {
        if (fault === "halfOpen" && options.neverSilent?.includes(endpoint) === true) continue
        chance -= options.rates[fault] ?? 0
        if (chance < 0) {
          struck[fault] = (struck[fault] ?? 0) + 1
          return fault
        }
      }
    }

    const trickle = (from: Buffer, to: Net.Socket, done: () => void) => {
      // about twenty pieces: slow enough to be seen, fast enough to end
      const size = Math.max(1, Math.ceil(from.length / 20))
      let at = 0
      const next = () => {
        if (to.destroyed) return
        to.write(from.subarray(at, at + size))
        at += size
        if (at < from.length) later(10, next)
        else done()
      }
      next()
    }

    const repeat = (request: Buffer, delay: number) =>
      later(delay, () => {
        const copy = connect()
        copy.write(request)
        copy.once("data", () => later(20, () => copy.destroy()))
        later(3_000, () => copy.destroy())
      })

    const serve = (client: Net.Socket) => {
      const random = new PCGRandom(options.seed, connections++)
      let server: Net.Socket | undefined
      let pending: Buffer = Buffer.alloc(0)
      let current: Fault | undefined
      let silent = false

      const answer = (chunk: Buffer) => {
        if (silent) return
        switch (current) {
          case "resetAfter":
            client.resetAndDestroy()
            server?.destroy()
            return
          case "truncate":
            client.end(chunk.subarray(0, Math.floor(chunk.length * random.number())))
            server?.destroy()
            return
          case "latency":
            return later(random.integer(150), () => client.write(chunk))
          case "slowAnswer":
            return trickle(chunk, client, () => undefined)
          default:
            client.write(chunk)
        }
      }

      const upstream = (): Net.Socket => {
        if (server !== undefined && !server.destroyed) return server
        const opened = server = connect()
        opened.on("data", answer)
        opened.on("close", () => {
          // what was said before the end still arrives
          if (server === opened && !silent) later(400, () => client.destroy())
        })
        return opened
      }

      const forward = (request: Buffer) => {
        const endpoint = endpointOf(request)
        seen[endpoint] = (seen[endpoint] ?? 0) + 1
        current = draw(random, endpoint)
        switch (current) {
          case "resetBefore":
            client.resetAndDestroy()
            server?.destroy()
            return
          case "halfOpen":
            silent = true
            // by chance the server sees it or not
            if (random.number() < 0.5) upstream().write(request)
            return
          case "duplicate": {
            const delay = random.number() < 0.5 ? 0 : random.integer(1_500)
            repeat(request, delay)
            upstream().write(request)
            return
          }
          case "latency":
            return later(random.integer(150), () => upstream().write(request))
          case "slowRequest":
            return trickle(request, upstream(), () => undefined)
          default:
            upstream().write(request)
        }
      }

      keep(client)
      client.on("data", (chunk) => {
        if (silent) return
        pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
        for (let length = requestLength(pending); length !== undefined; length = requestLength(pending)) {
          const request = pending.subarray(0, length)
          pending = pending.subarray(length)
          forward(request)
        }
      })
      client.on("close", () => server?.destroy())
    }

    const listener = yield* Effect.acquireRelease(
      Effect.async<Net.Server, Error>((resume) => {
        const listening = Net.createServer(serve)
        listening.once("error", (error) => resume(Effect.fail(error)))
        listening.listen(0, "127.0.0.1", () => resume(Effect.succeed(listening)))
      }),
      (listening) =>
        Effect.async<void>((resume) => {
          for (const timer of timers) clearTimeout(timer)
          listening.close(() => resume(Effect.void))
          for (const socket of sockets) socket.destroy()
        })
    )
    const address = listener.address()
    return {
      port: typeof address === "object" && address !== null ? address.port : 0,
      struck: () => ({ ...struck }),
      seen: () => ({ ...seen })
    }
  })
