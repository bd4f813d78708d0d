import { assert, describe, it } from "@effect/vitest"
import type { Setting } from "../src/cluster/model.js"
import { simulate } from "../src/cluster/model.js"

const setting: Setting = {
  workers: 1,
  concurrency: 8,
  seconds: 4,
  slots: 64,
  before: 3,
  after: 4,
  idle: 2,
  capacity: 10_000
}

describe("the model of workers", () => {
  it("grows with workers as long as the database has little to do", () => {
    for (const workers of [1, 2, 4, 16]) {
      const { database, perSecond } = simulate({ ...setting, workers, slots: 64 * workers })
      assert.approximately(perSecond, workers * 8 / 4, 0.01 * workers)
      assert.isBelow(database, 0.1)
    }
  })

  it("is limited by the rollouts that are with workers", () => {
    assert.approximately(simulate({ ...setting, workers: 100 }).perSecond, 64 / 4, 0.1)
  })

  it("is limited by the database in the end", () => {
    const { database, perSecond } = simulate({ ...setting, workers: 200, slots: 3200, capacity: 500 })
    // 400 of 500 transactions are polls; each rollout needs seven of the others
    assert.approximately(perSecond, 100 / 7, 0.5)
    assert.approximately(database, 1, 0.01)
  })
})
