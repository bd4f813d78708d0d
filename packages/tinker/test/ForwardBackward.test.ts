import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import { Datum, ForwardBackward, TensorData } from "effect-tinker"

const get = Either.getOrThrow

const request: ForwardBackward.Request = {
  modelId: "m",
  seqId: 1,
  data: [get(Datum.fromTokens([1, 2]))],
  lossFn: "cross_entropy"
}

describe("ForwardBackward", () => {
  it("names the losses of the wire", () => {
    for (const name of ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro"]) {
      assert.isTrue(Schema.is(ForwardBackward.LossName)(name))
    }
  })

  describe("JSON", () => {
    const decode = Schema.decodeUnknownEither(ForwardBackward.RequestFromJson)
    const encode = Schema.encodeEither(ForwardBackward.RequestFromJson)

    it("puts a forward pass under its own key", () => {
      const forward = get(encode({ ...request, forwardOnly: true, lossFnConfig: { beta: 0.05, mode: "a" } }))
      assert.isTrue("forward_input" in forward)
      const both = get(encode(request))
      assert.isTrue("forward_backward_input" in both)
      assert.isFalse("loss_fn_config" in ("forward_backward_input" in both ? both.forward_backward_input : {}))
      const back = get(decode(JSON.parse(JSON.stringify(forward))))
      assert.deepStrictEqual(back.lossFnConfig, { beta: 0.05, mode: "a" })
      assert.strictEqual(back.forwardOnly, true)
      assert.strictEqual(get(decode(both)).forwardOnly, false)
      assert.strictEqual(get(decode(both)).seqId, 1)
    })

    it("reads null settings and numbers as absent", () => {
      const back = get(decode({
        model_id: "m",
        seq_id: null,
        forward_backward_input: { data: [], loss_fn: "dppo", loss_fn_config: null }
      }))
      assert.deepStrictEqual([back.seqId, back.lossFnConfig, back.lossFn], [undefined, undefined, "dppo"])
    })

    it("reads results of servers that answer in JSON", () => {
      const output = get(
        Schema.decodeUnknownEither(ForwardBackward.OutputFromJson)({
          loss_fn_output_type: "scalar",
          loss_fn_outputs: [{ logprobs: { data: [-1, -2], dtype: "float32", shape: [2], extra: 1 } }],
          metrics: { "loss:sum": 1.5 },
          unknown: true
        })
      )
      assert.strictEqual(output.lossFnOutputType, "scalar")
      assert.deepStrictEqual(output.metrics, { "loss:sum": 1.5 })
      const logprobs = output.lossFnOutputs[0]?.["logprobs"]
      assert.deepStrictEqual(logprobs && TensorData.toArray(logprobs), [-1, -2])
    })
  })
})
