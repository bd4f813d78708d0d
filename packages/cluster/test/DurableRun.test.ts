import { DurableRun, RunControl } from "@effect-tinker/cluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import { RunLog } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Option, Stream } from "effect"
import { backend, graded, reinforce, series, small } from "./utils/small.js"

const problems = Array.from({ length: 8 }, (_, n) => small(n))

const prepared = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-durable-" })
  for (const name of ["plain-backend", "durable-backend"]) yield* fs.makeDirectory(`${root}/${name}`)
  return { plain: `${root}/plain`, durable: `${root}/durable` }
})

const plain = (directory: string) =>
  reinforce(problems, RunLog.directory(directory)).pipe(
    Stream.runDrain,
    Effect.provide(backend(`${directory}-backend`)),
    Effect.zipRight(series(directory))
  )

const durable = (directory: string, more?: { readonly wait?: () => number }) =>
  DurableRun.train({ directory, train: (log) => reinforce(problems, log), ...more })

const process = (directory: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.provide(NodeDurable.layerDirectory(directory)),
    Effect.provide(backend(`${directory}-backend`))
  )

describe("DurableRun", () => {
  it.scopedLive("computes what the plain run computes", () =>
    Effect.gen(function*() {
      const { durable: directory, plain: other } = yield* prepared
      const steps = yield* durable(directory).pipe(Stream.runCount, process(directory))
      assert.strictEqual(steps, 8)
      const found = yield* series(directory)
      assert.isTrue(found.complete)
      assert.deepStrictEqual(found.steps, (yield* plain(other)).steps)
      assert.strictEqual(Option.getOrThrow(yield* RunControl.status(directory)).state, "complete")
      // started again, it has nothing to do
      assert.strictEqual(yield* durable(directory).pipe(Stream.runCount, process(directory)), 0)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("goes on where it was cut short or interrupted", () =>
    Effect.gen(function*() {
      const { durable: directory, plain: other } = yield* prepared
      yield* durable(directory).pipe(Stream.take(3), Stream.runDrain, process(directory))
      assert.strictEqual(Option.getOrThrow(yield* RunControl.status(directory)).state, "stopped")
      const reached = yield* Deferred.make<void>()
      const fiber = yield* durable(directory).pipe(
        Stream.tap(({ step }) => step === 5 ? Deferred.succeed(reached, void 0) : Effect.void),
        Stream.runDrain,
        process(directory),
        Effect.fork
      )
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
      yield* durable(directory).pipe(Stream.runDrain, process(directory))
      const found = yield* series(directory)
      assert.strictEqual(found.resumes, 2)
      assert.deepStrictEqual(found.steps, (yield* plain(other)).steps)
    }).pipe(Effect.provide(NodeContext.layer)))
})
void graded
