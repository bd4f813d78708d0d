import { HuggingFaceHub, TokenizerFiles, Tokenizers } from "@effect-tinker/tokenizer"
import { FetchHttpClient, FileSystem, HttpClient, HttpClientError } from "@effect/platform"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Fiber, Layer, Option, Redacted, TestClock } from "effect"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer } from "node:http"
import * as tiny from "./support/tiny.js"

const commit = "0123456789abcdef0123456789abcdef01234567"
const json = JSON.stringify(tiny.tokenizerJson)
const config = JSON.stringify(tiny.tokenizerConfig)
const secret = "hf_very_secret"

interface Seen {
  readonly method: string
  readonly url: string
  readonly authorization: string | undefined
}

/** A server on a free port that remembers what it was asked. */
const server = (respond: (request: IncomingMessage, response: ServerResponse) => void) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly seen: Array<Seen>; readonly close: () => void }>((resume) => {
      const seen: Array<Seen> = []
      const server = createServer((request, response) => {
        seen.push({
          method: request.method ?? "",
          url: request.url ?? "",
          authorization: request.headers.authorization
        })
        respond(request, response)
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = address !== null && typeof address === "object" ? address.port : 0
        resume(Effect.succeed({
          url: `http://127.0.0.1:${port}`,
          seen,
          close: () => {
            server.closeAllConnections()
            server.close()
          }
        }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** Answers like the hub: small files at once, large ones from another origin. */
const hub = (storage: string) =>
  server((request, response) => {
    const [, org, name, , revision, ...rest] = (request.url ?? "").split("/")
    const file = rest.join("/")
    const code = (status: number, code: string, more: Record<string, string> = {}) =>
      response.writeHead(status, { "x-error-code": code, ...more }).end()
    const token = request.headers.authorization
    const repo = `${org}/${name}`
    if (repo === "org/gated") {
      return token === undefined ? code(401, "GatedRepo") : code(403, "GatedRepo")
    }
    if (repo === "org/refused") {
      return response.writeHead(401, { "x-error-message": "Invalid credentials" }).end()
    }
    if (repo === "org/elsewhere") return response.writeHead(302, { location: "::bad::" }).end()
    if (repo === "org/renamed") {
      return response.writeHead(307, { location: `/org/model/resolve/${revision}/${file}` }).end()
    }
    if (repo !== "org/model") return code(401, "RepoNotFound")
    if (revision !== "main" && revision !== commit) return code(404, "RevisionNotFound")
    const common = { "x-repo-commit": commit }
    if (file === "tokenizer.json") {
      return response.writeHead(302, {
        ...common,
        "x-linked-size": String(Buffer.byteLength(json)),
        location: `${storage}/blob`
      }).end()
    }
    if (file === "tokenizer_config.json") {
      return response.writeHead(200, { ...common, "content-length": Buffer.byteLength(config) })
        .end(request.method === "HEAD" ? undefined : config)
    }
    return code(404, "EntryNotFound", common)
  })

const setUp = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const storage = yield* server((_request, response) => {
    response.writeHead(200, { "content-length": Buffer.byteLength(json) }).end(json)
  })
  const home = yield* hub(storage.url)
  const cacheDirectory = yield* fs.makeTempDirectoryScoped()
  return { fs, storage, home, cacheDirectory, options: { endpoint: home.url, cacheDirectory } }
})

const clients: ReadonlyArray<readonly [string, Layer.Layer<HttpClient.HttpClient>]> = [
  ["undici", NodeHttpClient.layerUndici],
  ["fetch", FetchHttpClient.layer]
]

const tokenizersAt = (options: HuggingFaceHub.Options) =>
  Tokenizers.layer().pipe(Layer.provide(HuggingFaceHub.layer(options)))

const load = (options: HuggingFaceHub.Options, repo: string, revision?: string) =>
  Effect.flatMap(Tokenizers.Tokenizers, (tokenizers) => tokenizers.load({ repo, revision })).pipe(
    Effect.provide(tokenizersAt(options))
  )

describe("HuggingFaceHub", () => {
  for (const [name, client] of clients) {
    describe(name, () => {
      it.scopedLive("downloads, and keeps the token from the host it is redirected to", () =>
        Effect.gen(function*() {
          const { home, options, storage } = yield* setUp
          const tokenizer = yield* load({ ...options, token: Redacted.make(secret) }, "org/model")
          assert.strictEqual(tokenizer.vocabSize, tiny.idOf("<pad>") + 1)
          assert.deepStrictEqual(tokenizer.revision, Option.some(commit))
          assert.isAbove(home.seen.length, 0)
          for (const { authorization } of home.seen) assert.strictEqual(authorization, `Bearer ${secret}`)
          assert.strictEqual(storage.seen.length, 1)
          assert.isUndefined(storage.seen[0]?.authorization)
          // the first answer names the commit, everything else is read there
          assert.deepStrictEqual(
            home.seen.filter(({ url }) => url.includes("/main/")).map(({ method }) => method),
            ["HEAD"]
          )
        }).pipe(Effect.provide([NodeContext.layer, client])))

      it.scopedLive("tells gated, refused, missing repository, missing revision apart", () =>
        Effect.gen(function*() {
          const { options } = yield* setUp
          const error = (repo: string, token?: string, revision?: string) =>
            Effect.flip(
              load({ ...options, token: token === undefined ? undefined : Redacted.make(token) }, repo, revision)
            )
          const gated = yield* error("org/gated")
          assert.strictEqual(gated._tag, "TokenizerGated")
          assert.include(gated.message, "HF_TOKEN")
          assert.strictEqual((yield* error("org/gated", secret))._tag, "TokenizerGated")
          const refused = yield* error("org/refused", secret)
          assert.strictEqual(refused._tag, "TokenizerUnauthorized")
          assert.notInclude(JSON.stringify(refused) + refused.message, secret)
          assert.strictEqual((yield* error("org/nowhere"))._tag, "TokenizerNotFound")
          assert.strictEqual((yield* error("org/model", undefined, "v9"))._tag, "TokenizerNotFound")
          assert.strictEqual((yield* error("../etc/passwd"))._tag, "TokenizerNotFound")
          assert.strictEqual((yield* error("org/elsewhere"))._tag, "TokenizerMalformed")
        }).pipe(Effect.provide([NodeContext.layer, client])))
    })
  }

  it.scoped("says which host cannot be reached, why, and what to do without it", () =>
    Effect.gen(function*() {
      const lost = HttpClient.make((request) => {
        const cause = new TypeError("fetch failed", { cause: Object.assign(new Error(secret), { code: "ENOTFOUND" }) })
        return Effect.fail(new HttpClientError.RequestError({ request, reason: "Transport", cause }))
      })
      const fs = yield* FileSystem.FileSystem
      const options = { endpoint: "https://hub.test", cacheDirectory: yield* fs.makeTempDirectoryScoped() }
      const loading = yield* load({ ...options, token: Redacted.make(secret) }, "org/model").pipe(
        Effect.provideService(HttpClient.HttpClient, lost),
        Effect.flip,
        Effect.fork
      )
      const error = yield* TestClock.adjust("1 seconds").pipe(
        Effect.zipRight(Effect.yieldNow()),
        Effect.repeat({ until: () => Fiber.poll(loading).pipe(Effect.map(Option.isSome)) }),
        Effect.zipRight(Fiber.join(loading))
      )
      assert.strictEqual(error._tag, "TokenizerUnavailable")
      assert.include(error.message, "hub.test cannot be reached (ENOTFOUND)")
      assert.include(error.message, "HF_HUB_OFFLINE")
      assert.notInclude(JSON.stringify(error) + error.message, secret)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("follows a renamed repository on the same host", () =>
    Effect.gen(function*() {
      const { options } = yield* setUp
      assert.strictEqual((yield* load(options, "org/renamed")).id, "org/renamed")
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))

  it.scopedLive("downloads once for two loads at once, and not again from the same cache", () =>
    Effect.gen(function*() {
      const { home, options, storage } = yield* setUp
      yield* Effect.gen(function*() {
        const tokenizers = yield* Tokenizers.Tokenizers
        const both = yield* Effect.all([tokenizers.forModel("org/model"), tokenizers.forModel("org/model:x")], {
          concurrency: 2
        })
        assert.strictEqual(both[0], both[1])
      }).pipe(Effect.provide(tokenizersAt(options)))
      assert.strictEqual(storage.seen.length, 1)
      const before = home.seen.length
      yield* load(options, "org/model")
      assert.strictEqual(storage.seen.length, 1)
      // only what `main` stands for is asked again; that there is no template is remembered
      assert.deepStrictEqual(home.seen.slice(before).map(({ method }) => method), ["HEAD"])
      yield* load(options, "org/model", commit)
      assert.strictEqual(home.seen.length, before + 1)
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))

  it.scopedLive("writes the cache as the Python library lays it out", () =>
    Effect.gen(function*() {
      const { cacheDirectory, fs, options } = yield* setUp
      yield* load(options, "org/model")
      const root = `${cacheDirectory}/models--org--model`
      assert.strictEqual(yield* fs.readFileString(`${root}/refs/main`), commit)
      assert.strictEqual(yield* fs.readFileString(`${root}/snapshots/${commit}/tokenizer.json`), json)
      assert.isTrue(yield* fs.exists(`${root}/.no_exist/${commit}/chat_template.jinja`))
      assert.deepStrictEqual(
        (yield* fs.readDirectory(root, { recursive: true })).filter((name) => name.endsWith(".incomplete")),
        []
      )
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))

  it.scopedLive("writes nothing where a hub or its storage would like to have it", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const parent = yield* fs.makeTempDirectoryScoped()
      const escape = { "x-repo-commit": "../../../escaped" }
      const storage = yield* server((request, response) => {
        response.writeHead((request.url ?? "").endsWith("tokenizer.json") ? 200 : 404, escape).end(json)
      })
      for (const from of ["hub", "storage"]) {
        const home = yield* server((request, response) => {
          const found = (request.url ?? "").endsWith("tokenizer.json")
          if (from === "storage") return response.writeHead(302, { location: `${storage.url}${request.url}` }).end()
          response.writeHead(found ? 200 : 404, escape).end(request.method === "HEAD" ? undefined : json)
        })
        const cacheDirectory = `${parent}/deep/cache`
        const loaded = yield* load({ cacheDirectory, endpoint: home.url }, "org/model")
        assert.strictEqual(loaded.id, "org/model")
        assert.isFalse(yield* fs.exists(`${parent}/deep/escaped`), from)
        assert.isFalse(yield* fs.exists(cacheDirectory), from)
      }
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))

  it.scopedLive("takes an absolute path as a directory of this machine, without asking the hub", () =>
    Effect.gen(function*() {
      const { home, options } = yield* setUp
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* fs.writeFileString(`${directory}/tokenizer.json`, json)
      const tokenizers = yield* Layer.build(tokenizersAt(options))
      const tokenizer = yield* Effect.provide(
        Effect.flatMap(Tokenizers.Tokenizers, (tokenizers) => tokenizers.forModel(directory)),
        tokenizers
      )
      assert.strictEqual(tokenizer.vocabSize, tiny.idOf("<pad>") + 1)
      const missing = yield* Effect.flip(load(options, `${directory}/nothing`))
      assert.strictEqual(missing._tag, "TokenizerNotFound")
      assert.strictEqual(home.seen.length, 0)
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))

  it.scopedLive("works offline from a cache, and says so when it is not there", () =>
    Effect.gen(function*() {
      const { home, options } = yield* setUp
      yield* load(options, "org/model")
      const asked = home.seen.length
      const offline = { ...options, offline: true }
      assert.strictEqual((yield* load(offline, "org/model")).id, "org/model")
      assert.strictEqual((yield* load(offline, "org/model", commit)).id, "org/model")
      const error = yield* Effect.flip(load(offline, "org/other"))
      assert.strictEqual(error._tag, "TokenizerOffline")
      assert.include(error.message, "HF_HUB_OFFLINE")
      assert.strictEqual(home.seen.length, asked)
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))

  it.scoped("falls back to the cache when the network is gone", () =>
    Effect.gen(function*() {
      const { home, options } = yield* setUp
      yield* load(options, "org/model")
      home.close()
      const loading = yield* Effect.fork(load(options, "org/model"))
      // the retries wait for the test's clock, the refused connections for the real one
      yield* TestClock.adjust("1 seconds").pipe(
        Effect.zipRight(Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))),
        Effect.zipRight(Fiber.poll(loading)),
        Effect.repeat({ until: Option.isSome })
      )
      assert.strictEqual((yield* Fiber.join(loading)).id, "org/model")
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))

  it.scopedLive("tries again after a truncated body and after 503, then gives the file", () =>
    Effect.gen(function*() {
      let asked = 0
      const flaky = yield* server((request, response) => {
        const headers = { "x-repo-commit": commit, "content-length": Buffer.byteLength(json), "retry-after": "0.01" }
        if (!(request.url ?? "").endsWith("tokenizer.json")) {
          return response.writeHead(404, { "x-error-code": "EntryNotFound", "x-repo-commit": commit }).end()
        }
        if (request.method === "HEAD") return response.writeHead(200, headers).end()
        asked++
        if (asked === 1) {
          response.writeHead(200, headers)
          return response.write(json.slice(0, 50), () => response.destroy())
        }
        if (asked === 2) return response.writeHead(503, headers).end()
        return response.writeHead(200, headers).end(json)
      })
      const fs = yield* FileSystem.FileSystem
      const cacheDirectory = yield* fs.makeTempDirectoryScoped()
      const tokenizer = yield* load({ endpoint: flaky.url, cacheDirectory }, "org/model")
      assert.strictEqual(tokenizer.id, "org/model")
      assert.strictEqual(asked, 3)
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))

  it.scopedLive("reads the settings of the Python libraries", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const home = yield* fs.makeTempDirectoryScoped()
      const read = (env: Record<string, string>) =>
        HuggingFaceHub.fromEnvironment.pipe(
          Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(env))))
        )
      const plain = yield* read({ HOME: home })
      assert.strictEqual(plain.cacheDirectory, `${home}/.cache/huggingface/hub`)
      assert.isFalse(plain.offline)
      assert.isUndefined(plain.token)
      assert.strictEqual((yield* read({ HF_HOME: "/h" })).cacheDirectory, "/h/hub")
      assert.strictEqual((yield* read({ HF_HOME: "/h", HF_HUB_CACHE: "/c" })).cacheDirectory, "/c")
      assert.isTrue((yield* read({ HOME: home, TRANSFORMERS_OFFLINE: "true" })).offline)
      assert.strictEqual((yield* read({ HOME: home, HF_ENDPOINT: "http://mirror" })).endpoint, "http://mirror")
      yield* fs.writeFileString(`${home}/token`, "from-file\n")
      const value = (options: HuggingFaceHub.Options) => Option.map(Option.fromNullable(options.token), Redacted.value)
      assert.deepStrictEqual(value(yield* read({ HF_HOME: home })), Option.some("from-file"))
      assert.deepStrictEqual(value(yield* read({ HF_HOME: home, HF_TOKEN: "env" })), Option.some("env"))
      const files = yield* TokenizerFiles.TokenizerFiles.pipe(
        Effect.provide(HuggingFaceHub.layerFromEnv({ cacheDirectory: home, offline: true })),
        Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["HOME", home]])))
      )
      assert.strictEqual((yield* Effect.flip(files.get({ repo: "a/b" }, "x")))._tag, "TokenizerOffline")
    }).pipe(Effect.provide([NodeContext.layer, NodeHttpClient.layerUndici])))
})
