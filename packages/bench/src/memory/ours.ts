/**
 * Ours: so many futures of one model, each with a fiber that waits for it.
 */
import { Effect, Layer, Logger, ManagedRuntime } from "effect"
import { ServiceClient, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { serve } from "./measure.js"

const [base] = process.argv.slice(2)

const runtime = ManagedRuntime.make(
  TrainingClient.layerLora({ baseModel: "bench" }).pipe(
    Layer.provide(ServiceClient.layer({ baseUrl: base, apiKey: "tml-bench" })),
    Layer.provide(NodeTinker.layer()),
    // standard output is for the figures
    Layer.provideMerge(Logger.remove(Logger.defaultLogger))
  )
)

const training = await runtime.runPromise(TrainingClient.TrainingClient)

serve(async (futures) => {
  const accepted = await runtime.runPromise(
    Effect.replicateEffect(training.optimStep({ learningRate: 1e-4 }), futures)
  )
  const waiting = accepted.map((future) => runtime.runPromise(future))
  return { all: Promise.all(waiting), count: waiting.length }
})
