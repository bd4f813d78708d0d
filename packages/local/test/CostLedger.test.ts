import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Fiber, Layer, Stream, TestClock } from "effect"
import { CostLedger, Datum, ModelInput, ServiceClient, TrainingClient } from "effect-tinker"
import * as LocalServer from "../src/LocalServer.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as TinkerLocal from "../src/TinkerLocal.js"

const model = "local/tiny"
const Live = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
  Layer.provideMerge(TinkerLocal.layer())
)
const prompt = ModelInput.fromInts(LocalTokenizer.encode("My favourite letters: "))
const prices = { [model]: { train: 1, prefill: 1, sample: 1 } }

describe("CostLedger on the embedded backend", () => {
  it.scopedLive(
    "training and sampling are counted as they were, and the budget ends them",
    () =>
      Effect.gen(function*() {
        const ledger = yield* CostLedger.make({ prices, budget: 400e-6 })
        const training = ledger.training(yield* TrainingClient.makeLora({ baseModel: model, rank: 4 }), model)
        const lesson = yield* Datum.fromTokens(LocalTokenizer.encode("Tinker trains models."))
        yield* yield* training.trainStep([lesson], "cross_entropy")
        const sampler = yield* training.saveWeightsAndGetSamplingClient()
        const request = { prompt, numSamples: 3, maxTokens: 10, stop: [] }
        const { sequences } = yield* sampler.sample(request)
        const drawn = sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
        yield* sampler.computeLogprobs(prompt)
        const { entries, reserved } = yield* ledger.totals
        assert.strictEqual(reserved, 0)
        assert.deepStrictEqual(
          entries.map(({ kind, tokens }) => [kind, tokens]),
          [["train", 20], ["prefill", 44], ["sample", drawn + 1]]
        )
        const results = yield* Stream.runCollect(
          sampler.sampleMany(Stream.make(...Array.from({ length: 20 }, () => request)), { concurrency: 5 })
        )
        const failed = Chunk.toReadonlyArray(results).flatMap(({ result }) =>
          result._tag === "Left" ? [result.left._tag] : []
        )
        assert.isAbove(failed.length, 0)
        assert.isBelow(failed.length, 20)
        assert.deepStrictEqual(new Set(failed), new Set(["BudgetExceeded"]))
        assert.isAtMost((yield* ledger.totals).spent, 400e-6)
        const unbounded = yield* Effect.flip(sampler.sample({ prompt }))
        assert.strictEqual(unbounded._tag, "InvalidInput")
      }).pipe(Effect.provide(Live)),
    20_000
  )

  it.scoped("a sample left while the server works on it is paid in full", () =>
    Effect.gen(function*() {
      const ledger = yield* CostLedger.make({ prices, budget: 1 })
      const training = ledger.training(yield* TrainingClient.makeLora({ baseModel: model, rank: 4 }), model)
      const sampler = yield* training.saveWeightsAndGetSamplingClient()
      const server = yield* LocalServer.LocalServer
      yield* server.pause({ state: "paused_capacity", reason: "full" })
      const fiber = yield* Effect.fork(sampler.sample({ prompt, maxTokens: 50 }))
      const held = yield* Effect.fork(Stream.runHead(sampler.events))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(held)
      yield* Fiber.interrupt(fiber)
      const { reserved, spent, unconfirmed } = yield* ledger.totals
      assert.deepStrictEqual([reserved, spent, unconfirmed], [0, 72e-6, 72e-6])
    }).pipe(Effect.provide(Live)))
})
