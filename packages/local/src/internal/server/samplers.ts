/**
 * Samplers: what they sample from, the queue of sample requests, and the log of what each sampler has finished.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import { Engine } from "../../Engine.js"
import type { Snapshot } from "../../LocalAdapter.js"
import type { Sampler, Target } from "../../LocalSampler.js"
import type { StorageFailed } from "../../Storage.js"
import { Storage } from "../../Storage.js"
import type { CheckpointRecord } from "./checkpoints.js"
import { Checkpoints } from "./checkpoints.js"
import type { Future, OperationError, Outcome } from "./futures.js"
import { Futures, Gate, toOutcome } from "./futures.js"
import { fileName } from "./identity.js"
import type { HttpFailure } from "./message.js"
import { gone, notFound, tooMany } from "./message.js"
import { makeCodec } from "./records.js"
import { Sessions } from "./sessions.js"
import { Settings } from "./settings.js"
import { Trace } from "./trace.js"

const SamplerRecord = Schema.Struct({
  id: Schema.String,
  sessionId: Schema.String,
  owner: Schema.String,
  baseModel: Schema.String,
  modelPath: Schema.optional(Schema.String),
  /** Its weights have no path and are gone with the process. */
  ephemeral: Schema.Boolean,
  /** The training model whose published weights it follows. */
  follows: Schema.optional(Schema.String),
  createdAt: Schema.Number
})

/** @internal */
export type SamplerRecord = typeof SamplerRecord.Type

type Source = Pick<SamplerRecord, "id" | "baseModel" | "modelPath" | "ephemeral" | "owner" | "follows">

/** @internal */
export interface Completion {
  readonly requestId: string
  readonly state: "finished" | "failed"
  readonly size?: number | undefined
}

/** @internal */
export interface SamplersShape {
  readonly create: (
    options: Omit<SamplerRecord, "createdAt" | "ephemeral" | "follows">,
    weights?: Snapshot | undefined
  ) => Effect.Effect<SamplerRecord, StorageFailed>
  /** Moves all samplers that follow a training model to these weights, and adds one that does. */
  readonly publish: (
    options: Omit<SamplerRecord, "createdAt" | "ephemeral" | "follows"> & { readonly follows: string },
    weights: Snapshot
  ) => Effect.Effect<SamplerRecord, OperationError | StorageFailed>
  readonly get: (id: string) => SamplerRecord | undefined
  readonly require: (id: string, owner: string) => Effect.Effect<SamplerRecord, HttpFailure>
  readonly ofSession: (sessionId: string) => ReadonlyArray<SamplerRecord>
  /** The number of one more client of the sampler, from 1. */
  readonly join: (id: string) => number
  /** The weights, ready to sample from. */
  readonly open: (source: Source) => Effect.Effect<Sampler, OperationError>
  /** Appends to the log of a sampler's client. */
  readonly log: (id: string, client: number, completion: Completion) => Effect.Effect<void>
  /** Results appended after a cursor; waits for the first. Those before the cursor are dropped. */
  readonly read: (
    id: string,
    client: number,
    after: number,
    hold: Duration.DurationInput
  ) => Effect.Effect<{ readonly completions: ReadonlyArray<Completion>; readonly cursor: number }>
}

/** @internal */
export class Samplers extends Context.Tag("@effect-tinker/local/Samplers")<Samplers, SamplersShape>() {}

interface Log {
  entries: Array<{ readonly cursor: number; readonly completion: Completion }>
  last: number
  more: Deferred.Deferred<void>
}

/** The weights that the samplers of a training model follow. */
interface Followed {
  readonly sessionId: string
  readonly target: Target
  readonly bytes: number
  /** Each with a prefix cache of its own. */
  readonly samplers: Map<string, Sampler>
}

const directory = "samplers"

// weights ready to sample from; others are loaded again when they are needed
const maxLoaded = 16

// weights without a path: beyond this the oldest are dropped
const maxEphemeralBytes = 128 * 1024 * 1024

// what a client never fetches from its log
const maxLogEntries = 10_000

const bytesOf = (snapshot: Snapshot): number => snapshot.weights.reduce((sum, { data }) => sum + data.byteLength, 0)

/** Drops the oldest entries of a map until the rest weighs no more than `most`; the newest always stays. */
const trim = <K, V>(map: Map<K, V>, most: number, weigh: (value: V) => number): void => {
  let total = Array.from(map.values()).reduce((sum, value) => sum + weigh(value), 0)
  for (const [key, value] of map) {
    if (total <= most || map.size === 1) return
    map.delete(key)
    total -= weigh(value)
  }
}

/** @internal */
export const layer: Layer.Layer<
  Samplers,
  StorageFailed,
  Checkpoints | Engine | Sessions | Storage
> = Layer.effect(
  Samplers,
  Effect.gen(function*() {
    const storage = yield* Storage
    const engine = yield* Engine
    const checkpoints = yield* Checkpoints
    const sessions = yield* Sessions
    const codec = makeCodec(storage, SamplerRecord)
    const samplers = new Map<string, SamplerRecord>()
    const snapshots = new Map<string, Snapshot>()
    const targets = new Map<string, Followed>()
    const clients = new Map<string, number>()
    const logs = new Map<string, Log>()
    const loaded = new Map<string, Effect.Effect<Sampler, OperationError>>()

    for (const file of yield* storage.list(directory)) {
      const record = yield* codec.read(`${directory}/${file}`)
      if (Option.isSome(record)) samplers.set(record.value.id, record.value)
    }
    yield* checkpoints.onChange((path) => void loaded.delete(path))
    yield* sessions.onEnd((session) =>
      Effect.sync(() => {
        for (const { id, sessionId } of samplers.values()) {
          if (sessionId !== session.id) continue
          snapshots.delete(id)
          loaded.delete(id)
        }
        for (const [model, { sessionId }] of targets) if (sessionId === session.id) targets.delete(model)
      })
    )

    const load = Effect.fnUntraced(function*(source: Source, record: CheckpointRecord | undefined) {
      if (source.ephemeral) {
        const snapshot = snapshots.get(source.id)
        if (snapshot === undefined) return yield* gone(`The weights of sampler ${source.id} are no longer kept`)
        return yield* engine.sampler(snapshot)
      }
      if (record === undefined) return yield* engine.sampler(source.baseModel)
      return yield* engine.sampler(yield* checkpoints.load(record))
    })

    /** The sampler with its prefix cache; none when the weights it follows are no longer kept. */
    const following = Effect.fnUntraced(function*(id: string, model: string) {
      const followed = targets.get(model)
      if (followed === undefined) return yield* gone(`The weights of sampler ${id} are no longer kept`)
      const known = followed.samplers.get(id)
      if (known !== undefined) return known
      const sampler = yield* followed.target.sampler
      followed.samplers.set(id, sampler)
      return sampler
    })

    const keep = Effect.fnUntraced(function*(record: SamplerRecord) {
      yield* codec.write(`${directory}/${fileName(record.id)}.json`, record)
      samplers.set(record.id, record)
      return record
    })

    const logOf = Effect.fnUntraced(function*(id: string, client: number) {
      const key = `${id}/${client}`
      const known = logs.get(key)
      if (known !== undefined) return known
      const log: Log = { entries: [], last: 0, more: yield* Deferred.make<void>() }
      logs.set(key, log)
      return log
    })

    return Samplers.of({
      create: Effect.fnUntraced(function*(options, weights) {
        const record: SamplerRecord = {
          ...options,
          ephemeral: weights !== undefined,
          createdAt: yield* Clock.currentTimeMillis
        }
        if (weights !== undefined) {
          snapshots.set(record.id, weights)
          trim(snapshots, maxEphemeralBytes, bytesOf)
        }
        return yield* keep(record)
      }),
      publish: Effect.fnUntraced(function*(options, weights) {
        const { follows, sessionId } = options
        const known = targets.get(follows)
        if (known !== undefined) yield* known.target.publish(weights)
        const followed = known ?? {
          sessionId,
          target: yield* engine.target(weights),
          bytes: bytesOf(weights),
          samplers: new Map<string, Sampler>()
        }
        // at the end: the most recently published
        targets.delete(follows)
        targets.set(follows, followed)
        trim(targets, maxEphemeralBytes, ({ bytes }) => bytes)
        return yield* keep({ ...options, ephemeral: true, createdAt: yield* Clock.currentTimeMillis })
      }),
      get: (id) => samplers.get(id),
      require: (id, owner) => {
        const sampler = samplers.get(id)
        return sampler === undefined || sampler.owner !== owner
          ? notFound(`Sampler ${id} not found`)
          : Effect.succeed(sampler)
      },
      ofSession: (sessionId) => Array.from(samplers.values()).filter((sampler) => sampler.sessionId === sessionId),
      join: (id) => {
        const client = (clients.get(id) ?? 0) + 1
        clients.set(id, client)
        return client
      },
      open: Effect.fnUntraced(function*(source) {
        if (source.follows !== undefined) return yield* following(source.id, source.follows)
        // The weights are shared by all who may read them, so who may is decided every time.
        const record = source.ephemeral || source.modelPath === undefined
          ? undefined
          : yield* checkpoints.readable(source.modelPath, source.owner)
        const key = source.ephemeral ? source.id : source.modelPath ?? source.baseModel
        const shared = loaded.get(key) ?? (yield* Effect.cached(load(source, record)))
        // at the end: the most recently used
        loaded.delete(key)
        loaded.set(key, shared)
        trim(loaded, maxLoaded, () => 1)
        return yield* Effect.onError(shared, () => Effect.sync(() => loaded.delete(key)))
      }),
      log: Effect.fnUntraced(function*(id, client, completion) {
        const log = yield* logOf(id, client)
        log.entries.push({ cursor: ++log.last, completion })
        if (log.entries.length > maxLogEntries) log.entries.shift()
        const { more } = log
        log.more = yield* Deferred.make<void>()
        yield* Deferred.succeed(more, undefined)
      }),
      read: Effect.fnUntraced(function*(id, client, after, hold) {
        const log = yield* logOf(id, client)
        // the log ends with the process: a cursor beyond its end is from before, and the client learns it by a lower one
        if (after > log.last) return { completions: log.entries.map(({ completion }) => completion), cursor: log.last }
        log.entries = log.entries.filter(({ cursor }) => cursor > after)
        if (log.entries.length === 0) yield* Effect.timeoutOption(Deferred.await(log.more), hold)
        const completions = log.entries.filter(({ cursor }) => cursor > after).map(({ completion }) => completion)
        return { completions, cursor: completions.length === 0 ? after : log.last }
      })
    })
  })
)

/** A sample request that waits for its turn. @internal */
export interface SampleJob {
  readonly future: Future
  /** Whose turn it takes: sessions take turns, however many requests each has waiting. */
  readonly group: string
  readonly run: Effect.Effect<Outcome, OperationError>
  readonly done: (outcome: Outcome) => Effect.Effect<void>
}

/** @internal */
export interface SamplePoolShape {
  /** Fails when too much is waiting already. */
  readonly admit: Effect.Effect<void, HttpFailure>
  readonly submit: (job: SampleJob) => Effect.Effect<void>
}

/** @internal */
export class SamplePool extends Context.Tag("@effect-tinker/local/SamplePool")<SamplePool, SamplePoolShape>() {}

/** Requests in groups that take turns, each group first in first out. @internal */
export const makeRoundRobin = <A>() => {
  const groups = new Map<string, Array<A>>()
  let size = 0
  return {
    size: () => size,
    offer: (group: string, value: A): void => {
      const waiting = groups.get(group)
      if (waiting === undefined) groups.set(group, [value])
      else waiting.push(value)
      size++
    },
    take: (): A | undefined => {
      for (const [group, waiting] of groups) {
        const value = waiting.shift()
        // behind the other groups, if it has more
        groups.delete(group)
        if (waiting.length > 0) groups.set(group, waiting)
        size--
        return value
      }
      return undefined
    }
  }
}

/** @internal */
export const layerPool: Layer.Layer<SamplePool, never, Futures | Gate | Sessions | Settings | Trace> = Layer.scoped(
  SamplePool,
  Effect.gen(function*() {
    const futures = yield* Futures
    const gate = yield* Gate
    const sessions = yield* Sessions
    const { maxQueuedSamples, sampleConcurrency } = yield* Settings
    const trace = yield* Trace
    const queue = makeRoundRobin<SampleJob>()
    const unfinished = new Set<SampleJob>()
    const ready = yield* Queue.unbounded<void>()

    const work = Effect.fnUntraced(function*(job: SampleJob, worker: number) {
      yield* gate.wait
      // settled by somebody else, it was cancelled: before its turn, or while it is computed
      if (job.future.outcome !== undefined) return
      const cancelled = Effect.as(Deferred.await(job.future.settled), undefined)
      const run = trace.span(job.future.sessionId, `sampling ${worker}`, job.future.requestId, toOutcome(job.run))
      const outcome = yield* Effect.raceFirst(run, cancelled)
      if (outcome === undefined) return
      yield* futures.settle(job.future, outcome)
      yield* job.done(outcome)
    })

    const next = (worker: number) =>
      Effect.zipRight(
        Queue.take(ready),
        Effect.suspend(() => {
          const job = queue.take()
          if (job === undefined) return Effect.void
          return Effect.ensuring(work(job, worker), Effect.sync(() => unfinished.delete(job)))
        })
      )

    yield* Effect.forEach(
      Array.from({ length: sampleConcurrency }, (_, worker) => worker),
      (worker) => Effect.forkScoped(Effect.forever(next(worker))),
      { discard: true }
    )

    // nobody fetches the samples of a session that is over
    yield* sessions.onEnd((session) =>
      Effect.forEach(
        Array.from(unfinished).filter(({ future }) => future.sessionId === session.id),
        ({ future }) => futures.settle(future, { _tag: "Gone", why: `session ${session.id} is over` }),
        { discard: true }
      )
    )

    return SamplePool.of({
      admit: Effect.suspend(() =>
        queue.size() < maxQueuedSamples ? Effect.void : tooMany(`${queue.size()} sample requests are waiting already`)
      ),
      submit: (job) =>
        Effect.suspend(() => {
          queue.offer(job.group, job)
          unfinished.add(job)
          return Effect.asVoid(Queue.offer(ready, undefined))
        })
    })
  })
)
