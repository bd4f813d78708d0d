import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Option, Redacted } from "effect"
import { Credentials, TinkerConfig } from "effect-tinker"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"

const directory = Effect.acquireRelease(
  Effect.promise(() => fs.mkdtemp(path.join(os.tmpdir(), "tinker-"))),
  (dir) => Effect.promise(() => fs.rm(dir, { recursive: true, force: true }))
)

const write = (file: string, text: string) => Effect.promise(() => fs.writeFile(file, text, { mode: 0o600 }))

const readKey = (file: string) =>
  Effect.flatMap(Credentials.StoredKey, ({ read }) => read(Option.some(file))).pipe(
    Effect.provide(NodeCredentials.layer)
  )

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

describe("NodeCredentials", () => {
  it.scoped("the layer feeds Credentials from the file", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "credentials.json")
      const read = Effect.provide(
        Credentials.make,
        Layer.merge(NodeCredentials.layer, TinkerConfig.layer({ credentialsPath: file }))
      )
      yield* write(file, JSON.stringify({ version: 1, default: "1", keys: { "1": { key: "tml-file", name: "x" } } }))
      const credentials = yield* read
      assert.strictEqual(credentials.source, "stored")
      assert.deepStrictEqual(Option.map(yield* credentials.current, Redacted.value), Option.some("tml-file"))
    }))

  it.scoped("a file that is not one of ours is an error that does not quote it", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "credentials.json")
      for (
        const text of ["{\"version\":2,\"keys\":{}}", "tml-secret", "{\"keys\":{\"1\":{\"name\":\"tml-secret\"}}}"]
      ) {
        yield* write(file, text)
        const error = yield* Effect.flip(readKey(file))
        assert.strictEqual(error._tag, "MalformedCredential")
        assert.notInclude(JSON.stringify(error) + error.message, "tml-secret")
      }
    }))

  it.scoped("a missing file, and a default that points nowhere, are no credential", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "credentials.json")
      assert.deepStrictEqual(yield* readKey(file), Option.none())
      yield* write(file, JSON.stringify({ default: "toString", keys: {} }))
      assert.deepStrictEqual(yield* readKey(file), Option.none())
    }))

  it.scoped("a file that others can read is said, not ignored", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "credentials.json")
      const lines: Array<string> = []
      const logger = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ message }) => void lines.push(String(message)))
      )
      yield* write(file, JSON.stringify({ default: "1", keys: { "1": { key: "tml-1" } } }))
      yield* Effect.provide(readKey(file), logger)
      assert.deepStrictEqual(lines, [])
      yield* Effect.promise(() => fs.chmod(file, 0o644))
      assert.isTrue(Option.isSome(yield* Effect.provide(readKey(file), logger)))
      assert.deepStrictEqual(lines, [`${file} can be read by other users: run chmod 600 ${file}`])
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

  it.scopedLive("an interrupted command is gone, with its children", () =>
    Effect.gen(function*() {
      const file = path.join(yield* directory, "child")
      const running = yield* Effect.fork(NodeCredentials.runCommand(`sleep 600 & echo $! > ${file}; wait`))
      const written = Effect.promise(() => fs.readFile(file, "utf8").catch(() => ""))
      const child = Number(yield* Effect.repeat(Effect.delay(written, "10 millis"), { until: (id) => id !== "" }))
      assert.isTrue(isAlive(child))
      yield* Fiber.interrupt(running)
      // Bounded by the test's own time limit: the child would live ten minutes.
      yield* Effect.repeat(Effect.sleep("10 millis"), { while: () => isAlive(child) })
    }))
})
