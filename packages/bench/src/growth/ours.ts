/**
 * A process that goes on: half samples, half training. A line `OPS` in, the figures of exactly those out. Started with
 * `--expose-gc`.
 */
import { Effect, Either, Fiber, Layer, Logger, ManagedRuntime } from "effect"
import { Datum, ModelInput, SamplingClient, ServiceClient, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { createInterface } from "node:readline"
import { tokens } from "../training/steps.js"

const [base] = process.argv.slice(2)

const runtime = ManagedRuntime.make(
  Layer.merge(TrainingClient.layerLora({ baseModel: "bench" }), SamplingClient.layer({ baseModel: "bench" })).pipe(
    Layer.provide(ServiceClient.layer({ baseUrl: base, apiKey: "tml-bench" })),
    Layer.provide(NodeTinker.layer()),
    // standard output is for the figures
    Layer.provideMerge(Logger.remove(Logger.defaultLogger))
  )
)

const data = tokens.map((row) => Either.getOrThrow(Datum.fromTokens(row)))
const prompt = ModelInput.fromInts(Int32Array.from({ length: 64 }, (_, i) => 1000 + i))
const window = 50

const train = Effect.fnUntraced(function*(ops: number) {
  const training = yield* TrainingClient.TrainingClient
  let waiting: Array<Fiber.Fiber<unknown, unknown>> = []
  for (let i = 0; i < ops / 2; i++) {
    const pass = yield* training.forwardBackward(data, "cross_entropy")
    const step = yield* training.optimStep({ learningRate: 1e-4 })
    waiting.push(yield* Effect.fork(Effect.zip(pass, step)))
    if (waiting.length < window) continue
    yield* Fiber.joinAll(waiting)
    waiting = []
  }
  yield* Fiber.joinAll(waiting)
})

const sample = Effect.fnUntraced(function*(ops: number) {
  const sampling = yield* SamplingClient.SamplingClient
  yield* Effect.forEach(Array.from({ length: ops }), () => sampling.sample({ prompt, maxTokens: 64 }), {
    concurrency: window,
    discard: true
  })
})

const run = async (ops: number) => {
  const used = process.cpuUsage()
  await runtime.runPromise(Effect.all([train(ops / 2), sample(ops / 2)], { concurrency: 2, discard: true }))
  const { system, user } = process.cpuUsage(used)
  if (global.gc === undefined) throw new Error("start me with --expose-gc")
  for (let i = 0; i < 3; i++) global.gc()
  const { external, heapUsed } = process.memoryUsage()
  return { cpu: (system + user) / 1e6, heap: heapUsed + external }
}

createInterface(process.stdin).on("line", (line) => {
  run(Number(line)).then(
    (figures) => process.stdout.write(`${JSON.stringify(figures)}\n`),
    (error) => {
      process.stderr.write(`${String(error)}\n`)
      process.exit(1)
    }
  )
})
