/**
 * Which worker gets the next rollout. A run has slots on every shard of the cluster; who has a shard is asked again and
 * again, since workers come and go, and a rollout goes to a slot of the worker that has least to do for its size.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as EntityAddress from "@effect/cluster/EntityAddress"
import * as EntityId from "@effect/cluster/EntityId"
import * as MessageStorage from "@effect/cluster/MessageStorage"
import * as Sharding from "@effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as RolloutWorker from "../RolloutWorker.js"

/** A shard of the cluster, which one worker has at a time. @internal */
export interface Shard {
  /** Who has it, as far as is known. */
  worker: RolloutWorker.Receipt | undefined
  /** Whether that worker has answered when it was last asked, directly, who it is. */
  isReachable?: boolean
}

/** @internal */
export interface Slot {
  readonly address: EntityAddress.EntityAddress
  readonly shard: Shard
  /** Rollouts since its messages were removed. */
  uses: number
  /** Whether a rollout was left before it was answered. */
  isLeft: boolean
}

/** A slot that has not been used. @internal */
export const makeSlot = (address: EntityAddress.EntityAddress, shard: Shard): Slot => ({
  address,
  shard,
  uses: 0,
  isLeft: false
})

/**
 * The slots of a run, the same number on every shard: the cluster spreads shards evenly over workers, by their weights.
 * Names decide on which shard a slot is, so names are tried until every shard has enough.
 *
 * @internal
 */
export const makeSlots = (
  label: RolloutWorker.Label,
  run: string,
  count: number
): Effect.Effect<Array<Slot>, never, Sharding.Sharding> =>
  Effect.map(Sharding.Sharding, (sharding) => {
    const shards = new Map<number, Array<Slot>>()
    for (let n = 0; n < 16 * Math.max(count, 128); n++) {
      const entityId = EntityId.make(RolloutWorker.slotId(label, run, n))
      const shardId = sharding.getShardId(entityId, label)
      const address = EntityAddress.make({ shardId, entityId, entityType: RolloutWorker.Slot.type })
      const others = shards.get(shardId.id)
      if (others?.[0] === undefined) shards.set(shardId.id, [makeSlot(address, { worker: undefined })])
      else others.push(makeSlot(address, others[0].shard))
    }
    const perShard = Math.ceil(count / shards.size)
    return Array.from({ length: perShard }, (_, n) => n).flatMap((n) =>
      Array.from(shards.values()).flatMap((shard) => shard[n] ?? [])
    )
  })

/** Rollouts after which the messages of a slot are removed: what they were about is in the store of trajectories. */
const usesBeforeClearing = 4

/** How often workers are asked which shards they have. Cheap: it does not reach the database. */
const askEvery = "5 seconds"

/** @internal */
export interface Options {
  readonly slots: ReadonlyArray<Slot>
  /** Most slots in use. */
  readonly atOnce: number
  /** Who has the shard of a slot. */
  readonly ask: (slotId: string) => Effect.Effect<RolloutWorker.Receipt, unknown>
}

/**
 * The way to a slot: directly where its worker is known, else through the database, in which the worker that has it next
 * finds the message.
 *
 * @internal
 */
export type Route = "direct" | "database"

/** Answer to a rollout. @internal */
export interface Answer {
  readonly receipt: RolloutWorker.Receipt
}

/**
 * Uses a slot of a worker other than those that were tried, where there is one. The worker that is used is added to them.
 *
 * @internal
 */
export type WithSlot = <A extends Answer, E>(
  tried: Set<string>,
  use: (slotId: string, route: Route) => Effect.Effect<A, E>
) => Effect.Effect<A, E>

/** How long the first rollouts wait to know who has which shard. */
const firstAnswers = "2 seconds"

/** Hands out slots, and removes the messages of those that were used often. @internal */
export const make = Effect.fnUntraced(function*(
  { ask, atOnce, slots }: Options
): Effect.fn.Return<WithSlot, never, MessageStorage.MessageStorage | Scope.Scope> {
  const storage = yield* MessageStorage.MessageStorage
  const free = Array.from(slots)
  // Not a queue: what is taken from one by a fiber that is interrupted just then is lost.
  const turns = yield* Permits.make(Math.min(atOnce, slots.length))
  const inFlight = new Map<string, number>()

  const count = (worker: RolloutWorker.Receipt | undefined, change: number) => {
    if (worker !== undefined) inFlight.set(worker.worker, (inFlight.get(worker.worker) ?? 0) + change)
  }
  /** Shards of which it is not known who has them come when all known workers have enough to do. */
  const loadOf = ({ shard: { worker } }: Slot, tried: ReadonlySet<string>) =>
    worker === undefined
      ? 0.99
      : tried.has(worker.worker) || worker.isLeaving === true
      ? Infinity
      : (inFlight.get(worker.worker) ?? 0) / worker.concurrency

  const choose = (tried: ReadonlySet<string>): Slot => {
    let best = 0
    let least = Infinity
    for (const [index, slot] of free.entries()) {
      const load = loadOf(slot, tried)
      // The last one used is the next one, so that few of them have messages to remove.
      if (load <= least) [best, least] = [index, load]
    }
    const [slot] = free.splice(best, 1)
    if (slot === undefined) throw new Error("there are more turns than slots")
    return slot
  }

  const clear = Effect.fnUntraced(
    function*(slot: Slot) {
      yield* storage.clearAddress(slot.address)
      slot.uses = 0
      slot.isLeft = false
    },
    // slots are given back where nothing can be interrupted
    Effect.interruptible,
    Effect.timeout("10 seconds"),
    Effect.catchAllCause((cause) => Effect.logDebug("messages were not removed", cause))
  )

  const giveBack = Effect.fnUntraced(function*(
    slot: Slot,
    route: Route,
    exit: Exit.Exit<Answer, unknown>
  ) {
    if (Exit.isSuccess(exit)) slot.shard.worker = exit.value.receipt
    // A worker that is late may be gone; one that was asked directly and answered is not.
    else if (route === "database" || Exit.isInterrupted(exit)) slot.shard.worker = undefined
    if (route === "direct") {
      free.push(slot)
      return
    }
    slot.uses++
    const isAnswered = Exit.isSuccess(exit) || !Exit.isInterrupted(exit)
    if (!isAnswered) slot.isLeft = true
    // A failure must not be the answer to the next attempt.
    if (slot.uses >= usesBeforeClearing || (isAnswered && Exit.isFailure(exit))) yield* clear(slot)
    free.push(slot)
  })

  // What is still being answered is left to the next process.
  yield* Effect.addFinalizer(() =>
    Effect.forEach(slots.filter(({ isLeft, uses }) => uses > 0 && !isLeft), clear, { concurrency: 8, discard: true })
  )

  const shards = new Map(slots.map((slot) => [slot.shard, slot.address.entityId]))
  const silent = new Set<Shard>()
  // A trainer that cannot reach workers hears from their answers who they are.
  const learn = ([shard, slotId]: readonly [Shard, string]) =>
    ask(slotId).pipe(
      Effect.map((worker) => {
        shard.worker = worker
        shard.isReachable = true
        silent.delete(shard)
      }),
      Effect.catchAllCause((cause) => Effect.logDebug("nobody says to have a shard", cause))
    )
  const isReady = yield* Effect.makeLatch(false)
  yield* Effect.sync(() => Array.from(shards.keys(), (shard) => silent.add(shard))).pipe(
    Effect.zipRight(Effect.forEach(shards, learn, { concurrency: "unbounded", discard: true })),
    Effect.timeoutOption(askEvery),
    Effect.zipRight(Effect.sync(() => {
      // What they are asked next, they are asked through the database.
      for (const shard of silent) shard.isReachable = false
    })),
    Effect.zipRight(isReady.open),
    Effect.repeat(Schedule.spaced(askEvery)),
    Effect.forkScoped
  )
  yield* Effect.forkScoped(Effect.delay(isReady.open, firstAnswers))

  return (tried, use) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const slot = choose(tried)
        const { worker } = slot.shard
        if (worker !== undefined) tried.add(worker.worker)
        count(worker, 1)
        const route: Route = worker === undefined || slot.shard.isReachable !== true ? "database" : "direct"
        return { slot, worker, route }
      }),
      ({ route, slot }) => use(slot.address.entityId, route),
      ({ route, slot, worker }, exit) => {
        count(worker, -1)
        if (Exit.isSuccess(exit)) tried.add(exit.value.receipt.worker)
        return giveBack(slot, route, exit)
      }
    ).pipe(isReady.whenOpen, turns.withPermits(1))
})
