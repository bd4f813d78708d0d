/**
 * Samplers: what they sample from, and the log of what each has finished.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Engine } from "../../Engine.js"
import type { Snapshot } from "../../LocalAdapter.js"
import type { Sampler } from "../../LocalSampler.js"
import type { StorageFailed } from "../../Storage.js"
import { Storage } from "../../Storage.js"
import { Checkpoints } from "./checkpoints.js"
import type { HttpFailure } from "./failure.js"
import { gone, notFound } from "./failure.js"
import { fileName } from "./identity.js"
import type { OperationError } from "./outcomes.js"
import { makeCodec } from "./records.js"
import { Sessions } from "./sessions.js"

const SamplerRecord = Schema.Struct({
  id: Schema.String,
  sessionId: Schema.String,
  owner: Schema.String,
  baseModel: Schema.String,
  modelPath: Schema.optional(Schema.String),
  /** Its weights have no path and are gone with the process. */
  ephemeral: Schema.Boolean,
  createdAt: Schema.Number
})

/** @internal */
export type SamplerRecord = typeof SamplerRecord.Type

/** @internal */
export interface Completion {
  readonly requestId: string
  readonly state: "finished" | "failed"
  readonly size?: number | undefined
}

/** @internal */
export interface SamplersShape {
  readonly create: (
    options: Omit<SamplerRecord, "createdAt" | "ephemeral">,
    weights?: Snapshot | undefined
  ) => Effect.Effect<SamplerRecord, StorageFailed>
  readonly get: (id: string) => SamplerRecord | undefined
  readonly require: (id: string, owner: string) => Effect.Effect<SamplerRecord, HttpFailure>
  readonly ofSession: (sessionId: string) => ReadonlyArray<SamplerRecord>
  /** A number for one more client of the sampler, from 1. */
  readonly join: (id: string) => number
  /** The weights, ready to sample from. */
  readonly open: (
    source: Pick<SamplerRecord, "id" | "baseModel" | "modelPath" | "ephemeral" | "owner">
  ) => Effect.Effect<Sampler, OperationError>
  /** Appends to the log of a sampler's client. */
  readonly log: (id: string, client: number, completion: Completion) => Effect.Effect<void>
  /** What was appended after a cursor; waits for the first. What lies before the cursor is dropped. */
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

const directory = "samplers"

// weights ready to sample from: what is not among them is loaded again when it is needed
const maxLoaded = 16

// weights that have no path: the oldest are reclaimed
const maxEphemeral = 256

/** Drops the oldest entries of a map. */
const trim = <K, V>(map: Map<K, V>, most: number): void => {
  for (const key of map.keys()) {
    if (map.size <= most) return
    map.delete(key)
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
      })
    )

    const load = Effect.fnUntraced(function*(source: Parameters<SamplersShape["open"]>[0]) {
      if (source.ephemeral) {
        const snapshot = snapshots.get(source.id)
        if (snapshot === undefined) return yield* gone(`The weights of sampler ${source.id} are no longer kept`)
        return yield* engine.sampler(snapshot)
      }
      if (source.modelPath === undefined) return yield* engine.sampler(source.baseModel)
      const record = yield* checkpoints.readable(source.modelPath, source.owner)
      return yield* engine.sampler(yield* checkpoints.load(record))
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
          trim(snapshots, maxEphemeral)
        }
        yield* codec.write(`${directory}/${fileName(record.id)}.json`, record)
        samplers.set(record.id, record)
        return record
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
        const key = source.ephemeral ? source.id : source.modelPath ?? source.baseModel
        const shared = loaded.get(key) ?? (yield* Effect.cached(load(source)))
        // at the end: the most recently used
        loaded.delete(key)
        loaded.set(key, shared)
        trim(loaded, maxLoaded)
        return yield* Effect.onError(shared, () => Effect.sync(() => loaded.delete(key)))
      }),
      log: Effect.fnUntraced(function*(id, client, completion) {
        const log = yield* logOf(id, client)
        log.entries.push({ cursor: ++log.last, completion })
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
