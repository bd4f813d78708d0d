/**
 * One large body to a host some way off: a line in, the milliseconds out.
 */
import { readFileSync } from "node:fs"
import { connect as http2 } from "node:http2"
import type { AddressInfo } from "node:net"
import { connect, createServer } from "node:net"
import { createInterface } from "node:readline"
import { PassThrough } from "node:stream"
import { Agent, request } from "undici"
import { headers } from "./requests.js"
import { tls } from "./tls.js"

const [base = "", version] = process.argv.slice(2)
const ca = readFileSync(tls("authority.pem"))
const body = Buffer.alloc(8 * 1024 * 1024, 1)
const oneWay = 10

/** Everything arrives later, as much of it as one likes. */
const late = () => {
  const through = new PassThrough({ highWaterMark: 64 * 1024 * 1024 })
  const write = through.write.bind(through)
  return { through, push: (data: Buffer) => setTimeout(() => write(data), oneWay) }
}

const away = createServer((near) => {
  const far = connect(Number(new URL(base).port), "127.0.0.1")
  const [there, back] = [late(), late()]
  near.on("data", there.push)
  far.on("data", back.push)
  there.through.pipe(far)
  back.through.pipe(near)
  near.on("close", () => far.destroy()).on("error", () => far.destroy())
  far.on("close", () => near.destroy()).on("error", () => near.destroy())
})

const run = async (origin: string): Promise<number> => {
  const start = performance.now()
  if (version === "2") {
    const session = http2(origin, { ca })
    await new Promise((resolve, reject) => {
      const stream = session.request({ ...headers, ":method": "POST", ":path": "/" })
      stream.on("end", resolve).on("error", reject).resume().end(body)
    })
    session.close()
  } else {
    const dispatcher = new Agent({ connect: { ca } })
    const answer = await request(`${origin}/`, { dispatcher, method: "POST", headers, body })
    await answer.body.arrayBuffer()
    await dispatcher.close()
  }
  return performance.now() - start
}

away.listen(0, "127.0.0.1", () => {
  const origin = `https://127.0.0.1:${(away.address() as AddressInfo).port}`
  createInterface(process.stdin).on("line", () => {
    run(origin).then((ms) => process.stdout.write(`${ms}\n`), (error) => {
      process.stderr.write(`${String(error)}\n`)
      process.exit(1)
    })
  })
})
