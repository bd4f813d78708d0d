import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import * as Engine from "../src/Engine.js"
import type * as LocalAdapter from "../src/LocalAdapter.js"
import type * as LocalSampler from "../src/LocalSampler.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import { micro } from "./engine/support.js"

const prompt = LocalTokenizer.encode("the river runs ")

/** One engine for all: samplers are frozen, so that tests cannot disturb each other. */
const sampler = Effect.flatMap(Engine.make({ models: [micro] }), (engine) => engine.sampler(micro.name))

const one = Effect.fnUntraced(function*(request: Partial<LocalSampler.Request>) {
  const result = yield* Effect.flatMap(sampler, (made) => made.sample({ prompt, ...request }))
  const [sequence] = result.sequences
  return sequence === undefined ? assert.fail("no sequence") : { ...result, sequence }
})

describe("LocalSampler", () => {
  it.effect("length: no more tokens than asked for, none if none, and never beyond the context", () =>
    Effect.gen(function*() {
      const some = yield* one({ params: { maxTokens: 7, seed: 1, stop: [] } })
      assert.strictEqual(some.sequence.tokens.length, 7)
      assert.strictEqual(some.sequence.logprobs.length, 7)
      assert.strictEqual(some.sequence.stopReason, "length")
      assert.isTrue(some.sequence.logprobs.every((value) => Number.isFinite(value) && value <= 0))
      assert.strictEqual((yield* one({ params: { maxTokens: 0 } })).sequence.tokens.length, 0)
      const full = yield* one({ params: { maxTokens: 1000, seed: 1, stop: [] } })
      assert.strictEqual(full.sequence.tokens.length, micro.contextLength - prompt.length)
      const unbounded = yield* one({ params: { seed: 1, stop: [] } })
      assert.deepStrictEqual(unbounded.sequence.tokens, full.sequence.tokens)
      // Turns of sixteen tokens are seamless.
      assert.deepStrictEqual(full.sequence.tokens.slice(0, 7), some.sequence.tokens)
    }))

  it.effect("many samples, each its own, in the order of their seeds: each is what a request with its seed alone gives", () =>
    Effect.gen(function*() {
      const many = yield* one({ numSamples: 40, params: { maxTokens: 40, seed: 1, stop: [] } })
      assert.strictEqual(many.sequences.length, 40)
      assert.strictEqual(new Set(many.sequences.map(({ tokens }) => tokens.join())).size, 40)
      const few = yield* one({ numSamples: 2, params: { maxTokens: 40, seed: 1, stop: [] } })
      assert.deepStrictEqual(few.sequences.map(({ tokens }) => tokens), many.sequences.slice(0, 2).map((s) => s.tokens))
      // Around a whole number of panels of the kernels, so that prompts are read in all the ways there are.
      for (const length of [1, 7, 8, 9, 15]) {
        const short = prompt.subarray(0, length)
        const together = yield* one({ prompt: short, numSamples: 5, params: { maxTokens: 40, seed: 11, stop: [] } })
        for (const [n, sequence] of together.sequences.entries()) {
          const alone = yield* one({ prompt: short, params: { maxTokens: 40, seed: 11 + n, stop: [] } })
          assert.deepStrictEqual(alone.sequence.tokens, sequence.tokens)
          assert.deepStrictEqual(alone.sequence.logprobs, sequence.logprobs)
        }
      }
      const last = Number.MAX_SAFE_INTEGER
      const far = yield* one({ numSamples: 4, params: { maxTokens: 40, seed: last - 1, stop: [] } })
      assert.strictEqual(new Set(far.sequences.map(({ tokens }) => tokens.join())).size, 4)
      // Without stops: two samples that end at once are equal now and then.
      const unseeded = one({ params: { maxTokens: 20, stop: [] } })
      const chance = yield* Effect.all([unseeded, unseeded])
      assert.notDeepEqual(chance[0].sequence.tokens, chance[1].sequence.tokens)
    }))

  it.effect("stops: at given tokens and strings, which are the last thing written; [] stops nowhere", () =>
    Effect.gen(function*() {
      const free = yield* one({ params: { maxTokens: 60, seed: 3, stop: [] } })
      const written = Array.from(free.sequence.tokens)
      const token = written[12] ?? 0
      const byToken = yield* one({ params: { maxTokens: 60, seed: 3, stop: [token] } })
      assert.deepStrictEqual(Array.from(byToken.sequence.tokens), written.slice(0, written.indexOf(token) + 1))
      assert.strictEqual(byToken.sequence.stopReason, "stop")
      const text = LocalTokenizer.decode(written.slice(20, 23))
      const byText = yield* one({ params: { maxTokens: 60, seed: 3, stop: ["never to be seen", text] } })
      const end = LocalTokenizer.decode(written).indexOf(text) + text.length
      assert.strictEqual(LocalTokenizer.decode(byText.sequence.tokens), LocalTokenizer.decode(written).slice(0, end))
      assert.strictEqual(byText.sequence.stopReason, "stop")
      const single = yield* one({ params: { maxTokens: 60, seed: 3, stop: text } })
      assert.deepStrictEqual(single.sequence.tokens, byText.sequence.tokens)
    }))

  it.effect("without stops of its own, a request stops at the end tokens", () =>
    Effect.gen(function*() {
      const after = LocalTokenizer.encode("broom.")
      const params = { maxTokens: 60, seed: 5 }
      const ended = yield* one({ prompt: after, numSamples: 40, params })
      const stopped = ended.sequences.filter(({ stopReason }) => stopReason === "stop")
      assert.isAbove(stopped.length, 0)
      for (const { tokens } of stopped) {
        assert.include(LocalTokenizer.endTokens, tokens[tokens.length - 1] ?? -1)
        assert.isFalse(tokens.slice(0, -1).some((token) => LocalTokenizer.endTokens.includes(token)))
      }
      const endless = yield* one({ prompt: after, numSamples: 40, params: { ...params, stop: [] } })
      assert.isTrue(endless.sequences.every(({ stopReason }) => stopReason === "length"))
    }))

  it.effect("temperature 0, top_k 1 and a tiny top_p all take the most likely token", () =>
    Effect.gen(function*() {
      const greedy = yield* one({ topkSampleLogprobs: 3, params: { maxTokens: 10, temperature: 0, stop: [] } })
      const { sequence: { logprobs, tokens, topk } } = greedy
      tokens.forEach((token, i) => {
        assert.strictEqual(topk?.tokenIds[i * 3], token)
        assert.strictEqual(topk?.logprobs[i * 3], logprobs[i])
        assert.isAtLeast(topk?.logprobs[i * 3] ?? 0, topk?.logprobs[i * 3 + 1] ?? 0)
      })
      assert.deepInclude(topk, { k: 3, length: 10 })
      for (const params of [{ topK: 1 }, { topP: 1e-9 }]) {
        const same = yield* one({ params: { maxTokens: 10, seed: 9, stop: [], ...params } })
        assert.deepStrictEqual(same.sequence.tokens, tokens)
      }
    }))

  it.effect("scores of the prompt: logprobs, the best k, chosen targets, the last n", () =>
    Effect.gen(function*() {
      const size = prompt.length
      const targets = Int32Array.from({ length: (size - 1) * 2 }, (_, cell) =>
        cell % 2 === 0 ? prompt[cell / 2 + 1] ?? 0 : cell === 1 ? -1 : 97)
      const result = yield* one({
        promptLogprobs: true,
        topkPromptLogprobs: 264,
        targetPromptLogprobs: { data: targets, shape: [size - 1, 2] },
        params: { maxTokens: 1 }
      })
      const { promptLogprobs, targetPromptLogprobs, topkPromptLogprobs: top } = result
      if (promptLogprobs === undefined || targetPromptLogprobs === undefined || top === undefined) {
        return assert.fail()
      }
      assert.isNaN(promptLogprobs[0])
      assert.deepStrictEqual(targetPromptLogprobs.shape, [size - 1, 2])
      assert.strictEqual(targetPromptLogprobs.data[1], 0)
      assert.deepStrictEqual(Array.from(top.tokenIds.slice(0, 3)), [0, 0, 0])
      assert.isTrue(
        top.logprobs.slice(0, 264).every((value) =>
          value === -99999
        )
      )
      for (let i = 1; i < size; i++) {
        assert.strictEqual(targetPromptLogprobs.data[(i - 1) * 2], promptLogprobs[i])
        const row = top.logprobs.slice(i * 264, (i + 1) * 264)
        assert.approximately(row.reduce((sum, value) => sum + Math.exp(value), 0), 1, 1e-4)
        const place = top.tokenIds.slice(i * 264, (i + 1) * 264).indexOf(prompt[i] ?? -1)
        assert.strictEqual(row[place], promptLogprobs[i])
      }
      const last = yield* one({ promptLogprobs: true, promptLogprobsLastN: 3, topkPromptLogprobs: 2 })
      last.promptLogprobs?.forEach((value, i) => {
        if (i < size - 3) assert.isNaN(value)
        else assert.approximately(value, promptLogprobs[i] ?? NaN, 1e-6)
        assert.strictEqual(last.topkPromptLogprobs?.logprobs[i * 2] === -99999, i < size - 3)
      })
    }))

  it.effect("alternatives follow the distribution at each position", () =>
    Effect.gen(function*() {
      const k = 400
      const { promptAltTokens: drawn, topkPromptLogprobs: top } = yield* one({
        topkPromptLogprobs: 1,
        promptAltTokensK: k,
        params: { maxTokens: 1, seed: 1 }
      })
      if (drawn === undefined || top === undefined) return assert.fail()
      assert.deepStrictEqual(drawn.shape, [prompt.length - 1, k])
      for (let i = 1; i < prompt.length; i++) {
        const row = drawn.tokens.slice((i - 1) * k, i * k)
        const share = row.filter((token) => token === top.tokenIds[i]).length / k
        assert.approximately(share, Math.exp(top.logprobs[i] ?? NaN), 0.12)
      }
      const greedy = yield* one({
        topkPromptLogprobs: 1,
        promptAltTokensK: 2,
        params: { maxTokens: 1, temperature: 0 }
      })
      assert.strictEqual(greedy.promptAltTokens?.tokens[0], top.tokenIds[1])
    }))

  it.effect("refuses what makes no sense, in words", () =>
    Effect.gen(function*() {
      const refusals: ReadonlyArray<readonly [Partial<LocalSampler.Request>, string]> = [
        [{ prompt: [] }, "the prompt is empty"],
        [{ prompt: [1, 2, 300] }, "token 300 at position 2"],
        [{ prompt: new Int32Array(97) }, "97 tokens does not fit into the 96"],
        [{ numSamples: 0 }, "num_samples is 0"],
        [{ params: { maxTokens: -1 } }, "max_tokens is -1"],
        [{ params: { temperature: -1 } }, "temperature is -1"],
        [{ params: { temperature: NaN } }, "temperature is NaN"],
        [{ params: { topP: 0 } }, "top_p is 0"],
        [{ params: { topK: -3 } }, "top_k is -3"],
        [{ params: { seed: 0.5 } }, "seed is 0.5"],
        [{ params: { stop: [""] } }, "an empty string"],
        [{ promptLogprobsLastN: 1 }, "needs prompt_logprobs"],
        [{ promptLogprobs: true, promptLogprobsLastN: prompt.length }, "expected 1 to"],
        [{ targetPromptLogprobs: { data: [1], shape: [1, 1] } }, "expected [14, K]"],
        [{ promptAltTokensK: -1 }, "prompt_alt_tokens_k is -1"]
      ]
      for (const [request, words] of refusals) {
        const error = yield* Effect.flip(one(request))
        assert.strictEqual(error._tag, "InvalidRequest")
        assert.include(error.message, words)
      }
    }))

  it.effect("read along: the same tokens, slice by slice, and none that nobody asked for", () =>
    Effect.gen(function*() {
      let steps = 0
      const engine = yield* Engine.make({
        models: [micro],
        sliceMillis: 0,
        pause: Effect.sync(() => void steps++)
      })
      const sampler = yield* engine.sampler(micro.name)
      const request = { prompt, numSamples: 3, params: { maxTokens: 50, seed: 5, stop: ["e"] } }
      const { sequences } = yield* sampler.sample(request)
      const slices = Array.from(yield* Stream.runCollect(yield* sampler.stream(request)))
      assert.isAbove(slices.length, sequences.length)
      for (const [index, { logprobs, stopReason, tokens }] of sequences.entries()) {
        const own = slices.filter((slice) => slice.index === index)
        assert.deepStrictEqual(own.flatMap((slice) => Array.from(slice.tokens)), Array.from(tokens))
        assert.deepStrictEqual(own.flatMap((slice) => Array.from(slice.logprobs)), Array.from(logprobs))
        assert.deepStrictEqual(own.map((slice) => slice.stopReason).filter((reason) => reason !== undefined), [
          stopReason
        ])
      }
      const long = { prompt, params: { maxTokens: 100, seed: 5, stop: [] } }
      const all = yield* Stream.runCount(yield* sampler.stream(long))
      steps = 0
      yield* Stream.runDrain(Stream.take(yield* sampler.stream(long), all))
      const whole = steps
      steps = 0
      yield* Stream.runDrain(Stream.take(yield* sampler.stream(long), 2))
      assert.isBelow(steps, whole / 4)
      const nothing = yield* sampler.stream({ prompt, params: { maxTokens: 0 } })
      assert.deepStrictEqual(
        Array.from(yield* Stream.runCollect(nothing), ({ stopReason, tokens }) => [tokens.length, stopReason]),
        [[0, "length"]]
      )
    }))

  describe("weights that change", () => {
    /** An adapter of the last layer alone: keys and values are the same under all its weights. */
    const learner = (engine: Engine.Service, seed = 1) =>
      engine.createAdapter({ baseModel: micro.name, rank: 4, seed, trainAttn: false, trainMlp: false })

    const learn = Effect.fnUntraced(function*(adapter: LocalAdapter.Adapter, learningRate = 0.05) {
      const data = [{
        tokens: prompt.slice(0, -1),
        lossInputs: { target_tokens: { data: prompt.slice(1), shape: [prompt.length - 1] } }
      }]
      yield* adapter.forwardBackward({ data, loss: "cross_entropy" })
      yield* adapter.optimStep({ learningRate })
      return yield* adapter.snapshot({ optimizer: false })
    })

    const params = { maxTokens: 40, seed: 5, stop: [] }

    it.effect("a running request goes on with the weights that were published, from a token on", () =>
      Effect.gen(function*() {
        const engine = yield* Engine.make({ models: [micro] })
        const adapter = yield* learner(engine)
        const before = yield* learn(adapter)
        const after = yield* learn(adapter)
        const target = yield* engine.target(before)
        const pull = yield* Stream.toPull(yield* (yield* target.sampler).stream({ prompt, params }))
        const slices = [...yield* pull]
        yield* target.publish(after)
        const drained = yield* Stream.runCollect(Stream.fromPull(Effect.succeed(pull)))
        slices.push(...drained)
        const tokens = slices.flatMap((slice) => [...slice.tokens])
        const logprobs = slices.flatMap((slice) => [...slice.logprobs])
        assert.strictEqual(tokens.length, 40)
        const old = yield* engine.sampler(before)
        const [alone] = (yield* old.sample({ prompt, params })).sequences
        const switched = logprobs.findIndex((value, i) => value !== alone?.logprobs[i])
        assert.isAbove(switched, 0)
        // what a sampler of the new weights says of the same tokens
        const read = yield* (yield* engine.sampler(after)).sample({
          prompt: [...prompt, ...tokens],
          promptLogprobs: true,
          params: { maxTokens: 0 }
        })
        const scored = Array.from(read.promptLogprobs ?? []).slice(prompt.length)
        assert.deepStrictEqual(logprobs.slice(switched), scored.slice(switched))
        assert.notStrictEqual(scored[switched - 1], logprobs[switched - 1])
      }).pipe(Effect.scoped))

    it.effect("every sampler reuses what its own requests have read, after a publication too, and nothing of others", () =>
      Effect.gen(function*() {
        const engine = yield* Engine.make({ models: [micro] })
        const weights = yield* (yield* learner(engine)).snapshot()
        const target = yield* engine.target(weights)
        const reusedBy = (sampler: LocalSampler.Sampler) =>
          Effect.gen(function*() {
            const before = yield* engine.reusedTokens(micro.name)
            yield* sampler.sample({ prompt, params: { maxTokens: 0 } })
            return (yield* engine.reusedTokens(micro.name)) - before
          })
        const first = yield* target.sampler
        assert.strictEqual(yield* reusedBy(first), 0)
        assert.strictEqual(yield* reusedBy(first), prompt.length - 1)
        // the same weights once more
        yield* target.publish(weights)
        const second = yield* target.sampler
        assert.strictEqual(yield* reusedBy(second), 0)
        assert.strictEqual(yield* reusedBy(first), prompt.length - 1)
        assert.strictEqual(yield* reusedBy(second), prompt.length - 1)
      }))

    it.effect("weights of another model are refused, and the samplers keep theirs", () =>
      Effect.gen(function*() {
        const engine = yield* Engine.make({ models: [micro] })
        const weights = yield* learn(yield* learner(engine))
        const target = yield* engine.target(weights)
        const sampler = yield* target.sampler
        const before = yield* sampler.sample({ prompt, params })
        const error = yield* Effect.flip(target.publish({ ...weights, baseModel: "local/other" }))
        assert.strictEqual(error._tag, "InvalidRequest")
        assert.deepStrictEqual(yield* sampler.sample({ prompt, params }), before)
      }))

    it.effect("weights without probabilities end what runs on them", () =>
      Effect.gen(function*() {
        const engine = yield* Engine.make({ models: [micro], sliceMillis: 0 })
        const adapter = yield* learner(engine)
        const weights = yield* learn(adapter)
        const target = yield* engine.target(weights)
        const sampler = yield* target.sampler
        const broken = {
          ...weights,
          weights: weights.weights.map((tensor) => ({ ...tensor, data: tensor.data.map(() => Number.NaN) }))
        }
        const running = yield* Effect.fork(sampler.sample({ prompt, params: { maxTokens: 80, seed: 1, stop: [] } }))
        // the request has begun when this one has had its turn
        yield* sampler.sample({ prompt, params: { maxTokens: 1, seed: 1 } })
        yield* target.publish(broken)
        const error = yield* Effect.flip(Fiber.join(running))
        assert.strictEqual(error._tag, "NotFinite")
      }))
  })
})
