import * as Entropy from "@effect-tinker/platform/Entropy"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Encoding, Layer, Logger, Option, Random, Redacted } from "effect"
import * as Api from "effect-tinker/wire/Api"
import { SaveWeightsForSamplerRequest, SaveWeightsRequest } from "effect-tinker/wire/Weights"
import * as Net from "node:net"
import * as zlib from "node:zlib"
import * as LocalServer from "../src/LocalServer.js"
import * as NodeTinkerLocal from "../src/NodeTinkerLocal.js"
import * as TinkerLocal from "../src/TinkerLocal.js"
import { call, createModel, openSampler, openSession, pass, poll, resultOf, sample, send } from "./server/support.js"

const http = Effect.provide(FetchHttpClient.layer)
const local = Effect.provide(TinkerLocal.layer())

const users = [
  { key: Redacted.make("tml-test"), email: "ada@example.org" },
  { key: Redacted.make("tml-other"), email: "bob@example.org" }
]
const other = { key: "tml-other", headers: { authorization: "Bearer tml-other" } }

/** Writes bytes to a socket and reads what comes back until `enough` of it has arrived. */
const raw = (port: number, text: string, enough = /\r\n\r\n/) =>
  Effect.async<string>((resume) => {
    let received = ""
    const socket = Net.connect(port, "127.0.0.1", () => socket.write(text))
    socket.on("data", (chunk) => {
      received += chunk.toString()
      if (!enough.test(received)) return
      socket.destroy()
      resume(Effect.succeed(received))
    })
    socket.on("close", () => resume(Effect.succeed(received)))
    socket.on("error", (error) => resume(Effect.die(error)))
    return Effect.sync(() => socket.destroy())
  })

const statusOf = (response: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(response)?.[1])

describe("another user", () => {
  it.effect("cannot sample a private checkpoint, however often its owner has", () =>
    Effect.gen(function*() {
      const sessionId = yield* openSession
      const modelId = yield* createModel(sessionId)
      const saved = yield* call(
        Api.saveWeightsForSampler,
        new SaveWeightsForSamplerRequest({ modelId, seqId: 1, path: "a" })
      )
      const modelPath = String((yield* resultOf(saved))["path"])
      const own = yield* sample(yield* openSampler(sessionId, 0, { modelPath }), 0, "x", { maxTokens: 1 })
      assert.property(yield* resultOf(own), "sequences")

      const completion = send(
        "POST",
        "/oai/api/v1/completions",
        { model: modelPath, prompt: "x", max_tokens: 1 },
        other
      )
      const direct = Effect.gen(function*() {
        const answer = yield* send("POST", "/api/v1/asample", {
          model_path: modelPath,
          prompt: { chunks: [{ type: "encoded_text", tokens: [1] }] },
          sampling_params: { max_tokens: 1 },
          num_samples: 1
        }, other)
        return (yield* poll(String(answer.json()["request_id"]), other)).json()
      })
      assert.strictEqual((yield* completion).status, 404)
      assert.match(String((yield* direct)["error"]), /not found/)

      const [, run, id] = /^tinker:\/\/([^/]+)\/(.*)$/.exec(modelPath) ?? []
      const publish = (method: "POST" | "DELETE") =>
        send(method, `/api/v1/training_runs/${run}/checkpoints/${id}/publish`)
      yield* publish("POST")
      assert.strictEqual((yield* completion).status, 200)
      assert.property(yield* direct, "sequences")
      yield* publish("DELETE")
      assert.strictEqual((yield* completion).status, 404)
      assert.match(String((yield* direct)["error"]), /not found/)
    }).pipe(Effect.provide(TinkerLocal.layer({ apiKeys: users }))))

  it.effect("does not see in the audit log what this one does", () =>
    Effect.gen(function*() {
      yield* createModel(yield* openSession)
      const events = (key: string) =>
        Effect.map(send("GET", "/api/v1/audit", undefined, { key }), (answer) =>
          Array.from(Object(answer.json())["entries"], (entry) => Object(entry)["event"]))
      assert.deepStrictEqual(yield* events("tml-test"), ["session_create", "training_run_create"])
      assert.deepStrictEqual(yield* events("tml-other"), [])
    }).pipe(Effect.provide(TinkerLocal.layer({ apiKeys: users }))))

  /** A token for the first key, signed with a secret. */
  const tokenOf = Effect.fnUntraced(function*(secret: Uint8Array) {
    const part = (value: unknown) => Encoding.encodeBase64Url(JSON.stringify(value))
    const text = `${part({ alg: "HS256", typ: "JWT" })}.${
      part({ email: "ada@example.org", exp: 2 ** 40, key_id: 1, key_name: "key-1" })
    }`
    const algorithm = { name: "HMAC", hash: "SHA-256" }
    const key = yield* Effect.promise(() =>
      crypto.subtle.importKey("raw", Uint8Array.from(secret), algorithm, false, ["sign"])
    )
    const signature = yield* Effect.promise(() => crypto.subtle.sign("HMAC", key, new TextEncoder().encode(text)))
    return { text, signed: `${text}.${Encoding.encodeBase64Url(new Uint8Array(signature))}` }
  })

  const statusWith = (key: string) =>
    Effect.map(send("GET", "/api/v1/sessions", undefined, { key }), ({ status }) => status)

  it.effect("cannot sign tokens, and without keys nobody comes in", () =>
    Effect.gen(function*() {
      // what the secret was made of when there were no keys
      const { signed, text } = yield* tokenOf(new TextEncoder().encode("effect-tinker\n"))
      for (const key of [signed, `${text}.`, text, "tml-any", ""]) assert.strictEqual(yield* statusWith(key), 401, key)
    }).pipe(Effect.provide(TinkerLocal.layer({ apiKeys: [] }))))

  it.effect("cannot use a token of another start of the server, nor one of a key that is not on the list", () =>
    Effect.gen(function*() {
      const token = yield* send("POST", "/api/v1/auth/token", {}, { key: "tml-test" }).pipe(
        Effect.map((response) => String(response.json()["jwt"])),
        Effect.tap((jwt) => Effect.map(statusWith(jwt), (status) => assert.strictEqual(status, 200))),
        Effect.provide(TinkerLocal.layer({ apiKeys: users }))
      )
      const elsewhere = yield* Effect.provide(statusWith(token), TinkerLocal.layer({ apiKeys: users }))
      assert.strictEqual(elsewhere, 401)

      const zeros = (count: number) => Effect.sync(() => new Uint8Array(count))
      const { signed } = yield* tokenOf(yield* zeros(32))
      const withKeys = (apiKeys: ReadonlyArray<LocalServer.ApiKey>) =>
        statusWith(signed).pipe(
          Effect.provide(TinkerLocal.layer({ apiKeys })),
          Effect.provideService(Entropy.Entropy, { bytes: zeros })
        )
      assert.strictEqual(yield* withKeys(users), 200)
      assert.strictEqual(yield* withKeys([]), 401)
    }))
})

describe("ids and download addresses", () => {
  const ids = Effect.gen(function*() {
    const sessionId = yield* openSession
    const modelId = yield* createModel(sessionId)
    yield* resultOf(yield* call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId: 1, path: "a" })))
    const archive = yield* send("GET", `/api/v1/training_runs/${modelId}/checkpoints/weights/a/archive`)
    return [sessionId, String(archive.json()["url"])] as const
  }).pipe(local)

  it.effect("do not follow from the seed of the random numbers", () =>
    Effect.gen(function*() {
      // a generator for each, at its beginning
      const seeded = Effect.suspend(() => Effect.withRandom(ids, Random.make(7)))
      const [first, second] = [yield* seeded, yield* seeded]
      assert.notStrictEqual(first[0], second[0])
      assert.notStrictEqual(first[1], second[1])
      assert.match(first[0], /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      assert.match(first[1], /[0-9a-f]{64}$/)
    }))

  it.effect("are fixed by a test that fixes the source of entropy", () =>
    Effect.gen(function*() {
      const fixed = Effect.provideService(ids, Entropy.Entropy, {
        bytes: (count) => Effect.succeed(new Uint8Array(count).fill(0xab))
      })
      const [session, url] = yield* fixed
      assert.strictEqual(session, "abababab-abab-4bab-abab-abababababab")
      assert.strictEqual(url.slice(-64), "ab".repeat(32))
    }))
})

describe("web pages and other machines", () => {
  const get = (port: number, headers: string) =>
    Effect.map(raw(port, `GET /api/v1/healthz HTTP/1.1\r\n${headers}\r\n`), (response) => ({
      status: statusOf(response),
      response
    }))

  it.scoped("a page cannot call, under its own name or any other", () =>
    Effect.gen(function*() {
      const { port } = yield* NodeTinkerLocal.serve()
      const page = yield* get(port, `Host: 127.0.0.1:${port}\r\nOrigin: https://evil.example\r\n`)
      assert.strictEqual(page.status, 403)
      assert.notInclude(page.response.toLowerCase(), "access-control")
      for (const host of ["evil.example", `evil.example:${port}`, "127.0.0.1.evil.example", "10.0.0.1"]) {
        assert.strictEqual((yield* get(port, `Host: ${host}\r\n`)).status, 403, host)
      }
      for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, "[::1]", "tinker.localhost"]) {
        const allowed = yield* get(port, `Host: ${host}\r\n`)
        assert.strictEqual(allowed.status, 200, host)
        assert.notInclude(allowed.response.toLowerCase(), "access-control")
      }
      const preflight =
        `OPTIONS /api/v1/create_session HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n`
      assert.strictEqual(statusOf(yield* raw(port, preflight)), 403)
    }))

  it.scoped("an origin and a name that are allowed can", () =>
    Effect.gen(function*() {
      const { port } = yield* NodeTinkerLocal.serve({ allowOrigin: "https://app.example", allowHosts: ["gpu.example"] })
      const page = yield* get(port, "Host: gpu.example\r\nOrigin: https://app.example\r\n")
      assert.strictEqual(page.status, 200)
      assert.include(page.response, "https://app.example")
      assert.strictEqual((yield* get(port, "Host: gpu.example\r\nOrigin: https://evil.example\r\n")).status, 403)
    }))

  it.scoped("a server that is opened takes everyone", () =>
    Effect.gen(function*() {
      const { baseUrl, port } = yield* NodeTinkerLocal.serve({ open: true })
      const page = yield* get(port, "Host: any.example\r\nOrigin: https://any.example\r\n")
      assert.strictEqual(page.status, 200)
      assert.include(page.response, "access-control-allow-origin: *")
      assert.strictEqual((yield* send("GET", `${baseUrl}/api/v1/sessions`, undefined, { key: "tml-any" })).status, 200)
    }).pipe(http))

  it.scoped("a malformed host or URL is answered with 400", () =>
    Effect.gen(function*() {
      const { port } = yield* NodeTinkerLocal.serve()
      for (const host of ["", "a b", "[::1", "http://localhost", "localhost:99999999", "user@localhost"]) {
        assert.strictEqual((yield* get(port, `Host: ${host}\r\n`)).status, 400, host)
      }
      for (const path of ["http://[", "*", "/api/v1/training_runs/%zz"]) {
        assert.strictEqual(statusOf(yield* raw(port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)), 400, path)
      }
    }))

  it.scoped("a directory has one key, which survives its server and which its clients can read", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      assert.isTrue(Option.isNone(yield* NodeTinkerLocal.readApiKey(directory)))
      const started = Effect.gen(function*() {
        const { apiKey, baseUrl, port } = yield* NodeTinkerLocal.serve({ directory })
        const key = Redacted.value(apiKey)
        assert.match(key, /^tml-[0-9a-f]{64}$/)
        assert.strictEqual((yield* send("GET", `${baseUrl}/api/v1/sessions`, undefined, { key })).status, 200)
        assert.strictEqual((yield* send("GET", `${baseUrl}/api/v1/sessions`, undefined, { key: "tml-x" })).status, 401)
        const found = (url: string) =>
          Effect.map(NodeTinkerLocal.readApiKey(directory, { baseUrl: url }), Option.map(Redacted.value))
        assert.deepStrictEqual(yield* found(`http://localhost:${port}/`), Option.some(key))
        assert.deepStrictEqual(yield* found(`http://localhost:${port + 1}`), Option.none())
        return key
      })
      const first = yield* Effect.scoped(started)
      assert.strictEqual(yield* Effect.scoped(started), first)
      const mode = (yield* fs.stat(`${directory}/api-key`)).mode & 0o777
      assert.strictEqual(mode, 0o600)
    }).pipe(http, Effect.provide(NodeContext.layer)))
})

describe("sizes", () => {
  it.effect("counts that a client names are checked before anything is allocated", () =>
    Effect.gen(function*() {
      const sessionId = yield* openSession
      const sampler = yield* openSampler(sessionId, 0, { baseModel: "local/tiny" })
      const ask = (fields: Record<string, unknown>, params: Record<string, unknown> = {}) =>
        send("POST", "/api/v1/asample", {
          sampling_session_id: sampler,
          seq_id: 1,
          prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2, 3] }] },
          sampling_params: { max_tokens: 8, ...params },
          num_samples: 1,
          ...fields
        })
      for (
        const [field, value] of [
          ["num_samples", 5e7],
          ["num_samples", 1025],
          ["num_samples", 0],
          ["topk_prompt_logprobs", 1e9],
          ["topk_sample_logprobs", 1e9],
          ["prompt_alt_tokens_k", 1e9]
        ] as const
      ) {
        const answer = yield* ask({ [field]: value })
        assert.strictEqual(answer.status, 400, `${field} ${value}`)
        assert.include(String(answer.json()["detail"]), field)
      }
      const drawn = yield* ask({ num_samples: 1024, topk_sample_logprobs: 1000 }, { max_tokens: 1000 })
      assert.strictEqual(drawn.status, 400)
      assert.strictEqual((yield* ask({}, { top_k: 0 })).status, 400)
      assert.strictEqual((yield* ask({})).status, 200)

      const modelId = yield* createModel(sessionId)
      const sparse = yield* send("POST", "/api/v1/forward_backward", {
        model_id: modelId,
        seq_id: 1,
        forward_backward_input: {
          loss_fn: "cross_entropy",
          data: [{
            model_input: { chunks: [{ type: "encoded_text", tokens: [1] }] },
            loss_fn_inputs: {
              target_tokens: {
                data: [1],
                dtype: "int64",
                shape: [1, 1e9],
                sparse_crow_indices: [0, 1],
                sparse_col_indices: [0]
              }
            }
          }]
        }
      })
      const refused = sparse.status === 200
        ? String((yield* poll(String(sparse.json()["request_id"]))).json()["error"])
        : JSON.stringify(sparse.json())
      assert.match(refused, /more than \d+ numbers/)
      const metadata = { tags: [], sdk_version: "0", user_metadata: { note: "x".repeat(1e6) } }
      assert.strictEqual((yield* send("POST", "/api/v1/create_session", metadata)).status, 400)
    }).pipe(local))

  it.scoped("a body is not read before its key is known, nor beyond the limit", () =>
    Effect.gen(function*() {
      const { apiKey, port } = yield* NodeTinkerLocal.serve()
      const post = (key: string, headers: string, body = "") =>
        raw(
          port,
          `POST /api/v1/create_session HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\n${headers}\r\n${body}`
        )
      const length = `Content-Length: ${64 * 1024 * 1024}\r\n`
      // no byte of the body is sent: the answer does not wait for one
      assert.strictEqual(statusOf(yield* post("tml-wrong", length)), 401)
      assert.strictEqual(statusOf(yield* post(Redacted.value(apiKey), length)), 413)
    }))

  it.scoped("the client of a refused body reads why, and can use its connection again", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve({ maxBodyBytes: 1024 * 1024 })
      const key = Redacted.value(apiKey)
      const big = new Uint8Array(8 * 1024 * 1024)
      for (const [name, status] of [[key, 413], ["tml-wrong", 401]] as const) {
        const answer = yield* send("POST", `${baseUrl}/api/v1/create_session`, big, { key: name })
        assert.strictEqual(answer.status, status)
      }
      const packed = yield* send("POST", `${baseUrl}/api/v1/create_session`, zlib.gzipSync(big), {
        key,
        headers: { "content-encoding": "gzip" }
      })
      assert.strictEqual(packed.status, 413)
      assert.strictEqual((yield* send("GET", `${baseUrl}/api/v1/sessions`, undefined, { key })).status, 200)
    }).pipe(http))

  it.effect(
    "training requests that wait are bounded, and a refused one keeps its number",
    () =>
      Effect.gen(function*() {
        const server = yield* LocalServer.LocalServer
        const modelId = yield* createModel(yield* openSession)
        yield* server.pause({ state: "paused_capacity" })
        // too long for the model, so that nothing is computed when its turn comes
        const text = "x".repeat(2000)
        const texts = Array.from({ length: 200 }, () => text)
        let seq = 0
        const fill = Effect.suspend(() => pass(modelId, ++seq, texts))
        const full = yield* Effect.flip(Effect.forever(fill))
        assert.propertyVal(full, "status", 429)
        assert.isAbove(seq, 2)
        yield* server.resume
        yield* resultOf({ requestId: `${modelId}:1` })
      }).pipe(Effect.provide(TinkerLocal.layer({ hold: "1 minute" }))),
    60_000
  )
})

describe("the data directory", () => {
  it.scoped("a damaged record is set aside with advice, and the server starts without it", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      const inside = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        Effect.provide(effect, TinkerLocal.layerDirectory(root))
      const kept = yield* inside(Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        for (const [i, name] of ["good", "bad"].entries()) {
          yield* resultOf(yield* call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId: i + 1, path: name })))
        }
        return modelId
      }))
      const bad = (yield* fs.readDirectory(root, { recursive: true })).find((name) =>
        /bad\/checkpoint\.json$/.test(name)
      )
      yield* fs.writeFileString(`${root}/${bad}`, "{\"path\": 3")
      for (const file of yield* fs.readDirectory(`${root}/sessions`)) {
        yield* fs.writeFileString(`${root}/sessions/${file}`, "")
      }
      const warnings: Array<string> = []
      const logger = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ message }) => void warnings.push(String(message)))
      )
      yield* inside(Effect.gen(function*() {
        const { checkpoints } = yield* call(Api.listCheckpoints, { trainingRunId: kept })
        assert.deepStrictEqual(checkpoints.map(({ checkpointId }) => checkpointId), ["weights/good"])
      })).pipe(Effect.provide(logger))
      assert.lengthOf(warnings, 2)
      for (const warning of warnings) assert.match(warning, /damaged .* moved to quarantine\/.*[Rr]epair/s)
      assert.lengthOf(yield* fs.readDirectory(`${root}/quarantine`), 2)
    }).pipe(Effect.provide(Layer.merge(NodeContext.layer, Logger.remove(Logger.defaultLogger)))))

  it.scoped("the longest name of a checkpoint can be saved and replaced; a longer one is refused", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      yield* Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        const save = (seqId: number, length: number) =>
          call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId, path: "n".repeat(length), overwrite: true }))
        assert.property(yield* resultOf(yield* save(1, 200)), "path")
        assert.property(yield* resultOf(yield* save(2, 200)), "path")
        assert.propertyVal(yield* Effect.flip(save(3, 255)), "status", 400)
      }).pipe(Effect.provide(TinkerLocal.layerDirectory(root)))
    }).pipe(Effect.provide(NodeContext.layer)))
})
