/**
 * undici and nothing else: HTTP/1.1, or HTTP/2 set up so that it does multiplex.
 */
import { readFileSync } from "node:fs"
import { Agent, request } from "undici"
import { serve } from "../sampling/measure.js"
import { asample, headers, retrieveFuture } from "./requests.js"
import { tls } from "./tls.js"

const [base, version] = process.argv.slice(2)
const connect = { ca: readFileSync(tls("authority.pem")) }
const dispatcher = version === "2"
  ? new Agent({ connect, allowH2: true, connections: 8, pipelining: 100 })
  : new Agent({ connect, connections: 400 })

const post = (path: string, body: string) =>
  request(`${base}${path}`, { dispatcher, method: "POST", headers, body, idempotent: true })

serve(async () => {
  const sent = await post("/api/v1/asample", asample())
  const polled = await post("/api/v1/retrieve_future", retrieveFuture(await sent.body.text()))
  return polled.body.arrayBuffer()
})
