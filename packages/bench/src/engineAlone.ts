/**
 * Training steps of the in-process engine in a process of its own: a line in, the milliseconds of a step out. Two of them
 * side by side share nothing but the machine, so no engine can gain more from a second thread than they do.
 */
import { Engine } from "@effect-tinker/local"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import { Effect, Stream } from "effect"
import { createInterface } from "node:readline"
import { baseModel, data, rank } from "./engineStep.js"

const steps = 3

const program = Effect.gen(function*() {
  const engine = yield* Engine.Engine
  const adapter = yield* engine.createAdapter({ baseModel, rank, seed: 1 })
  const step = Effect.zipRight(adapter.forwardBackward({ data, loss: "cross_entropy" }), adapter.optimStep())
  yield* Stream.runForEach(
    Stream.fromAsyncIterable(createInterface(process.stdin), (error) => new Error(String(error))),
    () =>
      Effect.gen(function*() {
        const start = performance.now()
        for (let i = 0; i < steps; i++) yield* step
        process.stdout.write(`${(performance.now() - start) / steps}\n`)
      })
  )
})

await Effect.runPromise(Effect.provide(program, NodeEngine.layerFor({})))
