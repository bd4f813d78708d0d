/**
 * The training server behind a door for each way in which the telemetry endpoint can fail: `/MODE` is the base URL.
 * Every fourth submission is refused once, so that there is something to report. A line on standard input is answered
 * with the address.
 */
import { Agent, createServer, request } from "node:http"
import type { AddressInfo } from "node:net"
import { createInterface } from "node:readline"

const [target = ""] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true })
const counts = new Map<string, number>()

const server = createServer((incoming, outgoing) => {
  const [, mode = "", ...rest] = (incoming.url ?? "").split("/")
  const path = `/${rest.join("/")}`
  if (path === "/api/v1/telemetry") {
    incoming.resume()
    switch (mode) {
      case "down":
        return void incoming.socket.destroy()
      case "slow":
        return
      case "failing":
        return void outgoing.writeHead(500).end("{}")
      case "lying":
        return void outgoing.writeHead(200, { "content-type": "application/json" }).end("[\"what?\"")
      default:
        return void outgoing.writeHead(200, { "content-type": "application/json" }).end("{\"status\":\"accepted\"}")
    }
  }
  const submits = path === "/api/v1/optim_step" || path === "/api/v1/forward_backward"
  if (submits && incoming.headers["x-stainless-retry-count"] === "0") {
    const count = (counts.get(mode) ?? 0) + 1
    counts.set(mode, count)
    if (count % 4 === 0) {
      incoming.resume()
      return void outgoing.writeHead(503, { "content-type": "application/json", "retry-after-ms": "1" }).end("{}")
    }
  }
  const forward = request(
    new URL(path, target),
    { agent, method: incoming.method ?? "GET", headers: incoming.headers },
    (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(outgoing)
    }
  )
  forward.on("error", () => outgoing.destroy())
  incoming.pipe(forward)
})

server.keepAliveTimeout = 60_000

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo
  createInterface(process.stdin).on("line", () => process.stdout.write(`http://127.0.0.1:${port}\n`))
})
