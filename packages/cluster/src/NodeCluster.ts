/**
 * A cluster over Postgres: workers that listen on a port, and trainers that send to them. All of them need the database;
 * trainers should reach the ports of workers too: what they send directly costs the database nothing, and need not wait for a
 * worker's next look at it.
 *
 * Trainers and workers share a secret. Every connection between them is encrypted and authenticated in both directions with
 * a key of it (TLS-PSK, with forward secrecy), and each request for a rollout is signed with another one. The secret is an
 * option, or `TINKER_CLUSTER_SECRET`, or the content of the file `TINKER_CLUSTER_SECRET_FILE`, or else a random one that the
 * first process leaves in the database: all of them have the database, which decides what they run anyway.
 *
 * @since 0.1.0
 */
import type * as MessageStorage from "@effect/cluster/MessageStorage"
import * as RunnerAddress from "@effect/cluster/RunnerAddress"
import * as RunnerHealth from "@effect/cluster/RunnerHealth"
import * as Runners from "@effect/cluster/Runners"
import type * as Sharding from "@effect/cluster/Sharding"
import * as ShardingConfig from "@effect/cluster/ShardingConfig"
import * as SocketRunner from "@effect/cluster/SocketRunner"
import * as SqlMessageStorage from "@effect/cluster/SqlMessageStorage"
import * as SqlRunnerStorage from "@effect/cluster/SqlRunnerStorage"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type { SocketServerError } from "@effect/platform/SocketServer"
import * as RpcSerialization from "@effect/rpc/RpcSerialization"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Os from "node:os"
import * as entityGate from "./internal/entityGate.js"
import * as clusterSockets from "./internal/node/clusterSockets.js"
import { freePort } from "./internal/node/freePort.js"
import * as serialConnection from "./internal/serialConnection.js"
import * as RolloutWorker from "./RolloutWorker.js"
import * as RunAuthority from "./RunAuthority.js"
import type * as TrajectoryStore from "./TrajectoryStore.js"

/** The same for all processes of a cluster: what differs is which groups a process serves. */
const shared: Partial<ShardingConfig.ShardingConfig["Type"]> = {
  // Locks are numbered by the place of a group in this list.
  availableShardGroups: ["default", ...RolloutWorker.Label.literals],
  // No more workers than this can have the same label.
  shardsPerGroup: 128,
  // Of trainers that cannot reach a worker: others ask it directly. With a thousand workers this is what a database does most.
  entityMessagePollInterval: Duration.seconds(5),
  entityReplyPollInterval: Duration.millis(200),
  refreshAssignmentsInterval: Duration.seconds(3),
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
}): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, ConfigError.ConfigError | SqlError> =>
  Layer.map(
    PgClient.layer({
      url: options.url,
      maxConnections: options.maxConnections ?? 10,
      applicationName: "effect-tinker"
    }),
    (context) =>
      Context.add(context, SqlClient.SqlClient, serialConnection.make(Context.get(context, SqlClient.SqlClient)))
  )

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

// =============================================================================
// the secret of the cluster
// =============================================================================

/** Shorter ones can be guessed. */
const shortestSecret = 32

/** Secret that processes of the cluster share, where they are given one. */
const givenSecret = Effect.gen(function*() {
  const given = yield* Config.option(Config.redacted("TINKER_CLUSTER_SECRET"))
  if (Option.isSome(given)) return given
  const file = yield* Config.option(Config.string("TINKER_CLUSTER_SECRET_FILE"))
  if (Option.isNone(file)) return Option.none<Redacted.Redacted>()
  const fs = yield* FileSystem.FileSystem
  return Option.some(Redacted.make((yield* fs.readFileString(file.value)).trim()))
}).pipe(Effect.provide(NodeFileSystem.layer))

const secretFor = Effect.fnUntraced(function*({ secret }: SecretOptions) {
  const given = secret === undefined ? yield* givenSecret : Option.some(secret)
  if (Option.isNone(given)) return yield* RunAuthority.secretOf
  return Redacted.value(given.value).length >= shortestSecret
    ? given.value
    : yield* Effect.fail(ConfigError.InvalidData(
      ["TINKER_CLUSTER_SECRET"],
      `the secret of the cluster has less than ${shortestSecret} characters: make one with \`openssl rand -hex 32\``
    ))
})

/**
 * Secret by which trainers and workers know each other.
 *
 * @since 0.2.0
 * @category models
 */
export interface SecretOptions {
  /**
   * The same for all processes of the cluster, at least 32 characters. Defaults to `TINKER_CLUSTER_SECRET`, then to the
   * content of the file `TINKER_CLUSTER_SECRET_FILE`, then to a random one that is kept in the database.
   */
  readonly secret?: Redacted.Redacted | undefined
}

/**
 * Why a process cannot join.
 *
 * @since 0.2.0
 * @category models
 */
export type JoinError =
  | ConfigError.ConfigError
  | PlatformError.PlatformError
  | SqlError
  | TrajectoryStore.TrajectoryStoreFailed

// =============================================================================
// joining
// =============================================================================

/**
 * How a worker joins.
 *
 * @since 0.1.0
 * @category models
 */
export interface WorkerOptions extends SecretOptions {
  /** Labels of the work it can run. Defaults to `cpu`. */
  readonly labels?: ReadonlyArray<RolloutWorker.Label> | undefined
  /** Rollouts at once, as for `RolloutWorker.layer`: a worker with twice as many is given twice as many. Defaults to 8. */
  readonly concurrency?: number | undefined
  /**
   * The name by which trainers and other workers reach it. Defaults to the address it listens on, or to the name of the
   * machine if it listens on all.
   */
  readonly host?: string | undefined
  /** Defaults to a free one. */
  readonly port?: number | undefined
  /**
   * The address to listen on. Defaults to `127.0.0.1`: trainers and workers of this machine only. `0.0.0.0` is all
   * addresses of the machine.
   */
  readonly listen?: string | undefined
}

/** Messages between processes name rollouts: none is larger than this. */
const maxMessageBytes = 4 * 1024 * 1024

const connectionKey = (secret: Redacted.Redacted) => RunAuthority.derive(secret, "effect-tinker cluster connections")

/** Services with which trainers and workers reach each other. */
const layerTransport = (secret: Redacted.Redacted) =>
  Layer.unwrapEffect(Effect.map(connectionKey(secret), clusterSockets.layerClient)).pipe(
    Layer.provideMerge(RpcSerialization.layerMsgPackWith({ maxBufferSize: maxMessageBytes }))
  )

const layerStorage = Layer.merge(Layer.orDie(SqlMessageStorage.layer), Layer.orDie(SqlRunnerStorage.layer))

const isEverywhere = (address: string) => address === "0.0.0.0" || address === "::"

/**
 * Joins the cluster as a worker.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerWorker = (
  options: WorkerOptions = {}
): Layer.Layer<
  Sharding.Sharding | RunAuthority.RunAuthority,
  JoinError | SocketServerError,
  SqlClient.SqlClient
> =>
  Layer.unwrapEffect(Effect.gen(function*() {
    yield* prepare
    const secret = yield* secretFor(options)
    const port = options.port ?? (yield* freePort)
    const listen = options.listen ?? "127.0.0.1"
    const host = options.host ?? (isEverywhere(listen) ? Os.hostname() : listen)
    const key = yield* connectionKey(secret)
    return SocketRunner.layer.pipe(
      Layer.provide(clusterSockets.layerServer({ host: listen, port, key })),
      Layer.provide(Layer.provide(RunnerHealth.layerPing, Runners.layerRpc)),
      Layer.provide(layerTransport(secret)),
      Layer.provide(Layer.provideMerge(entityGate.layerStorage, layerStorage)),
      Layer.provideMerge(entityGate.layer),
      Layer.provide(ShardingConfig.layerFromEnv({
        ...shared,
        runnerAddress: Option.some(RunnerAddress.make(host, port)),
        runnerListenAddress: Option.some(RunnerAddress.make(listen, port)),
        runnerShardWeight: Math.max(1, options.concurrency ?? 8) / 8,
        assignedShardGroups: ["default", ...(options.labels ?? ["cpu" as const])]
      })),
      Layer.merge(RunAuthority.layerSql({ secret }))
    )
  }))

/**
 * Sends to workers, and runs nothing.
 *
 * @since 0.2.0
 * @category layers
 */
export const layerClientWith = (
  options: SecretOptions = {}
): Layer.Layer<
  Sharding.Sharding | MessageStorage.MessageStorage | RunAuthority.RunAuthority,
  JoinError,
  SqlClient.SqlClient
> =>
  Layer.unwrapEffect(Effect.gen(function*() {
    yield* prepare
    const secret = yield* secretFor(options)
    return SocketRunner.layerClientOnly.pipe(
      Layer.provide(layerTransport(secret)),
      Layer.provideMerge(layerStorage),
      Layer.provide(ShardingConfig.layerFromEnv({
        ...shared,
        // One process of a run, which hears a second later that there are other workers.
        refreshAssignmentsInterval: Duration.seconds(1),
        runnerAddress: Option.none(),
        assignedShardGroups: []
      })),
      Layer.merge(RunAuthority.layerSql({ secret }))
    )
  }))

/**
 * `layerClientWith` with the secret of the environment or the database.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerClient: Layer.Layer<
  Sharding.Sharding | MessageStorage.MessageStorage | RunAuthority.RunAuthority,
  JoinError,
  SqlClient.SqlClient
> = layerClientWith()
