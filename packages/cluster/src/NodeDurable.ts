/**
 * Where the rows of durable runs are kept: a file in the directory of the run, or Postgres.
 *
 * @since 0.1.0
 */
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as ClusterWorkflowEngine from "@effect/cluster/ClusterWorkflowEngine"
import type * as MessageStorage from "@effect/cluster/MessageStorage"
import * as RunnerHealth from "@effect/cluster/RunnerHealth"
import * as Runners from "@effect/cluster/Runners"
import * as RunnerStorage from "@effect/cluster/RunnerStorage"
import * as Sharding from "@effect/cluster/Sharding"
import * as ShardingConfig from "@effect/cluster/ShardingConfig"
import * as SingleRunner from "@effect/cluster/SingleRunner"
import * as SqlMessageStorage from "@effect/cluster/SqlMessageStorage"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as LibsqlClient from "@effect/sql-libsql/LibsqlClient"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import type { ConfigError } from "effect/ConfigError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import { workflow } from "./DurableRun.js"
import * as NodeCluster from "./NodeCluster.js"
import * as RunControl from "./RunControl.js"

/** Identifies the locks of runs among those of a database. */
const runsLock = 1953066604

/** One process has all shards, so there is nobody to wait for: what waits is a person. */
const sharding: Partial<ShardingConfig.ShardingConfig["Type"]> = {
  shardsPerGroup: 1,
  entityMessagePollInterval: Duration.millis(500),
  entityReplyPollInterval: Duration.millis(100),
  sendRetryInterval: Duration.millis(50),
  refreshAssignmentsInterval: Duration.millis(500),
  entityTerminationTimeout: Duration.seconds(5),
  simulateRemoteSerialization: false
}

/**
 * A cluster of one process, in a file of a directory: for schedules (`ClusterCron`) and entities of your own. A second
 * process fails with `RunInUse`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerSharding = (
  directory: string
): Layer.Layer<
  Sharding.Sharding | MessageStorage.MessageStorage,
  RunLog.RunInUse | PlatformError.PlatformError | ConfigError,
  FileSystem.FileSystem
> =>
  Layer.unwrapScoped(Effect.gen(function*() {
    const folder = RunControl.folder(directory)
    yield* RunLog.claim(folder)
    // Locks of shards outlive a process that is killed; the claim does not.
    return SingleRunner.layer({ runnerStorage: "memory", shardingConfig: sharding }).pipe(
      // Ids of messages are larger than 2^53, and the driver refuses to read them as numbers.
      Layer.provide(LibsqlClient.layer({ url: `file:${folder}/workflow.db`, intMode: "bigint" }))
    )
  }))

/**
 * The engine of one run, in a file of its directory. One process at a time; a second one fails with `RunInUse`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDirectory = (
  directory: string
): Layer.Layer<
  WorkflowEngine.WorkflowEngine,
  RunLog.RunInUse | PlatformError.PlatformError | ConfigError,
  FileSystem.FileSystem
> => Layer.provide(ClusterWorkflowEngine.layer, layerSharding(directory))

/**
 * The engine of one run, in Postgres. One process at a time trains: another one that is started with the same name waits
 * for its turn, and takes over when the first one is gone.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerPostgres = (options: {
  /** Names the run, as it does for `DurableRun.train`. */
  readonly name: string
}): Layer.Layer<WorkflowEngine.WorkflowEngine, SqlError, SqlClient.SqlClient> =>
  Layer.unwrapScoped(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    // A lock of the connection: it ends with the process, whatever ends that.
    const connection = yield* sql.reserve
    yield* Effect.acquireRelease(
      Effect.interruptible(connection.executeUnprepared(`SELECT pg_advisory_lock(${runsLock}, hashtext($1))`, [
        options.name
      ], undefined)),
      () => Effect.ignore(connection.executeUnprepared("SELECT pg_advisory_unlock_all()", [], undefined))
    )
    // Tables of its own: the engine gives whatever it finds in them to this process.
    const executionId = yield* workflow.executionId({ run: options.name })
    return ClusterWorkflowEngine.layer.pipe(
      Layer.provideMerge(Sharding.layer),
      Layer.provide(Runners.layerNoop),
      Layer.provideMerge(SqlMessageStorage.layerWith({ prefix: `tinker_run_${executionId.slice(0, 16)}` })),
      Layer.provide([RunnerStorage.layerMemory, RunnerHealth.layerNoop, ShardingConfig.layer(sharding)])
    )
  }))

/**
 * The engine of one run: in Postgres where there is a URL, and else in a file of its directory.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  /** Names the run, as it does for `DurableRun.train`. */
  readonly name: string
  readonly directory: string
  /** `postgres://USER:PASSWORD@HOST/DATABASE` */
  readonly url?: Redacted.Redacted | undefined
}): Layer.Layer<
  WorkflowEngine.WorkflowEngine,
  RunLog.RunInUse | PlatformError.PlatformError | ConfigError | SqlError,
  FileSystem.FileSystem
> =>
  options.url === undefined
    ? layerDirectory(options.directory)
    : Layer.provide(layerPostgres(options), NodeCluster.layerPostgres({ url: options.url }))
