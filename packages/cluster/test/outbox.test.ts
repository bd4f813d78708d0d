import { TrajectoryStore } from "@effect-tinker/cluster"
import { LibsqlClient } from "@effect/sql-libsql"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, TestClock } from "effect"
import * as codec from "../src/internal/codec.js"
import * as outboxOf from "../src/internal/outbox.js"
import { RolloutRequest } from "../src/RolloutWorker.js"

const key = (sample: number) => new TrajectoryStore.RolloutKey({ run: "run", step: 0, task: "0:memory#0", sample })

const request = (sample: number) =>
  new RolloutRequest({
    key: key(sample),
    problem: "memory#0",
    policy: { path: "tinker://x/sampler_weights/1", version: 0, maxTokens: 4 },
    limits: {}
  })

const trajectories = (reward: number) => [{ turns: [], stop: "completed" as const, reward, metrics: {} }]

const Store = Layer.provide(TrajectoryStore.layerSql, LibsqlClient.layer({ url: ":memory:" }))

const setup = Effect.gen(function*() {
  const store = yield* TrajectoryStore.TrajectoryStore
  const heard: Array<number> = []
  const outbox = yield* outboxOf.make({
    store,
    onStored: ({ key: { sample } }) => Effect.sync(() => void heard.push(sample))
  })
  const add = (sample: number, reward = sample) =>
    outbox.add(request(sample), trajectories(reward), codec.encode(trajectories(reward)), 0)
  return { store, heard, outbox, add }
})

describe("results on their way to a trainer", () => {
  it.scoped("are stored by the worker when no trainer speaks of them, and by nobody else when one does", () =>
    Effect.gen(function*() {
      const { add, heard, outbox, store } = yield* setup
      for (const sample of [0, 1, 2]) assert.isTrue(add(sample))
      yield* outbox.stored([key(0).text], [key(1).text])
      // The one that was new is heard of, the one that another worker had given first is not.
      assert.deepStrictEqual(heard, [0])
      assert.isUndefined(outbox.get(key(0)))
      assert.strictEqual(outbox.get(key(2)), codec.encode(trajectories(2)))
      yield* TestClock.adjust("29 seconds")
      assert.isFalse(yield* store.has(key(2)))
      // The store answers in its own time.
      yield* Effect.repeat(Effect.zipRight(TestClock.adjust("6 seconds"), Effect.yieldNow()), {
        until: () => heard.length === 2
      })
      assert.isTrue(yield* store.has(key(2)))
      assert.isFalse(yield* store.has(key(0)))
      assert.deepStrictEqual(heard, [0, 2])
      assert.isUndefined(outbox.get(key(2)))
    }).pipe(Effect.provide(Store)))

  it.scoped("are stored when the worker leaves; what was stored before stays", () =>
    Effect.gen(function*() {
      const { add, heard, outbox, store } = yield* setup
      yield* store.put(key(0), trajectories(7))
      add(0)
      add(1)
      yield* outbox.flush
      assert.deepStrictEqual(heard, [1])
      const found = yield* store.getMany([key(1), key(0), key(5)])
      assert.deepStrictEqual(found.map((one) => one._tag === "Some" ? one.value[0]?.reward : undefined), [
        1,
        7,
        undefined
      ])
    }).pipe(Effect.provide(Store)))

  it.scoped("are not sent when they are large, or when too many wait", () =>
    Effect.gen(function*() {
      const { outbox } = yield* setup
      const mebi = "x".repeat(1 << 20)
      assert.isFalse(outbox.add(request(0), [], `${mebi}x`, 0))
      let sent = 0
      while (sent < 100 && outbox.add(request(sent), [], mebi, 0)) sent++
      assert.strictEqual(sent, 64)
      // One that is sent again takes the place of the first.
      yield* outbox.stored([], [key(3).text])
      assert.isTrue(outbox.add(request(3), [], mebi, 0))
      assert.isFalse(outbox.add(request(99), [], mebi, 0))
    }).pipe(Effect.provide(Store)))
})
