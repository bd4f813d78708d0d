import * as NodeHubSnapshot from "@effect-tinker/tokenizer/NodeHubSnapshot"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { createHash } from "node:crypto"
import { statSync } from "node:fs"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer } from "node:http"

const commit = "0123456789abcdef0123456789abcdef01234567"
const secret = "hf_very_secret"

const large = new Uint8Array(300_000).map((_, i) => (i * 31 + (i >> 8)) & 255)
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
const gitHash = (bytes: Uint8Array) => createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex")
const text = (value: string) => new TextEncoder().encode(value)

const contents: Readonly<Record<string, Uint8Array>> = {
  "config.json": text("{}"),
  "nested/extra.json": text("[1]"),
  "model.safetensors": large
}

interface Seen {
  readonly url: string
  readonly authorization: string | undefined
  readonly range: string | undefined
}

type Respond = (request: IncomingMessage, response: ServerResponse) => void

/** A server on a free port that remembers what it was asked. */
const listen = (respond: Respond) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly seen: Array<Seen>; readonly close: () => void }>((resume) => {
      const seen: Array<Seen> = []
      const server = createServer((request, response) => {
        const { authorization, range } = request.headers
        seen.push({ url: request.url ?? "", authorization, range })
        respond(request, response)
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = address !== null && typeof address === "object" ? address.port : 0
        const close = () => {
          server.closeAllConnections()
          server.close()
        }
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, seen, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** Sends bytes, from where they are asked for. */
const send = (request: IncomingMessage, response: ServerResponse, bytes: Uint8Array): void => {
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0)
  const rest = bytes.subarray(from)
  response.writeHead(from > 0 ? 206 : 200, { "content-length": rest.length })
  response.end(rest)
}

const siblings = (files: Readonly<Record<string, Uint8Array>>) =>
  Object.entries(files).map(([rfilename, bytes]) => ({
    rfilename,
    size: bytes.length,
    blobId: gitHash(bytes),
    ...(bytes.length > 1000 ? { lfs: { sha256: sha256(bytes), size: bytes.length } } : {})
  }))

/** A hub whose large files lie on another host. */
const hub = Effect.fnUntraced(function*(options: {
  readonly listing?: unknown
  readonly storage?: Respond
} = {}) {
  const storage = yield* listen(options.storage ?? ((request, response) => send(request, response, large)))
  const home = yield* listen((request, response) => {
    const url = request.url ?? ""
    if (url.startsWith("/api/models/org/model/revision/main")) {
      return response.end(JSON.stringify(options.listing ?? { sha: commit, siblings: siblings(contents) }))
    }
    const name = url.replace(`/org/model/resolve/${commit}/`, "")
    const bytes = contents[name]
    if (bytes === undefined) return response.writeHead(404, { "x-error-code": "RepoNotFound" }).end()
    if (bytes.length > 1000) return response.writeHead(302, { location: `${storage.url}/blob` }).end()
    send(request, response, bytes)
  })
  return { home, storage }
})

const all: NodeHubSnapshot.SnapshotOptions = { choose: (files) => Effect.succeed(files) }

const optionsOf = Effect.fnUntraced(function*(endpoint: string) {
  const fs = yield* FileSystem.FileSystem
  return { endpoint, cacheDirectory: yield* fs.makeTempDirectoryScoped(), token: Redacted.make(secret) }
})

const live = Layer.mergeAll(NodeContext.layer, NodeHttpClient.layerUndici)

describe("NodeHubSnapshot", () => {
  it.scopedLive("downloads into the layout of the hub's cache; the token stays with the hub", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const { home, storage } = yield* hub()
      const options = yield* optionsOf(home.url)
      const snapshot = yield* NodeHubSnapshot.ensure(options, { repo: "org/model" }, all)
      const root = path.join(options.cacheDirectory, "models--org--model")
      assert.strictEqual(snapshot.directory, path.join(root, "snapshots", commit))
      for (const [name, bytes] of Object.entries(contents)) {
        assert.deepStrictEqual(new Uint8Array(yield* fs.readFile(path.join(snapshot.directory, name))), bytes)
      }
      assert.strictEqual(yield* fs.readFileString(path.join(root, "refs", "main")), commit)
      assert.deepStrictEqual(
        (yield* fs.readDirectory(path.join(root, "blobs"))).sort(),
        [gitHash(text("{}")), gitHash(text("[1]")), sha256(large)].sort()
      )
      assert.strictEqual(
        yield* fs.readLink(path.join(snapshot.directory, "nested", "extra.json")),
        path.join("..", "..", "..", "blobs", gitHash(text("[1]")))
      )
      assert.isTrue(home.seen.every(({ authorization }) => authorization === `Bearer ${secret}`))
      assert.deepStrictEqual(storage.seen.map(({ authorization }) => authorization), [undefined])
    }).pipe(Effect.provide(live)))

  it.scopedLive("uses what is there: one request for the list, then none offline", () =>
    Effect.gen(function*() {
      const { home, storage } = yield* hub()
      const options = yield* optionsOf(home.url)
      yield* NodeHubSnapshot.ensure(options, { repo: "org/model" }, all)
      const before = home.seen.length
      const again = yield* NodeHubSnapshot.ensure(options, { repo: "org/model" }, all)
      assert.strictEqual(home.seen.length, before + 1)
      const offline = yield* NodeHubSnapshot.ensure({ ...options, offline: true }, { repo: "org/model" }, all)
      assert.strictEqual(home.seen.length, before + 1)
      assert.strictEqual(storage.seen.length, 1)
      assert.strictEqual(offline.directory, again.directory)
      assert.sameMembers(offline.files.map(({ name }) => name), Object.keys(contents))
      const other = yield* Effect.flip(
        NodeHubSnapshot.ensure({ ...options, offline: true }, { repo: "org/other" }, all)
      )
      assert.strictEqual(other._tag, "TokenizerOffline")
    }).pipe(Effect.provide(live)))

  it.scopedLive("continues a download that broke off, and checks the whole", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const cacheDirectory = yield* fs.makeTempDirectoryScoped()
      const partial = path.join(cacheDirectory, "models--org--model", "blobs", `${sha256(large)}.incomplete`)
      const written = () => (statSync(partial, { throwIfNoEntry: false })?.size ?? 0) > 0
      let attempts = 0
      const { home, storage } = yield* hub({
        storage: (request, response) => {
          if (attempts++ > 0) return send(request, response, large)
          response.writeHead(200, { "content-length": large.length })
          response.write(large.subarray(0, 100_000))
          // What is still in the client's buffers when the connection breaks is lost: wait until something is on disk.
          const timer = setInterval(() => {
            if (!written()) return
            clearInterval(timer)
            response.destroy()
          }, 5)
        }
      })
      const progress: Array<number> = []
      const snapshot = yield* NodeHubSnapshot.ensure({ ...yield* optionsOf(home.url), cacheDirectory }, {
        repo: "org/model"
      }, {
        ...all,
        onProgress: ({ done, file }) => Effect.sync(() => file === "model.safetensors" && progress.push(done))
      })
      const bytes = yield* fs.readFile(path.join(snapshot.directory, "model.safetensors"))
      assert.deepStrictEqual(new Uint8Array(bytes), large)
      assert.strictEqual(storage.seen.length, 2)
      assert.match(storage.seen[1]?.range ?? "", /^bytes=\d+-$/)
      assert.strictEqual(progress.at(-1), large.length)
    }).pipe(Effect.provide(live)))

  it.scopedLive("one download of a file at a time, however many ask", () =>
    Effect.gen(function*() {
      const { home, storage } = yield* hub()
      const options = yield* optionsOf(home.url)
      yield* Effect.all(
        Array.from({ length: 4 }, () => NodeHubSnapshot.ensure(options, { repo: "org/model" }, all)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(storage.seen.length, 1)
    }).pipe(Effect.provide(live)))

  it.scopedLive("refuses bytes that differ from what was announced, and keeps nothing of them", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const { home } = yield* hub({
        storage: (request, response) => send(request, response, large.map((byte) => byte ^ 1))
      })
      const options = yield* optionsOf(home.url)
      const error = yield* Effect.flip(NodeHubSnapshot.ensure(options, { repo: "org/model" }, all))
      assert.strictEqual(error._tag, "TokenizerMalformed")
      assert.include(error.message, "checksum")
      const blobs = yield* fs.readDirectory(path.join(options.cacheDirectory, "models--org--model", "blobs"))
      assert.notInclude(blobs, sha256(large))
      assert.isFalse(blobs.some((name) => name.endsWith(".incomplete")))
    }).pipe(Effect.provide(live)))

  it.scopedLive("more bytes than announced are refused before they fill the disk", () =>
    Effect.gen(function*() {
      const { home } = yield* hub({
        storage: (_, response) => {
          response.writeHead(200)
          response.end(Buffer.concat([large, large]))
        }
      })
      const error = yield* Effect.flip(
        NodeHubSnapshot.ensure(yield* optionsOf(home.url), { repo: "org/model" }, all)
      )
      assert.include(error.message, `more than ${large.length} bytes`)
    }).pipe(Effect.provide(live)))

  it.scopedLive("names that leave the directory are left out, and hostile lists are refused", () =>
    Effect.gen(function*() {
      const hostile = ["../up.json", "/etc/x", "a/../../b", "c\\d", "C:x", "a//b", ""].map((rfilename) => ({
        rfilename,
        size: 2,
        blobId: gitHash(text("{}"))
      }))
      const { home } = yield* hub({
        listing: { sha: commit, siblings: [...hostile, ...siblings({ "config.json": text("{}") })] }
      })
      const { files } = yield* NodeHubSnapshot.list(yield* optionsOf(home.url), { repo: "org/model" })
      assert.deepStrictEqual(files.map(({ name }) => name), ["config.json"])
      const bad = yield* hub({ listing: { sha: "../../..", siblings: [] } })
      const error = yield* Effect.flip(NodeHubSnapshot.list(yield* optionsOf(bad.home.url), { repo: "org/model" }))
      assert.strictEqual(error._tag, "TokenizerMalformed")
      const name = yield* Effect.flip(NodeHubSnapshot.list(yield* optionsOf(home.url), { repo: "../x" }))
      assert.strictEqual(name._tag, "TokenizerNotFound")
    }).pipe(Effect.provide(live)))
})
