/**
 * Values of the wire: built with defaults, checked when built, written and read by their Schemas.
 */
import { Console, Effect, Schema } from "effect"
import { Checkpoint, Optimizer } from "effect-tinker"
import { SamplingParams } from "effect-tinker/wire"

const program = Effect.gen(function*() {
  const params = new SamplingParams.SamplingParams({ maxTokens: 64, temperature: 0.7, stop: ["\n\n"] })
  yield* Console.log(yield* Schema.encode(SamplingParams.SamplingParams)(params))

  const adam = new Optimizer.AdamParams({ learningRate: 1e-5 })
  yield* Console.log(yield* Schema.encode(Optimizer.AdamParams)(adam))

  const path = yield* Checkpoint.parsePath("tinker://run/sampler_weights/final")
  yield* Console.log(path.checkpointType, path.checkpointId)

  const wrong = yield* Effect.flip(Checkpoint.parsePath("run/weights/final"))
  yield* Console.log(wrong.message)
})

Effect.runPromise(program)
