import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { ForwardBackward, Sample, TopkLogprobs } from "effect-tinker/wire"
import { compareValue } from "../src/vectors/compare.js"
import * as corpus from "../src/vectors/corpus.js"
import * as protobuf from "../src/vectors/protobuf.js"

const vectors = corpus.protobuf()

const bytes = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, "hex"))

/** Results as the corpus has them: likeliest tokens as lists. */
const sampleValue = (response: Sample.SampleResponse): unknown => ({
  sequences: response.sequences.map((sequence) => ({
    stop_reason: sequence.stopReason,
    tokens: sequence.tokens,
    logprobs: sequence.logprobs,
    topk_logprobs: sequence.topkLogprobs && TopkLogprobs.toLists(sequence.topkLogprobs)
  })),
  prompt_logprobs: response.promptLogprobs,
  topk_prompt_logprobs: response.topkPromptLogprobs && TopkLogprobs.toLists(response.topkPromptLogprobs),
  target_prompt_logprobs: response.targetPromptLogprobs,
  prompt_cache_hit_tokens: response.promptCacheHitTokens,
  prompt_alt_tokens: response.promptAltTokens && { ...response.promptAltTokens }
})

const outputValue = (output: ForwardBackward.Output): unknown => ({
  loss_fn_output_type: output.lossFnOutputType,
  loss_fn_outputs: output.lossFnOutputs,
  metrics: output.metrics
})

describe("requests: values to bytes", () => {
  it.each(vectors.requests)("$case", (vector) => {
    if (vector.error !== undefined) {
      const encoded = Either.try(() => protobuf.toRequest(vector.input)).pipe(Either.flatMap(protobuf.encode))
      assert.isTrue(Either.isLeft(encoded), "not refused")
      return
    }
    const encoded = protobuf.encode(protobuf.toRequest(vector.input))
    assert.deepStrictEqual(encoded, Either.right(vector.output ?? ""))
  })

  it.each(vectors.requests.filter((vector) => vector.output !== undefined))("$case, read back", (vector) => {
    const request = Either.getOrThrow(ForwardBackward.decodeRequest(bytes(vector.output ?? "")))
    assert.deepStrictEqual(protobuf.encode(request), Either.right(vector.output ?? ""))
  })
})

describe("samples: bytes to values", () => {
  it.each(vectors.samples)("$case", (vector) => {
    const decoded = Sample.decodeResponse(bytes(vector.input))
    if (vector.case === "unknown reason") {
      // the sequence is good whatever a newer server calls its end
      return assert.isTrue(Either.isRight(decoded))
    }
    if (vector.error !== undefined) return assert.isTrue(Either.isLeft(decoded), "not refused")
    assert.isUndefined(compareValue(vector.output, sampleValue(Either.getOrThrow(decoded))))
  })
})

describe("results of passes: bytes to values", () => {
  it.each(vectors.outputs)("$case", (vector) => {
    const decoded = ForwardBackward.decodeOutput(bytes(vector.input))
    if (vector.error !== undefined) return assert.isTrue(Either.isLeft(decoded), "not refused")
    assert.isUndefined(compareValue(vector.output, outputValue(Either.getOrThrow(decoded))))
  })
})
