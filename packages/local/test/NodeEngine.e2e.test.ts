import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as Engine from "../src/Engine.js"
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

describe("NodeEngine", () => {
  it.live(
    "the same bits in this thread, on one worker and on three; samples run beside each other",
    () =>
      Effect.gen(function*() {
        // parts of 64 tokens, so that there is something to share between the threads
        const options = { models: [LocalModel.tiny], partTokens: 64 }
        const here = yield* Effect.provide(run, Engine.layer(options))
        assert.strictEqual(here.threads, 1)
        assert.deepStrictEqual(here.live, Array.from(here.samples[0]?.sequences[0]?.tokens ?? []))
        for (const threads of [1, 3]) {
          const there = yield* Effect.provide(run, NodeEngine.layer({ ...options, threads }))
          assert.deepStrictEqual(there, { ...here, threads })
        }
      }),
    timeout
  )
})
