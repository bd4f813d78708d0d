import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Logger, Stream } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { constants } from "node:os"
import type { Worker } from "node:worker_threads"
import * as Engine from "../src/Engine.js"
import type * as LocalAdapter from "../src/LocalAdapter.js"
import * as LocalModel from "../src/LocalModel.js"
import * as NodeEngine from "../src/NodeEngine.js"

// Threads load their modules one by one, and a busy machine takes its time over that.
const timeout = 120_000

const data = Array.from({ length: 9 }, (_, index) => {
  const length = 40 + index * 13
  const tokens = Int32Array.from({ length: length + 1 }, (_, i) => (i * 37 + index * 91 + (i * i) % 53) % 256)
  return { tokens: tokens.slice(0, -1), lossInputs: { target_tokens: { data: tokens.slice(1), shape: [length] } } }
})

/** Everything an engine computes in a short run, to the bit. */
const run = Effect.gen(function*() {
  const engine = yield* Engine.Engine
  const baseModel = LocalModel.tiny.name
  const adapter = yield* engine.createAdapter({ baseModel, rank: 8, seed: 1 })
  const losses: Array<unknown> = []
  for (let step = 0; step < 3; step++) {
    losses.push(yield* adapter.forwardBackward({ data, loss: "cross_entropy" }))
    losses.push(yield* adapter.optimStep({ learningRate: 5e-4 }))
  }
  const snapshot = yield* adapter.snapshot()
  const sampler = yield* engine.sampler(snapshot)
  const samples = yield* Effect.forEach([1, 2, 3, 4], (seed) =>
    sampler.sample({
      prompt: [97, 98, 99],
      numSamples: seed,
      promptLogprobs: true,
      params: { maxTokens: 12, seed, stop: [] }
    }), { concurrency: "unbounded" })
  const live = yield* Stream.runCollect(
    yield* sampler.stream({ prompt: [97, 98, 99], params: { maxTokens: 12, seed: 1, stop: [] } })
  )
  return {
    threads: engine.threads,
    losses,
    snapshot,
    samples,
    live: Array.from(live).flatMap((one) => [...one.tokens])
  }
})

/** Losses of a few steps. */
const train = Effect.fnUntraced(function*(engine: Engine.Service, given?: LocalAdapter.Adapter) {
  const adapter = given ?? (yield* engine.createAdapter({ baseModel: LocalModel.tiny.name, rank: 8, seed: 1 }))
  const losses: Array<unknown> = []
  for (let step = 0; step < 2; step++) {
    losses.push(yield* adapter.forwardBackward({ data, loss: "cross_entropy" }), yield* adapter.optimStep())
  }
  return losses
})

/** How many threads of this process let others go first; the name of a thread may have spaces, what follows it has none. */
const steppedBack = (): number =>
  readdirSync("/proc/self/task").filter((thread) => {
    const fields = readFileSync(`/proc/self/task/${thread}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? []
    return Number(fields[16]) === constants.priority.PRIORITY_BELOW_NORMAL
  }).length

describe("NodeEngine", () => {
  it.live(
    "the same bits in this thread, on one worker and on three; samples run beside each other",
    () =>
      Effect.gen(function*() {
        for (const [mode, counts] of [["native", [1, 3]], ["wasm", [3]]] as const) {
          // parts of 64 tokens, so that there is something to share between the threads
          const options = { models: [LocalModel.tiny], partTokens: 64, mode }
          const here = yield* Effect.provide(run, NodeEngine.layerFor(options))
          assert.strictEqual(here.threads, 1)
          assert.deepStrictEqual(here.live, Array.from(here.samples[0]?.sequences[0]?.tokens ?? []))
          for (const threads of counts) {
            const there = yield* Effect.provide(run, NodeEngine.layer({ ...options, threads }))
            assert.deepStrictEqual(there, { ...here, threads })
          }
        }
      }),
    timeout
  )

  it.scopedLive(
    "a thread that ends fails what it was doing, and the next request finds another in its place",
    () =>
      Effect.gen(function*() {
        const workers: Array<Worker> = []
        const started = (worker: Worker): void => {
          workers.push(worker)
        }
        yield* Effect.acquireRelease(
          Effect.sync(() => process.on("worker", started)),
          () => Effect.sync(() => process.off("worker", started))
        )
        const expected = yield* Effect.provide(
          Effect.flatMap(Engine.Engine, (engine) => train(engine)),
          NodeEngine.layerFor({ models: [LocalModel.tiny] })
        )
        const context = yield* Layer.build(NodeEngine.layer({ models: [LocalModel.tiny], threads: 1 }))
        const threaded = Context.get(context, Engine.Engine)
        yield* threaded.load(LocalModel.tiny.name)
        // the thread of the event loop keeps its priority; only Linux has priorities of threads
        if (process.platform === "linux") assert.strictEqual(steppedBack(), 1)
        const sampler = yield* threaded.sampler(LocalModel.tiny.name)
        const endless = sampler.sample({
          prompt: [97],
          numSamples: 64,
          params: { maxTokens: 1000, seed: 1, stop: [] }
        })
        const live = yield* sampler.stream({ prompt: [97], params: { maxTokens: 1000, seed: 1, stop: [] } })
        const adapter = yield* threaded.createAdapter({ baseModel: LocalModel.tiny.name, rank: 8, seed: 1 })
        const long = Array.from({ length: 200 }, () => data).flat()
        // all are in flight when the first tokens arrive, long before any of them could be done
        const begun = yield* Deferred.make<void>()
        const fibers = yield* Effect.forEach([
          Effect.asVoid(endless),
          Effect.asVoid(adapter.forwardBackward({ data: long, loss: "cross_entropy" })),
          Stream.runForEach(live, () => Deferred.succeed(begun, undefined))
        ], (operation) => Effect.fork(operation))
        yield* Deferred.await(begun)
        yield* Effect.promise(() => workers[0]?.terminate() ?? Promise.resolve(0))
        for (const fiber of fibers) {
          const error = yield* Effect.flip(Fiber.join(fiber))
          assert.strictEqual(error._tag, "ThreadLost")
          assert.include(error.message, "nothing was changed")
        }
        // the adapter is what it was, and everything computes as if nothing had happened
        assert.deepStrictEqual(yield* train(threaded, adapter), expected)
        assert.strictEqual(workers.length, 2)
        // the end of a thread is logged as a warning, with its cause
      }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger))),
    timeout
  )

  it.scopedLive(
    "weights that are published reach running samples on every thread; later samples run on them or newer ones",
    () =>
      Effect.gen(function*() {
        const context = yield* Layer.build(NodeEngine.layer({ models: [LocalModel.tiny], threads: 2 }))
        const engine = Context.get(context, Engine.Engine)
        // the last layer alone: keys and values are the same under all its weights
        const adapter = yield* engine.createAdapter({
          baseModel: LocalModel.tiny.name,
          rank: 8,
          seed: 1,
          trainAttn: false,
          trainMlp: false
        })
        const before = yield* adapter.snapshot()
        yield* train(engine, adapter)
        const after = yield* adapter.snapshot()
        const target = yield* engine.target(before)
        const sampler = yield* target.sampler
        const prompt = [97, 98, 99]
        const request = { prompt, params: { maxTokens: 900, seed: 1, stop: [] } }
        const running = yield* Effect.forEach([1, 2], () =>
          Effect.gen(function*() {
            const begun = yield* Deferred.make<void>()
            const fiber = yield* Effect.fork(Stream.runCollect(
              Stream.tap(yield* sampler.stream(request), () => Deferred.succeed(begun, undefined))
            ))
            yield* Deferred.await(begun)
            return fiber
          }))
        yield* target.publish(after)
        const frozen = yield* engine.sampler(after)
        const again = { prompt: [100, 101], params: { maxTokens: 20, seed: 1, stop: [] } }
        assert.deepStrictEqual(yield* sampler.sample(again), yield* frozen.sample(again))
        const [expected] = (yield* (yield* engine.sampler(before)).sample(request)).sequences
        for (const fiber of running) {
          const slices = [...yield* Fiber.join(fiber)]
          const tokens = slices.flatMap((slice) => [...slice.tokens])
          const logprobs = slices.flatMap((slice) => [...slice.logprobs])
          const switched = logprobs.findIndex((value, i) => value !== expected?.logprobs[i])
          assert.isAbove(switched, 0)
          const read = yield* frozen.sample({
            prompt: [...prompt, ...tokens],
            promptLogprobs: true,
            params: { maxTokens: 0 }
          })
          const scored = Array.from(read.promptLogprobs ?? []).slice(prompt.length)
          assert.deepStrictEqual(logprobs.slice(switched), scored.slice(switched))
        }
      }),
    timeout
  )
})
