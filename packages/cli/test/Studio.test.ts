import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Deferred, Effect, Fiber, Schedule } from "effect"
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

describe("tinker export tensorboard", () => {
  it.scoped("writes an event file for every run", () =>
    Effect.gen(function*() {
      const { fs, root } = yield* runs
      const done = yield* tinker("export", "tensorboard", `${root}/runs`, "-o", `${root}/out`, "-f", "json")
      assert.strictEqual(done.code, 0, done.stderr)
      const [exported] = JSON.parse(done.stdout).runs
      assert.deepStrictEqual([exported.run, exported.steps], ["one", 2])
      assert.isTrue(yield* fs.exists(exported.path))
      yield* fs.makeDirectory(`${root}/empty`)
      const empty = yield* tinker("export", "tensorboard", `${root}/empty`, "-o", `${root}/out`)
      assert.deepStrictEqual([empty.code, empty.stdout], [1, ""])
      assert.include(empty.stderr, "no runs")
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("tinker export mlflow", () => {
  it.scoped("needs a server, and says so", () =>
    Effect.gen(function*() {
      const { root } = yield* runs
      const none = yield* tinker("export", "mlflow", `${root}/runs`)
      assert.strictEqual(none.code, 2)
      assert.include(none.stderr, "no tracking server")
    }).pipe(Effect.withConfigProvider(ConfigProvider.fromMap(new Map())), Effect.provide(NodeContext.layer)))
})

/** Browsers keep what stands behind `#` to themselves. */
const keyOf = (url: string): string => new URL(url).hash.slice("#token=".length)

describe("tinker studio", () => {
  it.scopedLive(
    "grades and data go through it: what a durable run waits for, what a file has",
    () =>
      Effect.gen(function*() {
        execFileSync(process.execPath, [fileURLToPath(new URL("../../studio/page/build.mjs", import.meta.url))])
        const { fs, root } = yield* runs
        const durable = `${root}/runs/one/durable`
        yield* fs.makeDirectory(`${durable}/questions`, { recursive: true })
        yield* fs.writeFileString(
          `${durable}/questions/abc.json`,
          JSON.stringify({ key: "abc", question: "How polite?", answer: "hello", time: 1 })
        )
        const chat = (content: string) =>
          JSON.stringify({ messages: [{ role: "user", content: "Hi" }, { role: "assistant", content }] })
        yield* fs.writeFileString(`${root}/chats.jsonl`, `${chat("Hello")}\n${chat("long ".repeat(200))}\n{}\n`)
        yield* fs.makeDirectory(`${root}/evals/after`, { recursive: true })
        const results = (rewards: ReadonlyArray<number>) =>
          [
            { benchmark: "sums", model: `m${rewards.join("")}`, samples: 1, seed: 0 },
            ...rewards.map((reward, n) => ({
              id: `sum-${n}`,
              sample: 0,
              outcome: "completed",
              reward,
              answer: `answer ${reward}`,
              tokens: 3
            }))
          ].map((row) => JSON.stringify(row)).join("\n")
        yield* fs.writeFileString(`${root}/evals/sums.jsonl`, results([1, 0, 1]))
        yield* fs.writeFileString(`${root}/evals/after/sums.jsonl`, results([1, 1, 0]))
        const printed = yield* Deferred.make<string>()
        const given = ["--data", `${root}/chats.jsonl`, "--evals", `${root}/evals`]
        const line = ["studio", `${root}/runs`, ...given, "--model", "local/chat", "-f", "json"]
        const studio = yield* Effect.fork(Cli.run(["node", "tinker", ...line], {
          stdout: (text) => Deferred.succeed(printed, text),
          stderr: () => Effect.void
        }))
        const early = Effect.map(Fiber.join(studio), (code) => assert.fail(`it ended with ${code}`))
        const { origin, url } = JSON.parse(yield* Effect.raceFirst(Deferred.await(printed), early))
        const authorization = `Bearer ${keyOf(url)}`
        const ask = (path: string, body?: unknown) =>
          Effect.promise(async () => {
            const headers = { authorization, "content-type": "application/json" }
            const response = await fetch(
              `${origin}${path}`,
              body === undefined ? { headers } : { headers, method: "POST", body: JSON.stringify(body) }
            )
            return { status: response.status, json: await response.json() }
          })
        yield* Effect.repeat(ask("/api/runs/one"), {
          until: ({ status }) => status === 200,
          schedule: Schedule.spaced("20 millis")
        })
        assert.deepStrictEqual((yield* ask("/api/grades")).json.map(({ key }: { key: string }) => key), ["abc"])
        assert.strictEqual((yield* ask("/api/grades", { run: "one", key: "nothing", grade: 1 })).status, 409)
        assert.strictEqual((yield* ask("/api/grades", { run: "one", key: "abc", grade: 0.5 })).status, 200)
        assert.strictEqual(JSON.parse(yield* fs.readFileString(`${durable}/answers/abc.json`)).grade, 0.5)
        assert.deepStrictEqual((yield* ask("/api/grades")).json, [])

        const settings = { model: "local/chat", maxLength: 64, price: 2 }
        const { json: report } = yield* ask("/api/data", { file: `${root}/chats.jsonl`, ...settings })
        assert.deepStrictEqual([report.rows, report.kept, report.kind], [3, 1, "chats"])
        assert.deepStrictEqual(report.skippedRows.map(({ row }: { row: number }) => row), [2, 3])
        assert.closeTo(report.estimatedCost, report.tokens * 2e-6, 1e-12)
        assert.include(report.shown[0].parts[0].texts.join(""), "Hello")
        // Only what was given is opened.
        assert.strictEqual((yield* ask("/api/data", { file: "/etc/passwd", ...settings })).status, 422)
        assert.deepInclude(report.quality.counts, { exact: 0, empty: 0, truncated: 1 })

        const { evaluations } = (yield* ask("/api/runs")).json
        assert.deepStrictEqual(evaluations, [`${root}/evals/after/sums.jsonl`, `${root}/evals/sums.jsonl`])
        const [second, first] = evaluations
        const compared = (yield* ask("/api/evaluations", { first, second })).json
        assert.deepInclude(compared, { shared: 3, better: 1, worse: 1, models: ["m101", "m110"] })
        assert.deepStrictEqual(compared.changed.map(({ id }: { id: string }) => id), ["sum-2", "sum-1"])
        assert.strictEqual((yield* ask("/api/evaluations", { first, second: "/etc/passwd" })).status, 422)
        yield* Fiber.interrupt(studio)
      }).pipe(Effect.provide(NodeContext.layer)),
    60_000
  )

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
      assert.strictEqual(yield* status(url), 200)
      const key = keyOf(url)
      assert.strictEqual(yield* status(`${origin}/api/runs/one`, { authorization: `Bearer ${key}` }), 200)
      yield* Fiber.interrupt(studio)
      const wrong = yield* tinker("studio", `${root}/nothing`)
      assert.strictEqual(wrong.code === 1 || wrong.code === 2, true)
    }).pipe(Effect.provide(NodeContext.layer)))
})
