import { WorkerPlan } from "@effect-tinker/cluster"
import { assert, describe, it } from "@effect/vitest"

const database: WorkerPlan.Database = { transactions: 10_000, rows: 100_000, idle: 1 }

const setting: WorkerPlan.Setting = {
  workers: 1,
  concurrency: 8,
  seconds: 4,
  slots: 64,
  trainers: 1,
  sampling: 0,
  trainer: 0,
  database
}

describe("the simulation of workers", () => {
  it("grows with workers as long as nothing else has much to do", () => {
    for (const workers of [1, 2, 4, 16]) {
      const { database, perSecond } = WorkerPlan.simulate({ ...setting, workers, slots: 64 * workers })
      assert.approximately(perSecond, workers * 8 / 4, 0.01 * workers)
      assert.isBelow(database, 0.1)
    }
  })

  it("is limited by the rollouts that are with workers", () => {
    // each slot takes 4 s
    assert.approximately(WorkerPlan.simulate({ ...setting, workers: 100 }).perSecond, 64 / 4, 0.5)
  })

  it("is limited by a server that samples for one rollout after the other", () => {
    const { perSecond, sampling } = WorkerPlan.simulate({ ...setting, workers: 64, slots: 1024, sampling: 0.1 })
    assert.approximately(perSecond, 10, 0.1)
    assert.approximately(sampling, 1, 0.01)
  })

  it("is limited by a trainer that reads one result after the other, and not by two of them", () => {
    const busy = { ...setting, workers: 64, slots: 1024, trainer: 0.02 }
    assert.approximately(WorkerPlan.simulate(busy).perSecond, 50, 0.5)
    assert.approximately(WorkerPlan.simulate({ ...busy, trainers: 2 }).perSecond, 100, 1)
  })

  it("is limited by the rows of the database in the end, of which polls have taken their part", () => {
    const { database, perSecond } = WorkerPlan.simulate({
      ...setting,
      workers: 200,
      slots: 3200,
      database: { transactions: 400, rows: 500, idle: 1 }
    })
    // Half of the database is polls. 0.05 s of the rest is 1 / 400 + n / 500 of n rollouts, twice as long: about 11.3 rows
    // in each window, or more of them in larger batches: less than 250 per second.
    assert.isBelow(perSecond, 250)
    assert.isAbove(perSecond, 200)
    assert.approximately(database, 1, 0.02)
  })

  it("stores what ends together together", () => {
    // 64 at once, and none after them
    const { perSecond, transactions } = WorkerPlan.simulate({ ...setting, workers: 8, count: 64 })
    assert.strictEqual(transactions, 1 / 64)
    assert.approximately(perSecond, 64 / (4 + 0.05 + 1 / 10_000 + 64 / 100_000 * 1.001), 0.01)
  })

  it("a thousand workers of eight with rollouts of a second leave half of the database", () => {
    const { database, perSecond } = WorkerPlan.simulate({
      ...WorkerPlan.measured,
      workers: 1024,
      concurrency: 8,
      seconds: 1,
      slots: 16_384,
      trainers: 31,
      // many servers
      sampling: 0
    })
    assert.isAbove(perSecond, 7000)
    assert.isAtMost(database, 0.5)
  })
})

describe("plans", () => {
  const wanted: WorkerPlan.Wanted = {
    target: 500,
    rolloutSeconds: 8,
    concurrency: 8,
    workersPerMachine: 4,
    sampling: 0.001,
    trainer: 0.001,
    database
  }

  it("have as many workers as the rate needs, and twice as many slots as they run at once", () => {
    const plan = WorkerPlan.plan(wanted)
    // 500 · 8.001 / 8 = 500.06
    assert.isAtLeast(plan.workers, 501)
    assert.isAtMost(plan.workers, 530)
    assert.isTrue(plan.reachesTarget)
    assert.isAtLeast(plan.perSecond, 490)
    assert.strictEqual(plan.slots, 16 * plan.workers)
    assert.strictEqual(plan.machines, Math.ceil(plan.workers / 4))
    assert.strictEqual(plan.trainers, 1)
    const advice = WorkerPlan.advice(wanted, plan).join("\n")
    assert.include(advice, "at most 128 workers")
    assert.include(advice, "max_connections")
  })

  it("say what is full, where the rate cannot be reached", () => {
    const plan = WorkerPlan.plan({ ...wanted, sampling: 0.01 })
    assert.isFalse(plan.reachesTarget)
    assert.strictEqual(plan.uses[0]?.name, "sampling")
    assert.include(WorkerPlan.advice(wanted, plan)[0] ?? "", "sampling is full at 100.")
  })
})
