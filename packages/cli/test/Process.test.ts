import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"

const home = mkdtempSync(join(tmpdir(), "tinker-process-"))
const bin = join(home, "tinker.mjs")
const env: NodeJS.ProcessEnv = { PATH: process.env["PATH"], HOME: home, TERM: "xterm-256color" }

interface Running {
  readonly url: string
  readonly stop: () => Promise<number | null>
}

/** `tinker local` as its own process; its address is what it prints. */
const local = (): Promise<Running> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [bin, "local", "--port", "0", "--memory", "-f", "ndjson"], { env })
    child.stdout.once("data", (line: Buffer) =>
      resolve({
        url: JSON.parse(String(line)).base_url,
        stop: () =>
          new Promise((ended) => {
            child.once("exit", ended)
            child.kill("SIGINT")
          })
      }))
    child.once("exit", (code) => reject(new Error(`tinker local ended with ${code}`)))
  })

let backend: Running

const tinker = (
  args: ReadonlyArray<string>,
  options: { readonly input?: string; readonly env?: NodeJS.ProcessEnv } = {}
) =>
  spawnSync(process.execPath, [bin, ...args], {
    encoding: "utf8",
    input: options.input ?? "",
    env: { ...env, TINKER_BASE_URL: backend.url, TINKER_API_KEY: "tml-local", ...options.env },
    timeout: 60_000
  })

beforeAll(async () => {
  await build({
    entryPoints: [new URL("../src/bin.ts", import.meta.url).pathname],
    outfile: bin,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    conditions: ["@effect-tinker/source"],
    banner: { js: "import { createRequire as r } from \"node:module\"; const require = r(import.meta.url);" },
    logLevel: "error"
  })
  backend = await local()
}, 120_000)

afterAll(async () => {
  assert.strictEqual(await backend.stop(), 130)
  rmSync(home, { recursive: true, force: true })
}, 30_000)

const hasTmux = spawnSync("tmux", ["-V"]).status === 0
const quoted = (words: ReadonlyArray<string>) => words.map((word) => `'${word}'`).join(" ")

/** A terminal of 100 columns: what is typed, and what is on the screen in the end. */
const terminal = async (
  args: ReadonlyArray<string>,
  steps: ReadonlyArray<readonly [seen: RegExp, keys: ReadonlyArray<string>]>,
  done: RegExp,
  extra: Readonly<Record<string, string>> = {},
  capture: ReadonlyArray<string> = []
): Promise<string> => {
  const session = `tinker-${process.pid}-${Math.floor(performance.now() * 1000)}`
  const socket = join(home, "tmux")
  const tmux = (...words: ReadonlyArray<string>) =>
    execFileSync("tmux", ["-S", socket, ...words], { encoding: "utf8", env })
  const settings = { TINKER_BASE_URL: backend.url, TINKER_API_KEY: "tml-local", ...extra }
  const assignments = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
  const command = `env ${quoted([...assignments, process.execPath, bin, ...args])}; echo "code=$?"; sleep 60`
  tmux("new-session", "-d", "-s", session, "-x", "100", "-y", "50", command)
  const screen = () => tmux("capture-pane", "-p", ...capture, "-t", session)
  const until = async (pattern: RegExp) => {
    for (let i = 0; i < 400; i++) {
      const text = screen()
      if (pattern.test(text)) return text
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    throw new Error(`never saw ${pattern} in:\n${screen()}`)
  }
  try {
    for (const [seen, keys] of steps) {
      await until(seen)
      tmux("send-keys", "-t", session, ...keys)
    }
    return await until(done)
  } finally {
    tmux("kill-session", "-t", session)
  }
}

describe("the process", { concurrent: false, timeout: 120_000 }, () => {
  it("prints data on stdout and everything else on stderr", () => {
    const { status, stderr, stdout } = tinker(["models"])
    assert.strictEqual(status, 0)
    assert.match(stdout, /^MODEL +MAX CONTEXT/)
    assert.strictEqual(stderr, "2 models\n")
    assert.notInclude(stdout + stderr, "\u001b")
  })

  it("a reader that leaves is no failure", () => {
    const line = `${quoted([process.execPath, bin, "models", "-f", "ndjson"])} | head -n 1; exit \${PIPESTATUS[0]}`
    const result = spawnSync("bash", ["-c", line], {
      encoding: "utf8",
      env: { ...env, TINKER_BASE_URL: backend.url, TINKER_API_KEY: "tml-local" }
    })
    assert.strictEqual(result.status, 0)
    assert.strictEqual(result.stderr, "")
    assert.strictEqual(JSON.parse(result.stdout).model_name, "local/tiny")
  })

  it("logs in from a pipe, uses the login, logs out", () => {
    const noKey = { TINKER_API_KEY: "" }
    assert.strictEqual(tinker(["auth", "status"], { env: noKey }).status, 1)
    const login = tinker(["auth", "login"], { input: "tml-local\n", env: noKey })
    assert.strictEqual(login.status, 0, login.stderr)
    const file = join(home, ".tinker", "credentials.json")
    assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    assert.strictEqual(JSON.parse(readFileSync(file, "utf8")).version, 1)
    assert.notInclude(login.stdout + login.stderr, "tml-local")
    assert.strictEqual(tinker(["auth", "status"], { env: noKey }).status, 0)
    assert.strictEqual(tinker(["auth", "login"], { input: "tml-local\n", env: noKey }).status, 1)
    assert.strictEqual(tinker(["auth", "logout"], { env: noKey }).status, 0)
    assert.strictEqual(tinker(["run", "list"], { env: noKey }).status, 1)
    const nonsense = tinker(["auth", "login"], { input: "nonsense\n", env: noKey })
    assert.strictEqual(nonsense.status, 1)
    assert.include(nonsense.stderr, "not an API key")
  })

  it("help, version and completions need no server and no network", () => {
    const offline = { TINKER_BASE_URL: "http://127.0.0.1:9", TINKER_API_KEY: "" }
    assert.match(tinker(["version"], { env: offline }).stdout, /^tinker \d+\.\d+\.\d+\n$/)
    assert.include(tinker(["checkpoint", "download", "--help"], { env: offline }).stdout, "tinker checkpoint download")
    for (const shell of ["bash", "zsh", "fish"]) {
      assert.include(tinker(["--completions", shell], { env: offline }).stdout, "checkpoint")
    }
  })

  it("an interrupt ends with 130 and leaves a download to go on with", async () => {
    const data = new Uint8Array(1_000_000)
    const storage = createServer((request, response) => {
      if (request.url?.startsWith("/file") === true) {
        response.writeHead(200, { "content-length": data.length, etag: "\"x\"" })
        return void response.write(data.subarray(0, 500_000))
      }
      response.setHeader("content-type", "application/json")
      const address = storage.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      response.end(
        request.url?.endsWith("/archive") === true
          ? JSON.stringify({ url: `http://127.0.0.1:${port}/file`, expires: "2099-01-01T00:00:00Z" })
          : "{}"
      )
    })
    await new Promise<void>((resolve) => storage.listen(0, "127.0.0.1", resolve))
    const address = storage.address()
    const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
    const target = join(home, "interrupted")
    const part = join(target, "r_weights_1.download", "archive.tar.part")
    const child = spawn(process.execPath, [bin, "checkpoint", "download", "tinker://r/weights/1", "-o", target], {
      env: { ...env, TINKER_BASE_URL: url, TINKER_API_KEY: "tml-local" }
    })
    let stderr = ""
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += String(chunk)
    })
    while (!existsSync(part) || statSync(part).size < 400_000) await new Promise((resolve) => setTimeout(resolve, 50))
    const code = await new Promise((resolve) => {
      child.once("exit", resolve)
      child.kill("SIGINT")
    })
    storage.closeAllConnections()
    storage.close()
    assert.strictEqual(code, 130)
    assert.include(stderr, "Interrupted")
    assert.deepStrictEqual(readdirSync(target), ["r_weights_1.download"])
    assert.isAtLeast(statSync(part).size, 400_000)
  })

  it.skipIf(!hasTmux)("in a terminal: colour, unless it is not wanted", async () => {
    const screen = await terminal(["models"], [], /code=\d/, {}, ["-e"])
    assert.match(screen, /36m[^\n]*local\/tiny/)
    const plain = await terminal(["models"], [], /code=\d/, { NO_COLOR: "1" }, ["-e"])
    assert.notInclude(plain, "36m")
    assert.include(plain, "code=0")
  })

  it.skipIf(!hasTmux)("in a terminal: a key is typed unseen", async () => {
    const screen = await terminal(
      ["auth", "login"],
      [[/Paste your API key/, ["tml-local", "Enter"]]],
      /code=\d/,
      { TINKER_API_KEY: "" }
    )
    assert.include(screen, "code=0")
    assert.notInclude(screen, "tml-local")
    assert.strictEqual(tinker(["auth", "logout"], { env: { TINKER_API_KEY: "" } }).status, 0)
  })

  it.skipIf(!hasTmux)("in a terminal: a confirmation is asked for, and no is the answer unless yes", async () => {
    const line = ["checkpoint", "delete", "tinker://run/weights/1"]
    const screen = await terminal(line, [[/Delete\? \[y\/N\]/, ["Enter"]]], /code=\d/)
    assert.include(screen, "Nothing was deleted")
    assert.include(screen, "code=0")
    const interrupted = await terminal(line, [[/Delete\? \[y\/N\]/, ["C-c"]]], /code=\d/)
    assert.include(interrupted, "code=130")
  })

  it.skipIf(!hasTmux)("in a terminal: a conversation", async () => {
    const screen = await terminal(
      ["chat", "--model", "local/tiny", "--max-tokens", "8", "--seed", "1"],
      [[/you>\s*$/m, ["hello", "Enter"]], [/you> hello[\s\S]*you>\s*$/m, ["C-d"]]],
      /code=\d/
    )
    assert.include(screen, "Chatting with local/tiny")
    assert.include(screen, "code=0")
  })
})
