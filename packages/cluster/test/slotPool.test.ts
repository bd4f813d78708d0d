import * as EntityAddress from "@effect/cluster/EntityAddress"
import * as EntityId from "@effect/cluster/EntityId"
import * as MessageStorage from "@effect/cluster/MessageStorage"
import * as ShardId from "@effect/cluster/ShardId"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Option, Random, TestClock } from "effect"
import * as slotPool from "../src/internal/slotPool.js"
import { Receipt, Slot } from "../src/RolloutWorker.js"

const rolloutSeconds = 8

/** Workers of 8, and 32 shards of two slots that they have in random order. */
const makeWorkers = Effect.fnUntraced(function*(count: number) {
  const workers = yield* Effect.forEach(
    Array.from({ length: count }, (_, n) => n),
    (n) =>
      Effect.map(Effect.makeSemaphore(8), (places) => ({
        receipt: new Receipt({ worker: `worker-${n}:1`, concurrency: 8 }),
        places,
        ran: 0
      }))
  )
  const owners = Array.from(
    yield* Random.shuffle(Array.from({ length: 32 }, (_, shard) => workers[shard % count]))
  )
  const shards = owners.map((): slotPool.Shard => ({ worker: undefined }))
  const ownerOf = (slotId: string) => {
    const owner = owners[Number(slotId) % owners.length]
    return owner === undefined ? Effect.dieMessage(`there is no slot ${slotId}`) : Effect.succeed(owner)
  }
  return {
    workers,
    /** Hands over all shards of a worker. */
    move: (from: number, to: number) => {
      const receiver = workers[to]
      owners.forEach((owner, shard) => {
        if (owner === workers[from] && receiver !== undefined) owners[shard] = receiver
      })
    },
    slots: [0, 1].flatMap((place) =>
      shards.map((shard, n) =>
        slotPool.makeSlot(
          EntityAddress.make({
            shardId: ShardId.make("cpu", n),
            entityType: Slot.type,
            entityId: EntityId.make(String(place * shards.length + n))
          }),
          shard
        )
      )
    ),
    ask: (slotId: string) => Effect.map(ownerOf(slotId), ({ receipt }) => receipt),
    rollout: (slotId: string) =>
      Effect.flatMap(ownerOf(slotId), (worker) =>
        Effect.sleep(`${rolloutSeconds} seconds`).pipe(
          worker.places.withPermits(1),
          Effect.map(() => {
            worker.ran++
            return { receipt: worker.receipt }
          })
        ))
  }
})

const secondsOf = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  const before = yield* Clock.currentTimeMillis
  const fiber = yield* Effect.fork(Effect.zipRight(effect, Clock.currentTimeMillis))
  yield* TestClock.adjust("1 minute")
  return ((yield* Fiber.join(fiber)) - before) / 1000
})

const all = (
  count: number,
  withSlot: slotPool.WithSlot,
  use: (slotId: string) => Effect.Effect<slotPool.Answer>
) =>
  Effect.forEach(Array.from({ length: count }), () => withSlot(new Set(), use), {
    concurrency: "unbounded",
    discard: true
  })

const yields = (n: number) => Effect.repeatN(Effect.yieldNow(), n)

describe("the pool of slots", () => {
  for (const count of [1, 2, 4]) {
    it.scoped(`keeps ${count} workers busy to the end, from the first rollout on`, () =>
      Effect.gen(function*() {
        const { ask, rollout, slots, workers } = yield* makeWorkers(count)
        const withSlot = yield* slotPool.make({ slots, atOnce: 16 * count, ask })
        // Workers have been asked who they are.
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* secondsOf(all(48 * count, withSlot, rollout)), 6 * rolloutSeconds)
        assert.deepStrictEqual(workers.map(({ ran }) => ran), workers.map(() => 48))
      }).pipe(Effect.provide(MessageStorage.layerNoop), Effect.withRandom(Random.make("shards"))))
  }

  it.scoped("hears from answers who workers are, where they cannot be asked", () =>
    Effect.gen(function*() {
      const { rollout, slots } = yield* makeWorkers(2)
      const withSlot = yield* slotPool.make({ slots, atOnce: 32, ask: () => Effect.never })
      yield* secondsOf(all(96, withSlot, rollout))
      assert.strictEqual(yield* secondsOf(all(96, withSlot, rollout)), 6 * rolloutSeconds)
    }).pipe(Effect.provide(MessageStorage.layerNoop), Effect.withRandom(Random.make("shards"))))

  it.scoped("follows shards that move to another worker", () =>
    Effect.gen(function*() {
      const { ask, move, rollout, slots, workers } = yield* makeWorkers(2)
      move(1, 0)
      const withSlot = yield* slotPool.make({ slots, atOnce: 16, ask })
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* secondsOf(all(16, withSlot, rollout)), 2 * rolloutSeconds)
      move(0, 1)
      yield* TestClock.adjust("10 seconds")
      yield* secondsOf(all(16, withSlot, rollout))
      assert.deepStrictEqual(workers.map(({ ran }) => ran), [16, 16])
    }).pipe(Effect.provide(MessageStorage.layerNoop), Effect.withRandom(Random.make("shards"))))

  it.scoped("loses no turn to a rollout that is given up just when its turn comes", () =>
    Effect.gen(function*() {
      const { ask, slots } = yield* makeWorkers(1)
      const withSlot = yield* slotPool.make({ slots, atOnce: 1, ask })
      const identify = (slot: string) => Effect.map(ask(slot), (receipt) => ({ receipt }))
      yield* TestClock.adjust("1 second")
      for (let later = 0; later < 40; later++) {
        const answer = yield* Deferred.make<void>()
        const first = yield* Effect.fork(
          withSlot(new Set(), (slot) => Effect.zipRight(Deferred.await(answer), identify(slot)))
        )
        yield* yields(20)
        const waiting = yield* Effect.fork(withSlot(new Set(), () => Effect.never))
        yield* yields(20)
        yield* Deferred.succeed(answer, undefined)
        yield* yields(later)
        yield* Fiber.interrupt(waiting)
        yield* Fiber.join(first)
        const next = yield* Effect.fork(withSlot(new Set(), identify))
        yield* yields(50)
        assert.isTrue(Option.isSome(yield* Fiber.poll(next)), `given up ${later} yields later`)
      }
    }).pipe(Effect.provide(MessageStorage.layerNoop), Effect.withRandom(Random.make("shards"))))

  it.scoped("removes a failed answer at once, other messages after four, and those left unanswered not at all", () =>
    Effect.gen(function*() {
      const { slots } = yield* makeWorkers(1)
      const cleared: Array<string> = []
      const storage = yield* MessageStorage.MessageStorage
      const withSlot = yield* slotPool.make({ slots: slots.slice(0, 1), atOnce: 1, ask: () => Effect.never }).pipe(
        Effect.provideService(MessageStorage.MessageStorage, {
          ...storage,
          clearAddress: ({ entityId }) => Effect.sync(() => void cleared.push(entityId))
        })
      )
      // nobody says who has the slot, so that all goes through the database
      yield* TestClock.adjust("10 seconds")
      const receipt = new Receipt({ worker: "worker-0:1", concurrency: 8 })
      const use = (answer: Effect.Effect<slotPool.Answer, string>) => Effect.exit(withSlot(new Set(), () => answer))
      const counts: Array<number> = []
      for (const answer of [Effect.fail("broken"), ...Array.from({ length: 5 }, () => Effect.succeed({ receipt }))]) {
        yield* use(answer)
        counts.push(cleared.length)
      }
      // one failure; then three answers whose messages stay, and a fourth with which all of them go
      assert.deepStrictEqual(counts, [1, 1, 1, 1, 2, 2])
      yield* use(Effect.interrupt)
      assert.strictEqual(cleared.length, 2)
    }).pipe(Effect.provide(MessageStorage.layerNoop), Effect.withRandom(Random.make("shards"))))
})
