/**
 * Thousands of samples at once, a training loop and the heartbeats of the session, all in one process. Arguments: a JSON
 * object. Run with `--expose-gc`.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Either, Fiber, Logger, LogLevel, Schema, Stream } from "effect"
import { Datum, ModelInput, SamplingClient, ServiceClient, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { openSync, writeSync } from "node:fs"
import * as Plan from "./plan.js"

export const Arguments = Schema.parseJson(Schema.Struct({
  baseUrl: Schema.String,
  journal: Schema.String,
  samples: Schema.Int,
  concurrency: Schema.Int
}))

const { baseUrl, concurrency, journal, samples } = Schema.decodeSync(Arguments)(process.argv[2] ?? "")

const unhandled: Array<string> = []
process.on("unhandledRejection", (reason) => unhandled.push(`rejection: ${String(reason)}`))
process.on("uncaughtException", (error) => unhandled.push(`exception: ${error.stack ?? error.message}`))
process.on("warning", (warning) => unhandled.push(`warning: ${warning.message}`))

const file = openSync(journal, "a")
const heap: Array<number> = []
const steps: Array<number> = []
const missed: Array<string> = []
let answered = 0

const collect = () => {
  if (global.gc === undefined) return
  global.gc()
  const { external, heapUsed } = process.memoryUsage()
  heap.push(heapUsed + external)
}

const write = (entry: Plan.Settled) => writeSync(file, `${JSON.stringify(entry)}\n`)

const requests = Stream.range(1, samples).pipe(
  Stream.map((op): SamplingClient.SampleOptions => {
    const { maxTokens, numSamples, seed, tokens } = Plan.sampleOf(op)
    return { prompt: ModelInput.fromInts(tokens), numSamples, maxTokens, seed, stop: [] }
  })
)

const sampling = Effect.gen(function*() {
  const client = yield* SamplingClient.make({ baseModel: Plan.baseModel })
  yield* Stream.runForEach(client.sampleMany(requests, { concurrency }), ({ index, result }) =>
    Effect.sync(() => {
      const op = index + 1
      const base = { op, kind: "sample", line: "sampler", requests: [], parts: 1, millis: 0 } as const
      write(Either.match(result, {
        onLeft: (error): Plan.Settled => ({ ...base, exit: error._tag, note: error.message }),
        onRight: ({ sequences }): Plan.Settled => ({
          ...base,
          exit: "ok",
          ...(op % 10 === 0 ? { tokens: sequences.flatMap((sequence) => Array.from(sequence.tokens)) } : {})
        })
      }))
      if (++answered % Math.ceil(samples / 40) === 0) collect()
    }))
})

/** Steps one after the other, as fast as they are answered: a wait is somebody else's work in the way. */
const training = Effect.gen(function*() {
  const client = yield* TrainingClient.makeLora({ baseModel: Plan.baseModel, rank: 4, seed: 1 })
  for (let op = samples + 1;; op += 2) {
    const start = performance.now()
    const data = [Either.getOrThrow(Datum.fromTokens(Plan.mark(op, 0, 4)))]
    const pass = yield* client.forwardBackward(data, "cross_entropy")
    const step = yield* client.optimStep({ learningRate: Plan.rateOf(op + 1) })
    yield* pass
    yield* step
    steps.push(performance.now() - start)
  }
})

const main = Effect.gen(function*() {
  const service = yield* ServiceClient.ServiceClient
  yield* service.sessionId
  const began = performance.now()
  yield* service.healthChanges.pipe(
    Stream.runForEach((health) =>
      Effect.sync(() => {
        if (health._tag !== "Alive") missed.push(health._tag === "Failing" ? health.error.message : health._tag)
      })
    ),
    Effect.fork
  )
  const loop = yield* Effect.fork(training)
  const before = process.cpuUsage()
  yield* sampling
  const { system, user } = process.cpuUsage(before)
  const alive = (performance.now() - began) / 1000
  // it goes on for ever: whatever ends it is a failure
  const trained = yield* Fiber.interrupt(loop)
  steps.sort((a, b) => a - b)
  const at = (quantile: number) =>
    Math.round(steps[Math.min(steps.length - 1, Math.floor(steps.length * quantile))] ?? 0)
  const summary: Plan.LoadSummary = {
    seconds: alive,
    cpuSeconds: (system + user) / 1e6,
    steps: { count: steps.length, p50: at(0.5), p99: at(0.99), max: at(1) },
    trainingFailed: trained._tag === "Failure" && trained.cause._tag === "Fail" ? trained.cause.error.message : null,
    unhealthy: missed,
    unhandled,
    heap,
    rss: process.resourceUsage().maxRSS / 1024
  }
  writeSync(1, `summary ${JSON.stringify(summary)}\n`)
}).pipe(
  Effect.scoped,
  Effect.provide(ServiceClient.layer({ baseUrl, apiKey: Plan.apiKey })),
  Effect.provide(NodeTinker.layer()),
  Logger.withMinimumLogLevel(LogLevel.None)
)

NodeRuntime.runMain(main)
