import { Effect } from "effect"
import { readFileSync } from "node:fs"
import * as http from "node:http"
import * as net from "node:net"
import { fileURLToPath } from "node:url"

/** A real server on a free port; its sockets are ended with the scope. */
export const listen = <S extends net.Server>(server: S) =>
  Effect.acquireRelease(
    Effect.async<{ readonly port: number; readonly sockets: Set<net.Socket> }>((resume) => {
      const sockets = new Set<net.Socket>()
      server.on("connection", (socket: net.Socket) => {
        sockets.add(socket)
        socket.on("close", () => sockets.delete(socket))
        socket.on("error", () => socket.destroy())
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed({ port: typeof address === "object" && address !== null ? address.port : 0, sockets }))
      })
    }),
    ({ sockets }) =>
      Effect.async<void>((resume) => {
        sockets.forEach((socket) => socket.destroy())
        server.close(() => resume(Effect.void))
      })
  )

/** A proxy whose every tunnel leads to the port, whatever it was asked for. */
export const tunnelTo = (port: number) => {
  const tunnels: Array<string> = []
  const proxy = http.createServer()
  proxy.on("connect", (request, socket) => {
    tunnels.push(request.url ?? "")
    const target = net.connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n")
      target.pipe(socket).pipe(target)
    })
    target.on("error", () => socket.destroy())
    socket.on("error", () => target.destroy())
  })
  return Effect.map(listen(proxy), ({ port }) => ({ url: `http://127.0.0.1:${port}`, tunnels }))
}

const tls = (name: string): string => fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url))

/** Path of the private authority that signed the certificates below. */
export const authority = tls("authority.pem")

/** A server on this machine. */
export const certificate = { cert: readFileSync(tls("server.pem")), key: readFileSync(tls("server-key.pem")) }

/** One that is somebody else. */
export const elsewhere = { ...certificate, cert: readFileSync(tls("elsewhere.pem")) }

/** Waits for what has no event of its own, however busy the machine is. */
export const until = (condition: () => boolean) =>
  Effect.repeat(Effect.sleep("5 millis"), { until: condition }).pipe(Effect.timeout("60 seconds"), Effect.orDie)
