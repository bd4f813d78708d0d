import { FileSystem } from "@effect/platform"
import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Stream, TestClock } from "effect"
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import { MetricsLog, Progress, type QueueState } from "../src/index.js"

const place = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  return { fs, path: `${yield* fs.makeTempDirectoryScoped()}/metrics.jsonl` }
})

const paused = (reason: string): QueueState.Event => ({
  _tag: "Queued",
  requestId: "r1",
  requestType: "ForwardBackward",
  elapsed: Duration.zero,
  state: "paused_capacity",
  reason
})

const write = (path: string, steps: ReadonlyArray<number>) =>
  Effect.scoped(
    Effect.flatMap(MetricsLog.open(path), (log) =>
      Effect.forEach(steps, (step) => log.append({ step, metrics: { loss: step / 4 } })))
  )

describe("MetricsLog", () => {
  it.scoped("one line a step: numbers of any kind, the time, the snapshots of Progress", () =>
    Effect.gen(function*() {
      const { fs, path } = yield* place
      yield* TestClock.setTime(1_700_000_000_000)
      const log = yield* MetricsLog.open(path, { sync: true })
      const progress = yield* Progress.make()
      yield* TestClock.adjust("2 seconds")
      yield* log.append(yield* progress.step({ loss: 0.5, "reward/mean": -1e-9 }, { tokens: 100 }))
      yield* log.append({ step: 2, metrics: { loss: NaN, worst: -Infinity } })
      assert.strictEqual(
        yield* fs.readFileString(path),
        "{\"step\":1,\"time\":1700000002000,\"loss\":0.5,\"reward/mean\":-1e-9,\"tokens_per_second\":50}\n" +
          "{\"step\":2,\"time\":1700000002000,\"loss\":\"NaN\",\"worst\":\"-Infinity\"}\n"
      )
      const { entries, torn } = yield* MetricsLog.read(path)
      assert.isUndefined(torn)
      assert.deepStrictEqual(entries.map(({ metrics, step }) => [step, metrics]), [
        [1, { loss: 0.5, "reward/mean": -1e-9, tokens_per_second: 50 }],
        [2, { loss: NaN, worst: -Infinity }]
      ])
      for (
        const wrong of [{ step: 3, metrics: { time: 1 } }, { step: 3, metrics: { event: 1 } }, {
          step: NaN,
          metrics: {}
        }]
      ) {
        assert.strictEqual((yield* Effect.flip(log.append(wrong)))._tag, "InvalidInput")
      }
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("between steps it notes what is waited for, and in the end that and how it ended", () =>
    Effect.gen(function*() {
      const { fs, path } = yield* place
      yield* TestClock.setTime(1_700_000_000_000)
      const run = (end: Effect.Effect<void, string>) =>
        Effect.gen(function*() {
          const log = yield* MetricsLog.open(path)
          const progress = yield* Progress.make({ totalSteps: 2 })
          yield* log.noteWaits(progress.changes)
          yield* log.append(yield* progress.step({ loss: 1 }))
          yield* progress.follow(Stream.make(paused("full"), paused("full"), paused("fuller")))
          while (!(yield* fs.readFileString(path)).includes("fuller")) yield* Effect.yieldNow()
          yield* end
        }).pipe(Effect.scoped, Effect.exit)
      const lines = Effect.map(
        fs.readFileString(path),
        (text) => text.trim().split("\n").map((line) => JSON.parse(line))
      )
      const time = 1_700_000_000_000
      const story = (outcome: string) => [
        { step: 1, time, loss: 1, total_steps: 2 },
        { event: "waiting", step: 1, time, reason: "full" },
        { event: "waiting", step: 1, time, reason: "fuller" },
        { event: "end", step: 1, time, outcome }
      ]
      for (
        const [end, outcome] of [
          [Effect.void, "success"],
          [Effect.fail("no"), "failure"],
          [Effect.interrupt, "interrupted"]
        ] as const
      ) {
        yield* run(end)
        assert.deepStrictEqual(yield* lines, story(outcome))
        // Readers of steps have steps.
        const { entries, torn } = yield* MetricsLog.read(path)
        assert.deepStrictEqual([entries, torn], [[{ step: 1, time, metrics: { loss: 1 }, totalSteps: 2 }], undefined])
        yield* fs.remove(path)
      }
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("lines written side by side stay whole", () =>
    Effect.gen(function*() {
      const { path } = yield* place
      const log = yield* MetricsLog.open(path)
      const steps = Array.from({ length: 100 }, (_, i) => i)
      yield* Effect.forEach(steps, (step) => log.append({ step, metrics: { loss: step } }), {
        concurrency: "unbounded"
      })
      const { entries } = yield* MetricsLog.read(path)
      assert.deepStrictEqual(entries.map(({ step }) => step).sort((a, b) => a - b), steps)
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("wherever the last line is torn, readers have the others and say so, and a writer goes on", () =>
    Effect.gen(function*() {
      const { fs, path } = yield* place
      yield* write(path, [1, 2, 3])
      const ended = yield* fs.readFile(path)
      // Without the mark of its end, as a killed writer leaves it.
      const whole = ended.subarray(0, ended.lastIndexOf(10, ended.length - 2) + 1)
      const start = whole.lastIndexOf(10, whole.length - 2) + 1
      for (let cut = start + 1; cut < whole.length - 1; cut += 5) {
        yield* fs.writeFile(path, whole.subarray(0, cut))
        const { entries, torn } = yield* MetricsLog.read(path)
        assert.deepStrictEqual(entries.map(({ step }) => step), [1, 2])
        assert.strictEqual(torn?._tag, "TornLine")
        assert.strictEqual(torn?.line, 3)
        const failure = yield* Effect.flip(Stream.runDrain(MetricsLog.stream(path)))
        assert.strictEqual(failure._tag, "TornLine")
        yield* write(path, [4])
        const mended = yield* MetricsLog.read(path)
        assert.deepStrictEqual([mended.entries.map(({ step }) => step), mended.torn], [[1, 2, 4], undefined])
      }
      // Whole but for its end: nothing is lost.
      yield* fs.writeFile(path, whole.subarray(0, -1))
      assert.strictEqual((yield* MetricsLog.read(path)).entries.length, 3)
      yield* write(path, [4])
      assert.deepStrictEqual((yield* MetricsLog.read(path)).entries.map(({ step }) => step), [1, 2, 3, 4])
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("a log of another tool is read; a line that is no object is named", () =>
    Effect.gen(function*() {
      const { fs, path } = yield* place
      // Python counts seconds.
      yield* fs.writeFileString(path, "{\"step\": 0, \"time\": 1700000000.5}\n")
      assert.strictEqual((yield* MetricsLog.read(path)).entries[0]?.time, 1_700_000_000_500)
      const foreign = "{\"step\": 0, \"loss\": NaN, \"tag\": \"a\"}\n\n{\"loss\": 0.25, \"lr\": [1, NaN]}\r\n"
      yield* fs.writeFileString(path, foreign)
      const { entries } = yield* MetricsLog.read(path)
      assert.deepStrictEqual(entries, [
        { step: 0, time: undefined, metrics: { loss: NaN } },
        { step: 1, time: undefined, metrics: { loss: 0.25 } }
      ])
      for (const [line, reason] of [["{\"loss\": 1", "not JSON"], ["[1]", "not a JSON object"]] as const) {
        yield* fs.writeFileString(path, `${foreign}${line}\n{"step":9}\n`)
        const error = yield* Effect.flip(MetricsLog.read(path))
        assert.strictEqual(error.message, `${path}:4: ${reason}`)
      }
      const missing = yield* Effect.flip(MetricsLog.read(`${path}.none`))
      assert.strictEqual(missing._tag, "SystemError")
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("a killed writer loses no line it had finished", () =>
    Effect.gen(function*() {
      const { path } = yield* place
      const program = fileURLToPath(new URL("fixtures/metricsWriter.ts", import.meta.url))
      yield* Effect.promise(() =>
        new Promise<void>((resolve) => {
          const args = ["--conditions=@effect-tinker/source", "--import", "tsx", program, path]
          const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
          child.stdout.once("data", () => child.kill("SIGKILL"))
          child.on("close", () => resolve())
        })
      )
      const { entries } = yield* MetricsLog.read(path)
      assert.isAtLeast(entries.length, 200)
      entries.forEach(({ metrics, step }, i) => assert.deepStrictEqual([step, metrics["note"]], [i + 1, i + 1]))
      yield* write(path, [0])
      assert.strictEqual((yield* MetricsLog.read(path)).entries.length, entries.length + 1)
    }).pipe(Effect.provide(NodeFileSystem.layer)))
})
