import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Redacted } from "effect"
import { Credentials, CredentialStore, TinkerConfig } from "effect-tinker"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"

const directory = Effect.acquireRelease(
  Effect.promise(() => fs.mkdtemp(path.join(os.tmpdir(), "tinker-"))),
  (dir) => Effect.promise(() => fs.rm(dir, { recursive: true, force: true }))
)

const mode = (file: string) => Effect.promise(async () => ((await fs.stat(file)).mode & 0o777).toString(8))

const manual = (key: string) => new CredentialStore.ManualKey({ key: Redacted.make(key), name: "laptop" })

describe("NodeCredentials", () => {
  it.scoped("keeps keys in a file that only the owner reads, replaced as a whole", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "deep", ".tinker", "credentials.json")
      const store = NodeCredentials.makeStore(file)
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
      const store = NodeCredentials.makeStore(path.join(yield* directory, "credentials.json"))
      const ids = Array.from({ length: 20 }, (_, i) => String(i))
      yield* Effect.forEach(ids, (id) => store.update((all) => CredentialStore.add(all, id, manual(`tml-${id}`))), {
        concurrency: "unbounded"
      })
      assert.sameMembers(Object.keys((yield* store.load).keys), ids)
    }))

  it.scoped("reads what the Python SDK writes, and says when a file is none of ours without quoting it", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "credentials.json")
      const store = NodeCredentials.makeStore(file)
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

  it.scoped("the layer feeds Credentials from the file", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "credentials.json")
      yield* NodeCredentials.makeStore(file).update((all) =>
        CredentialStore.setDefault(CredentialStore.add(all, "1", manual("tml-file")), "1")
      )
      const credentials = yield* Effect.provide(
        Credentials.make,
        Layer.merge(NodeCredentials.layer, TinkerConfig.layer({ credentialsPath: file }))
      )
      assert.strictEqual(credentials.source, "stored")
      assert.deepStrictEqual(Option.map(yield* credentials.current, Redacted.value), Option.some("tml-file"))
    }))

  it.live("runs commands: output, exit code, and neither output in an error", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* NodeCredentials.runCommand("printf tml-cmd"), "tml-cmd")
      const failed = yield* Effect.flip(NodeCredentials.runCommand("echo tml-out; echo tml-err >&2; exit 3"))
      assert.strictEqual(failed._tag, "CredentialCommandFailed")
      assert.include(failed.message, "code 3")
      assert.notMatch(failed.message, /tml-(out|err)/)
      const huge = yield* Effect.flip(NodeCredentials.runCommand("yes"))
      assert.include(huge.message, "too much")
    }))

  it.live("an interrupted command is gone at once, with its children", () =>
    Effect.gen(function*() {
      const start = performance.now()
      yield* Effect.timeoutOption(NodeCredentials.runCommand("sleep 30 | cat"), "100 millis")
      assert.isBelow(performance.now() - start, 5000)
    }))
})
