import { NodeContext } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import * as CredentialStore from "../src/internal/CredentialStore.js"

const directory = Effect.acquireRelease(
  Effect.promise(() => fs.mkdtemp(path.join(os.tmpdir(), "tinker-"))),
  (dir) => Effect.promise(() => fs.rm(dir, { recursive: true, force: true }))
)

const mode = (file: string) => Effect.promise(async () => ((await fs.stat(file)).mode & 0o777).toString(8))

const manual = (key: string) => new CredentialStore.ManualKey({ key: Redacted.make(key), name: "laptop" })

layer(NodeContext.layer)("CredentialStore", (it) => {
  it.scoped("keeps keys in a file that only the owner reads, replaced as a whole", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "deep", ".tinker", "credentials.json")
      const store = yield* CredentialStore.make(file)
      assert.deepStrictEqual(CredentialStore.defaultKey(yield* store.load), Option.none())
      yield* store.update((all) => CredentialStore.setDefault(CredentialStore.add(all, "42", manual("tml-1")), "42"))
      assert.strictEqual(yield* mode(file), "600")
      assert.strictEqual(yield* mode(path.dirname(file)), "700")
      assert.deepStrictEqual(yield* Effect.promise(() => fs.readdir(path.dirname(file))), ["credentials.json"])
      assert.deepStrictEqual(JSON.parse(yield* Effect.promise(() => fs.readFile(file, "utf8"))), {
        version: 1,
        default: "42",
        keys: { "42": { type: "manual", key: "tml-1", name: "laptop" } }
      })
      yield* store.update((all) => CredentialStore.remove(all, "42"))
      assert.deepStrictEqual(CredentialStore.defaultKey(yield* store.load), Option.none())
    }))

  it.scoped("concurrent updates do not lose each other", () =>
    Effect.gen(function*() {
      const store = yield* CredentialStore.make(path.join(yield* directory, "credentials.json"))
      const ids = Array.from({ length: 20 }, (_, i) => String(i))
      yield* Effect.forEach(ids, (id) => store.update((all) => CredentialStore.add(all, id, manual(`tml-${id}`))), {
        concurrency: "unbounded"
      })
      assert.sameMembers(Object.keys((yield* store.load).keys), ids)
    }))

  it.scoped("reads what the Python SDK writes, and says when a file is none of ours without quoting it", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "credentials.json")
      const store = yield* CredentialStore.make(file)
      const details = { org_details: { name: "o" }, user_details: { email: "e" } }
      yield* Effect.promise(() =>
        fs.writeFile(
          file,
          JSON.stringify({
            version: 1,
            default: "7",
            keys: {
              "7": { type: "generated", key: "tml-gen", name: "n", details },
              "8": { type: "manual", key: "k", name: "m", note: null }
            }
          })
        )
      )
      const stored = Option.getOrThrow(CredentialStore.defaultKey(yield* store.load))
      assert.strictEqual(Redacted.value(stored.stored.key), "tml-gen")
      for (const text of ["{\"version\":2,\"keys\":{}}", "tml-secret", "{\"keys\":{\"1\":{\"key\":\"tml-secret\"}}}"]) {
        yield* Effect.promise(() => fs.writeFile(file, text))
        const error = yield* Effect.flip(store.load)
        assert.strictEqual(error._tag, "MalformedCredential")
        assert.notInclude(JSON.stringify(error) + error.message, "tml-secret")
      }
    }))
})
