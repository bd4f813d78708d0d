/**
 * node:http2 and nothing else: a fixed number of sessions, each request on the one with the fewest streams.
 */
import { readFileSync } from "node:fs"
import { connect } from "node:http2"
import { serve } from "../sampling/measure.js"
import { asample, headers, retrieveFuture } from "./requests.js"
import { tls } from "./tls.js"

const [base = "", count] = process.argv.slice(2)
const { origin, pathname } = new URL(base)
const prefix = pathname === "/" ? "" : pathname
const ca = readFileSync(tls("authority.pem"))
const sessions = Array.from({ length: Number(count) }, () => ({ session: connect(origin, { ca }), streams: 0 }))

const post = (path: string, body: string): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const least = sessions.reduce((a, b) => b.streams < a.streams ? b : a)
    least.streams++
    const stream = least.session.request({ ...headers, ":method": "POST", ":path": `${prefix}${path}` })
    const chunks: Array<Buffer> = []
    stream.on("data", (chunk: Buffer) => chunks.push(chunk))
    stream.on("end", () => resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)))
    stream.on("error", reject)
    stream.on("close", () => least.streams--)
    stream.end(body)
  })

serve(async () => {
  const sent = await post("/api/v1/asample", asample())
  return post("/api/v1/retrieve_future", retrieveFuture(sent.toString()))
})
