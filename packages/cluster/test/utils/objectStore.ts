/**
 * An object store of this machine, to test with: versitygw, which Go's tools fetch and build once where they are installed.
 */
import { Effect, Option, Redacted } from "effect"
import { execFile, spawn } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const version = "v1.8.0"
const cache = fileURLToPath(new URL("../../../../node_modules/.cache/versitygw", import.meta.url))

export const credentials = { accessKeyId: "tinker", secretAccessKey: Redacted.make("a-secret-of-the-test") }

const freePort = Effect.async<number>((resume) => {
  const probe = createServer()
  probe.listen(0, "127.0.0.1", () => {
    const address = probe.address()
    probe.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

/** Where the program is, after it has been built; none where there is no Go. */
const program = Effect.gen(function*() {
  const path = join(cache, version, "versitygw")
  if (existsSync(path)) return Option.some(path)
  mkdirSync(join(cache, version), { recursive: true })
  const isBuilt = yield* Effect.async<boolean>((resume) => {
    execFile("go", ["install", `github.com/versity/versitygw/cmd/versitygw@${version}`], {
      env: { ...process.env, GOBIN: join(cache, version) },
      timeout: 600_000
    }, (error) => resume(Effect.succeed(error === null)))
  })
  return isBuilt && existsSync(path) ? Option.some(path) : Option.none()
})

const answers = (port: number) =>
  Effect.async<boolean>((resume) => {
    const socket = connect(port, "127.0.0.1")
    socket.on("connect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.on("error", () => resume(Effect.succeed(false)))
  })

/** The address of a store with one bucket, until the scope closes. */
export const start = Effect.gen(function*() {
  const found = yield* program
  if (Option.isNone(found)) return Option.none<{ readonly endpoint: string; readonly bucket: string }>()
  const port = yield* freePort
  const root = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "tinker-objects-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )
  mkdirSync(join(root, "data", "rollouts"), { recursive: true })
  mkdirSync(join(root, "sidecar"))
  yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(found.value, [
        "--port",
        `127.0.0.1:${port}`,
        "--quiet",
        "posix",
        "--sidecar",
        join(root, "sidecar"),
        join(root, "data")
      ], {
        stdio: "ignore",
        env: {
          ...process.env,
          ROOT_ACCESS_KEY_ID: credentials.accessKeyId,
          ROOT_SECRET_ACCESS_KEY: Redacted.value(credentials.secretAccessKey)
        }
      })
    ),
    (child) =>
      Effect.async<void>((resume) => {
        child.once("close", () => resume(Effect.void))
        if (!child.kill("SIGKILL")) resume(Effect.void)
      })
  )
  yield* Effect.repeat(Effect.delay(answers(port), "100 millis"), { until: (isUp) => isUp }).pipe(
    Effect.timeout("30 seconds")
  )
  return Option.some({ endpoint: `http://127.0.0.1:${port}`, bucket: "rollouts" })
})
