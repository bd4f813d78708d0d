import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Either, Equal, FastCheck, Schema } from "effect"
import { Datum, ModelInput, TensorData } from "effect-tinker"
import { Api, Endpoint, ForwardBackward } from "effect-tinker/wire"

const get = Either.getOrThrow

const request: ForwardBackward.Request = {
  modelId: "m",
  seqId: 1,
  data: [get(Datum.fromTokens([1, 2]))],
  lossFn: "cross_entropy"
}

const encodeInput = Schema.encodeSync(ModelInput.ModelInput)
const inputJson = (input: ModelInput.ModelInput): unknown => JSON.parse(JSON.stringify(encodeInput(input)))
const forwardBackwardJson = Endpoint.withBodyOf(Api.forwardBackward, Api.forward)

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

    it("refuses keys the wire does not have", () => {
      const json = get(encode(request))
      assert.isTrue(Either.isLeft(decode({ ...json, forward_only: true })))
      assert.isTrue(Either.isLeft(decode({
        model_id: "m",
        forward_backward_input: { data: [], loss_fn: "ppo", loss_fn_confg: {} }
      })))
    })

    it.prop(
      "a pass of a client is read back as it was meant, tensors dense",
      { data: FastCheck.array(Arbitrary.make(Datum.FromJson), { maxLength: 3 }), forwardOnly: FastCheck.boolean() },
      ({ data, forwardOnly }) => {
        const endpoint = forwardOnly ? Api.forward : forwardBackwardJson
        const encoded = get(endpoint.encodeRequest({ ...request, data, forwardOnly }))
        const body = typeof encoded.body === "string" ? new TextEncoder().encode(encoded.body) : new Uint8Array(0)
        const { request: back } = get(
          endpoint.decodeRequest({ params: {}, query: {}, body, contentType: "application/json" })
        )
        assert.deepStrictEqual([back.modelId, back.seqId, back.forwardOnly], ["m", 1, forwardOnly])
        back.data.forEach((datum, i) => {
          const meantInput = data[i]?.modelInput
          assert.deepStrictEqual(inputJson(datum.modelInput), meantInput && inputJson(meantInput))
          for (const [key, tensor] of Object.entries(datum.lossFnInputs)) {
            const meant = data[i]?.lossFnInputs[key]
            assert.deepStrictEqual(TensorData.toArray(tensor), meant && TensorData.toArray(meant), key)
            assert.strictEqual(tensor.dtype, meant?.dtype)
            assert.isUndefined(tensor.crowIndices)
          }
        })
      }
    )

    it("integers that a reader of JSON would round are refused", () => {
      const large = get(TensorData.fromArray(BigInt64Array.of(2n ** 60n, 1n)))
      const datum = new Datum.Datum({ ...get(Datum.fromTokens([1, 2, 3])), lossFnInputs: { target_tokens: large } })
      const encoded = forwardBackwardJson.encodeRequest({ ...request, data: [datum] })
      assert.match(Either.isLeft(encoded) ? encoded.left : "", /target_tokens of datum 0 has integers beyond 2\^53/)
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

    it("is the same result as protobuf", () => {
      const output: ForwardBackward.Output = {
        lossFnOutputType: "TorchLossReturn",
        lossFnOutputs: [
          {
            logprobs: get(TensorData.fromArray(new Float32Array([-1, NaN]))),
            ids: get(TensorData.fromArray([[7, 2 ** 40]], { dtype: "int64" }))
          },
          {
            logprobs: get(TensorData.fromArray(new Float32Array([]))),
            ids: get(TensorData.fromArray([[1, 2], [3, 4]], { dtype: "int64" }))
          }
        ],
        metrics: { "loss:sum": 1.5, "nothing:mean": NaN }
      }
      const json = JSON.stringify(get(Schema.encodeEither(ForwardBackward.OutputFromJson)(output)))
      const fromJson = get(Schema.decodeUnknownEither(ForwardBackward.OutputFromJson)(JSON.parse(json)))
      const fromProtobuf = get(ForwardBackward.decodeOutput(get(ForwardBackward.encodeOutput(output))))
      for (const result of [fromJson, fromProtobuf]) {
        assert.strictEqual(result.lossFnOutputType, output.lossFnOutputType)
        assert.deepStrictEqual(result.metrics, output.metrics)
        assert.strictEqual(result.lossFnOutputs.length, 2)
        output.lossFnOutputs.forEach((expected, i) => {
          for (const [name, tensor] of Object.entries(expected)) {
            assert.isTrue(Equal.equals(result.lossFnOutputs[i]?.[name], tensor), `${i} ${name}`)
          }
        })
      }
    })
  })
})
