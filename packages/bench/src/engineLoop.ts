/**
 * How long others wait for the event loop while a program trains, saves and samples on the backend in its own process:
 * in short slices of the program's thread, or on worker threads.
 */
import { LocalModel } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Command } from "@effect/platform"
import { Effect, Either, Layer, Schema } from "effect"
import { Datum, ModelInput, TrainingClient } from "effect-tinker"
import { readFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { fileURLToPath } from "node:url"
import { BenchFailed } from "./Bench.js"
import * as Program from "./Program.js"

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

/** The longest turn of the event loop. */
export interface Delay {
  /** Milliseconds by the clock; a busy machine stretches them. */
  readonly delay: number
  /** Milliseconds of CPU time that the thread spent in one turn; NaN where the system does not tell. */
  readonly worked: number
}

/** The CPU time of the main thread so far, which Linux tells. */
const threadMillis = (): number => {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6
  } catch {
    return NaN
  }
}

/** Watches the loop until the scope closes. */
const watch = Effect.acquireRelease(
  Effect.sync(() => {
    const histogram = monitorEventLoopDelay({ resolution: 1 })
    let worked = 0
    let last = threadMillis()
    const timer = setInterval(() => {
      const now = threadMillis()
      worked = Math.max(worked, now - last)
      last = now
    }, 1)
    histogram.enable()
    return { timer, histogram, read: (): Delay => ({ delay: histogram.max / 1e6, worked }) }
  }),
  ({ histogram, timer }) =>
    Effect.sync(() => {
      histogram.disable()
      clearInterval(timer)
    })
)

export const longestWait = (threads: number | undefined) =>
  Effect.scoped(Effect.gen(function*() {
    // everything is compiled by then
    yield* Effect.scoped(work(0))
    const { read } = yield* watch
    for (let round = 1; round <= 3; round++) yield* Effect.scoped(work(round))
    return read()
  })).pipe(Effect.provide(backend(threads)))

/** The longest delay of a process that does nothing, in milliseconds: what the machine itself keeps a loop waiting. */
export const whileIdle = Effect.gen(function*() {
  const { ask } = yield* Program.startModule("./engineIdle.js")
  return Number(yield* ask("20000"))
})

const quickstart = fileURLToPath(new URL("../../../examples/quickstart.ts", import.meta.url))

const Measured = Schema.parseJson(Schema.Struct({ eventLoopDelayMillis: Schema.Number }))

/** The longest delay over the quickstart once its model is loaded, in milliseconds, as it measures it itself. */
export const duringQuickstart = Command.make(
  process.execPath,
  ...["--conditions=@effect-tinker/source", "--import", "tsx", quickstart, "--json"]
).pipe(
  Command.lines,
  Effect.flatMap((lines) => Schema.decode(Measured)(lines.at(-1) ?? "")),
  Effect.mapBoth({
    onFailure: (error) => new BenchFailed({ reason: `the quickstart: ${error.message}` }),
    onSuccess: ({ eventLoopDelayMillis }) => eventLoopDelayMillis
  })
)
