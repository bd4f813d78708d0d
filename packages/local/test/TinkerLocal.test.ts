import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Api from "effect-tinker/Api"
import { SaveWeightsForSamplerRequest, SaveWeightsRequest } from "effect-tinker/Weights"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as TinkerLocal from "../src/TinkerLocal.js"
import {
  call,
  createModel,
  openSampler,
  openSession,
  pass,
  passResult,
  resultOf,
  sample,
  sampleResult,
  step
} from "./server/support.js"

describe("TinkerLocal", () => {
  it.effect("trains, saves and samples in process, over the wire's formats", () =>
    Effect.gen(function*() {
      const sessionId = yield* openSession
      const modelId = yield* createModel(sessionId)
      assert.strictEqual(modelId, `${sessionId}:train:0`)
      let seq = 0
      const losses: Array<number> = []
      for (let i = 0; i < 12; i++) {
        const forward = yield* pass(modelId, ++seq, ["cat: meow\n", "dog: woof\n"])
        const stepped = yield* step(modelId, ++seq)
        losses.push((yield* passResult(forward)).metrics["loss:sum"] ?? NaN)
        assert.property((yield* resultOf(stepped))["metrics"], "grad_norm")
      }
      assert.isBelow(losses[11] ?? Infinity, (losses[0] ?? 0) / 4)

      const saved = yield* resultOf(
        yield* call(
          Api.saveWeightsForSampler,
          new SaveWeightsForSamplerRequest({ modelId, path: "final", seqId: ++seq })
        )
      )
      assert.strictEqual(saved["path"], `tinker://${modelId}/sampler_weights/final`)
      const sampler = yield* openSampler(sessionId, 0, { modelPath: String(saved["path"]) })
      const future = yield* sample(sampler, 0, "cat:", { maxTokens: 8, temperature: 0, stop: ["\n"] })
      assert.deepStrictEqual(future.sampleSequenceIds?.map(String), [`${sampler}:0:0`])
      const { sequences } = yield* sampleResult(future)
      assert.strictEqual(LocalTokenizer.decode(sequences[0]?.tokens ?? []), " meow\n")
      assert.strictEqual(sequences[0]?.stopReason, "stop")
      assert.strictEqual(sequences[0]?.logprobs?.length, sequences[0]?.tokens.length)

      const state = yield* resultOf(yield* call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId: ++seq })))
      assert.match(String(state["path"]), /\/weights\/\d+$/)
    }).pipe(Effect.provide(TinkerLocal.layer())))
})
