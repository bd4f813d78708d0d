import * as NodePostgres from "@effect-tinker/cluster/NodePostgres"
import { NodeContext } from "@effect/platform-node"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as process_ from "./fixtures/process.js"

let cli: process_.Tinker

beforeAll(async () => {
  cli = await process_.make()
}, 120_000)

afterAll(() => cli.dispose())

/** Answers are judged after a while, so that some of them are being judged when a worker is killed. */
const environment = `
import { Environment } from "@effect-tinker/cookbook"
import { Effect } from "effect"

const reward = (tokens: Int32Array) => tokens.filter((token) => token < 64).length / tokens.length

export default [65, 66, 67, 68, 69, 70, 71, 72].map((letter) =>
  Environment.group(() =>
    Effect.succeed({
      initial: Effect.succeed({ _tag: "Continue", observation: { prompt: Int32Array.of(letter), stop: [] } }),
      step: ({ tokens }) =>
        Effect.delay(Effect.succeed({ _tag: "Done", reason: "completed", reward: reward(tokens) }), "300 millis")
    })
  )
)
`

const apiKey = "tml-only-in-the-environment"

/** A process of the command, and what it has printed. */
const start = (cwd: string, args: ReadonlyArray<string>, env: process_.Env) => {
  const child = spawn(process.execPath, ["--conditions=@effect-tinker/source", cli.bin, ...args], {
    cwd,
    env: { ...cli.base, ...env }
  })
  let printed = ""
  const seen: Array<readonly [text: RegExp, then: () => void]> = []
  const look = (chunk: Buffer) => {
    printed += String(chunk)
    for (const [text, then] of seen.splice(0)) text.test(printed) ? then() : seen.push([text, then])
  }
  child.stdout.on("data", look)
  child.stderr.on("data", look)
  const ended = new Promise<number | null>((resolve) => void child.once("close", (code) => resolve(code)))
  return {
    ended,
    printed: () => printed,
    kill: (signal: "SIGKILL" | "SIGINT" | "SIGTERM") => void child.kill(signal),
    /** When it has printed something; fails when it ends without it. */
    shows: (text: RegExp) =>
      Promise.race([
        new Promise<void>((resolve) => {
          seen.push([text, resolve])
          look(Buffer.of())
        }),
        ended.then(() => {
          if (!text.test(printed)) throw new Error(`ended without ${text}:\n${printed}`)
        })
      ])
  }
}

describe("tinker worker", { timeout: 400_000 }, () => {
  it.scopedLive("runs the rollouts of a durable run; one is killed, another one joins", (context) =>
    Effect.gen(function*() {
      const database = yield* NodePostgres.start
      if (Option.isNone(database)) {
        return context.skip("there is no Postgres on this machine: apt-get install postgresql")
      }
      const cwd = mkdtempSync(join(cli.home, "worker-"))
      writeFileSync(join(cwd, "env.ts"), environment)
      const local = yield* Effect.acquireRelease(
        Effect.promise(() => cli.local("--dir", join(cwd, "backend"))),
        ({ stop }) => Effect.promise(stop)
      )
      const env = { TINKER_BASE_URL: local.url, TINKER_API_KEY: apiKey, DATABASE_URL: Redacted.value(database.value) }
      const processes: Array<ReturnType<typeof start>> = []
      yield* Effect.addFinalizer(() => Effect.sync(() => processes.forEach(({ kill }) => kill("SIGKILL"))))
      const tinker = (...args: ReadonlyArray<string>) => {
        const started = start(cwd, args, env)
        processes.push(started)
        return started
      }
      const model = ["--model", "local/tiny"]
      const train = ["train", "rl", "env.ts", ...model, "--rank", "4", "--group", "4", "--groups-per-batch", "2"]
      const rest = ["--max-tokens", "6", "--epochs", "2", "--save-every", "2", "--seed", "1"]
      const losses = (directory: string) =>
        Effect.promise(async () => {
          const { code, stderr, stdout } = await cli.run(["runs", "show", directory, "-f", "json"], { cwd, env })
          assert.strictEqual(code, 0, stderr)
          return JSON.parse(stdout).losses
        })
      const alone = tinker(...train, ...rest, "--out", "alone")
      assert.strictEqual(yield* Effect.promise(() => alone.ended), 0, alone.printed())

      const join_ = async () => {
        const worker = tinker("worker", "env.ts", ...model, "--concurrency", "4", "--host", "127.0.0.1")
        await worker.shows(/Running up to 4 rollouts at once with the labels cpu/)
        return worker
      }
      const [first] = yield* Effect.promise(() => Promise.all([join_(), join_()]))
      const run = tinker(...train, ...rest, "--workers", "--durable", "--out", "spread")
      yield* Effect.promise(() => run.shows(/step 2/))
      first.kill("SIGKILL")
      const third = yield* Effect.promise(join_)
      assert.strictEqual(yield* Effect.promise(() => run.ended), 0, run.printed())
      const found = yield* losses("spread")
      assert.strictEqual(found.length, 8)
      assert.isTrue(found.some(({ loss }: { readonly loss: number }) => loss !== 0))
      assert.deepStrictEqual(found, yield* losses("alone"))
      third.kill("SIGINT")
      assert.strictEqual(yield* Effect.promise(() => third.ended), 130, third.printed())
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("leaves on SIGTERM when what it runs has ended; others get what waits; its counts say so", (context) =>
    Effect.gen(function*() {
      const database = yield* NodePostgres.start
      if (Option.isNone(database)) {
        return context.skip("there is no Postgres on this machine: apt-get install postgresql")
      }
      const cwd = mkdtempSync(join(cli.home, "worker-"))
      writeFileSync(join(cwd, "env.ts"), environment.replace("300 millis", "3 seconds"))
      const local = yield* Effect.acquireRelease(
        Effect.promise(() => cli.local("--dir", join(cwd, "backend"))),
        ({ stop }) => Effect.promise(stop)
      )
      const env = { TINKER_BASE_URL: local.url, TINKER_API_KEY: apiKey, DATABASE_URL: Redacted.value(database.value) }
      const processes: Array<ReturnType<typeof start>> = []
      yield* Effect.addFinalizer(() => Effect.sync(() => processes.forEach(({ kill }) => kill("SIGKILL"))))
      const join_ = async () => {
        const options = ["--concurrency", "4", "--metrics", "0", "--grace", "20"]
        const worker = start(cwd, ["worker", "env.ts", "--model", "local/tiny", ...options], env)
        processes.push(worker)
        await worker.shows(/Metrics are at http:\S+\/metrics /)
        return { ...worker, address: /Metrics are at (http:\S+?)\/metrics /.exec(worker.printed())?.[1] ?? "" }
      }
      const [leaving, staying] = yield* Effect.promise(() => Promise.all([join_(), join_()]))
      const counts = (address: string) =>
        Effect.promise(async (): Promise<Record<string, number>> => (await fetch(`${address}/metrics.json`)).json())
      assert.deepInclude(yield* counts(leaving.address), { running: 0, waiting: 0, concurrency: 4, idle: 4, ended: 0 })
      const model = ["--model", "local/tiny", "--rank", "4", "--group", "4", "--groups-per-batch", "4"]
      const run = start(cwd, ["train", "rl", "env.ts", ...model, "--max-tokens", "6", "--workers", "--out", "run"], env)
      processes.push(run)
      // Sixteen rollouts of 3 s: eight run, and eight wait.
      const atKill = yield* counts(leaving.address).pipe(
        Effect.delay("50 millis"),
        Effect.repeat({ until: ({ running = 0, waiting = 0 }) => running === 4 && waiting > 0 }),
        Effect.timeout("1 minute")
      )
      leaving.kill("SIGTERM")
      // What it runs is ended: until then it goes on answering.
      let last: Record<string, number> = atKill
      yield* Effect.delay(counts(leaving.address), "100 millis").pipe(
        Effect.tap((found) =>
          Effect.sync(() => {
            last = found
          })
        ),
        Effect.forever,
        Effect.catchAllCause(() => Effect.void)
      )
      assert.strictEqual(yield* Effect.promise(() => leaving.ended), 143, leaving.printed())
      assert.strictEqual(yield* Effect.promise(() => run.ended), 0, run.printed())
      // It took no more, and ended the four that it had.
      assert.strictEqual(last["waiting"], 0)
      const ended = (atKill["ended"] ?? NaN) + 4
      const { stdout } = yield* Effect.promise(() => cli.run(["runs", "show", "run", "-f", "json"], { cwd, env }))
      assert.strictEqual(JSON.parse(stdout).steps, 2)
      // Nothing was run twice: what the first one ended, it had stored.
      assert.strictEqual((yield* counts(staying.address))["ended"], 2 * 16 - ended)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a durable run in Postgres goes on after an interruption", (context) =>
    Effect.gen(function*() {
      const database = yield* NodePostgres.start
      if (Option.isNone(database)) {
        return context.skip("there is no Postgres on this machine: apt-get install postgresql")
      }
      const cwd = mkdtempSync(join(cli.home, "worker-"))
      writeFileSync(join(cwd, "env.ts"), environment)
      const env = {
        TINKER_BASE_URL: "local",
        TINKER_LOCAL_DIR: join(cwd, "backend"),
        TINKER_DURABLE_DATABASE: Redacted.value(database.value)
      }
      const train = ["train", "rl", "env.ts", "--model", "local/tiny", "--rank", "4", "--group", "2"]
      const rest = ["--groups-per-batch", "2", "--max-tokens", "4", "--save-every", "2", "--out", "run"]
      const options = { cwd, env, limit: 240_000 }
      const first = yield* Effect.promise(() => cli.run([...train, ...rest], { ...options, interruptAt: /step 1/ }))
      assert.strictEqual(first.code, 130, first.stderr)
      const second = yield* Effect.promise(() => cli.run([...train, ...rest, "-f", "json"], options))
      assert.strictEqual(second.code, 0, second.stderr)
      assert.isTrue(JSON.parse(second.stdout).complete)
      const { stdout } = yield* Effect.promise(() => cli.run(["runs", "show", "run", "-f", "json"], options))
      assert.strictEqual(JSON.parse(stdout).steps, 4)
      assert.strictEqual(JSON.parse(stdout).resumes, 1)
    }).pipe(Effect.provide(NodeContext.layer)))
})
