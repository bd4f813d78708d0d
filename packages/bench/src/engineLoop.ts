/**
 * How long others wait for the event loop while a program trains, saves and samples on the backend in its own process:
 * in short slices of the program's thread, or on worker threads.
 */
import { LocalModel } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Command } from "@effect/platform"
import type { CommandExecutor } from "@effect/platform"
import { Effect, Either, Layer, Schema } from "effect"
import { Datum, ModelInput, TrainingClient } from "effect-tinker"
import { fileURLToPath } from "node:url"
import { BenchFailed, sized } from "./Bench.js"
import * as Program from "./Program.js"
import { watchTurns } from "./turns.js"
import type { Delay } from "./turns.js"

const batch = 8
const steps = sized(10, 2)

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

export const longestWait = (threads: number | undefined) =>
  Effect.scoped(Effect.gen(function*() {
    // everything is compiled by then
    yield* Effect.scoped(work(0))
    const { read } = yield* Effect.acquireRelease(Effect.sync(watchTurns), ({ stop }) => Effect.sync(stop))
    for (let round = 1; round <= sized(3, 1); round++) yield* Effect.scoped(work(round))
    return read()
  })).pipe(Effect.provide(backend(threads)))

/** The longest delay of a process that does nothing, in milliseconds: what the machine itself keeps a loop waiting. */
export const whileIdle = Effect.gen(function*() {
  const { ask } = yield* Program.startModule("./engineIdle.js")
  return Number(yield* ask(String(sized(20_000, 100))))
})

const quickstart = fileURLToPath(new URL("../../../examples/quickstart.ts", import.meta.url))
const before = new URL("./engineQuickstart.js", import.meta.url).href

const ByTheClock = Schema.parseJson(Schema.Struct({ eventLoopDelayMillis: Schema.Number }))
const Work = Schema.parseJson(Schema.Struct({ eventLoopWorkMillis: Schema.Number }))

/** The longest turn over the quickstart once its model is loaded; by the clock, as it measures it itself. */
export const duringQuickstart: Effect.Effect<Delay, BenchFailed, CommandExecutor.CommandExecutor> = Command.make(
  process.execPath,
  ...["--conditions=@effect-tinker/source", "--import", "tsx", "--import", before, quickstart, "--json"]
).pipe(
  Command.lines,
  Effect.flatMap((lines) =>
    Effect.zipWith(
      Schema.decode(ByTheClock)(lines.at(-2) ?? ""),
      Schema.decode(Work)(lines.at(-1) ?? ""),
      ({ eventLoopDelayMillis }, { eventLoopWorkMillis }) => ({
        delay: eventLoopDelayMillis,
        worked: eventLoopWorkMillis
      })
    )
  ),
  Effect.mapError((error) => new BenchFailed({ reason: `the quickstart: ${error.message}` }))
)
