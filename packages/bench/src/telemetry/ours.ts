/**
 * A training loop in a process of its own: `URL on|off`. It answers a line `N` with what N steps took and what the heap
 * holds afterwards, and ends at `end`, saying so when the program itself is over.
 */
import { Effect, Either, Layer, Logger, Metric, Queue } from "effect"
import { Datum, Metrics, ServiceClient, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { createInterface } from "node:readline"
import { tokens } from "../training/steps.js"

const [baseUrl, telemetry] = process.argv.slice(2)

const Live = TrainingClient.layerLora({ baseModel: "bench" }).pipe(
  Layer.provide(ServiceClient.layer({ baseUrl, apiKey: "tml-bench", telemetry: telemetry === "on" })),
  Layer.provide(NodeTinker.layer()),
  // standard output is for the figures
  Layer.provideMerge(Logger.remove(Logger.defaultLogger))
)

const data = tokens.map((row) => Either.getOrThrow(Datum.fromTokens(row)))

const say = (value: unknown) => Effect.sync(() => process.stdout.write(`${JSON.stringify(value)}\n`))

const held = (): number => {
  if (global.gc === undefined) throw new Error("start me with --expose-gc")
  for (let i = 0; i < 3; i++) global.gc()
  return process.memoryUsage().heapUsed
}

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.TrainingClient
  const lines = yield* Queue.unbounded<string>()
  const input = createInterface(process.stdin).on("line", (line) => lines.unsafeOffer(line))
  for (let line = yield* Queue.take(lines); line !== "end"; line = yield* Queue.take(lines)) {
    const start = performance.now()
    const used = process.cpuUsage()
    for (let step = 0; step < Number(line); step++) {
      const pass = yield* training.forwardBackward(data, "cross_entropy")
      const stepped = yield* training.optimStep({ learningRate: 1e-4 })
      yield* pass
      yield* stepped
    }
    const seconds = (performance.now() - start) / 1000
    const { system, user } = process.cpuUsage(used)
    const { count: reported } = yield* Metric.value(Metrics.telemetryEvents)
    const { count: dropped } = yield* Metric.value(Metrics.telemetryDropped)
    yield* say({ seconds, cpu: (system + user) / 1e6, heap: held(), reported, dropped })
  }
  input.close()
  process.stdin.destroy()
  yield* say({ over: true })
})

await Effect.runPromise(Effect.provide(program, Live))
