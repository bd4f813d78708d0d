import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import * as Cli from "../src/Cli.js"

/** A directory with one run of two steps. */
const runs = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped()
  const step = (n: number) =>
    `${JSON.stringify({ _tag: "Step", time: n, step: n, metrics: { loss: 1 / n }, timings: {} })}\n`
  yield* fs.makeDirectory(`${root}/runs/one`, { recursive: true })
  yield* fs.writeFileString(`${root}/runs/one/journal.jsonl`, step(1) + step(2))
  return { fs, root }
})

const tinker = (...line: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const written = { stdout: "", stderr: "" }
    const write = (name: "stdout" | "stderr") => (text: string) =>
      Effect.sync(() => {
        written[name] += text
      })
    const code = yield* Cli.run(["node", "tinker", ...line], { stdout: write("stdout"), stderr: write("stderr") })
    return { code, ...written }
  })

describe("tinker tensorboard", () => {
  it.scoped("writes an event file for every run", () =>
    Effect.gen(function*() {
      const { fs, root } = yield* runs
      const done = yield* tinker("tensorboard", `${root}/runs`, "-o", `${root}/out`, "-f", "json")
      assert.strictEqual(done.code, 0, done.stderr)
      const [exported] = JSON.parse(done.stdout).runs
      assert.deepStrictEqual([exported.run, exported.steps], ["one", 2])
      assert.isTrue(yield* fs.exists(exported.path))
      yield* fs.makeDirectory(`${root}/empty`)
      const empty = yield* tinker("tensorboard", `${root}/empty`, "-o", `${root}/out`)
      assert.deepStrictEqual([empty.code, empty.stdout], [1, ""])
      assert.include(empty.stderr, "no runs")
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("tinker studio", () => {
  it.scopedLive("prints an address whose key gives access to the runs", () =>
    Effect.gen(function*() {
      execFileSync(process.execPath, [fileURLToPath(new URL("../../studio/page/build.mjs", import.meta.url))])
      const { root } = yield* runs
      const printed = yield* Deferred.make<string>()
      const studio = yield* Effect.fork(Cli.run(["node", "tinker", "studio", `${root}/runs`, "-f", "json"], {
        stdout: (text) => Deferred.succeed(printed, text),
        stderr: () => Effect.void
      }))
      const early = Effect.map(Fiber.join(studio), (code) => assert.fail(`it ended with ${code}`))
      const { origin, url } = JSON.parse(yield* Effect.raceFirst(Deferred.await(printed), early))
      const status = (address: string, headers: Record<string, string> = {}) =>
        Effect.promise(async () => (await fetch(address, { headers, redirect: "manual" })).status)
      assert.strictEqual(yield* status(`${origin}/api/runs`), 401)
      assert.strictEqual(yield* status(url), 303)
      const key = new URL(url).searchParams.get("token") ?? ""
      assert.strictEqual(yield* status(`${origin}/api/runs/one`, { authorization: `Bearer ${key}` }), 200)
      yield* Fiber.interrupt(studio)
      const wrong = yield* tinker("studio", `${root}/nothing`)
      assert.strictEqual(wrong.code === 1 || wrong.code === 2, true)
    }).pipe(Effect.provide(NodeContext.layer)))
})
