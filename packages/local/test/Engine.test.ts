import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Fiber, TestClock } from "effect"
import * as Engine from "../src/Engine.js"
import { makeArchitecture } from "../src/internal/engine/architecture.js"
import { makeLayout } from "../src/internal/engine/space.js"
import type * as LocalAdapter from "../src/LocalAdapter.js"
import type * as LocalSampler from "../src/LocalSampler.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import { micro } from "./engine/support.js"

const text = "the cat sat on the mat and the dog sat on the log"

/** A prompt that does not count and a completion that does. */
const datum = (prompt: string, completion: string): LocalAdapter.Datum => {
  const tokens = [...LocalTokenizer.encode(prompt), ...LocalTokenizer.encode(completion)]
  const counted = tokens.map((_, i) => i < LocalTokenizer.encode(prompt).length ? 0 : 1)
  const shape = [tokens.length - 1]
  return {
    tokens: tokens.slice(0, -1),
    lossInputs: {
      target_tokens: { data: tokens.slice(1), shape },
      weights: { data: counted.slice(1), shape }
    }
  }
}

const policyDatum = (prompt: Int32Array, sequence: LocalSampler.Sequence, advantage: number): LocalAdapter.Datum => {
  const tokens = [...prompt, ...sequence.tokens]
  const shape = [tokens.length - 1]
  const before = Array.from({ length: prompt.length - 1 }, () => 0)
  return {
    tokens: tokens.slice(0, -1),
    lossInputs: {
      target_tokens: { data: tokens.slice(1), shape },
      logprobs: { data: [...before, ...sequence.logprobs], shape },
      advantages: { data: [...before, ...sequence.tokens].map((_, i) => i < before.length ? 0 : advantage), shape }
    }
  }
}

const makeMicro = Engine.make({ models: [micro] })

const close = (left: Float32Array | undefined, right: Float32Array | undefined, tolerance: number): void => {
  assert.strictEqual(left?.length, right?.length)
  const worst = left?.reduce((most, value, i) => Math.max(most, Math.abs(value - (right?.[i] ?? NaN))), 0)
  assert.isAtMost(worst ?? NaN, tolerance)
}

const train = Effect.fnUntraced(
  function*(
    adapter: LocalAdapter.Adapter,
    data: ReadonlyArray<LocalAdapter.Datum>,
    steps: number,
    learningRate = 5e-4
  ) {
    const losses: Array<number> = []
    for (let i = 0; i < steps; i++) {
      const { metrics } = yield* adapter.forwardBackward({ data, loss: "cross_entropy" })
      losses.push(metrics["loss:sum"] ?? NaN)
      yield* adapter.optimStep({ learningRate })
    }
    return losses
  }
)

describe("Engine", () => {
  it.effect("learns a few sentences by heart in a bounded number of steps", () =>
    Effect.gen(function*() {
      const engine = yield* Engine.make()
      const adapter = yield* engine.createAdapter({ baseModel: "local/tiny", rank: 32, seed: 1 })
      const data = [datum("cat:", " meow\n"), datum("dog:", " woof\n"), datum("cow:", " moo\n")]
      const losses = yield* train(adapter, data, 30)
      assert.isAbove(losses[0] ?? 0, 30)
      assert.isBelow(losses[29] ?? Infinity, 1.5)
      const sampler = yield* engine.sampler(yield* adapter.snapshot())
      for (const [prompt, completion] of [["cat:", " meow\n"], ["dog:", " woof\n"], ["cow:", " moo\n"]] as const) {
        const { sequences } = yield* sampler.sample({
          prompt: LocalTokenizer.encode(prompt),
          params: { maxTokens: 12, temperature: 0, stop: "\n" }
        })
        assert.strictEqual(LocalTokenizer.decode(sequences[0]?.tokens ?? []), completion)
        assert.strictEqual(sequences[0]?.stopReason, "stop")
      }
    }))

  for (const loss of ["importance_sampling", "ppo", "cispo", "dro"] as const) {
    it.effect(`${loss}: the reward climbs`, () =>
      Effect.gen(function*() {
        const engine = yield* Engine.make()
        const adapter = yield* engine.createAdapter({ baseModel: "local/tiny", rank: 32, seed: 1 })
        const prompt = LocalTokenizer.encode("say a: ")
        const reward = (sequence: LocalSampler.Sequence): number =>
          sequence.tokens.filter((token) => token === 97).length / sequence.tokens.length
        const rewards: Array<number> = []
        for (let round = 0; round < 12; round++) {
          const sampler = yield* engine.sampler(yield* adapter.snapshot({ optimizer: false }))
          const { sequences } = yield* sampler.sample({
            prompt,
            numSamples: 24,
            params: { maxTokens: 8, seed: round, stop: [] }
          })
          const scores = sequences.map(reward)
          const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length
          rewards.push(mean)
          const deviation = Math.sqrt(scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / scores.length) +
            1e-3
          const data = sequences.map((sequence, i) =>
            policyDatum(prompt, sequence, ((scores[i] ?? 0) - mean) / deviation)
          )
          yield* adapter.forwardBackward({ data, loss })
          yield* adapter.optimStep({ learningRate: 1e-3 })
        }
        assert.isBelow(rewards[0] ?? 1, 0.3)
        assert.isAbove(rewards[11] ?? 0, 0.6, rewards.map((value) => value.toFixed(2)).join(" "))
      }))
  }

  it.effect("a new adapter changes nothing, and sampling agrees with the forward pass before and after training", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      const base = yield* engine.sampler(micro.name)
      const prompt = LocalTokenizer.encode(text)
      const asked: LocalSampler.Request = { prompt, promptLogprobs: true, params: { maxTokens: 1, seed: 1 } }
      const compare = Effect.fnUntraced(function*(sampler: LocalSampler.Sampler) {
        const { promptLogprobs, sequences } = yield* sampler.sample({
          ...asked,
          params: { maxTokens: 30, seed: 4, stop: [] }
        })
        const whole = Int32Array.from([...prompt, ...(sequences[0]?.tokens ?? [])])
        const { outputs } = yield* adapter.forwardBackward({
          data: [{
            tokens: whole.slice(0, -1),
            lossInputs: { target_tokens: { data: whole.slice(1), shape: [whole.length - 1] } }
          }],
          loss: "cross_entropy",
          forwardOnly: true
        })
        const logprobs = outputs[0]?.["logprobs"]?.data
        assert.isNaN(promptLogprobs?.[0])
        close(promptLogprobs?.slice(1), logprobs?.slice(0, prompt.length - 1), 1e-4)
        close(sequences[0]?.logprobs, logprobs?.slice(prompt.length - 1), 1e-4)
        return promptLogprobs?.slice(1)
      })
      const untrained = yield* compare(base)
      yield* train(adapter, [datum("", text)], 3)
      const trained = yield* compare(yield* engine.sampler(yield* adapter.snapshot()))
      assert.notDeepEqual(trained, untrained)
    }))

  it.effect("the same seed gives the same weights and the same samples, another seed others", () =>
    Effect.gen(function*() {
      const run = Effect.fnUntraced(function*(seed: number) {
        const engine = yield* makeMicro
        const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed })
        yield* train(adapter, [datum("a ", text)], 3)
        const snapshot = yield* adapter.snapshot()
        const sampler = yield* engine.sampler(snapshot)
        const result = yield* sampler.sample({
          prompt: LocalTokenizer.encode("a "),
          numSamples: 3,
          params: { maxTokens: 10, seed, stop: [] }
        })
        return { snapshot, result }
      })
      const first = yield* run(1)
      assert.deepStrictEqual(yield* run(1), first)
      assert.notDeepEqual((yield* run(2)).result, first.result)
      const [one, two] = first.result.sequences
      assert.notDeepEqual(one?.tokens, two?.tokens)
    }))

  it.effect("a sample does not depend on the others in its batch or on work in between", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const sampler = yield* engine.sampler(micro.name)
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      const request: LocalSampler.Request = {
        prompt: LocalTokenizer.encode("the "),
        params: { maxTokens: 40, seed: 3, stop: [] }
      }
      const alone = yield* sampler.sample(request)
      const fibers = yield* Effect.forEach([1, 2, 3], (n) => Effect.fork(sampler.sample({ ...request, numSamples: n })))
      yield* train(adapter, [datum("", text)], 4)
      for (const fiber of fibers) {
        const { sequences } = yield* Fiber.join(fiber)
        assert.deepStrictEqual(sequences[0]?.tokens, alone.sequences[0]?.tokens)
        close(sequences[0]?.logprobs, alone.sequences[0]?.logprobs, 1e-5)
      }
    }))

  it.effect("gradients add up until a step; a step without a gradient and without momentum moves nothing", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const make = engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      const [one, two] = [datum("a", text), datum("b", text)]
      const together = yield* make
      yield* together.forwardBackward({ data: [one, two], loss: "cross_entropy" })
      const expected = yield* together.optimStep()
      const apart = yield* make
      yield* apart.forwardBackward({ data: [one], loss: "cross_entropy" })
      yield* apart.forwardBackward({ data: [two], loss: "cross_entropy", forwardOnly: true })
      yield* apart.forwardBackward({ data: [two], loss: "cross_entropy" })
      const step = yield* apart.optimStep()
      assert.approximately(step.metrics["grad_norm"] ?? NaN, expected.metrics["grad_norm"] ?? 0, 1e-3)
      const idle = yield* make
      const before = yield* idle.snapshot()
      assert.strictEqual((yield* idle.optimStep({ learningRate: 1 })).metrics["grad_norm"], 0)
      assert.deepStrictEqual((yield* idle.snapshot()).weights, before.weights)
    }))

  it.effect("a snapshot with the optimizer's state continues as if nothing had happened; a failed load changes nothing", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const data = [datum("a", text)]
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      yield* train(adapter, data, 4)
      const snapshot = yield* adapter.snapshot()
      const rest = yield* train(adapter, data, 4)
      const resumed = yield* engine.restoreAdapter(snapshot, { optimizer: true })
      assert.deepStrictEqual(yield* train(resumed, data, 4), rest)
      yield* resumed.load(snapshot, { optimizer: true })
      assert.deepStrictEqual(yield* train(resumed, data, 4), rest)
      const weightsOnly = yield* engine.restoreAdapter(snapshot)
      const fresh = yield* train(weightsOnly, data, 4)
      assert.strictEqual(fresh[0], rest[0])
      assert.notStrictEqual(fresh[3], rest[3])

      const other = yield* engine.createAdapter({ baseModel: micro.name, rank: 8, seed: 1 })
      const before = yield* other.snapshot()
      assert.include((yield* Effect.flip(other.load(snapshot))).message, "rank 4")
      assert.include(
        (yield* Effect.flip(resumed.load({ ...snapshot, weights: snapshot.weights.slice(1) }))).message,
        "layers.0.self_attn.q_proj.lora_A"
      )
      assert.deepStrictEqual(yield* other.snapshot(), before)
    }))

  it.effect("only the chosen groups are trained", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const adapter = yield* engine.createAdapter({
        baseModel: micro.name,
        seed: 1,
        trainAttn: false,
        trainUnembed: false
      })
      const losses = yield* train(adapter, [datum("a", text)], 5)
      assert.isBelow(losses[4] ?? Infinity, losses[0] ?? 0)
      const { weights } = yield* adapter.snapshot()
      assert.isTrue(weights.length > 0 && weights.every(({ name }) => name.includes(".mlp.")))
    }))

  it.effect("both kernels train to the same loss", () =>
    Effect.gen(function*() {
      const [wasm, js] = yield* Effect.forEach(["wasm", "js"] as const, (mode) =>
        Effect.gen(function*() {
          const engine = yield* Engine.make({ models: [micro], mode })
          assert.strictEqual(engine.mode, mode)
          const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
          return yield* train(adapter, [datum("a", text)], 5)
        }))
      wasm?.forEach((loss, i) => assert.approximately(loss, js?.[i] ?? NaN, 1e-2))
    }))

  it.effect("refuses what it cannot do, in words", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      const good = datum("a", "bc")
      const shape = [2]
      const pass = (
        change: Partial<LocalAdapter.Datum> & { readonly loss?: string; readonly config?: Record<string, number> }
      ) =>
        adapter.forwardBackward({
          data: [{ ...good, ...change }],
          loss: change.loss ?? "cross_entropy",
          config: change.config
        })
      const inputs = (lossInputs: Record<string, LocalAdapter.Tensor>) => ({
        lossInputs: { ...good.lossInputs, ...lossInputs }
      })
      const refusals: ReadonlyArray<readonly [Effect.Effect<unknown, { readonly message: string }>, string, string]> = [
        [engine.createAdapter({ baseModel: "gpt" }), "UnknownModel", "local/micro"],
        [engine.createAdapter({ baseModel: micro.name, rank: 0 }), "InvalidRequest", "rank is 0"],
        [engine.createAdapter({ baseModel: micro.name, optimizer: "dimuon" }), "EngineUnsupported", "dimuon"],
        [
          engine.createAdapter({ baseModel: micro.name, trainAttn: false, trainMlp: false, trainUnembed: false }),
          "InvalidRequest",
          "nothing to train"
        ],
        [pass({ tokens: [1, 264] }), "InvalidRequest", "token 264 at position 1"],
        [pass({ tokens: new Int32Array(97) }), "InvalidRequest", "97 tokens do not fit into the 96"],
        [pass({ tokens: [] }), "InvalidRequest", "empty"],
        [pass(inputs({ weights: { data: [1], shape: [1] } })), "InvalidRequest", "weights has shape [1]"],
        [pass(inputs({ weights: { data: [1], shape } })), "InvalidRequest", "1 values do not fill the shape [2]"],
        [pass(inputs({ weights: { data: [1, NaN], shape } })), "InvalidRequest", "position 1 is NaN"],
        [pass(inputs({ mask: { data: [1, 1], shape } })), "InvalidRequest", "not mask"],
        [pass({ lossInputs: {} }), "InvalidRequest", "target_tokens is missing"],
        [pass({ loss: "ppo" }), "InvalidRequest", "not weights"],
        [pass({ loss: "gspo" }), "InvalidRequest", "not weights"],
        [pass({ loss: "grpo" }), "EngineUnsupported", "no loss \"grpo\""],
        [pass({ loss: "stable_reinforce" }), "EngineUnsupported", "its formula is not public"],
        [pass({ config: { beta: 1 } }), "InvalidRequest", "no setting beta"],
        [adapter.forwardBackward({ data: [], loss: "cross_entropy" }), "InvalidRequest", "no data"],
        [adapter.optimStep({ learningRate: NaN }), "InvalidRequest", "learningRate is NaN"],
        [adapter.optimStep({ type: "dimuon" }), "EngineUnsupported", "dimuon"]
      ]
      for (const [effect, tag, words] of refusals) {
        const answer = yield* Effect.either(effect)
        assert.isTrue(Either.isLeft(answer), words)
        if (Either.isLeft(answer)) {
          assert.propertyVal(answer.left, "_tag", tag)
          assert.include(answer.left.message, words)
        }
      }
    }))

  it.effect("gspo is importance sampling with the mean ratio of the marked tokens; a mask is needed", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const tokens = [1, 2, 3, 4, 5, 6]
      const shape = [tokens.length]
      const floats = (data: ReadonlyArray<number>) => ({ data, shape })
      const target = { target_tokens: { data: [2, 3, 4, 5, 6, 7], shape } }
      const norm = Effect.fnUntraced(function*(loss: string, inputs: LocalAdapter.Datum["lossInputs"]) {
        const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
        const data = [{ tokens, lossInputs: { ...target, ...inputs } }]
        const config = loss === "gspo" ? { clip_low_threshold: 0.5, clip_high_threshold: 2 } : undefined
        const { metrics, outputs } = yield* adapter.forwardBackward({ data, loss, config })
        const { metrics: { grad_norm: norm } } = yield* adapter.optimStep()
        return {
          loss: metrics["loss:sum"] ?? NaN,
          norm: norm ?? NaN,
          logprobs: Array.from(outputs[0]?.["logprobs"]?.data ?? [])
        }
      })
      const { logprobs } = yield* norm("cross_entropy", { weights: floats(tokens.map(() => 1)) })
      const drift = [0.3, -0.1, 0.2, 0.4, -0.3, 0.1]
      const mask = [0, 0, 1, 1, 1, 1]
      const advantages = floats([0, 0, 1, -2, 0.5, 1.5])
      const sampled = floats(logprobs.map((value, i) => value - (drift[i] ?? 0)))
      // the mean of 0.2, 0.4, -0.3 and 0.1
      const mean = 0.1
      const gspo = yield* norm("gspo", { logprobs: sampled, advantages, sequence_ratio_mask: floats(mask) })
      const same = yield* norm("importance_sampling", {
        logprobs: floats(logprobs.map((value) => value - mean)),
        advantages
      })
      assert.approximately(gspo.loss, -Math.exp(mean) * 1, 1e-4)
      assert.approximately(gspo.loss, same.loss, 1e-4)
      assert.approximately(gspo.norm, same.norm, 1e-4 * same.norm)
      const missing = yield* Effect.flip(norm("gspo", { logprobs: sampled, advantages }))
      assert.include(missing.message, "gspo needs sequence_ratio_mask")
      const empty = floats(mask.map(() => 0))
      const nothing = yield* Effect.flip(norm("gspo", { logprobs: sampled, advantages, sequence_ratio_mask: empty }))
      assert.include(nothing.message, "marks no token")
    }))

  it.effect("a ratio beyond all floats fails the pass and leaves the gradient alone", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      const wild = (sampled: number): LocalAdapter.Datum => ({
        tokens: [1],
        lossInputs: {
          target_tokens: { data: [2], shape: [1] },
          logprobs: { data: [sampled], shape: [1] },
          advantages: { data: [1], shape: [1] }
        }
      })
      const error = yield* Effect.flip(
        adapter.forwardBackward({ data: [wild(-5), wild(-2000)], loss: "importance_sampling" })
      )
      assert.strictEqual(error._tag, "NotFinite")
      assert.strictEqual((yield* adapter.optimStep()).metrics["grad_norm"], 0)
    }))

  it.effect("weights beyond all measure are an error, not nonsense", () =>
    Effect.gen(function*() {
      const engine = yield* makeMicro
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      yield* train(adapter, [datum("a", text)], 1, 1e20)
      const pass = yield* Effect.flip(adapter.forwardBackward({ data: [datum("a", text)], loss: "cross_entropy" }))
      assert.strictEqual(pass._tag, "NotFinite")
      const sampler = yield* engine.sampler(yield* adapter.snapshot())
      assert.strictEqual((yield* Effect.flip(sampler.sample({ prompt: [97] })))._tag, "NotFinite")
    }))

  it.live("lets other work run between slices", () =>
    Effect.gen(function*() {
      let pauses = 0
      const engine = yield* Engine.make({
        sliceMillis: 1,
        pause: Effect.sync(() => {
          pauses++
        })
      })
      const adapter = yield* engine.createAdapter({ baseModel: "local/tiny", rank: 8, seed: 1 })
      const data = Array.from({ length: 8 }, () => datum("a", text.repeat(8)))
      yield* adapter.forwardBackward({ data, loss: "cross_entropy" })
      assert.isAbove(pauses, 5)
    }))

  it.effect("a slice begins with the event loop's turn, not with the work", () =>
    Effect.gen(function*() {
      let pauses = 0
      const engine = yield* Engine.make({ models: [micro], sliceMillis: 10, pause: Effect.sync(() => void pauses++) })
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      yield* adapter.optimStep()
      assert.strictEqual(pauses, 0)
      // whatever took this time, nothing else could run meanwhile
      yield* TestClock.adjust("10 millis")
      yield* adapter.optimStep()
      assert.strictEqual(pauses, 1)
      yield* adapter.optimStep()
      assert.strictEqual(pauses, 1)
    }))

  it.scoped("all that wait for the event loop wait for the same turn, and outlive whoever asked for it first", () =>
    Effect.gen(function*() {
      const turn = yield* Effect.makeLatch(false)
      let pauses = 0
      const pause = Effect.zipRight(Effect.sync(() => void pauses++), turn.await)
      const engine = yield* Engine.make({ models: [micro], sliceMillis: 10, pause })
      yield* TestClock.adjust("10 millis")
      const waiters = yield* Effect.replicateEffect(Effect.forkScoped(engine.yieldIfDue), 3)
      yield* Effect.yieldNow()
      yield* turn.open
      yield* Fiber.joinAll(waiters)
      assert.strictEqual(pauses, 1)

      yield* turn.close
      yield* TestClock.adjust("10 millis")
      const asking = yield* Effect.forkScoped(engine.yieldIfDue)
      yield* Effect.yieldNow()
      const waiting = yield* Effect.forkScoped(engine.yieldIfDue)
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(asking)
      yield* Fiber.join(waiting)
      assert.strictEqual(pauses, 2)
    }))

  it.effect("a small sample beside a long pass gets its share of the slices", () =>
    Effect.gen(function*() {
      // without time to spend, every step of work is a slice
      let slices = 0
      const pause = Effect.zipRight(Effect.sync(() => void slices++), Effect.yieldNow())
      const engine = yield* Engine.make({ models: [micro], sliceMillis: 0, pause })
      const sampler = yield* engine.sampler(micro.name)
      const sample = Effect.gen(function*() {
        const before = slices
        yield* sampler.sample({ prompt: LocalTokenizer.encode(text), params: { maxTokens: 8, seed: 1, stop: [] } })
        return slices - before
      })
      yield* sample
      const alone = yield* sample
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      const data = Array.from({ length: 200 }, () => datum("a", text))
      const pass = yield* Effect.fork(adapter.forwardBackward({ data, loss: "cross_entropy" }))
      for (let i = 0; i < 100; i++) yield* Effect.yieldNow()
      const beside = yield* sample
      assert.isNull(pass.unsafePoll())
      // every other slice, and another one each time it has to queue again
      assert.isAtMost(beside, 3 * alone)
      yield* Fiber.interrupt(pass)
    }))

  it.effect("activations are bounded: what is not kept is computed again, a large batch in parts, to the same bits", () =>
    Effect.gen(function*() {
      const data = Array.from({ length: 40 }, (_, i) => datum("a".repeat(1 + i % 7), text.slice(i % 9)))
      const run = Effect.fnUntraced(function*(options: Engine.Options) {
        const engine = yield* Engine.make({ models: [micro], ...options })
        const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
        const passes: Array<unknown> = []
        for (let step = 0; step < 2; step++) {
          passes.push(yield* adapter.forwardBackward({ data, loss: "cross_entropy" }))
          passes.push(yield* adapter.optimStep({ learningRate: 1e-3 }))
        }
        return { passes, snapshot: yield* adapter.snapshot() }
      })
      // about 1900 tokens in parts of 96 at most
      const kept = yield* run({ partTokens: 96 })
      assert.deepStrictEqual(yield* run({ partTokens: 96, activationBytes: 0 }), kept)
      const floats = (activationBytes: number) =>
        makeLayout(makeArchitecture(micro), { threads: 1, partTokens: 96, activationBytes, readsOutside: true }).floats
      assert.isBelow(floats(0), floats(2 ** 30))
    }))

  it.effect("an interrupted pass adds nothing, and the engine works on", () =>
    Effect.gen(function*() {
      const engine = yield* Engine.make({ models: [micro], pause: Effect.yieldNow(), sliceMillis: 0 })
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
      const data = Array.from({ length: 30 }, () => datum("a", text))
      const fiber = yield* Effect.fork(adapter.forwardBackward({ data, loss: "cross_entropy" }))
      for (let i = 0; i < 100; i++) yield* Effect.yieldNow()
      yield* Fiber.interrupt(fiber)
      assert.strictEqual((yield* adapter.optimStep()).metrics["grad_norm"], 0)
      const { metrics } = yield* adapter.forwardBackward({ data: data.slice(0, 1), loss: "cross_entropy" })
      assert.isAbove(metrics["loss:sum"] ?? 0, 0)
    }))
})
