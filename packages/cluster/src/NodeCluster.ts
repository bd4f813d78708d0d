/**
 * A cluster over Postgres: workers that listen on a port, and trainers that send to them. All of them need the database;
 * trainers should reach the ports of workers too, which saves them from waiting for the next look at the database.
 *
 * @since 0.1.0
 */
import type * as MessageStorage from "@effect/cluster/MessageStorage"
import * as RunnerAddress from "@effect/cluster/RunnerAddress"
import type * as Sharding from "@effect/cluster/Sharding"
import * as ShardingConfig from "@effect/cluster/ShardingConfig"
import * as SqlMessageStorage from "@effect/cluster/SqlMessageStorage"
import * as SqlRunnerStorage from "@effect/cluster/SqlRunnerStorage"
import * as NodeClusterSocket from "@effect/platform-node/NodeClusterSocket"
import type { SocketServerError } from "@effect/platform/SocketServer"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type { ConfigError } from "effect/ConfigError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Os from "node:os"
import { freePort } from "./internal/node/freePort.js"
import * as RolloutWorker from "./RolloutWorker.js"

/** The same for all processes of a cluster: what differs is which groups a process serves. */
const shared: Partial<ShardingConfig.ShardingConfig["Type"]> = {
  // Locks are numbered by the place of a group in this list.
  availableShardGroups: ["default", ...RolloutWorker.Label.literals],
  // No more workers than this can have the same label.
  shardsPerGroup: 128,
  entityMessagePollInterval: Duration.seconds(1),
  entityReplyPollInterval: Duration.millis(200),
  refreshAssignmentsInterval: Duration.seconds(1),
  runnerHealthCheckInterval: Duration.seconds(5),
  // A worker whose refresh takes longer than the interval leaves its rollouts: longer than a busy machine stalls. Locks of
  // one that is killed end with its connection, and the others hear of it from the one of them that pings all; if that was
  // the one that was killed, when its last refresh has expired.
  shardLockRefreshInterval: Duration.seconds(10),
  shardLockExpiration: Duration.seconds(30),
  entityMaxIdleTime: Duration.minutes(5),
  entityTerminationTimeout: Duration.seconds(5)
}

/**
 * The database of a cluster.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerPostgres = (options: {
  /** `postgres://USER:PASSWORD@HOST/DATABASE` */
  readonly url: Redacted.Redacted
  /** Defaults to 10. */
  readonly maxConnections?: number | undefined
}): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, ConfigError | SqlError> =>
  PgClient.layer({ url: options.url, maxConnections: options.maxConnections ?? 10, applicationName: "effect-tinker" })

/** Identifies the lock under which tables are created. */
const tablesLock = "1953066603, 1"

/** Creates the tables, one process at a time: those of the engine do not survive being created twice at once. */
const prepare = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const connection = yield* sql.reserve
  yield* Effect.acquireRelease(
    connection.executeUnprepared(`SELECT pg_advisory_lock(${tablesLock})`, [], undefined),
    () => Effect.ignore(connection.executeUnprepared(`SELECT pg_advisory_unlock(${tablesLock})`, [], undefined))
  )
  yield* Layer.build(Layer.provide(
    Layer.merge(SqlMessageStorage.layer, SqlRunnerStorage.layer),
    ShardingConfig.layer(shared)
  ))
}).pipe(Effect.scoped)

/**
 * How a worker joins.
 *
 * @since 0.1.0
 * @category models
 */
export interface WorkerOptions {
  /** What it can run. Defaults to `cpu`. */
  readonly labels?: ReadonlyArray<RolloutWorker.Label> | undefined
  /** Rollouts at once, as for `RolloutWorker.layer`: a worker with twice as many is given twice as many. Defaults to 8. */
  readonly concurrency?: number | undefined
  /** The name by which trainers and other workers reach it. Defaults to the name of the machine. */
  readonly host?: string | undefined
  /** Defaults to a free one. */
  readonly port?: number | undefined
  /** Where to listen. Defaults to all addresses. */
  readonly listen?: string | undefined
}

/**
 * Joins the cluster as a worker.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerWorker = (
  options: WorkerOptions = {}
): Layer.Layer<Sharding.Sharding, ConfigError | SocketServerError | SqlError, SqlClient.SqlClient> =>
  Layer.unwrapEffect(Effect.gen(function*() {
    yield* prepare
    const port = options.port ?? (yield* freePort)
    return NodeClusterSocket.layer({
      storage: "sql",
      runnerHealth: "ping",
      shardingConfig: {
        ...shared,
        runnerAddress: Option.some(RunnerAddress.make(options.host ?? Os.hostname(), port)),
        runnerListenAddress: Option.some(RunnerAddress.make(options.listen ?? "0.0.0.0", port)),
        runnerShardWeight: Math.max(1, options.concurrency ?? 8) / 8,
        assignedShardGroups: ["default", ...(options.labels ?? ["cpu" as const])]
      }
    })
  }))

/**
 * Sends to workers, and runs nothing.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerClient: Layer.Layer<
  Sharding.Sharding | MessageStorage.MessageStorage,
  ConfigError | SqlError,
  SqlClient.SqlClient
> = Layer.unwrapEffect(Effect.as(
  prepare,
  NodeClusterSocket.layer({
    clientOnly: true,
    storage: "sql",
    shardingConfig: { ...shared, runnerAddress: Option.none(), assignedShardGroups: [] }
  })
))
