/**
 * A durable run in a process of its own, to be killed. Arguments: run directory, base URL and key of the server, and the
 * database where rollouts are given to workers. Each step is a line on standard output.
 */
import { DurableRun, RunControl } from "@effect-tinker/cluster"
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import * as RolloutCluster from "@effect-tinker/cluster/RolloutCluster"
import * as TrajectoryStore from "@effect-tinker/cluster/TrajectoryStore"
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer, Logger, LogLevel, Redacted, Stream } from "effect"
import * as task from "./task.js"

const [directory = "", baseUrl = "", apiKey = "", database = ""] = process.argv.slice(2)

const workers = Layer.unwrapEffect(
  Effect.map(
    RunControl.id(directory),
    (run) => RolloutCluster.layer({ run, stragglerAfter: "3 seconds", attempts: 100 })
  )
).pipe(
  Layer.provide(Layer.merge(NodeCluster.layerClient, TrajectoryStore.layerSql)),
  Layer.provide(NodeCluster.layerPostgres({ url: Redacted.make(database) }))
)

const run = database === ""
  ? DurableRun.train({ directory, train: task.train })
  : DurableRun.train({ directory, train: (log) => task.train(log, RolloutCluster.problems(task.problems)) }).pipe(
    Stream.provideSomeLayer(workers)
  )

Stream.runForEach(run, ({ step }) => Effect.sync(() => process.stdout.write(`step ${step}\n`))).pipe(
  Effect.provide(NodeDurable.layerDirectory(directory)),
  Effect.provide(Layer.merge(NodeContext.layer, task.clients(baseUrl, apiKey))),
  Logger.withMinimumLogLevel(LogLevel.Error),
  Effect.runPromise
).then(() => process.exit(0), (error: unknown) => {
  process.stderr.write(`${String(error)}\n`)
  process.exit(1)
})
