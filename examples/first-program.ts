/**
 * Teaches a small model one sentence on this machine, then lets it speak.
 */
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Console, Effect } from "effect"
import { Datum, ModelInput, TrainingClient } from "effect-tinker"

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 16, seed: 1 })
  const lesson = yield* Datum.fromTokens(LocalTokenizer.encode("Tinker trains models."))

  for (let step = 1; step <= 40; step++) {
    const pass = yield* training.forwardBackward([lesson], "cross_entropy") // accepted, in order
    const update = yield* training.optimStep({ learningRate: 5e-4 }) // queued right behind it
    const { metrics } = yield* pass // wait only where the result is needed
    yield* update
    if (step % 10 === 0) yield* Console.log(`step ${step}: loss ${metrics["loss:sum"]?.toFixed(2)}`)
  }

  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  const { sequences } = yield* sampler.sample({
    prompt: ModelInput.fromInts(LocalTokenizer.encode("Tinker")),
    maxTokens: 15,
    temperature: 0
  })
  yield* Console.log(`Tinker${LocalTokenizer.decode(sequences[0]?.tokens ?? [])}`)
})

Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))
