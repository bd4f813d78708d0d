import { DurableRun } from "@effect-tinker/cluster"
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import * as NodePostgres from "@effect-tinker/cluster/NodePostgres"
import { RunLog } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Stream } from "effect"
import { backend, reinforce, series, small } from "./utils/small.js"

const problems = Array.from({ length: 8 }, (_, n) => small(n))

describe("durable runs over Postgres", () => {
  it.scopedLive("go on after an interruption; another process waits for its turn", (context) =>
    Effect.gen(function*() {
      const url = yield* NodePostgres.start
      if (Option.isNone(url)) return context.skip("there is no Postgres on this machine: apt-get install postgresql")
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-durable-" })
      for (const name of ["models", "models-2"]) yield* fs.makeDirectory(`${root}/${name}`)
      const models = backend(`${root}/models`)
      const engine = Layer.provide(
        NodeDurable.layerPostgres({ name: "support" }),
        NodeCluster.layerPostgres({ url: url.value })
      )
      const directory = `${root}/run`
      const run = DurableRun.train({ name: "support", directory, train: (log) => reinforce(problems, log) })
      const held = yield* Layer.build(engine)
      const second = yield* run.pipe(
        Stream.runCount,
        Effect.provide(Layer.fresh(engine)),
        Effect.provide(backend(`${root}/models-2`)),
        Effect.fork
      )
      yield* run.pipe(Stream.take(3), Stream.runDrain, Effect.provide(held), Effect.provide(models))
      assert.isTrue(Option.isNone(yield* Fiber.poll(second)))
      yield* Fiber.interrupt(second)
      assert.strictEqual((yield* series(directory)).steps.length, 3)
    }).pipe(Effect.provide(NodeContext.layer)), 120_000)

  it.scopedLive("compute what the plain run computes", (context) =>
    Effect.gen(function*() {
      const url = yield* NodePostgres.start
      if (Option.isNone(url)) return context.skip("there is no Postgres on this machine: apt-get install postgresql")
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-durable-" })
      for (const name of ["a", "b"]) yield* fs.makeDirectory(`${root}/${name}-models`)
      yield* reinforce(problems, RunLog.directory(`${root}/a`)).pipe(
        Stream.runDrain,
        Effect.provide(backend(`${root}/a-models`))
      )
      const run = DurableRun.train({
        name: "support",
        directory: `${root}/b`,
        train: (log) => reinforce(problems, log)
      })
      const process = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        effect.pipe(
          Effect.provide(Layer.provide(
            NodeDurable.layerPostgres({ name: "support" }),
            NodeCluster.layerPostgres({ url: url.value })
          )),
          Effect.provide(backend(`${root}/b-models`))
        )
      yield* run.pipe(Stream.take(3), Stream.runDrain, process)
      yield* run.pipe(Stream.runDrain, process)
      assert.deepStrictEqual((yield* series(`${root}/b`)).steps, (yield* series(`${root}/a`)).steps)
    }).pipe(Effect.provide(NodeContext.layer)), 120_000)
})
