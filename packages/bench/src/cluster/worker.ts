/**
 * A worker. Arguments: database, base URL, key, rollouts at once. A line on standard input is answered when it has joined.
 */
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as RolloutWorker from "@effect-tinker/cluster/RolloutWorker"
import * as TrajectoryStore from "@effect-tinker/cluster/TrajectoryStore"
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer, Logger, Redacted } from "effect"
import { createInterface } from "node:readline"
import { clients, known, problems, renderer, wait } from "./environment.js"

const [database = "", baseUrl = "", apiKey = "", concurrency = "8"] = process.argv.slice(2)

const worker = Layer.unwrapEffect(Effect.map(renderer, (renderer) =>
  RolloutWorker.layer({
    problems: problems(known, wait),
    settings: { renderer },
    concurrency: Number(concurrency)
  }))).pipe(
    Layer.provide(Layer.merge(
      NodeCluster.layerWorker({ host: "127.0.0.1", listen: "127.0.0.1", concurrency: Number(concurrency) }),
      TrajectoryStore.layerSql
    )),
    Layer.provide(NodeCluster.layerPostgres({ url: Redacted.make(database) })),
    Layer.provide(Layer.merge(NodeContext.layer, clients(baseUrl, apiKey)))
  )

const program = Effect.gen(function*() {
  yield* Layer.build(worker)
  createInterface(process.stdin).on("line", () => process.stdout.write("joined\n"))
  return yield* Effect.never
})

Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Logger.remove(Logger.defaultLogger)))).catch(
  (error: unknown) => {
    process.stderr.write(`${String(error)}\n`)
    process.exit(1)
  }
)
