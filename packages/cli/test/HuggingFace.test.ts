import { HuggingFace } from "@effect-tinker/cli"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Option } from "effect"
import { hub } from "./fixtures/hub.js"

const weights = Buffer.from(Uint8Array.from({ length: 100_000 }, (_, i) => i % 251))

const withHub = <A, E>(
  origin: string,
  effect: Effect.Effect<A, E, HuggingFace.HuggingFace | FileSystem.FileSystem | Path.Path>,
  token = "hf_test"
) =>
  effect.pipe(
    Effect.provide(HuggingFace.layer),
    Effect.provide(Layer.merge(NodeHttpClient.layerUndici, NodeContext.layer)),
    Effect.withConfigProvider(
      ConfigProvider.fromMap(new Map([["HF_ENDPOINT", origin], ["HF_TOKEN", token], ["HF_HOME", "/nonexistent"]]))
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
