import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Stream, TestClock } from "effect"
import { Progress } from "effect-tinker"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as MetricsWatch from "../src/metrics/MetricsWatch.js"
import * as MemoryFile from "./fixtures/memoryFile.js"

const line = (fields: object) => `${JSON.stringify(fields)}\n`

const step = (n: number, more: object = {}) => line({ step: n, time: n * 1000, loss: 1 / n, ...more })

const ended = (outcome = "success") => line({ event: "end", time: 9000, outcome })

/** A log in memory, someone who watches it, and what they have seen so far. */
const watching = Effect.fnUntraced(function*(options: Parameters<typeof MetricsWatch.events>[1] = {}) {
  const file = MemoryFile.make()
  const seen: Array<MetricsWatch.Event> = []
  const fiber = yield* MetricsWatch.events("log", options).pipe(
    Stream.runForEach((event) => Effect.sync(() => seen.push(event))),
    Effect.provide(file.layer),
    Effect.fork
  )
  /** The events since the last time, after a look at the file. */
  const look = Effect.gen(function*() {
    yield* TestClock.adjust("250 millis")
    return seen.splice(0).map((event) =>
      event._tag === "Step"
        ? event.entry.step
        : event._tag === "CaughtUp" && event.torn !== undefined
        ? "Torn"
        : event._tag
    )
  })
  return { file, fiber, look }
})

/** All standings of a log that is there. */
const standings = (text: string, options: Parameters<typeof MetricsWatch.standings>[0] = {}) =>
  Effect.suspend(() => {
    const file = MemoryFile.make()
    file.write(text)
    return MetricsWatch.events("log", { once: true }).pipe(
      MetricsWatch.standings(options),
      Stream.runCollect,
      Effect.map((chunk) => Array.from(chunk)),
      Effect.provide(file.layer)
    )
  })

describe("MetricsWatch", () => {
  it.effect("lines come as they are written, from before there is a file until the run has ended", () =>
    Effect.gen(function*() {
      const { fiber, file, look } = yield* watching()
      assert.deepStrictEqual(yield* look, ["Missing"])
      assert.deepStrictEqual(yield* look, [])
      file.write("")
      assert.deepStrictEqual(yield* look, ["CaughtUp"])
      file.append(step(1) + step(2))
      assert.deepStrictEqual(yield* look, [1, 2, "CaughtUp"])
      file.append(line({ event: "waiting", reason: "full" }))
      assert.deepStrictEqual(yield* look, ["Waiting", "CaughtUp"])
      file.append(step(3) + ended())
      assert.deepStrictEqual(yield* look, [3, "Ended", "CaughtUp"])
      assert.deepStrictEqual(yield* fiber.await, Exit.void)
    }))

  it.effect("an end that is not the last line ends nothing: the run was resumed", () =>
    Effect.gen(function*() {
      const { fiber, file, look } = yield* watching()
      file.write(step(1) + ended("interrupted") + step(2))
      assert.deepStrictEqual(yield* look, [1, "Ended", 2, "CaughtUp"])
      assert.isNull(fiber.unsafePoll())
      // A torn line after the end is someone who has begun to write.
      file.append(ended() + "{\"st")
      assert.deepStrictEqual(yield* look, ["Ended", "Torn"])
      assert.isNull(fiber.unsafePoll())
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("a line is read when it is whole, wherever it was torn, also when it is mended by another", () =>
    Effect.gen(function*() {
      const { fiber, file, look } = yield* watching()
      const second = step(2, { note: "ä€😀" })
      const bytes = new TextEncoder().encode(second)
      file.write(step(1))
      yield* look
      for (let cut = 1; cut < bytes.length - 1; cut += 7) {
        file.write(step(1) + second.slice(0, Math.min(cut, second.length - 2)))
        assert.deepStrictEqual(yield* look, ["Torn"])
      }
      // Closed, but its line has no end yet: it is read once.
      file.write(step(1) + second.slice(0, -1))
      assert.deepStrictEqual(yield* look, [2, "CaughtUp"])
      file.append("\n")
      assert.deepStrictEqual(yield* look, ["CaughtUp"])
      // The next writer cuts what a killed one left, and writes more than that.
      file.append("{\"step\":3,\"lo")
      assert.deepStrictEqual(yield* look, ["Torn"])
      file.write(step(1) + second + step(3, { much: "longer than what was there before" }))
      assert.deepStrictEqual(yield* look, [3, "CaughtUp"])
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("a log that is replaced is read from its start, whether it is shorter, longer or gone for a while", () =>
    Effect.gen(function*() {
      const { fiber, file, look } = yield* watching()
      file.write(step(1) + step(2))
      yield* look
      file.write(step(7))
      assert.deepStrictEqual(yield* look, ["Restarted", 7, "CaughtUp"])
      file.write(step(8) + step(9) + step(10))
      assert.deepStrictEqual(yield* look, ["Restarted", 8, 9, 10, "CaughtUp"])
      file.remove()
      assert.deepStrictEqual(yield* look, ["Restarted", "Missing"])
      file.write(step(1))
      assert.deepStrictEqual(yield* look, [1, "CaughtUp"])
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("a line that is none is a failure, named, after those before it", () =>
    Effect.gen(function*() {
      const { fiber, file, look } = yield* watching()
      file.write(`${step(1)}\nnonsense\n${step(2)}`)
      assert.deepStrictEqual(yield* look, [1])
      yield* look
      const error = yield* Effect.flip(Fiber.join(fiber))
      assert.strictEqual(error.message, "log:3: not JSON")
    }))

  it.effect("once: what there is, torn or not; a file that is not there is a failure", () =>
    Effect.gen(function*() {
      const file = MemoryFile.make()
      const once = Effect.provide(Stream.runCollect(MetricsWatch.events("log", { once: true })), file.layer)
      assert.strictEqual((yield* Effect.flip(once))._tag, "SystemError")
      file.write(`${step(1)}{"st`)
      assert.deepStrictEqual(Array.from(yield* once, ({ _tag }) => _tag), ["Step", "CaughtUp"])
      file.write(`${step(1)}nonsense\n`)
      assert.strictEqual((yield* Effect.flip(once))._tag, "MalformedLine")
    }))

  it.effect("lines longer than what is read at once, and many of them, are all there", () =>
    Effect.gen(function*() {
      const long = "x".repeat(1_000_000)
      const text = step(1, { long }) + Array.from({ length: 20_000 }, (_, i) => step(i + 2)).join("") + ended()
      const all = yield* standings(text)
      assert.deepStrictEqual(all.slice(0, -1).map((at) => at.step), Array.from({ length: 20_001 }, (_, i) => i + 1))
      assert.strictEqual(all.at(-1)?.ended, "success")
    }))

  it.effect("a file nobody writes to is not read again", () =>
    Effect.gen(function*() {
      const { fiber, file, look } = yield* watching()
      file.write(step(1))
      yield* look
      const before = file.looks()
      for (let i = 0; i < 4; i++) assert.deepStrictEqual(yield* look, [])
      assert.strictEqual(file.looks(), before + 4)
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("a standing tells pace, time left and reasons as they were when the line was written", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(500_000)
      const all = yield* standings(
        step(1, { total_steps: 10, tokens_per_second: 50 }) + step(3, { total_steps: 10, tokens_per_second: 250 }) +
          line({ event: "waiting", time: 3500, reason: "full" }) + step(4, { total_steps: 10 }) + ended("failure")
      )
      assert.deepStrictEqual(all.map(Progress.describe), [
        "step 1/10: loss 1, 50.0 tokens/s",
        "step 3/10: loss 0.333, 250 tokens/s, 7s left",
        "step 3/10: loss 0.333, 250 tokens/s, 7s left, waiting: full",
        "step 4/10: loss 0.25, 6s left",
        "step 4/10: loss 0.25"
      ])
      assert.deepStrictEqual(all[1]?.stepTime, Duration.seconds(1))
      assert.deepStrictEqual(all.at(-1)?.elapsed, Duration.seconds(8))
      assert.deepStrictEqual(all.map((at) => at.ended).slice(-2), [undefined, "failure"])
    }))

  it.effect("a run that was resumed, or begun again, has a pace of its own; lines of one step are one", () =>
    Effect.gen(function*() {
      const hour = 3_600_000
      const later = (n: number) => step(n, { time: hour + n * 1000, total_steps: 10 })
      for (const between of [ended("interrupted"), ""]) {
        const all = yield* standings(step(1) + step(2) + step(3) + between + later(2) + later(3))
        assert.deepStrictEqual(all.at(-1)?.stepTime, Duration.seconds(1))
        assert.deepStrictEqual(all.at(-1)?.elapsed, Duration.seconds(1))
      }
      const [, both] = yield* standings(line({ step: 5, loss: 1 }) + line({ step: 5, "eval/loss": 2 }))
      assert.deepStrictEqual(both?.metrics, { loss: 1, "eval/loss": 2 })
      // Without times there is no pace to tell of what was there before.
      const untimed = yield* standings(line({ loss: 1 }) + line({ loss: 2 }), { totalSteps: 9 })
      assert.deepStrictEqual(untimed.map(Progress.describe), ["step 0/9: loss 1", "step 1/9: loss 2"])
    }))

  it.effect("with `every` the clock runs on: the time left, and how long nothing has come", () =>
    Effect.gen(function*() {
      const file = MemoryFile.make()
      file.write(step(1, { total_steps: 4 }) + step(2, { total_steps: 4 }))
      yield* TestClock.setTime(2000)
      const seen: Array<string> = []
      const fiber = yield* MetricsWatch.events("log").pipe(
        MetricsWatch.standings({ every: "1 seconds" }),
        Stream.runForEach((standing) => Effect.sync(() => seen.push(Progress.describe(standing)))),
        Effect.provide(file.layer),
        Effect.fork
      )
      yield* TestClock.adjust("1 seconds")
      yield* TestClock.adjust("10 seconds")
      file.append(ended())
      yield* TestClock.adjust("1 seconds")
      yield* Fiber.join(fiber)
      assert.include(seen, "step 2/4: loss 0.5, 2s left")
      assert.include(seen, "step 2/4: loss 0.5, 1s left")
      // The step under way takes long; the one after it is still to come.
      assert.include(seen, "step 2/4: loss 0.5, 1s left, last step 11s ago")
    }))

  it.live("on a disk, from before the file is there", () =>
    Effect.gen(function*() {
      const path = join(mkdtempSync(join(tmpdir(), "tinker-watch-")), "metrics.jsonl")
      const fiber = yield* Effect.fork(Stream.runCollect(MetricsWatch.watch(path)))
      yield* Effect.sleep("50 millis")
      writeFileSync(path, step(1) + "{\"step\":2")
      yield* Effect.sleep("300 millis")
      writeFileSync(path, ",\"loss\":0.5}\n" + ended(), { flag: "a" })
      const all = Array.from(yield* Fiber.join(fiber))
      assert.deepStrictEqual(all.map((at) => at.step), [1, 2, 2])
    }).pipe(Effect.provide(NodeFileSystem.layer)))
})

describe("Progress.sparkline", () => {
  it("is as high as its values, as wide as it may be, and of finite numbers", () => {
    assert.strictEqual(Progress.sparkline([0, 1, 2, 3, 4, 5, 6, 7]), "▁▂▃▄▅▆▇█")
    assert.strictEqual(Progress.sparkline([5, NaN, 5, Infinity]), "▁▁")
    assert.strictEqual(Progress.sparkline([]), "")
    assert.strictEqual(Progress.sparkline(Array.from({ length: 1000 }, (_, i) => -i), 4), "█▆▃▁")
  })
})
