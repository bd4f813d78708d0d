import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { Datum, Loss, TensorData } from "../src/index.js"
import { type ForwardBackward } from "../src/wire.js"

const floats = (...values: ReadonlyArray<number>) => Either.getOrThrow(TensorData.fromArray(Float32Array.from(values)))

const output = (
  outputs: ReadonlyArray<ForwardBackward.LossFnOutput>,
  metrics: Readonly<Record<string, number>> = {}
): ForwardBackward.Output => ({ lossFnOutputType: "TorchLossReturn", lossFnOutputs: outputs, metrics })

const lesson = Either.getOrThrow(Datum.fromTokens([1, 2, 3, 4], { weights: [0, 0, 1, 1] }))
const rollout = Either.getOrThrow(Datum.make({
  modelInput: [1, 2, 3],
  lossFnInputs: { target_tokens: [2, 3, 4], logprobs: [0, -1, -1], advantages: [0, 1, -1] }
}))

describe("Loss", () => {
  it("summarizes by the server's sum where there is one", () => {
    assert.deepStrictEqual(Loss.summarize(output([{}], { "loss:sum": 3 }), [lesson]), {
      sum: 3,
      tokens: 2,
      perToken: 1.5
    })
    assert.deepStrictEqual(Loss.summarize(output([{}], { "loss:sum": 1 }), [rollout]), {
      sum: 1,
      tokens: 2,
      perToken: 0.5
    })
  })

  it("without it, by the losses of the tokens, or by the weighted logprobs of a cross entropy", () => {
    const logprobs = floats(Number.NEGATIVE_INFINITY, -0.5, -1)
    assert.deepStrictEqual(Loss.summarize(output([{ logprobs }]), [lesson]), { sum: 1.5, tokens: 2, perToken: 0.75 })
    const elementwise = { elementwise_loss: floats(0, 0.25, 0.75), logprobs }
    assert.strictEqual(Loss.summarize(output([elementwise, { logprobs }]), [lesson, lesson]).perToken, 2.5 / 4)
  })

  it("says NaN rather than something else where neither is there", () => {
    assert.isNaN(Loss.summarize(output([{ logprobs: floats(0, -1, -1) }]), [rollout]).perToken)
    assert.isNaN(Loss.summarize(output([{}]), [lesson]).sum)
  })
})
