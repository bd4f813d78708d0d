import * as Harbor from "@effect-tinker/agents/Harbor"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Option } from "effect"
import { placed, readDockerfile } from "../src/internal/dockerfile.js"
import { sum, taskDirectory } from "./support/harborTask.js"

const textOf = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes)
const loaded = (files: Readonly<Record<string, string | undefined>>) =>
  Effect.flatMap(taskDirectory(files), Harbor.load)

describe("Harbor", () => {
  it.scoped("reads a task directory", () =>
    Effect.gen(function*() {
      const task = yield* loaded(sum)
      assert.strictEqual(task.name, "tests/sum")
      assert.strictEqual(task.instruction, "Write the sum of the numbers in /app/data/numbers.txt to /app/sum.txt.")
      assert.deepStrictEqual(task.metadata, { difficulty: "easy", tags: ["trivial"] })
      assert.strictEqual(task.directory, "/app")
      assert.deepStrictEqual([...task.files.keys()], ["app/data/numbers.txt"])
      assert.strictEqual(textOf(task.files.get("app/data/numbers.txt")), "20\n22\n")
      assert.deepStrictEqual([...task.tests.keys()], ["helper.sh", "test.sh"])
      assert.deepStrictEqual([...task.solution.keys()], ["solve.sh"])
      assert.deepStrictEqual(task.env, {
        environment: { GREETING: "hello there", KIND: "small" },
        verifier: { WANTED: "${WANTED:-42}" },
        solution: {}
      })
      assert.deepStrictEqual(Option.map(Option.fromNullable(task.agentTimeout), Duration.toMillis), Option.some(60_000))
      assert.strictEqual(Duration.toMillis(task.verifierTimeout), 30_000)
      assert.strictEqual(task.memory, 536_870_912)
      assert.strictEqual(task.storage, 67_108_864)
      assert.deepStrictEqual(task.unfollowed, [])
      assert.deepStrictEqual(Harbor.links([task]), {
        "/app": "app",
        "/tests": "tests",
        "/solution": "solution",
        "/logs": "logs"
      })
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a task may leave nearly everything out", () =>
    Effect.gen(function*() {
      const task = yield* loaded({ "task.toml": "", "instruction.md": "Do it.", "tests/test.sh": "" })
      assert.strictEqual(task.name, "sum")
      assert.strictEqual(task.directory, "/app")
      assert.strictEqual(task.agentTimeout, undefined)
      assert.strictEqual(Duration.toMillis(task.verifierTimeout), 600_000)
      assert.strictEqual(task.memory, 2 * 1024 ** 3)
      assert.strictEqual(task.storage, 10 * 1024 ** 3)
      assert.strictEqual(task.solution.size, 0)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("what cannot be read or followed is said", () =>
    Effect.gen(function*() {
      const failure = (files: Readonly<Record<string, string | undefined>>) =>
        Effect.map(Effect.flip(loaded({ ...sum, ...files })), ({ description, reason }) => `${reason}: ${description}`)
      assert.match(yield* failure({ "task.toml": "[verifier" }), /^Malformed: /)
      assert.match(yield* failure({ "task.toml": "[verifier]\ntimeout_sec = \"long\"" }), /^Malformed: [^]*timeout_sec/)
      assert.match(yield* failure({ "task.toml": undefined }), /^Unreadable: [^]*task\.toml/)
      assert.match(yield* failure({ "instruction.md": undefined }), /^Unreadable: [^]*instruction\.md/)
      assert.strictEqual(yield* failure({ "tests/test.sh": undefined }), "Unreadable: there is no tests/test.sh")
      assert.strictEqual(
        yield* failure({ "task.toml": "[[steps]]\nname = \"a\"" }),
        "Unsupported: it has several steps"
      )
      assert.strictEqual(yield* failure({ "task.toml": "[environment]\ngpus = 1" }), "Unsupported: it asks for a GPU")
      assert.strictEqual(
        yield* failure({ "environment/docker-compose.yaml": "" }),
        "Unsupported: its environment is several containers"
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a link out of the directory is refused", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = yield* taskDirectory(sum)
      yield* fs.symlink("/etc/passwd", path.join(directory, "environment/passwd"))
      const error = yield* Effect.flip(Harbor.load(directory))
      assert.strictEqual(error.reason, "Unreadable")
      assert.include(error.message, "leads out of the directory")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("directories without a task are passed over", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = path.dirname(yield* taskDirectory(sum))
      yield* fs.makeDirectory(path.join(directory, "another"))
      yield* fs.writeFileString(path.join(directory, "README.md"), "")
      assert.deepStrictEqual((yield* Harbor.loadAll(directory)).map(({ name }) => name), ["tests/sum"])
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("Dockerfile", () => {
  const file = readDockerfile([
    "FROM ubuntu:24.04 AS base",
    "WORKDIR /srv",
    "workdir shop/./src",
    "ENV A=1 B='two words'",
    "ENV C three",
    "COPY . .",
    "COPY one.txt lib/two.txt /data/",
    "COPY one.txt renamed.txt",
    "RUN apt-get update && \\",
    "  # a comment between",
    "  apt-get install -y jq",
    "COPY --from=base /a /b",
    "ADD https://example.test/a /a",
    "USER nobody",
    "CMD [\"sh\"]"
  ].join("\n"))
  const bytes = new Uint8Array()

  it("says where commands start, by which variables, and what only a build can do", () => {
    assert.strictEqual(file.directory, "/srv/shop/src")
    assert.deepStrictEqual(file.env, { A: "1", B: "two words", C: "three" })
    assert.deepStrictEqual(file.unfollowed, [
      "RUN apt-get update &&    apt-get install -y jq",
      "COPY --from=base /a /b",
      "ADD https://example.test/a /a"
    ])
  })

  it("puts files where they are copied to", () => {
    const context = new Map([["one.txt", bytes], ["lib/two.txt", bytes], ["Dockerfile", bytes]])
    assert.deepStrictEqual([...placed(file, context).keys()].sort(), [
      "/data/one.txt",
      "/data/two.txt",
      "/srv/shop/src/Dockerfile",
      "/srv/shop/src/lib/two.txt",
      "/srv/shop/src/one.txt",
      "/srv/shop/src/renamed.txt"
    ])
  })

  it("a directory's contents are copied, not the directory, and nothing above the root", () => {
    const copies = readDockerfile("COPY lib /opt/lib\nCOPY lib ../../../x")
    const context = new Map([["lib/two.txt", bytes], ["library.txt", bytes]])
    assert.deepStrictEqual([...placed(copies, context).keys()], ["/opt/lib/two.txt", "/x/two.txt"])
  })
})
