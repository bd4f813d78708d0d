import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Fiber, Stream } from "effect"
import { makeLora } from "../../src/internal/engine/architecture.js"
import type { Frozen } from "../../src/internal/engine/frozen.js"
import { makeRandom } from "../../src/internal/engine/numbers.js"
import { checkQuery } from "../../src/internal/engine/requests.js"
import { makeSlices } from "../../src/internal/engine/slices.js"
import type { Space } from "../../src/internal/engine/space.js"
import type { AdapterJob, SampleJob } from "../../src/internal/engine/thread.js"
import { makeModelThread } from "../../src/internal/engine/thread.js"
import { tokenBytesOf } from "../../src/internal/engine/weights.js"
import { makeTestSpace, microQwen, native, randomArray } from "./support.js"

/** A model on a thread, and how often the output layer's weights were read. */
const subject = (mode: "native" | "wasm" | "js", mergedFloats: number, quantize?: "int8") => {
  const space = makeTestSpace({ ...microQwen, quantize }, mode, { mergedFloats })
  let reads = 0
  const multiply: Frozen["multiply"] = (projection, first, ...rest) => {
    if (projection === space.architecture.unembed && first === 0) reads++
    space.frozen.multiply(projection, first, ...rest)
  }
  const counted: Space = { ...space, frozen: { ...space.frozen, multiply } }
  const settings = { rank: 8, groups: ["attn", "mlp", "unembed"] as const }
  const { size } = makeLora(space.architecture, settings)
  const adapter = (key: number): AdapterJob => ({
    key,
    lora: settings,
    values: randomArray(size, makeRandom(key).next, 0.1)
  })
  const slices = Effect.runSync(makeSlices({ sliceMillis: 0, pause: Effect.yieldNow() }))
  const thread = makeModelThread(slices, counted, tokenBytesOf(microQwen), mode === "native" ? native : undefined)
  return { adapter, thread, reads: () => reads }
}

const job = (
  adapter: AdapterJob | undefined,
  seed: number,
  length: number,
  samples = 1,
  maxTokens = 20
): SampleJob => ({
  adapter,
  seed,
  query: Either.getOrThrow(checkQuery(microQwen, {
    prompt: Array.from({ length }, (_, i) => (seed * 7 + i * 5) % microQwen.vocabularySize),
    numSamples: samples,
    params: { maxTokens, stop: [] }
  }))
})

const modes = (["native", "wasm", "js"] as const).filter((mode) => mode !== "native" || native !== undefined)

describe.each(modes)("requests at once, computed by %s", (mode) => {
  for (
    const [name, mergedFloats, quantize] of [
      ["beside the weights", 0, undefined],
      ["multiplied into them", 1e9, undefined],
      ["beside weights of eight bits", 0, "int8"]
    ] as const
  ) {
    it.effect(`adapters ${name}: each has the tokens and logprobs that it has alone`, () =>
      Effect.gen(function*() {
        const { adapter, thread } = subject(mode, mergedFloats, quantize)
        const adapters = [undefined, adapter(1), adapter(2), adapter(3)]
        const jobs = Array.from({ length: 9 }, (_, i) => job(adapters[i % 4], i, 3 + 2 * i, 1 + i % 3))
        const alone = yield* Effect.forEach(jobs, thread.sample)
        const together = yield* Effect.forEach(jobs, thread.sample, { concurrency: "unbounded" })
        assert.deepStrictEqual(together, alone)
        assert.strictEqual(new Set(alone.map((result) => result?.sequences[0]?.tokens.join())).size, jobs.length)
      }))
  }

  it.effect("the frozen weights are read once for the tokens of all, whatever their adapters", () =>
    Effect.gen(function*() {
      const { adapter, reads, thread } = subject(mode, 0)
      const tokens = 80
      const jobs = [undefined, adapter(1), adapter(2), adapter(3)].map((own, i) => job(own, i, 4, 1, tokens))
      yield* Effect.forEach(jobs, thread.sample)
      const apart = reads()
      assert.strictEqual(apart, jobs.length * tokens)
      yield* Effect.forEach(jobs, thread.sample, { concurrency: "unbounded" })
      // who comes while another draws waits for up to sixteen tokens
      assert.isBelow(reads() - apart, apart / 2)
    }))

  it.effect("one that is interrupted, or stops earlier, leaves the others as they are", () =>
    Effect.gen(function*() {
      const { adapter, thread } = subject(mode, 0)
      const jobs = Array.from({ length: 4 }, (_, i) => job(adapter(i + 1), i, 5))
      const alone = yield* Effect.forEach(jobs, thread.sample)
      const leader = yield* Effect.fork(thread.sample(job(undefined, 50, 9, 3)))
      const fibers = yield* Effect.forEach(jobs, (one) => Effect.fork(thread.sample(one)))
      const follower = yield* Effect.fork(thread.sample(job(adapter(9), 51, 9)))
      const stream = yield* Effect.fork(Stream.runCollect(Stream.take(thread.stream(job(adapter(8), 52, 4)), 2)))
      yield* Effect.forEach(Array.from({ length: 30 }), () => Effect.yieldNow())
      yield* Fiber.interrupt(leader)
      yield* Fiber.interrupt(follower)
      yield* Fiber.join(stream)
      const together = yield* Fiber.join(Fiber.all(fibers))
      assert.deepStrictEqual(together, alone)
    }))
})
