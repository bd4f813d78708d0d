/**
 * Training runs: what is remembered of a model, longer than the model itself.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { StorageFailed } from "../../Storage.js"
import { Storage } from "../../Storage.js"
import { runsDirectory } from "./checkpoints.js"
import { fileName } from "./identity.js"
import { makeCodec } from "./records.js"

const RunRecord = Schema.Struct({
  id: Schema.String,
  sessionId: Schema.optional(Schema.String),
  owner: Schema.String,
  projectId: Schema.optional(Schema.String),
  baseModel: Schema.String,
  rank: Schema.Number,
  trainAttn: Schema.Boolean,
  trainMlp: Schema.Boolean,
  trainUnembed: Schema.Boolean,
  createdAt: Schema.Number,
  lastRequestAt: Schema.Number,
  userMetadata: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.String }))
})

/** @internal */
export type RunRecord = typeof RunRecord.Type

/** @internal */
export interface RunsShape {
  readonly create: (
    options: Omit<RunRecord, "createdAt" | "lastRequestAt">
  ) => Effect.Effect<RunRecord, StorageFailed>
  readonly get: (id: string) => RunRecord | undefined
  /** Notes that the run was used; written down with the next change. */
  readonly touch: (id: string) => Effect.Effect<void>
  /** Writes down when it was last used. */
  readonly flush: (id: string) => Effect.Effect<void, StorageFailed>
  readonly assignProject: (sessionId: string, projectId: string) => Effect.Effect<void, StorageFailed>
  /** All of them, most recently used first. */
  readonly all: () => ReadonlyArray<RunRecord>
}

/** @internal */
export class Runs extends Context.Tag("@effect-tinker/local/Runs")<Runs, RunsShape>() {}

const pathOf = (id: string): string => `${runsDirectory}/${fileName(id)}/run.json`

/** @internal */
export const layer: Layer.Layer<Runs, StorageFailed, Storage> = Layer.effect(
  Runs,
  Effect.gen(function*() {
    const storage = yield* Storage
    const codec = makeCodec(storage, RunRecord)
    const runs = new Map<string, RunRecord>()
    for (const directory of yield* storage.list(runsDirectory)) {
      const record = yield* codec.read(`${runsDirectory}/${directory}/run.json`)
      if (Option.isSome(record)) runs.set(record.value.id, record.value)
    }
    const save = (record: RunRecord) =>
      Effect.zipRight(Effect.sync(() => runs.set(record.id, record)), codec.write(pathOf(record.id), record))
    return Runs.of({
      create: Effect.fnUntraced(function*(options) {
        const now = yield* Clock.currentTimeMillis
        const record: RunRecord = { ...options, createdAt: now, lastRequestAt: now }
        yield* save(record)
        return record
      }),
      get: (id) => runs.get(id),
      touch: Effect.fnUntraced(function*(id) {
        const run = runs.get(id)
        if (run !== undefined) runs.set(id, { ...run, lastRequestAt: yield* Clock.currentTimeMillis })
      }),
      flush: (id) => {
        const run = runs.get(id)
        return run === undefined ? Effect.void : codec.write(pathOf(id), run)
      },
      assignProject: (sessionId, projectId) =>
        Effect.forEach(
          Array.from(runs.values()).filter((run) => run.sessionId === sessionId),
          (run) => save({ ...run, projectId }),
          { discard: true }
        ),
      all: () => Array.from(runs.values()).sort((a, b) => b.lastRequestAt - a.lastRequestAt)
    })
  })
)
