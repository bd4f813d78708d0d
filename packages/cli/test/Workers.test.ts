import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { parseRate } from "../src/commands/workers.js"
import { parseMetrics } from "../src/training/workerOptions.js"

describe("options of workers", () => {
  it("read rates per second, minute and hour", () => {
    assert.strictEqual(parseRate("500/s"), 500)
    assert.strictEqual(parseRate(" 30/min "), 0.5)
    assert.strictEqual(parseRate("1800/h"), 0.5)
    assert.strictEqual(parseRate("2.5"), 2.5)
    for (const wrong of ["", "0/s", "-1/s", "five/s", "5/d", "5/", "1e3/s", "5/s/s"]) {
      assert.isUndefined(parseRate(wrong), wrong)
    }
  })

  it.effect("read addresses of counts", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* parseMetrics("9464"), { port: 9464, listen: "127.0.0.1" })
      assert.deepStrictEqual(yield* parseMetrics("0.0.0.0:9464"), { port: 9464, listen: "0.0.0.0" })
      assert.deepStrictEqual(yield* parseMetrics("[::1]:0"), { port: 0, listen: "::1" })
      for (const wrong of ["", "host", "host:", ":9464", "::1:9464", "1:2:3", "65536", "http://x:1"]) {
        assert.include((yield* Effect.flip(parseMetrics(wrong))).message, "no address", wrong)
      }
    }))
})
