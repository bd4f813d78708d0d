import { Cli } from "@effect-tinker/cli"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import type { Shell } from "../src/internal/commandLine.js"
import * as completions from "../src/internal/completions.js"

const directory = mkdtempSync(join(tmpdir(), "tinker-completions-"))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const grammar = await Effect.runPromise(Cli.grammar)

const scriptOf = (shell: Shell): string => {
  const file = join(directory, `tinker.${shell}`)
  writeFileSync(file, completions.script(shell, grammar))
  return file
}

const run = (shell: Shell, ...args: ReadonlyArray<string>): string => {
  const { stderr, stdout } = spawnSync(shell, args, {
    encoding: "utf8",
    timeout: 25_000,
    env: { PATH: process.env["PATH"] ?? "", HOME: directory, TERM: "xterm" }
  })
  assert.strictEqual(stderr, "")
  return stdout
}

const escapes = /\u001b(?:\[[0-9;?]*[A-Za-z]|[=>])/g

/** What each shell offers for the last word of a line, which is known to be offered `expected`. */
const complete: Readonly<Record<Shell, (line: string, expected: string) => ReadonlyArray<string>>> = {
  bash: (line) => {
    const script = `source ${
      scriptOf("bash")
    }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tinker; printf '%s\\n' "\${COMPREPLY[@]}"`
    return run("bash", "-c", script, "bash", ...line.split(" ")).split("\n")
  },
  zsh: (line, expected) => {
    const fixture = new URL("fixtures/complete.zsh", import.meta.url).pathname
    const shown = run("zsh", "-f", fixture, scriptOf("zsh"), line, expected)
    return shown.replace(escapes, "").split(/[\r\n]+| +-- | +/)
  },
  fish: (line) =>
    run("fish", "--no-config", "-c", `source ${scriptOf("fish")}; complete -C ${JSON.stringify(line)}`)
      .split("\n")
      .map((text) => text.split("\t")[0] ?? "")
}

for (const shell of ["bash", "zsh", "fish"] as const) {
  const isHere = spawnSync(shell, ["--version"]).status === 0
  describe.skipIf(!isHere)(`completions in ${shell}${isHere ? "" : " (which is not installed here)"}`, () => {
    const offers = (
      line: string,
      wanted: readonly [string, ...Array<string>],
      unwanted: ReadonlyArray<string> = []
    ) => {
      const found = complete[shell](line, wanted[wanted.length - 1] ?? "")
      for (const word of wanted) assert.include(found, word, `${line} -> ${found.join(" ")}`)
      for (const word of unwanted) assert.notInclude(found, word, `${line} -> ${found.join(" ")}`)
    }

    it("commands and groups", () => offers("tinker ch", ["chat", "checkpoint"], ["run"]))

    it("commands of a group", () => {
      offers("tinker run ", ["info", "list"], ["publish"])
      // A value is not a command, whatever it is.
      offers("tinker --base-url local checkpoint p", ["publish", "push-hf"], ["info"])
    })

    it("options of a command and of the program", () =>
      offers("tinker run list --", ["--format", "--limit", "--scope", "--version"], ["--ttl"]))

    it("words an option takes", () => {
      offers("tinker run list --scope ", ["accessible", "owned"])
      offers("tinker checkpoint delete -f t", ["table"], ["json"])
    })

    it("files, where there is nothing else", () => {
      const file = scriptOf(shell)
      // bash completes files itself where nothing else is offered.
      if (shell === "bash") assert.deepStrictEqual(complete.bash(`tinker watch ${file.slice(0, -2)}`, ""), ["", ""])
      else offers(`tinker watch ${file.slice(0, -2)}`, [file])
    })
  })
}
