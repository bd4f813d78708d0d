import { CheckpointPolicy } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"

describe("CheckpointPolicy", () => {
  it("is due when one of its cadences is, and never without a step", () => {
    const due = (cadence: CheckpointPolicy.Cadence, steps: number, tokens = 0, millis = 0) =>
      CheckpointPolicy.isDue(cadence, { steps, tokens, millis })
    assert.deepStrictEqual([1, 2, 3].map((steps) => due({ steps: 2 }, steps)), [false, true, true])
    assert.isFalse(due({ steps: 0 }, 5))
    assert.isFalse(due({}, 5, 1e9, 1e9))
    assert.deepStrictEqual([99, 100].map((tokens) => due({ tokens: 100 }, 1, tokens)), [false, true])
    assert.deepStrictEqual([999, 1000].map((millis) => due({ time: "1 second" }, 1, 0, millis)), [false, true])
    assert.isFalse(due({ tokens: 100, time: "1 second" }, 0, 100, 1000))
    assert.isTrue(due({ steps: 10, time: "1 second" }, 1, 0, 1000))
  })

  it("its defaults: every 20 steps, 7 days, 2 hours, 1 minute, a quarter of the time", () => {
    const { warnBefore, ...defaults } = CheckpointPolicy.resolve({})
    assert.deepStrictEqual(defaults, {
      periodic: { steps: 20 },
      ttl: 7 * 24 * 3_600_000,
      rolling: {},
      rollingTtl: 2 * 3_600_000,
      background: false,
      onExit: true,
      exitTimeout: 60_000
    })
    assert.strictEqual(warnBefore(1000), 250)
    const given = CheckpointPolicy.resolve({
      periodic: { steps: 3 },
      ttl: "1 day",
      rolling: { tokens: 4 },
      rollingTtl: "1 hour",
      background: true,
      onExit: false,
      exitTimeout: "5 seconds",
      warnBefore: "10 seconds"
    })
    assert.strictEqual(given.warnBefore(1000), 10_000)
    assert.deepInclude(given, {
      ttl: 24 * 3_600_000,
      rollingTtl: 3_600_000,
      background: true,
      onExit: false,
      exitTimeout: 5000
    })
    assert.deepStrictEqual([given.periodic, given.rolling], [{ steps: 3 }, { tokens: 4 }])
  })
})
