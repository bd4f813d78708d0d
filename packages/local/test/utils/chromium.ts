import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer, type IncomingMessage } from "node:http"
import { tmpdir } from "node:os"
import { inflateSync } from "node:zlib"

/** The browser to use, or why there is none. */
export const browser: { readonly path: string } | { readonly missing: string } = (() => {
  const given = process.env["CHROME_PATH"]
  for (const path of given === undefined ? ["chromium", "chromium-browser", "google-chrome"] : [given]) {
    if (spawnSync(path, ["--version"], { stdio: "ignore" }).status === 0) return { path }
  }
  return { missing: given === undefined ? "no chromium or google-chrome on the PATH" : `CHROME_PATH (${given}) fails` }
})()

/** Runs the browser without a window; it ends by itself, or with the scope. */
export const start = (args: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      if ("missing" in browser) throw new Error(browser.missing)
      const profile = mkdtempSync(`${tmpdir()}/effect-tinker-chromium-`)
      const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", `--user-data-dir=${profile}`]
      // A group of its own: the browser has children.
      const child = spawn(browser.path, [...flags, ...args], { stdio: ["ignore", "pipe", "ignore"], detached: true })
      const written: Array<Buffer> = []
      child.stdout.on("data", (chunk: Buffer) => written.push(chunk))
      const ended = new Promise<string>((resolve) => {
        child.on("close", () => resolve(Buffer.concat(written).toString()))
      })
      return { child, ended, profile }
    }),
    ({ child, ended, profile }) =>
      Effect.promise(async () => {
        try {
          if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL")
        } catch {
          // It has just ended.
        }
        await ended
        rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
      })
  )

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

/** A site of the given pages that notes what is asked of it; what is posted to it comes back. */
export const site = (pages: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.async<{
      readonly url: string
      readonly asked: ReadonlyArray<string>
      readonly posted: Promise<string>
      readonly close: () => void
    }>((resume) => {
      const asked: Array<string> = []
      let post = (_: string) => {}
      const posted = new Promise<string>((resolve) => {
        post = resolve
      })
      const server = createServer((request, response) => {
        const path = new URL(request.url ?? "/", "http://site").pathname
        asked.push(`${request.method} ${path}`)
        if (request.method === "POST") {
          bodyOf(request).then(post)
          return void response.end()
        }
        const page = pages[path]
        const type = path.endsWith(".js") ? "text/javascript" : "text/html"
        response.writeHead(page === undefined ? 404 : 200, { "content-type": type }).end(page)
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({
          url: `http://127.0.0.1:${port}`,
          asked,
          posted,
          close: () => {
            server.closeAllConnections()
            server.close()
          }
        }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/**
 * How many pixels of a PNG (8 bits, RGB or RGBA, as browsers write it) are of about this colour, and how many columns
 * of the image have one.
 */
export const look = (path: string, [red, green, blue]: readonly [number, number, number]) => {
  const file = readFileSync(path)
  const [width, height] = [file.readUInt32BE(16), file.readUInt32BE(20)]
  const bytes = file[25] === 6 ? 4 : 3
  const data: Array<Buffer> = []
  for (let at = 8; at < file.length; at += 12 + file.readUInt32BE(at)) {
    if (file.toString("latin1", at + 4, at + 8) === "IDAT") {
      data.push(file.subarray(at + 8, at + 8 + file.readUInt32BE(at)))
    }
  }
  const raw = inflateSync(Buffer.concat(data))
  const stride = width * bytes
  let above = new Uint8Array(stride)
  const columns = new Set<number>()
  let pixels = 0
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)] ?? 0
    const row = Uint8Array.from(raw.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1)))
    for (let i = 0; i < stride; i++) {
      const left = i < bytes ? 0 : row[i - bytes] ?? 0
      const up = above[i] ?? 0
      const corner = i < bytes ? 0 : above[i - bytes] ?? 0
      const guess = left + up - corner
      const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
      const paeth = a <= b && a <= c ? left : b <= c ? up : corner
      row[i] = (row[i] ?? 0) + ([left, up, (left + up) >> 1, paeth][filter - 1] ?? 0)
    }
    for (let i = 0; i < stride; i += bytes) {
      const near = (channel: number, value: number) => Math.abs((row[i + channel] ?? 0) - value) < 8
      if (near(0, red) && near(1, green) && near(2, blue)) {
        pixels++
        columns.add(i)
      }
    }
    above = row
  }
  return { pixels, columns: columns.size }
}
