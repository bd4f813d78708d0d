/**
 * A server that answers at once: what is measured is the client. It speaks just enough of the wire for sampling.
 */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { answer } from "./answers.js"

const server = createServer((request, response) => {
  request.resume()
  request.on("end", () => {
    const [type, body] = answer(request.url ?? "")
    response.writeHead(200, { "content-type": type, "content-length": body.length }).end(body)
  })
})

server.keepAliveTimeout = 60_000

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo
  process.stdin.on("data", () => process.stdout.write(`http://127.0.0.1:${port}\n`))
})
