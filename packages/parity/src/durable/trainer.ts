/**
 * A durable run in a process of its own, to be killed. Arguments: run directory, base URL and key of the server.
 */
import { DurableRun } from "@effect-tinker/cluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer, Logger, LogLevel, Stream } from "effect"
import * as task from "./task.js"

const [directory = "", baseUrl = "", apiKey = ""] = process.argv.slice(2)

DurableRun.train({ directory, train: task.train }).pipe(
  Stream.runDrain,
  Effect.provide(NodeDurable.layerDirectory(directory)),
  Effect.provide(Layer.merge(NodeContext.layer, task.clients(baseUrl, apiKey))),
  Logger.withMinimumLogLevel(LogLevel.Error),
  Effect.runPromise
).then(() => process.exit(0), (error: unknown) => {
  process.stderr.write(`${String(error)}\n`)
  process.exit(1)
})
