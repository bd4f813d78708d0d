import type { ServingKit } from "@effect-tinker/weights"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Random } from "effect"
import { build } from "esbuild"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { fileURLToPath } from "node:url"
import * as fixtures from "./fixtures.js"

/** The program that makes a kit, as one file that starts fast. */
const program = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const outfile = `${yield* fs.makeTempDirectoryScoped()}/export.mjs`
  yield* Effect.promise(() =>
    build({
      entryPoints: [fileURLToPath(new URL("./support/exportProgram.ts", import.meta.url))],
      outfile,
      bundle: true,
      minify: true,
      platform: "node",
      format: "esm",
      conditions: ["@effect-tinker/source"],
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
      logLevel: "silent"
    })
  )
  return outfile
})

/** Runs it, and kills it some milliseconds after it has started; yields how long it ran and whether it was killed. */
const run = (file: string, options: ServingKit.Options, killAfter: number | undefined) =>
  Effect.async<{ readonly killed: boolean; readonly millis: number }, Error>((resume) => {
    const child = spawn(process.execPath, [file, JSON.stringify(options)], { stdio: ["ignore", "pipe", "pipe"] })
    const complaints: Array<string> = []
    let start = 0
    child.stderr.on("data", (data) => complaints.push(String(data)))
    child.stdout.once("data", () => {
      start = performance.now()
      if (killAfter !== undefined) setTimeout(() => child.kill("SIGKILL"), killAfter)
    })
    child.on("close", (code, signal) =>
      resume(
        code === 0 || signal === "SIGKILL"
          ? Effect.succeed({ killed: signal === "SIGKILL", millis: performance.now() - start })
          : Effect.fail(new Error(complaints.join("")))
      ))
  })

const hashOf = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const hash = createHash("sha256")
  for (const name of (yield* fs.readDirectory(directory)).sort()) {
    hash.update(name).update(yield* fs.readFile(path.join(directory, name)))
  }
  return hash.digest("hex")
})

describe("an export that is killed", () => {
  const cases = [
    ["a merge that keeps the types", 20, { target: "transformers" }],
    ["a merge into other types", 5, { target: "transformers", dtype: "bf16" }],
    ["a GGUF file", 5, { target: "ollama" }],
    ["an adapter", 5, { target: "vllm" }]
  ] as const

  for (const [what, kills, settings] of cases) {
    it.scopedLive(
      `${what}, ${kills} times: nothing looks complete before it is, and the result is the same`,
      () =>
        Effect.gen(function*() {
          const fs = yield* FileSystem.FileSystem
          const file = yield* program
          const model = yield* fixtures.qwen3(40, { layers: 12, hidden: 256, inner: 512, shards: 6 })
          const options = (output: string): ServingKit.Options => ({
            base: model.base,
            adapter: model.adapter,
            // The name is on the model card, which is part of the hash.
            name: "kit",
            output: model.at(output),
            ...settings
          })
          let { millis } = yield* run(file, options("reference"), undefined)
          const command = (text: string) => text.replaceAll(model.at("reference"), model.at("kit"))
          const card = command(yield* fs.readFileString(`${model.at("reference")}/README.md`))
          yield* fs.writeFileString(`${model.at("reference")}/README.md`, card)
          const expected = yield* hashOf(model.at("reference"))
          const output = model.at("kit")
          let killed = 0
          while (killed < kills) {
            const ended = yield* run(file, options("kit"), yield* Random.nextIntBetween(0, Math.ceil(millis)))
            if (ended.killed) killed++
            // The machine was busier when the reference was made: a later kill would hardly ever hit.
            else millis = Math.min(millis, ended.millis)
            // Killed after the last rename, it is as complete as one that ended by itself.
            if (!(yield* fs.exists(output))) continue
            assert.strictEqual(yield* hashOf(output), expected)
            yield* fs.remove(output, { recursive: true })
          }
          yield* run(file, options("kit"), undefined)
          assert.strictEqual(yield* hashOf(output), expected)
          assert.isFalse(yield* fs.exists(`${output}.partial`))
        }).pipe(Effect.provide(NodeContext.layer)),
      { timeout: 300_000 }
    )
  }
})
