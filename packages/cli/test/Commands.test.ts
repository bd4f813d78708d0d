import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { createServer, request as sendRequest } from "node:http"
import { hub } from "./fixtures/hub.js"
import { layer as server, otherKey, Server, tinker } from "./fixtures/server.js"

const json = (line: ReadonlyArray<string>) =>
  Effect.map(tinker([...line, "--format", "json"]), ({ code, stderr, stdout }) => {
    assert.strictEqual(code, 0, stderr)
    return JSON.parse(stdout)
  })

const directory = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  return { fs, path, root: yield* fs.makeTempDirectoryScoped() }
}).pipe(Effect.provide(NodeContext.layer))

/** A service with 2,500 checkpoints, and nothing else. */
const crowded = Effect.acquireRelease(
  Effect.async<{ readonly url: string; readonly pages: Array<string>; readonly close: () => void }>((resume) => {
    const pages: Array<string> = []
    const service = createServer((request, response) => {
      const url = new URL(request.url ?? "/", "http://x")
      response.setHeader("content-type", "application/json")
      if (!url.pathname.endsWith("/checkpoints")) return void response.end("{}")
      pages.push(url.search)
      const offset = Number(url.searchParams.get("offset"))
      const length = Math.min(Number(url.searchParams.get("limit")), 2500 - offset)
      response.end(JSON.stringify({
        checkpoints: Array.from({ length }, (_, i) => ({
          checkpoint_id: `weights/${offset + i}`,
          checkpoint_type: "training",
          time: "2026-01-01T00:00:00Z",
          tinker_path: `tinker://run/weights/${offset + i}`,
          size_bytes: 1000
        })),
        cursor: { offset, limit: length, total_count: 2500 }
      }))
    })
    service.listen(0, "127.0.0.1", () => {
      const address = service.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      resume(Effect.succeed({
        url: `http://127.0.0.1:${port}`,
        pages,
        close: () => {
          service.closeAllConnections()
          service.close()
        }
      }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

/** The server without its archives, as the hosted service is today. */
const withoutArchives = (upstream: string) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
      const proxy = createServer((request, response) => {
        if (request.url?.endsWith("/archive") === true) {
          return void response.writeHead(404).end("{\"detail\":\"Not Found\"}")
        }
        const forwarded = sendRequest(
          new URL(request.url ?? "/", upstream),
          { method: request.method, headers: request.headers },
          (answer) => {
            response.writeHead(answer.statusCode ?? 500, answer.headers)
            answer.pipe(response)
          }
        )
        forwarded.on("error", () => response.destroy())
        request.pipe(forwarded)
      })
      proxy.listen(0, "127.0.0.1", () => {
        const address = proxy.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({
          url: `http://127.0.0.1:${port}`,
          close: () => {
            proxy.closeAllConnections()
            proxy.close()
          }
        }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

layer(server, { excludeTestServices: true, timeout: "60 seconds" })("commands", (it) => {
  it.effect("run list and info", () =>
    Effect.gen(function*() {
      const { run } = yield* Server
      const { next_offset, runs, shown, total } = yield* json(["run", "list"])
      assert.deepStrictEqual({ next_offset, shown, total }, { next_offset: null, shown: 1, total: 1 })
      assert.strictEqual(runs[0].training_run_id, run)
      assert.match(runs[0].last_request_time, /^\d{4}-\d{2}-\d{2}T.*Z$/)
      const table = yield* tinker(["run", "list", "-c", "id,lora"])
      assert.strictEqual(table.stdout, `${"RUN ID".padEnd(run.length)}  LORA\n${run}  rank 4\n`)
      assert.strictEqual(table.stderr, "1 training run\n")
      assert.strictEqual((yield* tinker(["run", "list", "--columns", "nope"])).code, 2)
      const info = yield* tinker(["run", "info", run])
      assert.include(info.stdout, "local/tiny")
      assert.notInclude(info.stdout, "\u001b")
    }))

  it.effect("checkpoint list, info, publish, unpublish, set-ttl", () =>
    Effect.gen(function*() {
      const { run } = yield* Server
      const path = `tinker://${run}/weights/0001`
      const { checkpoints, next_offset, total } = yield* json(["checkpoint", "list", "--limit", "2"])
      assert.strictEqual(checkpoints.length, 2)
      assert.isAtLeast(total, 4)
      assert.strictEqual(next_offset, 2)
      const lines = (yield* tinker(["checkpoint", "list", "--run-id", run, "-f", "ndjson"])).stdout.trim().split("\n")
      assert.isTrue(lines.map((line) => JSON.parse(line).tinker_path).includes(path))
      assert.strictEqual((yield* json(["checkpoint", "info", path])).lora_rank, 4)
      const published = yield* tinker(["checkpoint", "publish", path])
      assert.deepStrictEqual(published, { code: 0, stdout: "", stderr: `${path} is public now\n` })
      const again = yield* tinker(["checkpoint", "publish", path])
      assert.strictEqual(again.code, 1)
      assert.include(again.stderr, "public already")
      assert.isTrue((yield* json(["checkpoint", "info", path])).public)
      assert.isFalse((yield* json(["checkpoint", "unpublish", path])).public)
      assert.strictEqual((yield* json(["checkpoint", "set-ttl", path, "--ttl", "2h"])).ttl_seconds, 7200)
      assert.isDefined((yield* json(["checkpoint", "info", path])).expires_at)
      assert.isNull((yield* json(["checkpoint", "set-ttl", path, "--remove"])).ttl_seconds)
      assert.strictEqual((yield* tinker(["checkpoint", "set-ttl", path])).code, 2)
      const copied = yield* json(["checkpoint", "copy", path, "--project", "archive"])
      assert.match(copied.tinker_path, /^tinker:\/\/.*\/weights\/0001$/)
      const missing = yield* tinker(["checkpoint", "info", "run/weights/0001"])
      assert.strictEqual(missing.code, 2)
    }))

  it.effect("checkpoint delete asks, tells partial failure, and counts", () =>
    Effect.gen(function*() {
      const { run } = yield* Server
      const paths = [`tinker://${run}/weights/0003`, `tinker://${run}/weights/none`]
      const unasked = yield* tinker(["checkpoint", "delete", ...paths])
      assert.strictEqual(unasked.code, 2)
      assert.include(unasked.stderr, "--yes")
      const partial = yield* tinker(["checkpoint", "delete", ...paths, "--yes", "-f", "json"])
      assert.strictEqual(partial.code, 1)
      const { deleted_count, failed } = JSON.parse(partial.stdout)
      assert.strictEqual(deleted_count, 1)
      assert.strictEqual(failed[0].tinker_path, paths[1])
      assert.include(partial.stderr, "1 checkpoint of 2 could not be deleted")
      assert.strictEqual((yield* tinker(["checkpoint", "delete"])).code, 2)
      assert.strictEqual((yield* tinker(["checkpoint", "delete", "--run-id", run, "--before", "soon", "-y"])).code, 2)
      const none = yield* json(["checkpoint", "delete", "--run-id", run, "--before", "2000-01-01", "-y"])
      assert.strictEqual(none.deleted_count, 0)
    }))

  it.scoped("checkpoint download, of each kind, once", () =>
    Effect.gen(function*() {
      const { run } = yield* Server
      const { fs, root } = yield* directory
      for (const kind of ["weights/0002", "sampler_weights/final", "external_weights/ext"]) {
        const line = ["checkpoint", "download", `tinker://${run}/${kind}`, "-o", root]
        const { destination, file_size_bytes } = yield* json(line)
        assert.include(yield* fs.readDirectory(destination), "adapter_model.safetensors")
        assert.isAbove(file_size_bytes, 1000)
        assert.strictEqual((yield* tinker(line)).code, 2)
        assert.strictEqual((yield* tinker([...line, "--force"])).code, 0)
      }
      assert.isTrue((yield* fs.readDirectory(root)).every((name) => !/[:]|\.download|\.old/.test(name)))
    }))

  it.scoped("a training checkpoint the server has no archive of is exported, and the export deleted", () =>
    Effect.gen(function*() {
      const { baseUrl, run } = yield* Server
      const { fs, root } = yield* directory
      const { url } = yield* withoutArchives(baseUrl)
      const line = ["checkpoint", "download", `tinker://${run}/weights/0002`, "-o", root, "-f", "json"]
      const { code, stderr, stdout } = yield* tinker(line, { env: { TINKER_BASE_URL: url } })
      assert.strictEqual(code, 0, stderr)
      assert.include(stderr, "exporting it")
      assert.include(yield* fs.readDirectory(JSON.parse(stdout).destination), "adapter_model.safetensors")
      const { checkpoints } = yield* json(["checkpoint", "list", "--limit", "0"])
      assert.isTrue(
        checkpoints.every(({ checkpoint_id }: { checkpoint_id: string }) =>
          checkpoint_id !== "external_weights/download"
        )
      )
    }))

  it.scoped("checkpoint push-hf creates the repository, the branch and the card, and refuses another checkpoint", () =>
    Effect.gen(function*() {
      const { run } = yield* Server
      const { origin, repositories } = yield* hub({ chunk: 20_000 })
      const env = { HF_ENDPOINT: origin, HF_TOKEN: "hf_test" }
      const path = `tinker://${run}/sampler_weights/final`
      const first = yield* tinker(["checkpoint", "push-hf", path, "-f", "json"], { env })
      assert.strictEqual(first.code, 0, first.stderr)
      const { repo_id, revision } = JSON.parse(first.stdout)
      assert.match(repo_id, /^me\/tinker-tiny-[A-Za-z0-9-]+$/)
      assert.strictEqual(revision, "sampler_weights-final")
      const files = repositories.get(repo_id)?.branches.get(revision)
      assert.isTrue(repositories.get(repo_id)?.private)
      assert.deepStrictEqual([...files?.keys() ?? []].sort(), [
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors"
      ])
      assert.include(files?.get("README.md")?.toString(), `tinker_path: "${path}"`)
      const other = yield* tinker([
        "checkpoint",
        "push-hf",
        `tinker://${run}/external_weights/ext`,
        "--repo",
        repo_id,
        "--revision",
        revision
      ], { env })
      assert.strictEqual(other.code, 1)
      assert.include(other.stderr, "holds another checkpoint")
    }))

  it.scoped("session list, info, assign, export-trace; sampler, models, audit", () =>
    Effect.gen(function*() {
      const { run, session } = yield* Server
      const { root } = yield* directory
      assert.include((yield* json(["session", "list"])).sessions, session)
      assert.deepStrictEqual((yield* json(["session", "info", session])).training_run_ids, [run])
      assert.strictEqual((yield* json(["session", "assign", session, "lab"])).project_id, "lab")
      const url = yield* tinker(["session", "export-trace", session, "--url-only"])
      assert.match(url.stdout, /^https?:\/\/\S+\n$/)
      const trace = yield* json(["session", "export-trace", session, "-o", `${root}/deep/t.pftrace`])
      assert.isAbove(trace.file_size_bytes, 0)
      assert.strictEqual((yield* json(["models"])).models[0].model_name, "local/tiny")
      assert.strictEqual((yield* json(["model", "list", "SMALL"])).models[0].model_name, "local/small")
      assert.strictEqual((yield* tinker(["models", "nothing-like-it"])).code, 1)
      assert.strictEqual((yield* tinker(["sampler", "info", "none"])).code, 1)
      assert.isTrue(
        (yield* json(["audit"])).entries.some((entry: { event: string }) => entry.event === "checkpoint_create")
      )
      assert.strictEqual((yield* tinker(["audit", "--day", "yesterday"])).code, 2)
    }))

  it.scoped("billing usage, summary and checkpoint-storage", () =>
    Effect.gen(function*() {
      const { run, train } = yield* Server
      const { fs, root } = yield* directory
      const { groups } = yield* json(["billing", "summary"])
      assert.isTrue(groups.some((group: { run: string }) => group.run === run))
      const env = { TINKER_API_KEY: otherKey }
      const { session } = yield* train(otherKey, 2)
      const together = yield* tinker(["billing", "summary"], { env })
      assert.include(together.stdout, `session ${session}, 2 runs together`)
      assert.include(together.stderr, "counts usage by session, not by run: 1 session")
      const ofTwo = JSON.parse(
        (yield* tinker(["billing", "summary", "-f", "ndjson"], { env })).stdout.split("\n")[0] ?? ""
      )
      assert.strictEqual(ofTwo.run, null)
      assert.strictEqual(ofTwo.runs.length, 2)
      const hour = 3_600_000
      const start = new Date(Math.floor(Date.now() / hour) * hour - 24 * hour).toISOString()
      const end = new Date(Math.floor(Date.now() / hour) * hour + hour).toISOString()
      const usage = yield* json(["billing", "usage", start, end])
      assert.isAbove(usage.total, 0)
      const csv = yield* tinker(["billing", "usage", start, end, "--csv", `${root}/u.csv`, "--sessions-csv", "-"])
      assert.match(csv.stdout, /^session_id,user_metadata\r\n/)
      assert.strictEqual((yield* fs.readFileString(`${root}/u.csv`)).trim().split("\r\n").length, usage.total + 1)
      assert.strictEqual((yield* tinker(["billing", "usage", "then", "now"])).code, 2)
      assert.isAbove((yield* json(["billing", "checkpoint-storage"])).total, 0)
    }))

  it.scoped("2,500 checkpoints: all of them, lazily, with a bar only on a terminal", () =>
    Effect.gen(function*() {
      const { pages, url } = yield* crowded
      const env = { TINKER_BASE_URL: url }
      const all = yield* tinker(["checkpoint", "list", "--limit", "0", "-f", "ndjson"], { env })
      assert.strictEqual(all.stdout.trim().split("\n").length, 2500)
      assert.strictEqual(all.stderr, "")
      assert.strictEqual(pages.length, 3)
      const some = yield* tinker(["checkpoint", "list", "--limit", "0"], { env, isTTY: true, columns: 120 })
      assert.strictEqual(some.stdout.trim().split("\n").length, 2501)
      assert.include(some.stderr, "1,000/2,500")
      const few = yield* tinker(["checkpoint", "list"], { env })
      assert.include(few.stderr, "20 checkpoints (2,480 more: --limit 0 shows all)")
      assert.strictEqual(pages.at(-1), "?limit=20&offset=0")
    }))

  it.effect("a wrong key, no key and a dead server are told apart, in seconds", () =>
    Effect.gen(function*() {
      const wrong = yield* tinker(["run", "list"], { env: { TINKER_API_KEY: "tml-wrong" } })
      assert.strictEqual(wrong.code, 1)
      assert.include(wrong.stderr, "rejected the API key (status 401")
      const malformed = yield* tinker(["run", "list"], { env: { TINKER_API_KEY: "sk-other" } })
      assert.include(malformed.stderr, "The API key cannot be one")
      const dead = yield* tinker(["run", "list", "--base-url", "http://127.0.0.1:9"])
      assert.strictEqual(dead.code, 1)
      assert.include(dead.stderr, "The connection failed")
      const [, , page, ...rest] = dead.stderr.trimEnd().split("\n")
      assert.match(page ?? "", /^ {2}See https:\/\/.*\/docs\/errors\.md#transportfailed$/)
      assert.deepStrictEqual(rest, [])
      const visible = yield* tinker(["run", "list", "--api-key", "tml-visible"])
      assert.strictEqual(visible.code, 2)
      assert.notInclude(visible.stderr, "tml-visible")
    }))

  it.effect("sample: streamed text, several as data, the prompt from a pipe", () =>
    Effect.gen(function*() {
      const { run } = yield* Server
      const line = ["sample", "--max-tokens", "8", "--seed", "7", "--temperature", "0"]
      const once = yield* tinker([...line, "--model", "local/tiny", "Once upon"])
      assert.strictEqual(once.code, 0, once.stderr)
      assert.match(once.stdout, /^[^\n].*\n$/s)
      const piped = yield* tinker([...line, "--model", "local/tiny"], { stdin: "Once upon" })
      assert.strictEqual(piped.stdout, once.stdout)
      const { samples, usage } = yield* json([
        ...line,
        "--checkpoint",
        `tinker://${run}/sampler_weights/final`,
        "-n",
        "2",
        "x"
      ])
      assert.strictEqual(samples.length, 2)
      assert.isAbove(usage.completion_tokens, 0)
      const chosen = yield* tinker([...line, "Once upon"])
      assert.include(chosen.stderr, "Sampling from local/tiny")
      assert.strictEqual((yield* tinker(["sample", "--model", "a", "--checkpoint", "b", "x"])).code, 2)
    }))

  it.effect("chat: a pipe gives one turn a line, and the conversation grows", () =>
    Effect.gen(function*() {
      const line = ["chat", "--model", "local/tiny", "--max-tokens", "6", "--seed", "7", "--system", "Be brief."]
      const talk = yield* tinker([...line, "-f", "json"], { stdin: "hello\n\nagain\n" })
      assert.strictEqual(talk.code, 0, talk.stderr)
      const { messages } = JSON.parse(talk.stdout)
      assert.deepStrictEqual(
        messages.map(({ role }: { role: string }) => role),
        ["system", "user", "assistant", "user", "assistant"]
      )
      const reset = yield* tinker([...line, "-f", "json"], { stdin: "hello\n/reset\nagain\n/exit\nnever\n" })
      assert.strictEqual(JSON.parse(reset.stdout).messages.length, 3)
      const plain = yield* tinker(line, { stdin: "hello\n" })
      assert.strictEqual(plain.stdout.endsWith("\n"), true)
      assert.strictEqual(plain.stderr, "")
    }))

  it.effect("chat: prompts are written as training writes them, or by the server where it must be", () =>
    Effect.gen(function*() {
      const line = ["chat", "--model", "local/tiny", "--max-tokens", "6", "--seed", "7"]
      const stdin = "hello\nagain\n"
      const own = yield* tinker(line, { stdin })
      assert.strictEqual(own.code, 0, own.stderr)
      // the recommended format by its name, and another one
      assert.strictEqual((yield* tinker([...line, "--renderer", "role_colon"], { stdin })).stdout, own.stdout)
      assert.notStrictEqual((yield* tinker([...line, "--renderer", "qwen3_instruct"], { stdin })).stdout, own.stdout)
      const unknown = yield* tinker([...line, "--renderer", "nonsense"], { stdin })
      assert.strictEqual(unknown.code, 1)
      assert.include(unknown.stderr, "role_colon")
      // stops of one's own are the server's business
      const stopped = yield* tinker([...line, "--stop", "."], { stdin })
      assert.strictEqual(stopped.code, 0, stopped.stderr)
      assert.notInclude(stopped.stdout, ".")
    }))

  it.scoped("report draws a log, leaves out a torn line and says so", () =>
    Effect.gen(function*() {
      const { fs, root } = yield* directory
      const log = `${root}/metrics.jsonl`
      yield* fs.writeFileString(log, "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":1}\n{\"st")
      const done = yield* tinker(["report", log, "-f", "json"])
      assert.deepStrictEqual(JSON.parse(done.stdout), { report: `${log}.html`, steps: 2 })
      assert.include(done.stderr, "metrics.jsonl:3: the last line is cut off")
      yield* tinker(["report", "-o", `${root}/page.html`, "--title", "Mine", log])
      assert.include(yield* fs.readFileString(`${root}/page.html`), "<h1>Mine</h1>")
      yield* fs.writeFileString(log, "loss 1\nloss 2\n")
      const wrong = yield* tinker(["report", log])
      assert.strictEqual(wrong.code, 1)
      assert.include(wrong.stderr, "metrics.jsonl:1: not JSON")
      assert.strictEqual((yield* tinker(["report", `${root}/none`])).code, 1)
    }))

  it.effect("doctor and whoami", () =>
    Effect.gen(function*() {
      const doctor = yield* json(["doctor"])
      assert.isTrue(doctor.ok)
      const dead = yield* tinker(["doctor", "--base-url", "http://127.0.0.1:9", "-f", "json"])
      assert.strictEqual(dead.code, 1)
      assert.isFalse(JSON.parse(dead.stdout).ok)
      assert.include(dead.stderr, "server")
      assert.strictEqual((yield* json(["whoami"])).email, "ada@example.org")
    }))

  it.scoped("init writes the project that npm create effect-tinker writes, and into nothing that is there", () =>
    Effect.gen(function*() {
      const { fs, root } = yield* directory
      const line = ["init", `${root}/mine`, "--start", "reward", "--style", "promise", "--no-install", "--pm", "npm"]
      assert.strictEqual((yield* tinker(line)).code, 0)
      const manifest = JSON.parse(yield* fs.readFileString(`${root}/mine/package.json`))
      assert.deepInclude(manifest.dependencies, { "@effect-tinker/promise": "^0.1.0" })
      assert.include(yield* fs.readFileString(`${root}/mine/src/train.ts`), "reward")
      const again = yield* tinker(line)
      assert.strictEqual(again.code, 1)
      assert.include(again.stderr, "mine is not empty")
      assert.include(again.stderr, "tinker init DIRECTORY")
    }))

  it.scoped("doctor names what is wrong around it, and what to do", () =>
    Effect.gen(function*() {
      const { fs, root } = yield* directory
      yield* fs.writeFileString(`${root}/file`, "no directory, and no certificate")
      const checked = Effect.fnUntraced(function*(env: Readonly<Record<string, string>>) {
        const { code, stderr, stdout } = yield* tinker(["doctor", "-f", "json"], { env })
        assert.notInclude(stdout + stderr, "hunter2")
        const checks: ReadonlyArray<Record<string, string>> = JSON.parse(stdout).checks
        return (name: string) => {
          const { advice, detail, status } = checks.find(({ check }) => check === name) ?? {}
          return { code, detail, status, says: advice !== undefined && stderr.includes(advice.slice(0, 30)) }
        }
      })

      const fine = yield* checked({
        HF_HUB_CACHE: `${root}/hub`,
        HF_TOKEN: "hf_hunter2hunter2",
        TINKER_LOCAL_DIR: `${root}/deep/data`,
        HTTPS_PROXY: "http://ada:hunter2@proxy.test:3128",
        no_proxy: "127.0.0.1"
      })
      assert.match(fine("hub cache").detail ?? "", new RegExp(`^${root}/hub, [\\d.,]+ [KMGT]B free, with a token$`))
      assert.match(fine("data").detail ?? "", /deep\/data, .* free$/)
      assert.strictEqual(fine("proxy").detail, "HTTPS_PROXY: proxy.test:3128, but for 127.0.0.1")
      assert.deepStrictEqual([fine("certificates").status, fine("proxy").code], [undefined, 0])

      const wrong = yield* checked({
        HF_HUB_CACHE: `${root}/file`,
        HTTPS_PROXY: "http://ada:hunter2@:::",
        SSL_CERT_FILE: `${root}/none.pem`
      })
      for (const name of ["hub cache", "proxy", "certificates"]) {
        assert.deepInclude(wrong(name), { status: "failed", code: 1, says: true }, name)
      }
      assert.strictEqual(wrong("certificates").detail, `SSL_CERT_FILE names ${root}/none.pem, which cannot be read`)
      assert.include(
        (yield* checked({ SSL_CERT_FILE: `${root}/file` }))("certificates").detail ?? "",
        "which has no certificate"
      )
      assert.strictEqual((yield* checked({ TINKER_API_KEY: "\"tml-quoted\"" }))("credential").status, "failed")
    }), 60_000)

  it.scoped(
    "what a server says is shown without control characters and without an echoed key",
    () =>
      Effect.gen(function*() {
        const hostile = yield* Effect.acquireRelease(
          Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
            const service = createServer((request, response) => {
              const key = request.headers["x-api-key"] ?? request.headers.authorization ?? ""
              response.writeHead(422, { "content-type": "application/json" })
              response.end(JSON.stringify({ detail: `\u001b[2J\u009b1m ${String(key)} is wrong\nerror: forged\u202e` }))
            })
            service.listen(0, "127.0.0.1", () => {
              const address = service.address()
              const port = typeof address === "object" && address !== null ? address.port : 0
              resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, close: () => void service.close() }))
            })
          }),
          ({ close }) => Effect.sync(close)
        )
        const env = { TINKER_API_KEY: "tml-very-secret-key" }
        for (
          const line of [
            ["models"],
            ["models", "--log-level", "debug"],
            ["run", "info", "x"],
            ["doctor"],
            ["doctor", "-f", "json"],
            ["conformance"],
            ["sample", "x", "--model", "m"]
          ]
        ) {
          const { code, stderr, stdout } = yield* tinker([...line, "--base-url", hostile.url], { env })
          assert.notStrictEqual(code, 0)
          assert.notInclude(stdout + stderr, "very-secret", line.join(" "))
          assert.notMatch(stdout + stderr, /[\u001b\u0080-\u009f\u202e]|^error: forged/m, line.join(" "))
        }
        assert.match((yield* tinker(["models", "--base-url", hostile.url], { env })).stderr, /is wrong error: forged/)
      }),
    60_000
  )

  it.effect("a setting that means nothing is said, not ignored", () =>
    Effect.gen(function*() {
      const env = { TINKER_LOG: "loud" }
      const { code, stderr } = yield* tinker(["models"], { env })
      assert.strictEqual(code, 0)
      assert.include(stderr, "warning: TINKER_LOG=loud is not understood, so nothing is logged: write debug, info\n")
      const { stdout } = yield* tinker(["doctor", "-f", "json"], { env })
      assert.include(
        JSON.parse(stdout).checks.map(({ check, status }: Record<string, string>) => `${check} ${status}`),
        "settings warning"
      )
      assert.notInclude(
        (yield* tinker(["models"], { env: { TINKER_LOG: "INFO", TINKER_TELEMETRY: "0" } })).stderr,
        "warning"
      )
    }))

  it.scoped("--base-url local works without a server", () =>
    Effect.gen(function*() {
      const { root } = yield* directory
      const env = { TINKER_LOCAL_DIR: root }
      const { code, stdout } = yield* tinker(["models", "--base-url", "local", "-f", "json"], { env })
      assert.strictEqual(code, 0)
      const [first] = JSON.parse(stdout).models
      assert.deepInclude(first, { model_name: "local/tiny", source: "bundled", trainable: true })
      assert.isAtLeast(first.memory_bytes, first.least_memory_bytes)
      assert.strictEqual(
        (yield* tinker(["run", "list", "--base-url", "local"], { env })).stderr,
        "No training runs found\n"
      )
    }))
})
