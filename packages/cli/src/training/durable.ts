/**
 * `--durable` and `--workers`: a run as a workflow, and its rollouts on other machines. Loaded on demand: it brings in the
 * databases' drivers.
 *
 * @since 0.1.0
 */
import * as DurableRun from "@effect-tinker/cluster/DurableRun"
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import * as ObjectTrajectoryStore from "@effect-tinker/cluster/ObjectTrajectoryStore"
import * as RolloutCluster from "@effect-tinker/cluster/RolloutCluster"
import type * as RolloutWorker from "@effect-tinker/cluster/RolloutWorker"
import * as RunControl from "@effect-tinker/cluster/RunControl"
import * as TrajectoryStore from "@effect-tinker/cluster/TrajectoryStore"
import type * as RunLog from "@effect-tinker/cookbook/RunLog"
import type * as Trainer from "@effect-tinker/cookbook/Trainer"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as SqlClient from "@effect/sql/SqlClient"
import type { ConfigError } from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { Output } from "../terminal/Output.js"

/** Message while a run waits. */
const describe = (directory: string, { message, questions, state, until }: RunControl.Status): string | undefined => {
  switch (state) {
    case "paused":
      return `Paused. \`tinker runs resume ${directory}\` lets it go on.`
    case "judging":
      return `Waiting for ${questions.length} grades: \`tinker runs grade ${directory}\``
    case "waiting":
      return `Waiting until ${new Date(until ?? 0).toISOString()}`
    case "failed":
      return `It failed: ${message ?? "for an unknown reason"}`
    default:
      return undefined
  }
}

/** Says why nothing moves, once for each reason. */
const announce = Effect.fnUntraced(function*(directory: string) {
  const { note } = yield* Output
  let said = ""
  yield* RunControl.status(directory).pipe(
    Effect.flatMap((status) => {
      const text = Option.getOrUndefined(Option.map(status, (found) => describe(directory, found))) ?? ""
      if (text === said) return Effect.void
      said = text
      return text === "" ? Effect.void : note(text)
    }),
    Effect.delay("1 second"),
    Effect.forever
  )
})

/**
 * The run as a workflow, in a file of its directory or in a database.
 *
 * @internal
 */
export const train = <Detail, E, R>(options: {
  readonly directory: string
  readonly database: Option.Option<Redacted.Redacted>
  readonly log: RunLog.Target<FileSystem.FileSystem>
  readonly train: (log: RunLog.Target<FileSystem.FileSystem>) => Stream.Stream<Trainer.StepReport<Detail>, E, R>
}) =>
  Stream.unwrap(Effect.gen(function*() {
    const { database, directory } = options
    // Two machines may know the directory by different paths.
    const name = Option.isSome(database) ? yield* RunControl.id(directory) : directory
    return DurableRun.train({ ...options, name }).pipe(
      Stream.drainFork(Stream.fromEffect(announce(directory))),
      Stream.provideSomeLayer(NodeDurable.layer({ name, directory, url: Option.getOrUndefined(database) }))
    )
  }))

/** The store of trajectories: a bucket, a directory that all machines see, or the database. @internal */
export const store = (
  place: Option.Option<string>
): Layer.Layer<
  TrajectoryStore.TrajectoryStore,
  TrajectoryStore.TrajectoryStoreFailed | ConfigError,
  SqlClient.SqlClient | FileSystem.FileSystem
> =>
  Option.match(place, {
    onNone: () => TrajectoryStore.layerSql,
    onSome: (place) =>
      place.startsWith("s3://")
        ? Layer.provide(ObjectTrajectoryStore.layerConfig(place), FetchHttpClient.layer)
        : TrajectoryStore.layerDirectory(place)
  })

/** Rollouts by the workers of a label. @internal */
export const layerWorkers = (options: {
  readonly directory: string
  readonly database: Redacted.Redacted
  readonly label: RolloutWorker.Label
  readonly slots: number
  readonly weight: number
  readonly store: Option.Option<string>
}) =>
  Layer.unwrapEffect(
    Effect.map(
      RunControl.id(options.directory),
      (run) => RolloutCluster.layer({ run, label: options.label, slots: options.slots, weight: options.weight })
    )
  ).pipe(
    Layer.provide(Layer.merge(NodeCluster.layerClient, store(options.store))),
    Layer.provide(NodeCluster.layerPostgres({ url: options.database }))
  )

/** @internal */
export const problems = RolloutCluster.problems
