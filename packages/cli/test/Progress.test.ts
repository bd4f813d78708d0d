import { assert, describe, it } from "@effect/vitest"
import { Effect, TestClock } from "effect"
import * as Progress from "../src/terminal/Progress.js"
import * as stdio from "./fixtures/stdio.js"

const run = (isTTY: boolean) =>
  Effect.gen(function*() {
    const streams = stdio.make({ isTTY, columns: 70 })
    yield* Effect.gen(function*() {
      const bar = yield* Progress.make({ label: "Downloading", unit: "bytes" })
      for (let i = 1; i <= 100; i++) {
        yield* bar.update(i * 1024, 100 * 1024)
        yield* TestClock.adjust("20 millis")
      }
    }).pipe(Effect.scoped, Effect.provide(streams.layer))
    return streams.written
  })

describe("Progress", () => {
  it.effect("is drawn in place, ten times a second at most, and cleared", () =>
    Effect.gen(function*() {
      const { stderr, stdout } = yield* run(true)
      const frames = stderr.split("\r").slice(1)
      assert.strictEqual(stdout, "")
      assert.isBelow(frames.length, 30)
      assert.include(frames.at(-2), "100%")
      assert.include(frames.at(-2), "100.0 KB/100.0 KB")
      assert.strictEqual(frames.at(-1), "\u001b[K")
      for (const frame of frames) assert.isAtMost(frame.replace("\u001b[K", "").length, 70)
    }))

  it.effect("is silent when nobody watches", () =>
    Effect.gen(function*() {
      const { stderr } = yield* run(false)
      assert.strictEqual(stderr, "")
    }))
})
