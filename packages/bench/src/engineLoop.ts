/**
 * How long others wait for the event loop while a program trains, saves and samples on the backend in its own process:
 * in short slices of the program's thread, or on worker threads.
 */
import { LocalModel } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Effect, Either, Layer } from "effect"
import { Datum, ModelInput, TrainingClient } from "effect-tinker"
import { monitorEventLoopDelay } from "node:perf_hooks"

const batch = 8
const steps = 10

const backend = (threads: number | undefined) =>
  TrainingClient.layerLora({ baseModel: LocalModel.small.name }).pipe(
    Layer.provide(NodeTinkerLocal.layerInProcess({ threads }))
  )

const tokens = (length: number, shift: number) => Int32Array.from({ length }, (_, i) => (i * 37 + shift) % 256)
const datum = (length: number, shift: number) => Either.getOrThrow(Datum.fromTokens(tokens(length, shift)))

const work = Effect.fnUntraced(function*(round: number) {
  const training = yield* TrainingClient.TrainingClient
  const short = Array.from({ length: batch }, (_, i) => datum(128, i))
  const full = [datum(LocalModel.small.contextLength, 0)]
  for (let i = 0; i < steps; i++) {
    const pass = yield* training.forwardBackward(i % 2 === 0 ? short : full, "cross_entropy")
    const step = yield* training.optimStep({ learningRate: 1e-4 })
    yield* Effect.zip(pass, step)
  }
  yield* Effect.flatten(training.saveState(`loop-${round}`))
  const sampling = yield* training.saveWeightsAndGetSamplingClient()
  yield* sampling.sample({ prompt: ModelInput.fromInts(tokens(64, 0)), numSamples: 16, maxTokens: 64, seed: 1 })
})

/** The longest wait of a timer, in milliseconds; a busy machine stretches it. */
export const longestWait = (threads: number | undefined) =>
  Effect.gen(function*() {
    // everything is compiled by then
    yield* Effect.scoped(work(0))
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    for (let round = 1; round <= 3; round++) yield* Effect.scoped(work(round))
    delay.disable()
    return delay.max / 1e6
  }).pipe(Effect.provide(backend(threads)))
