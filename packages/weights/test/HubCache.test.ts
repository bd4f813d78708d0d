import { HubDirectory } from "@effect-tinker/platform"
import { HubCache } from "@effect-tinker/weights"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"

/** A cache with one model, at one commit of its main branch. */
const cache = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped()
  const model = `${root}/hub/models--acme--tiny`
  yield* fs.makeDirectory(`${model}/refs`, { recursive: true })
  yield* fs.makeDirectory(`${model}/snapshots/abcdef0123456789abcdef0123456789abcdef01`, { recursive: true })
  yield* fs.writeFileString(`${model}/refs/main`, "abcdef0123456789abcdef0123456789abcdef01\n")
  yield* fs.writeFileString(`${model}/snapshots/abcdef0123456789abcdef0123456789abcdef01/config.json`, "{}")
  return { root, snapshot: `${model}/snapshots/abcdef0123456789abcdef0123456789abcdef01` }
})

const within = (variables: Readonly<Record<string, string>>) =>
  Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(variables))))

describe("HubCache", () => {
  it.scoped("finds a repository where the hub's tools keep it", () =>
    Effect.gen(function*() {
      const { root, snapshot } = yield* cache
      const find = HubCache.find("acme/tiny")
      assert.strictEqual(yield* find.pipe(within({ HF_HUB_CACHE: `${root}/hub` })), snapshot)
      assert.strictEqual(yield* find.pipe(within({ HF_HOME: root })), snapshot)
      assert.strictEqual(
        yield* HubCache.find("acme/tiny", { revision: "abcdef0123456789abcdef0123456789abcdef01" }).pipe(
          within({ HF_HOME: root })
        ),
        snapshot
      )
      assert.strictEqual(
        yield* HubDirectory.cache.pipe(within({ HOME: "/home/ada" })),
        "/home/ada/.cache/huggingface/hub"
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("finds another branch than main by its name", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { root, snapshot } = yield* cache
      const commit = "0123456789abcdef0123456789abcdef01234567"
      const other = snapshot.replace(/[^/]+$/, commit)
      yield* fs.makeDirectory(other)
      yield* fs.writeFileString(`${other}/config.json`, "{}")
      yield* fs.writeFileString(`${root}/hub/models--acme--tiny/refs/next`, commit)
      const find = (revision?: string) => HubCache.find("acme/tiny", { revision }).pipe(within({ HF_HOME: root }))
      assert.strictEqual(yield* find("next"), other)
      assert.strictEqual(yield* find(), snapshot)
      assert.strictEqual((yield* Effect.flip(find("unknown")))._tag, "ModelNotFound")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("takes a directory as it is", () =>
    Effect.gen(function*() {
      const { snapshot } = yield* cache
      assert.strictEqual(yield* HubCache.find(snapshot), snapshot)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("says what to do about a model that is not here", () =>
    Effect.gen(function*() {
      const { root } = yield* cache
      const find = (model: string) => Effect.flip(HubCache.find(model)).pipe(within({ HF_HOME: root }))
      assert.match((yield* find("acme/large")).message, /hf download acme\/large/)
      assert.match((yield* find(root)).message, /no config.json/)
      assert.match((yield* find("../outside")).message, /no such directory/)
    }).pipe(Effect.provide(NodeContext.layer)))
})
