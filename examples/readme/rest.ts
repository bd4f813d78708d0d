import { FetchHttpClient } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Stream } from "effect"
import { CheckpointDownload, RestClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

const Live = RestClient.layerFromEnv().pipe(
  Layer.provide(NodeTinker.layerFromEnv()),
  Layer.merge(FetchHttpClient.layer), // what checkpoints are downloaded with
  Layer.merge(NodeContext.layer)
)

const program = Effect.gen(function*() {
  const rest = yield* RestClient.RestClient
  const newest = yield* Stream.runHead(rest.streamUserCheckpoints({ pageSize: 1 }))
  if (newest._tag === "None") return
  yield* Stream.runForEach(
    CheckpointDownload.stream({ tinkerPath: newest.value.tinkerPath, directory: "./checkpoint" }),
    (event) => Console.log(event)
  )
})

NodeRuntime.runMain(program.pipe(Effect.provide(Live)))
