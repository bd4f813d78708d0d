/**
 * Everything here is of Effect 4, which is installed at the first use: see `.ci/install.mjs`.
 */
import type { Effect as Program } from "effect/Effect"
import { spawn } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { install } from "../../../.ci/install.mjs"

import { bundlePromise } from "../../../.ci/promise.mjs"

const root = new URL("../../../", import.meta.url).pathname

/** Runs a program to its end, or interrupts it after a line: what it printed, and how it ended. */
const execute = (command: string, args: ReadonlyArray<string>, cwd: string, interruptAfter?: RegExp) =>
  new Promise<{ readonly status: number | null; readonly output: string }>((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "inherit"] })
    let output = ""
    let interrupted = false
    child.stdout.on("data", (chunk) => {
      output += chunk
      if (interrupted || interruptAfter?.test(output) !== true) return
      interrupted = true
      child.kill("SIGINT")
    })
    child.once("error", reject)
    child.once("close", (status) => resolve({ status, output }))
  })

const { missing } = await install("packages/effect4/effect")

describe.skipIf(missing !== undefined)("@effect-tinker/effect4", async () => {
  if (missing !== undefined) return
  const { Effect, Exit, Fiber, Layer, Option, Schedule, Stream } = await import("effect")
  const TestClock = await import("effect/testing/TestClock")
  const { Chat, Tinker, TinkerError, Train } = await import("@effect-tinker/effect4")
  const NodeTinker = await import("@effect-tinker/effect4/NodeTinker")

  const Local = NodeTinker.layerLocal()

  it("trains, asks and goes on", () =>
    Effect.gen(function*() {
      const tinker = yield* Tinker.Tinker
      const training = yield* tinker.training({ baseModel: "local/chat", rank: 16, seed: 1 })
      const chat = yield* Chat.forModel("local/chat")
      const batch = yield* chat.supervised([{ user: "Who are you?", assistant: "A pirate." }])
      const losses: Array<number> = []
      for (let step = 1; step <= 20; step++) {
        losses.push((yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 })).loss.perToken)
      }
      assert.isAbove(losses[0] ?? 0, 1)
      assert.isBelow(losses.at(-1) ?? 1, 0.1)
      const sampler = yield* training.saveWeightsAndGetSampler
      const answer = yield* chat.ask(sampler, "Who are you?", { temperature: 0 })
      assert.strictEqual(answer.text, "A pirate.")
      const next = yield* chat.reply(sampler, answer, "Mira lives in Oslo. Where does Mira live?", { temperature: 0 })
      assert.strictEqual(next.text, "Mira lives in Oslo.")
      const lengths = yield* sampler.sampleMany([1, 2, 3].map((maxTokens) => ({ prompt: [72], maxTokens, stop: [] })))
        .pipe(Stream.map(({ response }) => response?.sequences[0]?.tokens.length ?? 0), Stream.runCollect)
      assert.deepStrictEqual([...lengths].sort(), [1, 2, 3])
      const runs = yield* Stream.runCollect(tinker.list((rest, options) => rest.trainingRuns(options)))
      assert.strictEqual(runs.length, 1)
    }).pipe(Effect.scoped, Effect.provide(Local), Effect.runPromise))

  it("operations reach the server in the order in which they start", () =>
    Effect.gen(function*() {
      const tinker = yield* Tinker.Tinker
      const training = yield* tinker.training({ baseModel: "local/tiny", rank: 8, seed: 1 })
      const ended: Array<string> = []
      const operation = <A, E>(name: string, effect: Program<A, E>) =>
        Effect.tap(effect, () => Effect.sync(() => ended.push(name)))
      yield* Effect.all([
        operation("step 1", training.optimStep({ learningRate: 1e-4 })),
        operation("save", training.saveState("first")),
        operation("step 2", training.optimStep({ learningRate: 1e-4 }))
      ], { concurrency: "unbounded" })
      assert.deepStrictEqual(ended, ["step 1", "save", "step 2"])
    }).pipe(Effect.scoped, Effect.provide(Local), Effect.runPromise))

  it("failures are handled by their tag", () =>
    Effect.gen(function*() {
      const tinker = yield* Tinker.Tinker
      const found = tinker.rest((rest, options) => rest.getCheckpoint("tinker://nobody/weights/nothing", options))
      const handled = yield* Effect.catchTag(found, "NotFound", (error) => Effect.succeed(error.module))
      assert.isString(handled)
      const error = yield* Effect.flip(found)
      assert.isTrue(TinkerError.isTinkerError(error))
      assert.isFalse(TinkerError.isRetryable(error))
    }).pipe(Effect.provide(Local), Effect.runPromise))

  it("a run is a stream; a reward may be an Effect; leaving it saves a checkpoint", () =>
    Effect.gen(function*() {
      const options = {
        model: { baseModel: "local/chat", rank: 8, seed: 0 },
        learningRate: 1e-4,
        problems: Array.from({ length: 40 }, (_, n) => n),
        question: (n: number) => `What is ${n} + ${n}?`,
        reward: (n: number, text: string) => Effect.succeed(text.trim() === String(2 * n)),
        maxTokens: 8,
        groupSize: 2,
        groupsPerBatch: 2,
        keepConstant: true
      }
      const steps = yield* Train.reinforce(options).pipe(Stream.take(3), Stream.runCollect)
      assert.deepStrictEqual(steps.map(({ step }) => step), [1, 2, 3])
      const tinker = yield* Tinker.Tinker
      const saved = yield* Stream.runCollect(tinker.list((rest, options) => rest.userCheckpoints(options)))
      assert.isAbove(saved.length, 0)
      // A reward that fails ends the run.
      const failed = yield* Train.reinforce({ ...options, reward: () => Effect.fail(new Error("no grader")) }).pipe(
        Stream.runDrain,
        Effect.flip
      )
      assert.strictEqual(failed._tag, "TrainingFailed")
      assert.include(failed.message, "no grader")
      // A configuration that makes no sense has a reason.
      const invalid = yield* Train.supervised({ model: "local/chat", learningRate: 1e-3, data: [] }).pipe(
        Stream.runDrain,
        Effect.flip
      )
      assert.strictEqual(invalid._tag, "TrainingFailed")
    }).pipe(Effect.provide(Local), Effect.runPromise))

  it("interruption aborts the request, and a time limit is of the program's clock", async () => {
    const events: Array<string> = []
    const server = createServer((request, response) => {
      if (request.url?.includes("get_server_capabilities") !== true) {
        // Sessions are opened and closed; what is asked for is never answered.
        response.setHeader("content-type", "application/json")
        response.end(JSON.stringify({ type: "create_session", session_id: "s", success: true }))
        return
      }
      events.push("asked")
      response.once("close", () => events.push("closed"))
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const address = server.address()
    const port = typeof address === "object" ? address?.port : undefined
    const Slow = Tinker.layer({ baseUrl: `http://127.0.0.1:${port}`, apiKey: "tml-test", telemetry: false })
    await Effect.gen(function*() {
      const tinker = yield* Tinker.Tinker
      const held = tinker.rest((rest, options) => rest.getServerCapabilities(options))
      const fiber = yield* Effect.forkChild(Effect.timeoutOption(held, "1 minute"))
      yield* TestClock.withLive(Effect.repeat(Effect.sleep("10 millis"), {
        until: () => events.includes("asked"),
        schedule: Schedule.recurs(500)
      }))
      yield* TestClock.adjust("59 seconds")
      assert.deepStrictEqual(events, ["asked"])
      yield* TestClock.adjust("1 second")
      assert.isTrue(Option.isNone(yield* Fiber.join(fiber)))
      yield* TestClock.withLive(Effect.repeat(Effect.sleep("10 millis"), {
        until: () => events.includes("closed"),
        schedule: Schedule.recurs(500)
      }))
      assert.deepStrictEqual(events, ["asked", "closed"])
    }).pipe(Effect.provide(Layer.mergeAll(Slow, TestClock.layer())), Effect.runPromise)
    server.closeAllConnections()
    server.close()
  })

  it("a run that is interrupted saves before it ends", async () => {
    const seen: Array<number> = []
    const exit = await Effect.gen(function*() {
      const tinker = yield* Tinker.Tinker
      const fiber = yield* Train.supervised({
        model: { baseModel: "local/tiny", rank: 8 },
        data: Array.from({ length: 64 }, () => ({ user: "Hello", assistant: "Ahoy" })),
        renderer: "role_colon",
        learningRate: 1e-4,
        batchSize: 1,
        epochs: 100
      }).pipe(
        // Busy with the third step when it is interrupted; what is on its way is never counted as done.
        Stream.runForEach(({ step }) =>
          Effect.andThen(Effect.sync(() => seen.push(step)), step < 3 ? Effect.void : Effect.never)
        ),
        Effect.forkChild
      )
      yield* Effect.repeat(Effect.sleep("10 millis"), {
        until: () => seen.length >= 3,
        schedule: Schedule.recurs(2000)
      })
      yield* Fiber.interrupt(fiber)
      const saved = yield* Stream.runCollect(tinker.list((rest, options) => rest.userCheckpoints(options)))
      return { exit: yield* Fiber.await(fiber), saved: saved.length }
    }).pipe(Effect.provide(Local), Effect.runPromise)
    assert.isTrue(Exit.hasInterrupts(exit.exit))
    assert.isAbove(exit.saved, 0)
    assert.deepStrictEqual(seen, [1, 2, 3])
  })

  it("the example runs installed beside Effect 4, is interrupted, and goes on", async () => {
    const project = mkdtempSync(join(tmpdir(), "effect-tinker-effect4-"))
    try {
      const modules = join(project, "node_modules")
      const ours = join(modules, "@effect-tinker")
      mkdirSync(join(ours, "promise"), { recursive: true })
      mkdirSync(join(ours, "effect4"))
      const tsc = await execute(process.execPath, [".ci/tsc.mjs", "tsconfig.build.json"], root)
      assert.strictEqual(tsc.status, 0, tsc.output)
      await bundlePromise(join(root, "packages/promise"), join(ours, "promise/dist"))
      cpSync(join(root, "packages/local/models"), join(ours, "promise/models"), { recursive: true })
      cpSync(join(root, "packages/effect4/dist"), join(ours, "effect4/dist"), { recursive: true })
      for (const name of ["promise", "effect4"]) {
        cpSync(join(root, "packages", name, "package.json"), join(ours, name, "package.json"))
      }
      symlinkSync(join(root, "packages/effect4/effect/node_modules/effect"), join(modules, "effect"))
      writeFileSync(join(project, "package.json"), `{ "type": "module" }`)
      cpSync(join(root, "packages/effect4/examples/train.mjs"), join(project, "train.mjs"))

      const [, readme = ""] = /^```js\n([\s\S]*?)^```$/m.exec(
        readFileSync(join(root, "packages/effect4/README.md"), "utf8")
      ) ?? []
      writeFileSync(join(project, "readme.mjs"), readme)
      assert.strictEqual((await execute(process.execPath, ["readme.mjs"], project)).output, "A pirate.\n")

      const first = await execute(process.execPath, ["train.mjs"], project, /^step 3:/m)
      assert.include(first.output, "step 3:")
      assert.notInclude(first.output, "step 12:")
      assert.include(first.output, "interrupted: run it again to go on")
      assert.strictEqual(first.status, 130)

      const second = await execute(process.execPath, ["train.mjs"], project)
      assert.strictEqual(second.status, 0)
      assert.notMatch(second.output, /^step 1:/m)
      assert.match(second.output, /^step 12:/m)
      assert.include(second.output, "Who are you? → A pirate.")
    } finally {
      rmSync(project, { recursive: true, force: true })
    }
  }, 300_000)
})
