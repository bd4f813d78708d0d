import { Cli } from "@effect-tinker/cli"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted, Scope } from "effect"
import { MetricsLog, Progress as TrainingProgress } from "effect-tinker"
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { createServer, request as sendRequest } from "node:http"
import type { RequestListener } from "node:http"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { commandsIn } from "../src/internal/grammar.js"
import { hub } from "./fixtures/hub.js"
import { hasTmux, make } from "./fixtures/process.js"
import type { Env, Tinker } from "./fixtures/process.js"
import { rows } from "./fixtures/rows.js"
import type { Place, Row } from "./fixtures/rows.js"
import * as training from "./fixtures/training.js"
import { wire } from "./fixtures/wire.js"

let cli: Tinker
let backend: Awaited<ReturnType<Tinker["local"]>>
let models: string
let strict: string
const scope = Effect.runSync(Scope.make())

const server = (): Env => ({ TINKER_BASE_URL: backend.url, TINKER_API_KEY: "tml-local" })

const tinker: Tinker["run"] = (args, options = {}) =>
  cli.run(args, { ...options, env: { ...server(), ...options.env } })

const terminal: Tinker["terminal"] = (args, options = {}) =>
  cli.terminal(args, { ...options, env: { ...server(), ...options.env } })

const listen = (handle: RequestListener): Promise<{ readonly url: string; readonly close: () => void }> =>
  new Promise((resolve) => {
    const service = createServer(handle)
    service.listen(0, "127.0.0.1", () => {
      const address = service.address()
      resolve({
        url: `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`,
        close: () => {
          service.closeAllConnections()
          service.close()
        }
      })
    })
  })

/** A session with a run, checkpoints for both ways of calling, and a sampler; and the record of a run in a directory. */
const seed = async () => {
  const service = wire(backend.url, "tml-local")
  const session = await service.session()
  const run = await service.model(session, 0, { rank: 4 })
  let seq = 0
  for (const mode of ["pipe", "tty"]) {
    for (const path of [`keep-${mode}`, `gone-${mode}`]) {
      await service.settled("save_weights", { model_id: run, path, seq_id: ++seq, type: "save_weights" })
    }
    await service.settled("save_weights_for_sampler", {
      model_id: run,
      path: `final-${mode}`,
      seq_id: ++seq,
      type: "save_weights_for_sampler"
    })
  }
  const { sampling_session_id: sampler = "" } = await service.post("create_sampling_session", {
    session_id: session,
    sampling_session_seq_id: 0,
    base_model: "local/tiny",
    type: "create_sampling_session"
  })
  const runs = join(cli.home, "runs")
  const { chats } = training.write(cli.home)
  const tiny = ["--model", "local/tiny", "--rank", "4"]
  const trained = await tinker(["train", "sft", chats, ...tiny, "--steps", "1", "--out", join(runs, "one")])
  assert.strictEqual(trained.code, 0, trained.stderr)
  return (mode: Place["mode"], home: string): Place => ({
    mode,
    home,
    runs,
    session,
    run,
    sampler,
    path: (id) => `tinker://${run}/${id}-${mode}`
  })
}

let place: Awaited<ReturnType<typeof seed>>

beforeAll(async () => {
  cli = await make()
  backend = await cli.local("--memory")
  place = await seed()
  strict = (await Effect.runPromise(
    Scope.extend(NodeTinkerLocal.serve({ apiKeys: [{ key: Redacted.make("tml-right") }] }), scope)
  )).baseUrl
  models = (await Effect.runPromise(Scope.extend(hub(), scope))).origin
}, 120_000)

afterAll(async () => {
  await Effect.runPromise(Scope.close(scope, Exit.void))
  assert.strictEqual(await backend.stop(), 130)
  cli.dispose()
}, 30_000)

/** A training loop that writes its log, slowly enough to be watched; its last step is done when it has been seen. */
const train = (path: string, steps: number, seen: Promise<void> = Promise.resolve()) =>
  Effect.gen(function*() {
    yield* Effect.sleep("1 seconds")
    const log = yield* MetricsLog.open(path)
    const progress = yield* TrainingProgress.make({ totalSteps: steps })
    for (let step = 1; step <= steps; step++) {
      yield* step === steps ? Effect.promise(() => seen) : Effect.sleep("300 millis")
      yield* log.append(yield* progress.step({ loss: 1 / step }, { tokens: 100 }))
    }
  }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer))

// Two at a time: as many processors as the smallest machine has.
const permits = Effect.unsafeMakeSemaphore(2)
const inTurn = (run: () => Promise<void>) => () => Effect.runPromise(permits.withPermits(1)(Effect.promise(run)))

const prepare = async (row: Row, mode: Place["mode"]) => {
  const home = join(cli.home, `${row.command.replace(" ", "-")}-${mode}`)
  mkdirSync(home)
  training.write(home)
  writeFileSync(join(home, "key"), "tml-local")
  writeFileSync(join(home, "metrics.jsonl"), "{\"step\":0,\"loss\":2}\n{\"step\":1,\"loss\":1}\n")
  const at = place(mode, home)
  const env = { HOME: home, HF_ENDPOINT: models, HF_TOKEN: "hf_test", ...row.env }
  for (const line of row.before ?? []) {
    const words = line.map((word) => word.startsWith("@") ? `@${join(home, word.slice(1))}` : word)
    const { code, stderr } = await tinker(words, { env })
    assert.strictEqual(code, 0, stderr)
  }
  return { args: [...row.command.split(" "), ...row.args?.(at) ?? []], env }
}

const expected = (row: Row): number => row.interruptAt === undefined ? 0 : 130

/** What needs more than a row: a model with files, two evaluations, traces, a judge, a browser's page, a tracking server, OpenAI's client, an agent, a durable run, Postgres. */
const testedElsewhere: ReadonlySet<string> = new Set([
  "export weights",
  "export mlflow",
  "studio",
  "eval compare",
  "improve",
  "train judged",
  ...["import", "receive", "successes", "best", "pairs", "replay"].map((name) => `data ${name}`),
  "gateway",
  "train agent",
  "worker",
  ...["follow", "pause", "resume", "cancel", "grade"].map((action) => `runs ${action}`)
])

// A test waits for its turn, too.
describe("every command", { concurrent: true, timeout: 300_000 }, () => {
  it("has a row", async () => {
    const grammar = await Effect.runPromise(Cli.grammar)
    assert.deepStrictEqual(
      rows.map(({ command }) => command).sort(),
      commandsIn(grammar).map(({ path }) => path.join(" ")).filter((name) => !testedElsewhere.has(name)).sort()
    )
  })

  for (const row of rows) {
    it(
      `${row.command}, through pipes`,
      inTurn(async () => {
        const { args, env } = await prepare(row, "pipe")
        const { code, stderr, stdout } = await tinker(args, { env, input: row.input, interruptAt: row.interruptAt })
        assert.strictEqual(code, expected(row), stderr)
        assert.match(stderr + stdout, row.shows)
        assert.notInclude(stdout + stderr, "\u001b")
      })
    )

    it.skipIf(!hasTmux)(
      `${row.command}, in a terminal`,
      inTurn(async () => {
        const { args, env } = await prepare(row, "tty")
        const keys = row.interruptAt === undefined ? row.keys : [[row.interruptAt, ["C-c"]] as const]
        const screen = await terminal(args, { env, keys })
        assert.include(screen, `code=${expected(row)}`)
        assert.match(screen, row.shows)
      })
    )
  }
})

/** Commands that talk to the service in different ways. */
const talkers: ReadonlyArray<ReadonlyArray<string>> = [
  ["run", "list"],
  ["checkpoint", "download", "tinker://r/weights/1", "-o", "HOME"],
  ["sample", "hello", "--model", "local/tiny"]
]

describe("trouble", { concurrent: true, timeout: 300_000 }, () => {
  for (const words of talkers) {
    const name = words.slice(0, 2).join(" ")
    const into = (trouble: string) => words.map((word) => word === "HOME" ? join(cli.home, trouble) : word)

    it(
      `${name}: a dead server is given up in seconds`,
      inTurn(async () => {
        const { code, stderr } = await tinker(into("dead"), {
          env: { TINKER_BASE_URL: "http://127.0.0.1:9" },
          // of which a busy machine takes most to start it
          limit: 45_000
        })
        assert.strictEqual(code, 1)
        assert.match(
          stderr,
          /^error: The connection failed.*\n {2}Check --base-url and the network.*\n {2}See \S+errors\.md#\w+\n$/
        )
      })
    )

    it(
      `${name}: a wrong key is said to be one`,
      inTurn(async () => {
        const { code, stderr } = await tinker(into("refused"), {
          env: { TINKER_BASE_URL: strict, TINKER_API_KEY: "tml-wrong" }
        })
        assert.strictEqual(code, 1)
        assert.match(
          stderr,
          /^error: The server rejected the API key.*\n {2}Run `tinker auth login`.*\n {2}See \S+errors\.md#\w+\n$/
        )
      })
    )

    it(
      `${name}: an interrupt ends it, whatever it waits for`,
      inTurn(async () => {
        let interrupt = () => {}
        const silent = await listen(() => interrupt())
        const { code, stderr } = await tinker(into("silent"), {
          env: { TINKER_BASE_URL: silent.url },
          onStart: (send) => {
            interrupt = send
          }
        })
        silent.close()
        assert.strictEqual(code, 130)
        assert.include(stderr, "Interrupted")
      })
    )
  }

  it(
    "2,500 checkpoints: all of them, through a pipe and in a terminal",
    inTurn(async () => {
      // saved once, and repeated on the disk while nobody looks
      const directory = join(cli.home, "crowd")
      const before = await cli.local("--dir", directory)
      const service = wire(before.url, "tml-local")
      const run = await service.model(await service.session(), 0, { rank: 1, train_mlp: false, train_unembed: false })
      const save = { model_id: run, path: "c0", seq_id: 1, type: "save_weights_for_sampler" }
      await service.settled("save_weights_for_sampler", save)
      await before.stop()
      const [name = ""] = readdirSync(join(directory, "runs"))
      const place = join(directory, "runs", name, "sampler_weights")
      const record = readFileSync(join(place, "c0", "checkpoint.json"), "utf8")
      for (let i = 1; i < 2500; i++) {
        mkdirSync(join(place, `c${i}`))
        writeFileSync(join(place, `c${i}`, "checkpoint.json"), record.replaceAll("c0\"", `c${i}"`))
      }
      const crowded = await cli.local("--dir", directory)
      const env = { TINKER_BASE_URL: crowded.url }
      const { code, stdout } = await tinker(["checkpoint", "list", "--limit", "0", "-f", "ndjson"], { env })
      assert.strictEqual(code, 0)
      assert.strictEqual(new Set(stdout.trim().split("\n").map((line) => JSON.parse(line).tinker_path)).size, 2500)
      if (hasTmux) {
        const screen = await terminal(["checkpoint", "list", "--limit", "0"], { env })
        assert.include(screen, "code=0")
        assert.include(screen, "/sampler_weights/c")
      }
      await crowded.stop()
    })
  )
})

describe("the process", { timeout: 300_000 }, () => {
  it("prints data on stdout and everything else on stderr", async () => {
    const { code, stderr, stdout } = await tinker(["models"])
    assert.strictEqual(code, 0)
    assert.match(stdout, /^MODEL +MAX CONTEXT/)
    assert.strictEqual(stderr, "2 models\n")
    assert.notInclude(stdout + stderr, "\u001b")
  })

  it("a reader that leaves is no failure", () => {
    const line = `'${process.execPath}' '${cli.bin}' models -f ndjson | head -n 1; exit \${PIPESTATUS[0]}`
    const result = spawnSync("bash", ["-c", line], { encoding: "utf8", env: { ...cli.base, ...server() } })
    assert.strictEqual(result.status, 0)
    assert.strictEqual(result.stderr, "")
    assert.strictEqual(JSON.parse(result.stdout).model_name, "local/tiny")
  })

  it("sends no key over plain http to another machine, unless the environment allows it", async () => {
    const env = { TINKER_BASE_URL: "http://nowhere.invalid:9" }
    const refused = await tinker(["run", "list"], { env })
    assert.strictEqual(refused.code, 2)
    assert.include(refused.stderr, "TINKER_ALLOW_INSECURE=1")
    const allowed = await tinker(["run", "list", "--timeout", "2"], { env: { ...env, TINKER_ALLOW_INSECURE: "1" } })
    assert.strictEqual(allowed.code, 1)
    assert.notInclude(allowed.stderr, "TINKER_ALLOW_INSECURE")
  })

  it("logs in from a pipe, uses the login, logs out", async () => {
    const env = { TINKER_API_KEY: "" }
    const code = async (...args: ReadonlyArray<string>) => (await tinker(args, { input: "tml-local\n", env })).code
    assert.strictEqual(await code("auth", "status"), 1)
    const login = await tinker(["auth", "login"], { input: "tml-local\n", env })
    assert.strictEqual(login.code, 0, login.stderr)
    const file = join(cli.home, ".tinker", "credentials.json")
    assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    assert.strictEqual(JSON.parse(readFileSync(file, "utf8")).version, 1)
    assert.notInclude(login.stdout + login.stderr, "tml-local")
    assert.strictEqual(await code("auth", "status"), 0)
    assert.strictEqual(await code("auth", "login"), 1)
    assert.strictEqual(await code("auth", "logout"), 0)
    assert.strictEqual(await code("run", "list"), 1)
    const nonsense = await tinker(["auth", "login"], { input: "nonsense\n", env })
    assert.strictEqual(nonsense.code, 1)
    assert.include(nonsense.stderr, "not an API key")
  })

  it("help, version and completions need no server and no network", async () => {
    const env = { TINKER_BASE_URL: "http://127.0.0.1:9", TINKER_API_KEY: "" }
    assert.match((await tinker(["version"], { env })).stdout, /^tinker \d+\.\d+\.\d+\n$/)
    const help = await tinker(["checkpoint", "download", "--help"], { env })
    assert.include(help.stdout, "tinker checkpoint download")
    assert.include((await tinker(["--completions", "bash"], { env })).stdout, "checkpoint")
  })

  it("an interrupt ends with 130 and leaves a download to go on with", async () => {
    const data = new Uint8Array(1_000_000)
    const storage = await listen((request, response) => {
      if (request.url?.startsWith("/file") === true) {
        response.writeHead(200, { "content-length": data.length, etag: "\"x\"" })
        return void response.write(data.subarray(0, 500_000))
      }
      response.setHeader("content-type", "application/json")
      response.end(
        request.url?.endsWith("/archive") === true
          ? JSON.stringify({ url: `${storage.url}/file`, expires: "2099-01-01T00:00:00Z" })
          : "{}"
      )
    })
    const target = join(cli.home, "interrupted")
    const part = join(target, "r_weights_1.download", "archive.tar.part")
    const { code, stderr } = await tinker(["checkpoint", "download", "tinker://r/weights/1", "-o", target], {
      env: { TINKER_BASE_URL: storage.url },
      onStart: (interrupt) => {
        const timer = setInterval(() => {
          if (!existsSync(part) || statSync(part).size < 400_000) return
          clearInterval(timer)
          interrupt()
        }, 50)
      }
    })
    storage.close()
    assert.strictEqual(code, 130)
    assert.include(stderr, "Interrupted")
    assert.deepStrictEqual(readdirSync(target), ["r_weights_1.download"])
    assert.isAtLeast(statSync(part).size, 400_000)
  })

  it("watches a run: a line a step while it runs, and its end", async () => {
    const log = join(cli.home, "run.jsonl")
    const { code, stderr, stdout } = await tinker(["watch", log], {
      onStart: () => void Effect.runPromise(train(log, 5))
    })
    assert.strictEqual(code, 0, stderr)
    assert.match(stdout, /^(step \d\/5: loss [\d.]+[^\n]*\n){5}$/)
    assert.match(stderr, /The run has ended after 5 steps/)
    assert.notInclude(stdout + stderr, "\u001b")
    const ended = await tinker(["watch", log, "-f", "json"])
    assert.deepInclude(JSON.parse(ended.stdout), { step: 5, total_steps: 5, ended: "success", waiting: null })
  })

  it("watching ends with an interrupt, and JSON says where the run stood", async () => {
    const log = join(cli.home, "endless.jsonl")
    writeFileSync(log, "{\"step\":1,\"loss\":2,\"time\":1000}\n{\"step\":2,\"lo")
    const { code, stderr, stdout } = await tinker(["watch", log, "-f", "json"], { interruptAt: /waiting for more/ })
    assert.strictEqual(code, 130, stderr)
    assert.deepInclude(JSON.parse(stdout), { step: 1, metrics: { loss: 2 }, ended: null })
  })

  it.skipIf(!hasTmux)("in a terminal: a run is one line that moves, with bar and curve, and stays", async () => {
    const log = join(cli.home, "seen.jsonl")
    let go = () => {}
    const seen = new Promise<void>((resolve) => {
      go = resolve
    })
    const [screen] = await Promise.all([
      terminal(["watch", log], { keys: [[/░  \d\/8  █\S+  loss \d/, [], go]] }),
      Effect.runPromise(train(log, 8, seen))
    ])
    assert.include(screen, "code=0")
    assert.strictEqual(screen.match(/█{16} {2}8\/8 {2}█[▁▂▃▄▅▆▇█]{7} {2}loss/g)?.length, 1, screen)
    writeFileSync(log, "{\"step\":1,\"loss\":2}\n")
    const stopped = await terminal(["watch", log], { keys: [[/step 1/, ["C-c"]]] })
    assert.match(stopped, /step 1 {2}▁ {2}loss 2[^\n]*\n\s*Interrupted\s+code=130/)
  })

  it.skipIf(!hasTmux)("in a terminal: colour, unless it is not wanted", async () => {
    const screen = await terminal(["models"], { capture: ["-e"] })
    assert.match(screen, /36m[^\n]*local\/tiny/)
    const plain = await terminal(["models"], { capture: ["-e"], env: { NO_COLOR: "1" } })
    assert.notInclude(plain, "36m")
    assert.include(plain, "code=0")
  })

  it.skipIf(!hasTmux)("in a terminal: a key is typed unseen", async () => {
    const screen = await terminal(["auth", "login"], {
      keys: [[/Paste your API key/, ["tml-local", "Enter"]]],
      env: { TINKER_API_KEY: "", HOME: join(cli.home, "unseen") }
    })
    assert.include(screen, "code=0")
    assert.notInclude(screen, "tml-local")
  })

  it.skipIf(!hasTmux)("in a terminal: a confirmation is asked for, and no is the answer unless yes", async () => {
    const line = ["checkpoint", "delete", "tinker://run/weights/1"]
    const screen = await terminal(line, { keys: [[/Delete\? \[y\/N\]/, ["Enter"]]] })
    assert.include(screen, "Nothing was deleted")
    assert.include(screen, "code=0")
    const interrupted = await terminal(line, { keys: [[/Delete\? \[y\/N\]/, ["C-c"]]] })
    assert.include(interrupted, "code=130")
  })

  it.skipIf(!hasTmux)("in a terminal: a reply is one request where the server streams tokens, else some", async () => {
    for (const [streams, expected] of [[true, { completions: 2 }], [false, { completions: 1, asample: 4 }]] as const) {
      const counts: Record<string, number> = {}
      const proxy = await listen((request, response) => {
        const name = request.url?.split("/").at(-1) ?? ""
        if (name in { completions: 0, asample: 0 }) counts[name] = (counts[name] ?? 0) + 1
        if (name === "completions" && !streams) return void response.writeHead(404).end("{\"detail\":\"Not Found\"}")
        const forwarded = sendRequest(new URL(request.url ?? "/", backend.url), {
          method: request.method,
          headers: request.headers
        }, (answer) => {
          response.writeHead(answer.statusCode ?? 500, answer.headers)
          answer.pipe(response)
        })
        request.pipe(forwarded)
      })
      const line = ["chat", "--model", "local/tiny", "--renderer", "qwen3_instruct", "--temperature", "0"]
      const screen = await terminal([...line, "--max-tokens", "60"], {
        env: { TINKER_BASE_URL: proxy.url },
        // an untrained model may fill the screen with lines
        capture: ["-S", "-500"],
        keys: [
          [/you>\s*$/m, ["hello", "Enter"]],
          [/you> hello[\s\S]*you>\s*$/m, ["again", "Enter"]],
          [/you> again[\s\S]*you>\s*$/m, ["/exit", "Enter"]]
        ]
      })
      proxy.close()
      assert.include(screen, "code=0")
      // without ids: pieces of 32 and 28 tokens for each of the two replies
      assert.deepStrictEqual(counts, expected)
    }
  })

  it.skipIf(!hasTmux)("in a terminal: Ctrl-C ends a reply, then what is typed, then the program", async () => {
    // a model that never stops talking
    const talker = await listen((request, response) => {
      if (request.url?.endsWith("/chat/completions") !== true) return void response.end("{}")
      response.writeHead(200, { "content-type": "text/event-stream" })
      const say = () => response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: "and " } }] })}\n\n`)
      const timer = setInterval(say, 50)
      response.once("close", () => clearInterval(timer))
    })
    const screen = await terminal(["chat", "--model", "m"], {
      // no tokenizer of its own, so the server writes the prompts
      env: { TINKER_BASE_URL: talker.url, HF_HUB_OFFLINE: "1" },
      keys: [
        [/you>\s*$/m, ["hello", "Enter"]],
        [/and and/, ["C-c"]],
        [/cut short\s+you>\s*$/m, ["never mind"]],
        [/you> never mind/, ["C-c"]],
        [/\^C\s+you>\s*$/m, ["C-c"]]
      ]
    })
    talker.close()
    assert.include(screen, "code=130")
  })
})
