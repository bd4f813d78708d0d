import { Cli } from "@effect-tinker/cli"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, TestClock } from "effect"
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { mainMetric, makeCurve, renderLine } from "../src/commands/watch.js"
import * as stdio from "./fixtures/stdio.js"

const line = (fields: object) => `${JSON.stringify(fields)}\n`

const step = (n: number, more: object = {}) =>
  line({ step: n, time: n * 1000, loss: 8 - n, tokens_per_second: 100, total_steps: 4, ...more })

const end = (outcome: string) => line({ event: "end", step: 4, time: 5000, outcome })

const place = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "tinker-watch-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
)

/** `tinker watch LOG …` under way, and what it has written. */
const watch = Effect.fnUntraced(function*(
  words: ReadonlyArray<string>,
  options: Parameters<typeof stdio.make>[0] = {}
) {
  const streams = stdio.make(options)
  const fiber = yield* Cli.runWith(["node", "tinker", "watch", ...words]).pipe(
    Effect.provide(streams.layer),
    Effect.provide(NodeContext.layer),
    Effect.fork
  )
  const waiting = (seen: () => boolean, between: Effect.Effect<void>) =>
    Effect.gen(function*() {
      // In real time: the command is loaded at its first use, and a busy machine takes its time over that and the disk.
      const end = performance.now() + 60_000
      while (!seen() && performance.now() < end) {
        yield* between
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      assert.isTrue(seen(), JSON.stringify(streams.written))
    })
  /** The disk has its time until something is to be seen: what is there is read before the clock goes on. */
  const read = (seen: () => boolean) => waiting(seen, Effect.void)
  /** The clock goes on, and the disk has its time, until something is to be seen. */
  const until = (seen: () => boolean) => waiting(seen, TestClock.adjust("50 millis"))
  const code = Effect.zipRight(until(() => fiber.unsafePoll() !== null), Fiber.join(fiber))
  return { written: streams.written, fiber, read, until, code }
})

describe("tinker watch", () => {
  it.scoped("in a pipe: a line for each step and each reason to wait, from before the file is there", () =>
    Effect.gen(function*() {
      const log = join(yield* place, "m.jsonl")
      const { code, until, written } = yield* watch([log])
      yield* until(() => written.stderr !== "")
      assert.strictEqual(written.stderr, `There is no ${log} yet; waiting for it, Ctrl-C ends it\n`)
      writeFileSync(log, step(1) + step(2) + "{\"event\":\"waiting\",\"time\":2500,\"rea")
      yield* until(() => written.stdout.includes("step 2"))
      appendFileSync(log, "son\":\"no\\u001bspace\"}\n")
      yield* until(() => written.stdout.includes("waiting"))
      appendFileSync(log, step(3) + step(4) + end("success"))
      assert.strictEqual(yield* code, 0)
      assert.strictEqual(
        written.stdout,
        "step 1/4: loss 7, 100 tokens/s\n" +
          "step 2/4: loss 6, 100 tokens/s, 2s left\n" +
          "step 2/4: loss 6, 100 tokens/s, 2s left, waiting: no\ufffdspace\n" +
          "step 3/4: loss 5, 100 tokens/s, 1s left\n" +
          "step 4/4: loss 4, 100 tokens/s\n"
      )
      assert.match(written.stderr, /\nThe run has ended after 4 steps and 4 seconds\n$/)
    }))

  it.scoped("in a terminal: one line that moves and fits, and stays in the end", () =>
    Effect.gen(function*() {
      const log = join(yield* place, "m.jsonl")
      const other = { reward: 0.5, "a/rather/long/name": 1, "another/rather/long/name": 2 }
      writeFileSync(log, step(1, other) + step(2, other))
      yield* TestClock.setTime(2000)
      const { code, read, until, written } = yield* watch([log], { isTTY: true, columns: 70 })
      yield* read(() => written.stdout.includes("1/4  ▁"))
      yield* until(() => written.stdout.includes("2/4  █▁"))
      // Nothing comes: the clock on the screen goes on, then says how long.
      yield* until(() => written.stdout.includes("last step 11s ago"))
      appendFileSync(log, line({ event: "waiting", reason: "full" }))
      yield* until(() => written.stdout.includes("waiting: full"))
      appendFileSync(log, step(3) + end("failure"))
      assert.strictEqual(yield* code, 1)
      const frames = written.stdout.split("\r").slice(1).map((frame) => frame.replace("\u001b[K", ""))
      for (const frame of frames) assert.isBelow(frame.trimEnd().length, 70)
      assert.strictEqual(frames.at(-1), "████████████░░░░  3/4  █▅▁  loss 5, 100 tokens/s\n")
      assert.match(written.stderr, /error: The run failed after 3 steps\n {2}What its program printed says why/)
    }))

  it.scoped("as JSON: where it stood in the end; as ndjson: at every line", () =>
    Effect.gen(function*() {
      const log = join(yield* place, "m.jsonl")
      writeFileSync(log, step(1) + step(2) + end("interrupted"))
      const whole = yield* watch([log, "--format", "json"])
      assert.strictEqual(yield* whole.code, 1)
      assert.include(whole.written.stderr, "The run was interrupted after 2 steps")
      assert.deepStrictEqual(JSON.parse(whole.written.stdout), {
        step: 2,
        total_steps: 4,
        time: "1970-01-01T00:00:05.000Z",
        metrics: { loss: 6 },
        tokens_per_second: 100,
        step_seconds: 1,
        elapsed_seconds: 4,
        eta_seconds: null,
        waiting: null,
        ended: "interrupted"
      })
      const items = yield* watch([log, "--format", "ndjson"])
      yield* items.code
      const lines = items.written.stdout.trim().split("\n").map((text) => JSON.parse(text))
      assert.deepStrictEqual(lines.map((item) => [item.step, item.eta_seconds, item.ended]), [
        [1, null, null],
        [2, 2, null],
        [2, null, "interrupted"]
      ])
    }))

  it.scoped("--once: where it stands, whatever became of it", () =>
    Effect.gen(function*() {
      const log = join(yield* place, "m.jsonl")
      const once = (...words: ReadonlyArray<string>) =>
        Effect.gen(function*() {
          const { code, written } = yield* watch([log, "--once", ...words], { isTTY: true })
          return [yield* code, written.stdout, written.stderr]
        })
      assert.deepStrictEqual((yield* once()).slice(0, 2), [1, ""])
      assert.include((yield* once())[2], `There is no file ${log}`)
      writeFileSync(log, "")
      assert.deepStrictEqual(yield* once(), [0, "", `${log} has no steps yet\n`])
      writeFileSync(log, "{\"loss\":3}\n{\"loss\":2}\n{\"lo")
      assert.deepStrictEqual(yield* once("--steps", "9"), [
        0,
        "step 1/9: loss 2\n",
        `${log}:3: the last line is cut off after 4 characters\n`
      ])
      writeFileSync(log, step(1) + end("failure"))
      assert.deepStrictEqual(yield* once(), [0, "step 1/4: loss 7, 100 tokens/s\n", ""])
    }))

  it.scoped("what cannot be watched is said in two lines", () =>
    Effect.gen(function*() {
      const directory = yield* place
      const log = join(directory, "m.jsonl")
      writeFileSync(log, "{\"loss\":3}\nnonsense\n")
      for (
        const [words, code, what] of [
          [[log], 1, `${log}:2: not JSON`],
          [[join(directory, "none", "m.jsonl")], 1, "There is no directory"],
          [[directory], 1, `${directory} is a directory`],
          [[log, "--steps", "0"], 2, "--steps must be 1 or more"]
        ] as const
      ) {
        const run = yield* watch(words)
        assert.strictEqual(yield* run.code, code)
        assert.include(run.written.stderr, `error: ${what}`)
      }
    }))

  it.scoped("a log that is replaced is said to be, an old one how old it is", () =>
    Effect.gen(function*() {
      const log = join(yield* place, "m.jsonl")
      writeFileSync(log, step(3))
      yield* TestClock.setTime(7_200_000)
      const { code, read, written } = yield* watch([log])
      yield* read(() => written.stdout.includes("step 3/4"))
      yield* read(() => written.stderr.includes("The last line was written 1 hour ago; waiting for more"))
      writeFileSync(log, step(1) + end("success"))
      assert.strictEqual(yield* code, 0)
      assert.include(written.stderr, `${log} was replaced; reading it from its start\n`)
      assert.include(written.stdout, "step 1/4")
    }))
})

describe("the line of a run", () => {
  const standing = (metrics: Readonly<Record<string, number>>) => ({
    step: 1,
    totalSteps: 2,
    metrics,
    tokensPerSecond: undefined,
    stepTime: undefined,
    elapsed: Duration.zero,
    sinceStep: undefined,
    eta: undefined,
    reason: undefined
  })

  it("gives way from what matters least", () => {
    const at = (columns: number) => renderLine(standing({ kl: 1, loss: 2 }), "█▁", "loss", { columns, colour: false })
    assert.strictEqual(at(80), "████████░░░░░░░░  1/2  █▁  loss 2, kl 1")
    assert.strictEqual(at(38), "████████░░░░░░░░  1/2  █▁  loss 2")
    assert.strictEqual(at(33), "████████░░░░░░░░  1/2  loss 2")
    assert.strictEqual(at(18), "1/2  loss 2, kl 1")
    assert.strictEqual(at(12), "1/2  loss 2")
    assert.strictEqual(at(8), "1/2  l…")
  })

  it("the metric one looks at first", () => {
    assert.strictEqual(mainMetric({ kl: 1, reward: 1, "train/Loss": 1 }), "train/Loss")
    assert.strictEqual(mainMetric({ kl: 1, "env/reward": 1 }), "env/reward")
    assert.strictEqual(mainMetric({}), undefined)
  })

  it("a curve of a hundred thousand numbers has its shape, and not their size", () => {
    const course = makeCurve()
    for (let i = 0; i < 100_000; i++) course.add(i < 50_000 ? 0 : 1)
    course.add(NaN)
    assert.match(course.draw(16), /^▁{8}█{8}$/)
    course.clear()
    assert.strictEqual(course.draw(16), "")
  })
})
