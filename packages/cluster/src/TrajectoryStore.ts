/**
 * Where sampled trajectories are kept: a database, a directory that all machines see, or a bucket
 * (`ObjectTrajectoryStore`). Trainers write to a database, many trajectories in one statement; into the other two each
 * worker puts its own, however large.
 *
 * Each trajectory is stored once. A rollout that is delivered twice, or was run by two workers, leaves the result of
 * whichever ended first; everybody reads that one.
 *
 * @since 0.1.0
 */
import type * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Arr from "effect/Array"
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
export class TrajectoryStoreFailed
  extends Schema.TaggedError<TrajectoryStoreFailed>("@effect-tinker/cluster/TrajectoryStore/TrajectoryStoreFailed")(
    "TrajectoryStoreFailed",
    { description: Schema.String, cause: Schema.optional(Schema.Defect) }
  )
{
  override get message(): string {
    return `the trajectory store failed: ${this.description}`
  }
}

/**
 * What a rollout gave.
 *
 * @since 0.2.0
 * @category models
 */
export interface Entry {
  readonly key: RolloutKey
  readonly trajectories: ReadonlyArray<Trajectory.Trajectory>
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
  ) => Effect.Effect<boolean, TrajectoryStoreFailed>
  readonly has: (key: RolloutKey) => Effect.Effect<boolean, TrajectoryStoreFailed>
  readonly get: (
    key: RolloutKey
  ) => Effect.Effect<Option.Option<ReadonlyArray<Trajectory.Trajectory>>, TrajectoryStoreFailed>
  /**
   * Stores what many rollouts gave, each unless it has been stored already: one statement in a database. Says for each
   * whether it was new.
   */
  readonly putMany: (entries: ReadonlyArray<Entry>) => Effect.Effect<ReadonlyArray<boolean>, TrajectoryStoreFailed>
  /** What is stored for each of many keys: one statement in a database. */
  readonly getMany: (
    keys: ReadonlyArray<RolloutKey>
  ) => Effect.Effect<ReadonlyArray<Option.Option<ReadonlyArray<Trajectory.Trajectory>>>, TrajectoryStoreFailed>
  /** The last step of a run that something is stored for. */
  readonly latest: (run: string) => Effect.Effect<Option.Option<number>, TrajectoryStoreFailed>
  /**
   * Who stores: `trainer` where many at once cost little more than one, so that workers send small results to the trainer;
   * `worker` where each is written by itself.
   */
  readonly writer: "trainer" | "worker"
  /** Removes what a run sampled for the steps before one of them. */
  readonly prune: (run: string, before: number) => Effect.Effect<void, TrajectoryStoreFailed>
}>() {}

const failed = (cause: unknown) =>
  new TrajectoryStoreFailed({ description: cause instanceof Error ? cause.message : String(cause), cause })

type Service = TrajectoryStore["Type"]

/** Reads and writes at once, where each key is by itself. */
const atOnce = 16

/**
 * A store that has every trajectory by itself, as files and objects are.
 *
 * @since 0.2.0
 * @category constructors
 */
export const makeSeparate = (store: Pick<Service, "put" | "has" | "get" | "latest" | "prune">): Service =>
  TrajectoryStore.of({
    ...store,
    writer: "worker",
    putMany: Effect.forEach(({ key, trajectories }) => store.put(key, trajectories), { concurrency: atOnce }),
    getMany: Effect.forEach(store.get, { concurrency: atOnce })
  })

const decoded = (text: string) =>
  Either.mapLeft(codec.decode(text), (description) => new TrajectoryStoreFailed({ description }))

/** The largest of some steps. @internal */
export const lastOf = (steps: ReadonlyArray<number>): Option.Option<number> => {
  const found = steps.filter(Number.isSafeInteger)
  return found.length === 0 ? Option.none() : Option.some(found.reduce((a, b) => Math.max(a, b)))
}

/** A part of a key as the name of a file. @internal */
export const safe = (text: string): string =>
  encodeURIComponent(text).replace(/\*|\.{1,2}$/g, (dots) => `%${dots.length}`)

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
      return makeSeparate({
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
        latest: (run) =>
          fs.readDirectory(`${directory}/${safe(run)}`).pipe(
            Effect.catchTag("SystemError", (error) =>
              error.reason === "NotFound" ? Effect.succeed<Array<string>>([]) : Effect.fail(error)),
            Effect.map((steps) =>
              lastOf(steps.map(Number))
            ),
            Effect.mapError(failed)
          ),
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

/** Rows of one statement: five values each, of which a statement of Postgres has 65,535 at most, and of SQLite 32,766. */
const perStatement = 256

/**
 * In a table of a database, `tinker_trajectories`, which is created where it is missing.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerSql: Layer.Layer<TrajectoryStore, TrajectoryStoreFailed, SqlClient.SqlClient> = Layer.effect(
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
      sql.and([sql`run = ${run}`, sql`step = ${step}`, sql`task = ${task}`, sql`sample = ${sample}`])
    type Row = { readonly run: string; readonly step: number; readonly task: string; readonly sample: number }
    const textOf = ({ run, sample, step, task }: Row) => JSON.stringify([run, Number(step), task, Number(sample)])

    const insert = Effect.fnUntraced(function*(entries: ReadonlyArray<Entry>) {
      if (entries.length === 0) return []
      const rows = yield* Effect.mapError(
        sql<Row>`INSERT INTO tinker_trajectories ${
          sql.insert(entries.map(({ key: { run, sample, step, task }, trajectories }) => ({
            run,
            step,
            task,
            sample,
            trajectories: codec.encode(trajectories)
          })))
        } ON CONFLICT DO NOTHING RETURNING run, step, task, sample`,
        failed
      )
      const stored = new Set(rows.map(textOf))
      // Of two entries with one key one counts.
      return entries.map(({ key }) => stored.delete(textOf(key)))
    })

    const select = Effect.fnUntraced(function*(keys: ReadonlyArray<RolloutKey>) {
      if (keys.length === 0) return []
      const rows = yield* Effect.mapError(
        sql<Row & { readonly trajectories: string }>`SELECT run, step, task, sample, trajectories
          FROM tinker_trajectories WHERE ${sql.or(keys.map(where))}`,
        failed
      )
      const found = new Map<string, string>()
      for (const row of rows) found.set(textOf(row), row.trajectories)
      return yield* Effect.forEach(keys, (key) => {
        const text = found.get(textOf(key))
        return text === undefined ? Effect.succeedNone : Effect.asSome(decoded(text))
      })
    })

    return TrajectoryStore.of({
      writer: "trainer",
      put: (key, trajectories) => Effect.map(insert([{ key, trajectories }]), ([isNew]) => isNew === true),
      putMany: (entries) => Effect.map(Effect.forEach(Arr.chunksOf(entries, perStatement), insert), Arr.flatten),
      getMany: (keys) => Effect.map(Effect.forEach(Arr.chunksOf(keys, perStatement), select), Arr.flatten),
      latest: (run) =>
        sql<{ readonly step: number | null }>`SELECT max(step) AS step FROM tinker_trajectories WHERE run = ${run}`
          .pipe(
            Effect.map(([row]) => lastOf(row === undefined || row.step === null ? [] : [Number(row.step)])),
            Effect.mapError(failed)
          ),
      has: (key) =>
        sql`SELECT 1 AS found FROM tinker_trajectories WHERE ${where(key)}`.pipe(
          Effect.map((rows) => rows.length > 0),
          Effect.mapError(failed)
        ),
      get: (key) => Effect.map(select([key]), ([found]) => found ?? Option.none()),
      prune: (run, before) =>
        sql`DELETE FROM tinker_trajectories WHERE run = ${run} AND step < ${before}`.pipe(
          Effect.asVoid,
          Effect.mapError(failed)
        )
    })
  })
)
