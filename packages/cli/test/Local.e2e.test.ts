import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { get } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as process_ from "./fixtures/process.js"

let cli: process_.Tinker
let root: string

beforeAll(async () => {
  cli = await process_.make()
  root = mkdtempSync(join(tmpdir(), "tinker-local-"))
}, 60_000)

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
  cli.dispose()
})

interface Started {
  readonly url: string
  readonly key: string
  readonly stop: (signal: NodeJS.Signals) => Promise<number | null>
}

/** `tinker local` until a signal ends it; rejects with its code when it does not start. */
const start = (...args: ReadonlyArray<string>): Promise<Started> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [cli.bin, "local", "--port", "0", "-f", "ndjson", ...args], { env: cli.base })
    const complaints: Array<string> = []
    child.stderr.on("data", (data) => complaints.push(String(data)))
    child.once("exit", (code) => reject(new Error(`${code}: ${complaints.join("")}`)))
    child.stdout.once("data", (line: Buffer) => {
      const { api_key: key, base_url: url } = JSON.parse(String(line))
      resolve({
        url,
        key,
        stop: (signal) =>
          new Promise((ended) => {
            child.once("exit", ended)
            child.kill(signal)
          })
      })
    })
  })

const refused = (...args: ReadonlyArray<string>): Promise<string> =>
  start(...args).then(
    async ({ stop }) => {
      await stop("SIGKILL")
      return "it started"
    },
    (error: Error) => error.message
  )

const statusOf = async (url: string, key: string) =>
  (await fetch(`${url}/api/v1/sessions`, { headers: { "x-api-key": key } })).status

describe("tinker local", { timeout: 120_000 }, () => {
  it("keeps a key in its directory, which commands on this machine find there; SIGTERM ends it with 143", async () => {
    const directory = join(root, "data")
    const server = await start("--dir", directory)
    assert.strictEqual(readFileSync(join(directory, "api-key"), "utf8").trim(), server.key)
    assert.strictEqual(await statusOf(server.url, server.key), 200)
    assert.strictEqual(await statusOf(server.url, "tml-local"), 401)
    const env = { TINKER_BASE_URL: server.url, TINKER_LOCAL_DIR: directory }
    const listed = await cli.run(["run", "list"], { env })
    assert.strictEqual(listed.code, 0, listed.stderr)
    assert.match(await refused("--dir", directory), /^1: .*process \d+ is using it/)
    assert.strictEqual(await server.stop("SIGTERM"), 143)
    const again = await start("--dir", directory)
    assert.strictEqual(again.key, server.key)
    assert.strictEqual(await again.stop("SIGINT"), 130)
  })

  it("is reached under the names it is given, and shows what it does to a person who watches", async () => {
    const server = await start("--memory", "--allow-host", "one.test", "--allow-host", "two.test")
    const { hostname, port } = new URL(server.url)
    const statusFor = (host: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        get({ hostname, port, path: "/api/v1/sessions", headers: { host, "x-api-key": server.key } }, (response) => {
          response.resume()
          resolve(response.statusCode)
        }).on("error", reject)
      })
    assert.deepStrictEqual(
      await Promise.all(["one.test", "two.test", "three.test"].map(statusFor)),
      [200, 200, 403]
    )
    await server.stop("SIGTERM")
    if (!process_.hasTmux) return
    const screen = await cli.terminal(["local", "--memory", "--port", "0"], { until: /requests/ })
    assert.match(screen, /^0 requests, 0 models in memory, idle$/m)
  })

  it("an impossible directory is an error, not a hang", async () => {
    writeFileSync(join(root, "file"), "")
    assert.match(await refused("--dir", join(root, "file", "data")), /^1: .*is a file, not a directory/)
  })

  it("takes the keys of a file, exchanges them for tokens on request, and says who is who", async () => {
    const keys = join(root, "keys")
    writeFileSync(keys, "# two users\ntml-ada ada@example.org\ntml-bob bob@example.org\n")
    const server = await start("--memory", "--jwt", "--api-key", `@${keys}`)
    const who = async (key: string) => {
      const headers = { "x-api-key": key, "content-type": "application/json" }
      const body = JSON.stringify({ sdk_version: "0.38.0" })
      const config = await fetch(`${server.url}/api/v1/client/config`, { method: "POST", headers, body })
      const token = await fetch(`${server.url}/api/v1/auth/token`, { method: "POST", headers, body: "{}" })
      const [, claims = ""] = Object(await token.json()).jwt.split(".")
      return [
        Object(await config.json()).pjwt_auth_enabled,
        JSON.parse(Buffer.from(claims, "base64url").toString()).email
      ]
    }
    assert.deepStrictEqual(await who("tml-ada"), [true, "ada@example.org"])
    assert.deepStrictEqual(await who("tml-bob"), [true, "bob@example.org"])
    assert.strictEqual(await statusOf(server.url, "tml-other"), 401)
    await server.stop("SIGTERM")
  })
})
