/**
 * A model that is trained again every night, by a schedule that survives restarts. Here a night comes every two seconds.
 */
import { DurableRun } from "@effect-tinker/cluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { ClusterCron } from "@effect/cluster"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Cron, Effect, Layer, Queue, Stream } from "effect"

const renderer = Effect.flatMap(Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles), Renderers.qwen3Instruct)

/** What was said today; a real one reads the day's file. */
const chats = Dataset.fromIterable(
  ["Ahoy!", "Aye!"].map((answer) => Example.conversation([Message.user("Hello!"), Message.assistant(answer)]))
)

/** A run of its own for every night: one that was cut short goes on when it is started again. */
const retrain = (directory: string) =>
  DurableRun.train({
    directory,
    train: (log) =>
      Stream.unwrap(Effect.map(renderer, (renderer) =>
        Supervised.train({
          model: { baseModel: "local/tiny", rank: 4 },
          data: chats,
          renderer,
          learningRate: 1e-3,
          batchSize: 2,
          epochs: 3,
          log
        })))
  }).pipe(Stream.runCount, Effect.provide(NodeDurable.layerDirectory(directory)))

const program = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-" })
  const nights = yield* Queue.unbounded<void>()

  const nightly = ClusterCron.make({
    name: "nightly",
    // "0 2 * * *" is two o'clock at night
    cron: Cron.unsafeParse("*/2 * * * * *"),
    execute: Queue.offer(nights, void 0)
  })
  yield* Layer.launch(Layer.provide(nightly, NodeDurable.layerSharding(`${root}/schedule`))).pipe(Effect.forkScoped)

  for (let night = 1; night <= 2; night++) {
    yield* Queue.take(nights)
    const steps = yield* retrain(`${root}/night-${night}`)
    yield* Console.log(`night ${night}: ${steps} steps`)
  }
}).pipe(
  Effect.scoped,
  Effect.provide(Layer.provideMerge(TinkerLocal.layer(), NodeContext.layer))
)

NodeRuntime.runMain(program)
