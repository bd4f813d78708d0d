import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Stream } from "effect"
import { CheckpointDownload, Credentials, RestClient, TinkerConfig } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

const Live = RestClient.layer.pipe(
  Layer.provide(Credentials.layer),
  Layer.provideMerge(TinkerConfig.layerEnv()),
  Layer.provideMerge(NodeTinker.layer),
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
