/**
 * A worker in a process of its own, to be killed. Arguments: database, base URL and key of the server, concurrency,
 * milliseconds every environment waits, and for trajectories in a bucket the address, key
 * and secret of an object store. Each rollout it has stored is a line on standard output.
 */
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as ObjectTrajectoryStore from "@effect-tinker/cluster/ObjectTrajectoryStore"
import * as RolloutWorker from "@effect-tinker/cluster/RolloutWorker"
import * as TrajectoryStore from "@effect-tinker/cluster/TrajectoryStore"
import { FetchHttpClient } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Duration, Effect, Layer, Logger, LogLevel, Redacted } from "effect"
import { writeSync } from "node:fs"
import * as task from "./task.js"

const [
  database = "",
  baseUrl = "",
  apiKey = "",
  concurrency = "8",
  wait = "0",
  endpoint,
  accessKeyId = "",
  secret = ""
] = process
  .argv.slice(2)

const store = endpoint === undefined
  ? TrajectoryStore.layerSql
  : Layer.provide(
    ObjectTrajectoryStore.layer({ bucket: "rollouts", endpoint, accessKeyId, secretAccessKey: Redacted.make(secret) }),
    FetchHttpClient.layer
  )

const worker = Layer.unwrapEffect(Effect.map(task.renderer, (renderer) =>
  RolloutWorker.layer({
    problems: task.waiting(Duration.millis(Number(wait))),
    settings: { renderer },
    concurrency: Number(concurrency),
    onRollout: ({ key }) => Effect.sync(() => writeSync(1, `${key.text}\n`))
  })))

NodeRuntime.runMain(
  Layer.launch(worker).pipe(
    Effect.provide(Layer.provideMerge(
      Layer.mergeAll(
        NodeCluster.layerWorker({ host: "127.0.0.1", listen: "127.0.0.1", concurrency: Number(concurrency) }),
        store
      ),
      NodeCluster.layerPostgres({ url: Redacted.make(database) })
    )),
    Effect.provide(Layer.merge(NodeContext.layer, task.clients(baseUrl, apiKey))),
    Logger.withMinimumLogLevel(LogLevel.Error)
  )
)
