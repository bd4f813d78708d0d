import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import { ModelInput, TensorData } from "effect-tinker"
import { Id, Sample, SamplingParams, TopkLogprobs } from "effect-tinker/wire"
import { toJson } from "./utils/json.js"

const request = (rest: Partial<ConstructorParameters<typeof Sample.SampleRequest>[0]> = {}) =>
  new Sample.SampleRequest({
    prompt: ModelInput.fromInts([1, 2]),
    samplingParams: new SamplingParams.SamplingParams(),
    samplingSessionId: Id.SamplingSessionId.make("s"),
    seqId: 0,
    ...rest
  })

const plain = {
  num_samples: 1,
  prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2] }] },
  sampling_params: { temperature: 1, top_k: -1, top_p: 1 },
  sampling_session_id: "s",
  seq_id: 0,
  topk_prompt_logprobs: 0,
  type: "sample"
}

describe("Sample", () => {
  it("sends what the oldest servers know, and newer fields only when set", () => {
    assert.deepStrictEqual(toJson(Sample.SampleRequest, request()), plain)
    assert.deepStrictEqual(
      toJson(Sample.SampleRequest, request({ topkSampleLogprobs: 2, promptAltTokensK: 1, recordStabilityInfo: false })),
      { ...plain, topk_sample_logprobs: 2, prompt_alt_tokens_k: 1, record_stability_info: false }
    )
  })

  it("keeps the three answers to whether the prompt is scored", () => {
    assert.notProperty(toJson(Sample.SampleRequest, request()), "prompt_logprobs")
    for (const promptLogprobs of [true, false]) {
      assert.propertyVal(toJson(Sample.SampleRequest, request({ promptLogprobs })), "prompt_logprobs", promptLogprobs)
    }
  })

  it("refuses what any server would", () => {
    const targets = (data: ReadonlyArray<ReadonlyArray<number>>, dtype: "int64" | "float32") =>
      Either.getOrThrow(TensorData.fromArray(data, { dtype }))
    const flat = Either.getOrThrow(TensorData.fromArray([1], { dtype: "int64" }))
    const valid = request({ targetPromptLogprobs: targets([[1, -1]], "int64") })
    assert.deepStrictEqual(Sample.validate(valid), Either.right(valid))
    assert.isTrue(Either.isLeft(Sample.validate(request({ targetPromptLogprobs: targets([[1]], "float32") }))))
    assert.isTrue(Either.isLeft(Sample.validate(request({ targetPromptLogprobs: flat }))))
    assert.isTrue(Either.isLeft(Sample.validate(request({ promptLogprobsLastN: 1 }))))
    assert.isTrue(Either.isRight(Sample.validate(request({ promptLogprobsLastN: 1, promptLogprobs: true }))))
  })

  it("reads the JSON of older and self-hosted servers", () => {
    const response = Schema.decodeUnknownSync(Sample.SampleResponse)({
      sequences: [{ stop_reason: "length", tokens: [5, 6], logprobs: [-0.5, -1] }],
      prompt_logprobs: [null, -2],
      topk_prompt_logprobs: [null, [[7, -0.25]]],
      type: "sample"
    })
    const [sequence] = response.sequences
    assert.deepStrictEqual(sequence?.tokens, Int32Array.of(5, 6))
    assert.deepStrictEqual(sequence?.logprobs, Float32Array.of(-0.5, -1))
    assert.isUndefined(sequence?.sequenceId)
    assert.deepStrictEqual(response.promptLogprobs && Sample.logprobsToList(response.promptLogprobs), [null, -2])
    assert.deepStrictEqual(response.topkPromptLogprobs && TopkLogprobs.toLists(response.topkPromptLogprobs), [
      null,
      [[7, -0.25]]
    ])
    assert.strictEqual(response.promptCacheHitTokens, 0)
  })

  it("refuses tokens that are no 32-bit integers", () => {
    const decode = Schema.decodeUnknownEither(Sample.SampledSequence)
    assert.isTrue(Either.isLeft(decode({ stop_reason: "stop", tokens: [2 ** 31] })))
    assert.isTrue(Either.isLeft(decode({ stop_reason: "stop", tokens: ["1"] })))
  })
})
