import { FileSystem, Path } from "@effect/platform"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Exit, Layer, Option } from "effect"
import { createHash } from "node:crypto"
import * as HuggingFace from "../src/huggingFace/HuggingFace.js"
import { hub } from "./fixtures/hub.js"

const weights = Buffer.from(Uint8Array.from({ length: 100_000 }, (_, i) => i % 251))

const withHub = <A, E>(
  origin: string,
  effect: Effect.Effect<A, E, HuggingFace.HuggingFace | FileSystem.FileSystem | Path.Path>,
  token = "hf_test",
  cache = "/nonexistent"
) =>
  effect.pipe(
    Effect.provide(HuggingFace.layer),
    Effect.provide(Layer.merge(NodeHttpClient.layerUndici, NodeContext.layer)),
    Effect.withConfigProvider(
      ConfigProvider.fromMap(
        new Map([["HF_ENDPOINT", origin], ["HF_TOKEN", token], ["HF_HOME", "/nonexistent"], ["XDG_CACHE_HOME", cache]])
      )
    )
  )

const adapter = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = yield* fs.makeTempDirectoryScoped()
  const model = path.join(directory, "adapter_model.safetensors")
  const config = path.join(directory, "adapter_config.json")
  yield* fs.writeFile(model, weights)
  yield* fs.writeFileString(config, "{}")
  return [
    { path: "adapter_config.json", source: config, size: 2 },
    { path: "adapter_model.safetensors", source: model, size: weights.length }
  ]
}).pipe(Effect.provide(NodeContext.layer))

const upload = (files: ReadonlyArray<HuggingFace.LocalFile>, progress: Array<number> = []) =>
  Effect.flatMap(HuggingFace.HuggingFace, (client) =>
    client.upload({
      repo: "me/adapter",
      revision: "main",
      files,
      message: "Upload",
      createPullRequest: false,
      onProgress: (uploaded) => Effect.sync(() => void progress.push(uploaded))
    }))

const create = Effect.flatMap(
  HuggingFace.HuggingFace,
  (client) => client.createRepository("me/adapter", { private: true })
)

describe("HuggingFace", () => {
  it.scopedLive("creates, branches, and says so when it is there already", () =>
    Effect.gen(function*() {
      const { origin, repositories } = yield* hub()
      yield* withHub(
        origin,
        Effect.gen(function*() {
          const client = yield* HuggingFace.HuggingFace
          assert.strictEqual(yield* client.whoami, "me")
          assert.isTrue(yield* create)
          assert.isFalse(yield* create)
          yield* client.createBranch("me/adapter", "weights-0001")
          yield* client.createBranch("me/adapter", "weights-0001")
          assert.deepStrictEqual(yield* client.readText("me/adapter", "main", "README.md"), Option.none())
        })
      )
      assert.isTrue(repositories.get("me/adapter")?.private)
      assert.deepStrictEqual([...repositories.get("me/adapter")?.branches.keys() ?? []], ["main", "weights-0001"])
    }))

  for (const chunk of [undefined, 30_000]) {
    it.scopedLive(`uploads large files ${chunk === undefined ? "whole" : "in parts"}, small ones in the commit`, () =>
      Effect.gen(function*() {
        const { origin, repositories, requests } = yield* hub(chunk === undefined ? {} : { chunk })
        const files = yield* adapter
        const progress: Array<number> = []
        yield* withHub(origin, Effect.zipRight(create, upload(files, progress)))
        const main = repositories.get("me/adapter")?.branches.get("main")
        assert.deepStrictEqual(main?.get("adapter_model.safetensors"), weights)
        assert.strictEqual(main?.get("adapter_config.json")?.toString(), "{}")
        assert.strictEqual(progress.at(-1), weights.length + 2)
        const puts = requests.filter(({ method }) => method === "PUT")
        assert.strictEqual(puts.length, chunk === undefined ? 1 : 4)
        assert.isTrue(puts.every(({ token }) => token === undefined))
      }))
  }

  it.scopedLive("repeats a part that failed, and does not upload twice what the hub has", () =>
    Effect.gen(function*() {
      const { origin, requests } = yield* hub({
        chunk: 30_000,
        failures: [["PUT /store/", 503, 2], ["POST /api/models/me/adapter/commit", 500, 1]]
      })
      const files = yield* adapter
      const progress: Array<number> = []
      yield* withHub(origin, create)
      // The commit is not repeated on its own: whether it was made cannot be known.
      const error = yield* Effect.flip(withHub(origin, upload(files, progress)))
      assert.strictEqual(error._tag, "CliFailure")
      assert.strictEqual(progress.at(-1), weights.length + 2)
      const before = requests.filter(({ method }) => method === "PUT").length
      assert.strictEqual(before, 6)
      yield* withHub(origin, upload(files))
      assert.strictEqual(requests.filter(({ method }) => method === "PUT").length, before)
    }))

  it.scopedLive("a later run goes on with the parts of an earlier one, for as long as its addresses are good", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const cache = yield* fs.makeTempDirectoryScoped()
      const oid = createHash("sha256").update(weights).digest("hex")
      const { origin, repositories, requests } = yield* hub({
        chunk: 30_000,
        // the list of parts is refused once
        failures: [[`POST /store/${oid}/1`, 400, 1]]
      })
      const files = yield* adapter
      const run = Effect.gen(function*() {
        const before = requests.length
        const progress: Array<number> = []
        const exit = yield* Effect.exit(withHub(origin, upload(files, progress), "hf_test", cache))
        const puts = requests.slice(before).filter(({ method }) => method === "PUT").map(({ url }) => url)
        return { exit, puts: puts.map((url) => url.replace(`/store/${oid}/`, "")).sort(), uploaded: progress.at(-1) }
      })
      const remembered = Effect.map(
        fs.readDirectory(`${cache}/tinker/uploads`),
        (names) => names.map((name) => `${cache}/tinker/uploads/${name}`)
      )
      yield* withHub(origin, create)
      const first = yield* run
      assert.isTrue(Exit.isFailure(first.exit))
      assert.deepStrictEqual(first.puts, ["1/1", "1/2", "1/3", "1/4"])

      // as if it had broken off before two of the parts were there
      const [file = ""] = yield* remembered
      assert.strictEqual(Number((yield* fs.stat(file)).mode) & 0o777, 0o600)
      const state = JSON.parse(yield* fs.readFileString(file))
      const parts = state.parts.map(({ number, url, etag }: { number: number; url: string; etag: string }) =>
        number === 2 || number === 3 ? { number, url } : { number, url, etag }
      )
      yield* fs.writeFileString(file, JSON.stringify({ ...state, parts }))
      const second = yield* run
      assert.isTrue(Exit.isSuccess(second.exit))
      assert.deepStrictEqual(second.puts, ["1/2", "1/3"])
      assert.strictEqual(second.uploaded, weights.length + 2)
      assert.deepStrictEqual(yield* remembered, [])
      assert.deepStrictEqual(
        repositories.get("me/adapter")?.branches.get("main")?.get("adapter_model.safetensors"),
        weights
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("expired URLs are replaced and the upload starts over", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const cache = yield* fs.makeTempDirectoryScoped()
      const { origin, requests } = yield* hub({ chunk: 30_000, failures: [["POST /store/", 404, 2]] })
      const files = yield* adapter
      const puts = () => requests.filter(({ method }) => method === "PUT").length
      const progress: Array<number> = []
      yield* withHub(origin, create)
      yield* Effect.flip(withHub(origin, upload(files), "hf_test", cache))
      assert.strictEqual(puts(), 4)
      yield* withHub(origin, upload(files, progress), "hf_test", cache)
      assert.strictEqual(puts(), 8)
      assert.strictEqual(progress.at(-1), weights.length + 2)
      assert.deepStrictEqual(yield* fs.readDirectory(`${cache}/tinker/uploads`), [])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a wrong token and no token are told apart", () =>
    Effect.gen(function*() {
      const { origin } = yield* hub()
      const whoami = Effect.flatMap(HuggingFace.HuggingFace, (client) => client.whoami)
      const wrong = yield* Effect.flip(withHub(origin, whoami, "hf_wrong"))
      assert.include(wrong.message, "rejected the token")
      const none = yield* Effect.flip(withHub(origin, whoami, ""))
      assert.include(none.message, "Not logged in")
    }))
})
