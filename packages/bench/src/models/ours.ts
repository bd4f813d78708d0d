/**
 * A directory in the embedded engine: ours.ts DIRECTORY THREADS BATCH LENGTH RANK. A line `load`, `train`, `sample N`,
 * `tenants A`, `rss` or `peak` in, a line with milliseconds by the clock or bytes out. Sampled are 32 tokens each of N sequences,
 * or of 16 requests at once over A adapters of up to 8.
 */
import { Engine } from "@effect-tinker/local"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import * as NodeModels from "@effect-tinker/local/NodeModels"
import { Effect, Stream } from "effect"
import { readFileSync } from "node:fs"
import { createInterface } from "node:readline"

const [directory = "", ...numbers] = process.argv.slice(2)
const [threads = 1, batch = 1, length = 1, rank = 16] = numbers.map(Number)

const sampled = 32
const prompt = [100]

const bytes = (field: string): number =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024

const program = Effect.gen(function*() {
  const engine = yield* Engine.Engine
  const [model] = engine.models
  if (model === undefined) return yield* Effect.dieMessage("no model")
  const { name, vocabularySize } = model
  const data = Array.from({ length: batch }, (_, index) => {
    const tokens = Array.from({ length: length + 1 }, (_, i) => (i * 7919 + index * 104_729) % vocabularySize)
    return { tokens: tokens.slice(0, -1), lossInputs: { target_tokens: { data: tokens.slice(1), shape: [length] } } }
  })
  const adapter = yield* Effect.cached(engine.createAdapter({ baseModel: name, rank, seed: 1 }))
  const sampler = yield* Effect.cached(engine.sampler(name))
  const train = Effect.flatMap(
    adapter,
    (one) => Effect.zipRight(one.forwardBackward({ data, loss: "cross_entropy" }), one.optimStep())
  )
  /** Adapters that differ: each has had a step of its own. */
  const tenants = yield* Effect.cached(Effect.forEach(Array.from({ length: 8 }), (_, seed) =>
    Effect.gen(function*() {
      const one = yield* engine.createAdapter({ baseModel: name, rank, seed })
      const [first] = data
      if (first !== undefined) yield* one.forwardBackward({ data: [first], loss: "cross_entropy" })
      yield* one.optimStep()
      return yield* engine.sampler(yield* one.snapshot())
    })))
  const sampleTenants = (adapters: number) =>
    Effect.flatMap(tenants, (samplers) =>
      Effect.forEach(
        Array.from({ length: 16 }, (_, i) => samplers[i % adapters]),
        (one, i) => one?.sample({ prompt, params: { maxTokens: sampled, seed: i, stop: [] } }) ?? Effect.void,
        { concurrency: "unbounded", discard: true }
      ))
  const sample = (sequences: number) =>
    Effect.flatMap(
      sampler,
      (one) => one.sample({ prompt, numSamples: sequences, params: { maxTokens: sampled, seed: 1, stop: [] } })
    )
  const work = (command: string, argument: number): Effect.Effect<unknown, unknown> =>
    command === "load"
      ? engine.load(name)
      : command === "train"
      ? train
      : command === "tenants"
      ? sampleTenants(argument)
      : sample(argument)
  yield* Stream.runForEach(
    Stream.fromAsyncIterable(createInterface(process.stdin), (error) => new Error(String(error))),
    (line) =>
      Effect.gen(function*() {
        const [command = "", argument] = line.split(" ")
        if (command === "rss" || command === "peak") {
          return process.stdout.write(`${bytes(command === "rss" ? "VmRSS" : "VmHWM")}\n`)
        }
        const start = performance.now()
        yield* work(command, Number(argument))
        return process.stdout.write(`${performance.now() - start}\n`)
      })
  )
})

const engine = Effect.map(
  NodeModels.resolve(directory, { contextLength: 512 }),
  (model) => NodeEngine.layer({ models: [model], threads })
)

await Effect.runPromise(Effect.flatMap(engine, (layer) => Effect.provide(program, layer)))
