/**
 * Checkpoints: saved, listed, read, published, copied and removed. The index is in memory, the truth in the storage.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as Wire from "effect-tinker/Checkpoint"
import { CheckpointId } from "effect-tinker/wire/Id"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as LocalAdapter from "../../LocalAdapter.js"
import { Storage, StorageFailed } from "../../Storage.js"
import { fromFiles, toFiles } from "./checkpointFiles.js"
import { fileName } from "./identity.js"
import type { HttpFailure } from "./message.js"
import { badRequest, notFound } from "./message.js"
import { makeCodec } from "./records.js"

/** @internal */
export const kinds = ["weights", "sampler_weights", "external_weights"] as const

/** @internal */
export type Kind = typeof kinds[number]

const CheckpointRecord = Schema.Struct({
  path: Schema.String,
  runId: Schema.String,
  kind: Schema.Literal(...kinds),
  name: Schema.String,
  owner: Schema.String,
  sessionId: Schema.optional(Schema.String),
  time: Schema.Number,
  sizeBytes: Schema.Number,
  public: Schema.Boolean,
  expiresAt: Schema.optional(Schema.Number),
  userMetadata: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.String })),
  baseModel: Schema.String,
  rank: Schema.Number,
  trainAttn: Schema.Boolean,
  trainMlp: Schema.Boolean,
  trainUnembed: Schema.Boolean
})

/** @internal */
export type CheckpointRecord = typeof CheckpointRecord.Type

/** @internal */
export interface SaveOptions {
  readonly runId: string
  readonly kind: Kind
  readonly name: string
  readonly owner: string
  readonly sessionId?: string | undefined
  readonly ttlSeconds?: number | undefined
  readonly userMetadata?: Readonly<Record<string, string>> | undefined
}

/** @internal */
export interface CheckpointsShape {
  readonly save: (
    snapshot: LocalAdapter.Snapshot,
    options: SaveOptions
  ) => Effect.Effect<CheckpointRecord, StorageFailed>
  /** The same files under another name. */
  readonly copy: (
    source: CheckpointRecord,
    options: SaveOptions
  ) => Effect.Effect<CheckpointRecord, StorageFailed>
  /** A checkpoint this user may read: their own, or a public one. */
  readonly readable: (path: string, user: string) => Effect.Effect<CheckpointRecord, HttpFailure>
  /** A checkpoint of this user. */
  readonly owned: (runId: string, checkpointId: string, user: string) => Effect.Effect<CheckpointRecord, HttpFailure>
  readonly get: (path: string) => Effect.Effect<Option.Option<CheckpointRecord>>
  readonly files: (record: CheckpointRecord) => Effect.Effect<ReadonlyMap<string, Uint8Array>, StorageFailed>
  readonly load: (record: CheckpointRecord) => Effect.Effect<LocalAdapter.Snapshot, StorageFailed>
  readonly update: (
    record: CheckpointRecord,
    change: Partial<Pick<CheckpointRecord, "public" | "expiresAt">>
  ) => Effect.Effect<CheckpointRecord, StorageFailed>
  readonly remove: (record: CheckpointRecord) => Effect.Effect<void, StorageFailed>
  /** Those that have not expired, newest first. */
  readonly list: Effect.Effect<ReadonlyArray<CheckpointRecord>>
  /** Runs when the content under a path changes or goes away. */
  readonly onChange: (listener: (path: string) => void) => Effect.Effect<void>
}

/** @internal */
export class Checkpoints extends Context.Tag("@effect-tinker/local/Checkpoints")<Checkpoints, CheckpointsShape>() {}

/** @internal */
export const pathOf = (runId: string, kind: Kind, name: string): string => `tinker://${runId}/${kind}/${name}`

const types = { weights: "training", sampler_weights: "sampler", external_weights: "external" } as const

/** @internal */
export const toWire = (record: CheckpointRecord): Wire.Checkpoint =>
  new Wire.Checkpoint({
    checkpointId: CheckpointId.make(`${record.kind}/${record.name}`),
    checkpointType: types[record.kind],
    time: DateTime.unsafeMake(record.time),
    tinkerPath: record.path,
    sizeBytes: record.sizeBytes,
    public: record.public,
    ...(record.userMetadata === undefined ? {} : { userMetadata: record.userMetadata }),
    ...(record.expiresAt === undefined ? {} : { expiresAt: DateTime.unsafeMake(record.expiresAt) })
  })

/** Where runs and their checkpoints are kept. @internal */
export const runsDirectory = "runs"

const recordFile = "checkpoint.json"

const directoryOf = (record: Pick<CheckpointRecord, "runId" | "kind" | "name">): string =>
  [runsDirectory, fileName(record.runId), record.kind, fileName(record.name)].join("/")

/** @internal */
export const layer: Layer.Layer<Checkpoints, StorageFailed, Storage> = Layer.effect(
  Checkpoints,
  Effect.gen(function*() {
    const storage = yield* Storage
    const codec = makeCodec(storage, CheckpointRecord)
    const index = new Map<string, CheckpointRecord>()
    const listeners: Array<(path: string) => void> = []

    for (const run of yield* storage.list(runsDirectory)) {
      for (const kind of kinds) {
        for (const name of yield* storage.list(`${runsDirectory}/${run}/${kind}`)) {
          const record = yield* codec.read(`${runsDirectory}/${run}/${kind}/${name}/${recordFile}`)
          if (Option.isSome(record)) index.set(record.value.path, record.value)
        }
      }
    }

    // readers see all files of one save, never some of the next
    const turn = yield* Permits.make(1)
    const alone = turn.withPermits(1)

    const changed = (path: string) => Effect.sync(() => listeners.forEach((listener) => listener(path)))

    const remove = Effect.fnUntraced(function*(record: CheckpointRecord) {
      index.delete(record.path)
      yield* changed(record.path)
      yield* storage.remove(directoryOf(record))
    }, alone)

    const current = Effect.fnUntraced(function*(path: string) {
      const record = index.get(path)
      if (record === undefined) return Option.none()
      if (record.expiresAt === undefined || record.expiresAt > (yield* Clock.currentTimeMillis)) {
        return Option.some(record)
      }
      yield* Effect.catchAll(
        remove(record),
        (error) => Effect.logWarning("Could not delete an expired checkpoint", error)
      )
      return Option.none()
    })

    const write = Effect.fnUntraced(function*(
      files: ReadonlyMap<string, Uint8Array>,
      settings: Pick<CheckpointRecord, "baseModel" | "rank" | "trainAttn" | "trainMlp" | "trainUnembed">,
      options: SaveOptions
    ) {
      const { kind, name, owner, runId, sessionId, ttlSeconds, userMetadata } = options
      const { baseModel, rank, trainAttn, trainMlp, trainUnembed } = settings
      const time = yield* Clock.currentTimeMillis
      let sizeBytes = 0
      for (const bytes of files.values()) sizeBytes += bytes.length
      const record: CheckpointRecord = {
        path: pathOf(runId, kind, name),
        runId,
        kind,
        name,
        owner,
        time,
        sizeBytes,
        public: false,
        baseModel,
        rank,
        trainAttn,
        trainMlp,
        trainUnembed,
        ...(sessionId === undefined ? {} : { sessionId }),
        ...(ttlSeconds === undefined ? {} : { expiresAt: time + ttlSeconds * 1000 }),
        ...(userMetadata === undefined ? {} : { userMetadata })
      }
      yield* storage.putAll(directoryOf(record), new Map(files).set(recordFile, codec.encode(record)))
      index.set(record.path, record)
      yield* changed(record.path)
      return record
    }, alone)

    const files = Effect.fnUntraced(function*(record: CheckpointRecord) {
      const directory = directoryOf(record)
      const contents = new Map<string, Uint8Array>()
      for (const name of yield* storage.list(directory)) {
        const bytes = yield* storage.get(`${directory}/${name}`)
        if (name !== recordFile && Option.isSome(bytes)) contents.set(name, bytes.value)
      }
      return contents
    }, alone)

    return Checkpoints.of({
      save: (snapshot, options) => Effect.flatMap(toFiles(snapshot), (files) => write(files, snapshot, options)),
      copy: (source, options) => Effect.flatMap(files(source), (contents) => write(contents, source, options)),
      get: current,
      readable: Effect.fnUntraced(function*(path, user) {
        if (Either.isLeft(Wire.parsePath(path))) return yield* badRequest(`Invalid tinker path: ${path}`)
        const record = yield* current(path)
        return Option.isSome(record) && (record.value.public || record.value.owner === user)
          ? record.value
          : yield* notFound(`Checkpoint ${path} not found`)
      }),
      owned: Effect.fnUntraced(function*(runId, checkpointId, user) {
        const path = `tinker://${runId}/${checkpointId}`
        if (Either.isLeft(Wire.parsePath(path))) return yield* badRequest(`Invalid checkpoint ID: ${checkpointId}`)
        const record = yield* current(path)
        return Option.isSome(record) && record.value.owner === user
          ? record.value
          : yield* notFound(`Checkpoint ${checkpointId} not found for training run ${runId}`)
      }),
      files,
      load: (record) =>
        Effect.flatMap(
          files(record),
          (contents) =>
            Effect.mapError(
              fromFiles(contents),
              (problem) => new StorageFailed({ operation: "understand", path: record.path, cause: problem })
            )
        ),
      update: Effect.fnUntraced(function*(record, change) {
        const updated = { ...(index.get(record.path) ?? record), ...change }
        yield* codec.write(`${directoryOf(record)}/${recordFile}`, updated)
        index.set(updated.path, updated)
        return updated
      }, alone),
      remove,
      list: Effect.gen(function*() {
        const found: Array<CheckpointRecord> = []
        for (const path of Array.from(index.keys())) {
          const record = yield* current(path)
          if (Option.isSome(record)) found.push(record.value)
        }
        return found.sort((a, b) => b.time - a.time)
      }),
      onChange: (listener) => Effect.sync(() => void listeners.push(listener))
    })
  })
)
