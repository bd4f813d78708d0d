import { Cli } from "@effect-tinker/cli"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { commandsIn } from "../src/internal/grammar.js"
import * as stdio from "./fixtures/stdio.js"

const run = (line: string, options: Parameters<typeof stdio.make>[0] = {}) =>
  Effect.gen(function*() {
    const streams = stdio.make(options)
    const code = yield* Cli.runWith(["node", "tinker", ...line.split(" ").filter((word) => word !== "")]).pipe(
      Effect.provide(streams.layer),
      Effect.provide(NodeContext.layer)
    )
    return { code, ...streams.written }
  })

const manifest: { readonly version: string } = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8")
)

describe("Cli", () => {
  it.effect("the version is that of the package", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* run("version"), { code: 0, stdout: `tinker ${manifest.version}\n`, stderr: "" })
      const { stdout } = yield* run("version --format json")
      assert.strictEqual(JSON.parse(stdout).version, manifest.version)
    }))

  it.effect("options of the root are accepted anywhere", () =>
    Effect.gen(function*() {
      for (
        const line of [
          "--format ndjson version",
          "version --format ndjson",
          "version --format=ndjson",
          "version -f ndjson",
          "version -f=ndjson --project-id=p",
          "version --project-id p -f ndjson"
        ]
      ) {
        const { code, stdout } = yield* run(line)
        assert.strictEqual(code, 0)
        assert.strictEqual(JSON.parse(stdout).version, manifest.version)
      }
    }))

  it.effect("a wrong command line is two lines on stderr and exit code 2", () =>
    Effect.gen(function*() {
      for (
        const [line, what] of [
          ["verzion", "Did you mean `tinker version`?"],
          ["nonsense", "There is no command `tinker nonsense`"],
          ["version --bogus", "--bogus"],
          ["--format xml version", "--format must be table, json or ndjson, not \"xml\""],
          ["--timeout soon version", "'soon' is not a duration"],
          ["run list --format", "--format requires a value"],
          ["run list --log-level loud", "--log-level must be all, trace, debug"],
          ["run list --limit x", "--limit must be an integer, not \"x\""],
          ["run list --limit -1", "--limit must not be negative"],
          ["--completions cmd", "bash, zsh or fish"],
          ["--verbose", "There is no option --verbose"]
        ] as const
      ) {
        const { code, stderr, stdout } = yield* run(line)
        assert.strictEqual(code, 2, line)
        assert.strictEqual(stdout, "")
        assert.include(stderr, what)
        assert.strictEqual(stderr.trimEnd().split("\n").length, 2, stderr)
      }
    }))

  it.effect("help goes to stdout, without colour in a pipe, and names every command", () =>
    Effect.gen(function*() {
      const { code, stderr, stdout } = yield* run("--help")
      assert.strictEqual(code, 0)
      assert.strictEqual(stderr, "")
      assert.notInclude(stdout, "\u001b")
      assert.notInclude(stdout, "This setting is optional")
      assert.include(stdout, "--base-url")
      assert.include((yield* run("version --help")).stdout, "$ tinker version")
      assert.include(stdout, "$ tinker <command> [options]")
      assert.include(stdout, "-f, --format table|json|ndjson  Output format on stdout")
      assert.include(stdout, "`tinker --completions bash`")
      const deletion = (yield* run("checkpoint delete --help")).stdout
      assert.include(deletion, "$ tinker checkpoint delete [options] <path>...")
      // What is said of every command is below its options, not one of them.
      assert.match(deletion, /\n {2}-y, --yes {6}Do not ask[^\n]*\n\nOptions of `tinker` itself/)
    }))

  it.effect("what people type in other programs is understood", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* run("help")).stdout, (yield* run("--help")).stdout)
      assert.strictEqual((yield* run("help run list")).stdout, (yield* run("run list --help")).stdout)
      assert.strictEqual((yield* run("-V")).stdout, (yield* run("--version")).stdout)
    }))

  it.effect("every command, option and argument says what it is", () =>
    Effect.gen(function*() {
      const grammar = yield* Cli.grammar
      for (const { arguments: args, description, options, path } of commandsIn(grammar)) {
        assert.notStrictEqual(description, "", path.join(" "))
        for (const part of [...args, ...options, ...grammar.options]) {
          assert.match(part.description, /\.$/, `${path.join(" ")} ${part.name}`)
        }
      }
    }))

  it.effect("on a terminal, help and errors are broken between words", () =>
    Effect.gen(function*() {
      const narrow = { isTTY: true, columns: 60 }
      for (const line of ["--help", "checkpoint push-hf --help", "nonsense", "checkpoint info nonsense"]) {
        const { stderr, stdout } = yield* run(line, narrow)
        // An address stays whole, so that it can be clicked.
        for (const text of (stdout + stderr).split("\n").filter((text) => !text.startsWith("  See https://"))) {
          assert.isAtMost(text.length, 60, text)
        }
      }
    }))
})
