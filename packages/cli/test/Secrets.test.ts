import { Cli } from "@effect-tinker/cli"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { commandsIn } from "../src/internal/grammar.js"
import * as CommandLine from "./fixtures/commandLine.js"
import * as stdio from "./fixtures/stdio.js"

const run = (...words: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const streams = stdio.make()
    const code = yield* Cli.runWith(["node", "tinker", ...words]).pipe(
      Effect.provide(streams.layer),
      Effect.provide(NodeContext.layer)
    )
    return { code, ...streams.written }
  })

const password = "hunter2"
const url = `postgres://tinker:${password}@db.test/tinker`

describe("secrets on the command line", () => {
  it.effect("are left out of what is recorded, by the type of the option, in every command that has one", () =>
    Effect.gen(function*() {
      const grammar = yield* Cli.grammar
      const all = [grammar, ...commandsIn(grammar)]
      const secrets = all.flatMap((command) =>
        command.options.filter(({ takes }) => takes === "redacted").map((option) => ({ command, option }))
      )
      assert.includeMembers(secrets.map(({ option }) => option.name), [
        "--api-key",
        "--access-token",
        "--database",
        "--durable-database"
      ])
      for (const { command, option } of secrets) {
        const path = command.path.length === 0 ? ["version"] : command.path
        const words = command.arguments.map(() => "argument")
        for (const name of option.names) {
          for (const given of [[name, url], [`${name}=${url}`], [name, password]]) {
            const line = yield* CommandLine.read(grammar, [...path, ...words, ...given])
            assert(line._tag === "Run")
            assert.deepStrictEqual(line.recorded, [...path, ...words], `${path.join(" ")} ${name}`)
            assert.include(line.words.join(" "), given === undefined ? "" : password)
          }
          // Where it is read from is no secret, and needed to run the command again.
          const line = yield* CommandLine.read(grammar, [...path, ...words, name, "@key.txt"])
          assert(line._tag === "Run")
          assert.deepStrictEqual(line.recorded, [...path, ...words, name, "@key.txt"])
        }
      }
    }))

  it.effect("no option that takes a secret has the type of a text", () =>
    Effect.gen(function*() {
      const grammar = yield* Cli.grammar
      const texts = [grammar, ...commandsIn(grammar)].flatMap(({ options }) =>
        options.filter(({ takes }) => takes === "text")
      )
      assert.isAbove(texts.length, 50)
      for (const { description, name } of texts) {
        assert.notMatch(name, /key|password|secret|credential|access-token|database$/, name)
        assert.notMatch(description, /PASSWORD@/, name)
      }
    }))

  it.effect("are refused, with the place for them", () =>
    Effect.gen(function*() {
      const worker = ["worker", "env.ts", "--model", "local/tiny"]
      const train = ["train", "rl", "env.ts", "--model", "local/tiny", "--local"]
      for (
        const [variable, ...words] of [
          ["DATABASE_URL", ...worker, "--database", url],
          ["DATABASE_URL", ...worker, `--database=postgres://db.test/tinker?password=${password}`],
          ["DATABASE_URL", ...worker, `--database=${password}`],
          ["DATABASE_URL", ...train, "--workers", "--database", url],
          ["TINKER_DURABLE_DATABASE", ...train, "--durable-database", url],
          ["--api-key @FILE", "run", "list", "--api-key", password]
        ]
      ) {
        const { code, stderr, stdout } = yield* run(...words)
        assert.strictEqual(code, 2, words.join(" "))
        assert.include(stderr, "command line would be visible to everyone on this machine")
        assert.include(stderr.replaceAll("\n", " "), variable ?? "")
        assert.notInclude(stdout + stderr, password)
      }
    }))

  it.effect("are read from the file that an option names", () =>
    Effect.gen(function*() {
      const directory = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "tinker-secret-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const missing = yield* run("worker", "env.ts", "--model", "local/tiny", "--database", `@${directory}/none`)
      assert.strictEqual(missing.code, 2)
      assert.include(missing.stderr, `the file ${directory}/none cannot be read`)
      writeFileSync(join(directory, "url"), `${url}\n`)
      // Read, so that the next thing is wrong: there is no module.
      const found = yield* run(
        "worker",
        `${directory}/env.ts`,
        "--model",
        "local/tiny",
        "--database",
        `@${directory}/url`
      )
      assert.include(found.stderr, "env.ts")
      assert.notInclude(found.stderr, password)
    }).pipe(Effect.scoped))

  it("are not in a line that is refused before it is read", () => {
    const line = Either.map(CommandLine.read({ ...empty, options: [secret] }, ["--key", password, "--bogus"]), String)
    assert.notInclude(JSON.stringify(line), password)
  })
})

const secret = {
  name: "--key",
  names: ["--key"],
  takes: "redacted",
  choices: [],
  repeated: false,
  description: ""
}

const empty = { path: [], description: "", options: [], arguments: [], commands: new Map<string, never>() }
