/**
 * Where the rows of durable runs are kept: a file beside the run, or Postgres.
 *
 * @since 0.1.0
 */
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as ClusterWorkflowEngine from "@effect/cluster/ClusterWorkflowEngine"
import type * as ShardingConfig from "@effect/cluster/ShardingConfig"
import * as SingleRunner from "@effect/cluster/SingleRunner"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as LibsqlClient from "@effect/sql-libsql/LibsqlClient"
import type * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import type { ConfigError } from "effect/ConfigError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RunControl from "./RunControl.js"

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
> =>
  Layer.unwrapScoped(Effect.gen(function*() {
    const folder = RunControl.folder(directory)
    yield* RunLog.claim(folder)
    return ClusterWorkflowEngine.layer.pipe(
      // Locks of shards outlive a process that is killed; the claim does not.
      Layer.provide(SingleRunner.layer({ runnerStorage: "memory", shardingConfig: sharding })),
      // Ids of messages are larger than 2^53, and the driver refuses to read them as numbers.
      Layer.provide(LibsqlClient.layer({ url: `file:${folder}/workflow.db`, intMode: "bigint" }))
    )
  }))
