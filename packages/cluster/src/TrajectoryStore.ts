/**
 * Where workers leave what they sampled, and the trainer finds it: a directory that all of them see, or a database.
 * Messages between them carry keys only.
 *
 * Each trajectory is stored once. A rollout that is delivered twice, or was run by two workers, leaves the result of
 * whichever ended first; everybody reads that one.
 *
 * @since 0.1.0
 */
import type * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as codec from "./internal/codec.js"

/**
 * Which rollout: of which run, for which step, of which problem, and which of its group.
 *
 * @since 0.1.0
 * @category schemas
 */
export class RolloutKey extends Schema.Class<RolloutKey>("@effect-tinker/cluster/TrajectoryStore/RolloutKey")({
  run: Schema.NonEmptyString,
  step: Schema.NonNegativeInt,
  task: Schema.NonEmptyString,
  sample: Schema.NonNegativeInt
}) {
  /** As one text. */
  get text(): string {
    return `${this.run}/${this.step}/${this.task}/${this.sample}`
  }
}

/**
 * Trajectories could not be stored or read.
 *
 * @since 0.1.0
 * @category errors
 */
export class StoreFailed extends Schema.TaggedError<StoreFailed>("@effect-tinker/cluster/TrajectoryStore/StoreFailed")(
  "StoreFailed",
  { description: Schema.String, cause: Schema.optional(Schema.Defect) }
) {
  override get message(): string {
    return `the trajectory store failed: ${this.description}`
  }
}

/**
 * Where trajectories are kept.
 *
 * @since 0.1.0
 * @category services
 */
export class TrajectoryStore extends Context.Tag("@effect-tinker/cluster/TrajectoryStore")<TrajectoryStore, {
  /** Stores what a rollout gave, unless it has been stored already. Says whether it was new. */
  readonly put: (
    key: RolloutKey,
    trajectories: ReadonlyArray<Trajectory.Trajectory>
  ) => Effect.Effect<boolean, StoreFailed>
  readonly has: (key: RolloutKey) => Effect.Effect<boolean, StoreFailed>
  readonly get: (
    key: RolloutKey
  ) => Effect.Effect<Option.Option<ReadonlyArray<Trajectory.Trajectory>>, StoreFailed>
  /** Removes what a run sampled for the steps before one of them. */
  readonly prune: (run: string, before: number) => Effect.Effect<void, StoreFailed>
}>() {}

const failed = (cause: unknown) =>
  new StoreFailed({ description: cause instanceof Error ? cause.message : String(cause), cause })

const decoded = (text: string) => Either.mapLeft(codec.decode(text), (description) => new StoreFailed({ description }))

/** A part of a key as the name of a file. */
const safe = (text: string): string => encodeURIComponent(text).replace(/\*|\.{1,2}$/g, (dots) => `%${dots.length}`)

/**
 * In a directory: local, or one that all machines mount, where workers and trainers are the same user.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDirectory = (
  directory: string
): Layer.Layer<TrajectoryStore, never, FileSystem.FileSystem> =>
  Layer.effect(
    TrajectoryStore,
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const folderOf = ({ run, step }: { readonly run: string; readonly step: number }) =>
        `${directory}/${safe(run)}/${step}`
      const pathOf = (key: RolloutKey) => `${folderOf(key)}/${safe(key.task)}-${key.sample}.json`
      return TrajectoryStore.of({
        put: Effect.fnUntraced(function*(key, trajectories) {
          const path = pathOf(key)
          yield* fs.makeDirectory(folderOf(key), { recursive: true, mode: 0o700 })
          const temporary = yield* fs.makeTempFile({ directory: folderOf(key), prefix: ".new-" })
          yield* fs.chmod(temporary, 0o600)
          yield* fs.writeFileString(temporary, codec.encode(trajectories))
          // A link fails where the name is taken, on every file system that has links; a rename would replace it.
          const isNew = yield* fs.link(temporary, path).pipe(
            Effect.as(true),
            Effect.catchTag("SystemError", (error) =>
              error.reason === "AlreadyExists" ? Effect.succeed(false) : Effect.fail(error))
          )
          yield* Effect.ignore(fs.remove(temporary))
          return isNew
        }, Effect.mapError(failed)),
        has: (key) =>
          Effect.mapError(fs.exists(pathOf(key)), failed),
        get: Effect.fnUntraced(function*(key) {
          const text = yield* fs.readFileString(pathOf(key)).pipe(
            Effect.asSome,
            Effect.catchTag("SystemError", (error) =>
              error.reason === "NotFound" ? Effect.succeedNone : Effect.fail(failed(error))),
            Effect.mapError(failed)
          )
          return Option.isNone(text) ? Option.none() : Option.some(yield* decoded(text.value))
        }),
        prune: Effect.fnUntraced(function*(run, before) {
          const folder = `${directory}/${safe(run)}`
          const steps = yield* Effect.orElseSucceed(fs.readDirectory(folder), (): Array<string> => [])
          for (const step of steps) {
            if (Number(step) < before) {
              yield* fs.remove(`${folder}/${step}`, { recursive: true, force: true })
            }
          }
        }, Effect.mapError(failed))
      })
    })
  )

/**
 * In a table of a database, `tinker_trajectories`, which is created where it is missing.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerSql: Layer.Layer<TrajectoryStore, StoreFailed, SqlClient.SqlClient> = Layer.effect(
  TrajectoryStore,
  Effect.gen(function*() {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    const create = sql`CREATE TABLE IF NOT EXISTS tinker_trajectories (
      run TEXT NOT NULL,
      step INTEGER NOT NULL,
      task TEXT NOT NULL,
      sample INTEGER NOT NULL,
      trajectories TEXT NOT NULL,
      PRIMARY KEY (run, step, task, sample)
    )`
    // Two that create it at the same time: one of them loses, and finds it.
    yield* Effect.retry(Effect.mapError(create, failed), { times: 3 })
    const where = ({ run, sample, step, task }: RolloutKey) =>
      sql`run = ${run} AND step = ${step} AND task = ${task} AND sample = ${sample}`
    return TrajectoryStore.of({
      put: ({ run, sample, step, task }, trajectories) =>
        sql`INSERT INTO tinker_trajectories ${
          sql.insert({ run, step, task, sample, trajectories: codec.encode(trajectories) })
        } ON CONFLICT DO NOTHING RETURNING sample`.pipe(
          Effect.map((rows) => rows.length > 0),
          Effect.mapError(failed)
        ),
      has: (key) =>
        sql`SELECT 1 AS found FROM tinker_trajectories WHERE ${where(key)}`.pipe(
          Effect.map((rows) => rows.length > 0),
          Effect.mapError(failed)
        ),
      get: Effect.fnUntraced(function*(key) {
        const rows = yield* sql<{
          readonly trajectories: string
        }>`SELECT trajectories FROM tinker_trajectories WHERE ${where(key)}`.pipe(Effect.mapError(failed))
        const [row] = rows
        return row === undefined ? Option.none() : Option.some(yield* decoded(row.trajectories))
      }),
      prune: (run, before) =>
        sql`DELETE FROM tinker_trajectories WHERE run = ${run} AND step < ${before}`.pipe(
          Effect.asVoid,
          Effect.mapError(failed)
        )
    })
  })
)
