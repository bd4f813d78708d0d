/**
 * Ours as people write it: a loop that submits, and results when they are needed.
 */
import { Effect, Either, Fiber, Layer, Logger, ManagedRuntime } from "effect"
import { Datum, ServiceClient, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { serve, tokens } from "./steps.js"

const [base] = process.argv.slice(2)

const runtime = ManagedRuntime.make(
  TrainingClient.layerLora({ baseModel: "bench" }).pipe(
    Layer.provide(ServiceClient.layer({ baseUrl: base, apiKey: "tml-bench" })),
    Layer.provide(NodeTinker.layer()),
    // standard output is for the figures
    Layer.provideMerge(Logger.remove(Logger.defaultLogger))
  )
)

const data = tokens.map((row) => Either.getOrThrow(Datum.fromTokens(row)))

const train = (steps: number) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.TrainingClient
    const results: Array<Fiber.Fiber<unknown, unknown>> = []
    for (let i = 0; i < steps; i++) {
      const pass = yield* training.forwardBackward(data, "cross_entropy")
      const step = yield* training.optimStep({ learningRate: 1e-4 })
      // the results are read while the next steps are on their way
      results.push(yield* Effect.fork(Effect.zip(pass, step)))
    }
    yield* Fiber.joinAll(results)
  })

await runtime.runPromise(TrainingClient.TrainingClient)
serve((steps) => runtime.runPromise(train(steps)))
