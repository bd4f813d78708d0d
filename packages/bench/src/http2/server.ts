/**
 * The same answers over TLS, as HTTP/2 to who asks for it and as HTTP/1.1 to who does not. Below `/hold` a long poll is
 * held for half a second. `where` gives the address, `sockets` the most that were open at once since it was last asked.
 */
import { readFileSync } from "node:fs"
import { createSecureServer } from "node:http2"
import type { AddressInfo } from "node:net"
import { createInterface } from "node:readline"
import { answer, poll } from "../sampling/answers.js"
import { tls } from "./tls.js"

const prefix = "/hold"
const hold = 500

const server = createSecureServer({
  allowHTTP1: true,
  // what servers and balancers usually grant
  settings: { maxConcurrentStreams: 100 },
  cert: readFileSync(tls("server.pem")),
  key: readFileSync(tls("server-key.pem"))
}, (request, response) => {
  request.resume()
  request.on("end", () => {
    const held = request.url.startsWith(prefix)
    const path = held ? request.url.slice(prefix.length) : request.url
    const [type, body] = answer(path)
    const say = () => {
      response.writeHead(200, { "content-type": type, "content-length": body.length })
      response.end(body)
    }
    if (held && path === poll) setTimeout(say, hold)
    else say()
  })
})

let open = 0
let most = 0

server.on("secureConnection", (socket) => {
  most = Math.max(most, ++open)
  socket.on("close", () => open--)
})

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo
  createInterface(process.stdin).on("line", (line) => {
    process.stdout.write(line === "where" ? `https://127.0.0.1:${port}\n` : `${most}\n`)
    most = open
  })
})
