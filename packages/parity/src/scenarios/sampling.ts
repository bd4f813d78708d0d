/**
 * Samples and log probabilities; its twin is `python/scenarios/sampling.py`.
 */
import { Effect, Either } from "effect"
import { ModelInput, SamplingClient, TensorData } from "effect-tinker"
import { few, model, prompt, sampling as client, scenario } from "./common.js"
import type { Scenario } from "./Scenario.js"

const sampled = (options: Partial<SamplingClient.SampleOptions> = few) =>
  Effect.flatMap(client, (sampling) => sampling.sample({ prompt: prompt(), ...options }))

const dense = Either.getOrThrow(TensorData.fromArray([[1, -1], [2, 3], [-1, 4]], { dtype: "int64" }))

const sparse = Either.getOrThrow(
  TensorData.fromSparse({
    values: [1, 2, 3],
    dtype: "int64",
    crowIndices: [0, 1, 1, 3],
    colIndices: [0, 1, 3],
    shape: [3, 4]
  })
)

export const sampling: ReadonlyArray<Scenario> = [
  scenario("sample_defaults", sampled()),
  scenario("sample_one_poll_for_all", sampled(), { server: { clientConfig: { sampleUseRetrieveFutures: true } } }),
  scenario(
    "sample_every_parameter",
    Effect.flatMap(SamplingClient.make({ baseModel: model, recordStabilityInfo: true }), (sampling) =>
      sampling.sample({
        prompt: prompt(),
        numSamples: 2,
        maxTokens: 3,
        seed: 7,
        temperature: 0.5,
        topK: 4,
        topP: 0.75,
        stop: ["\n", "zz"],
        promptLogprobs: true,
        topkPromptLogprobs: 2,
        topkSampleLogprobs: 3,
        promptAltTokensK: 2
      }))
  ),
  scenario("sample_stop_tokens", sampled({ maxTokens: 2, stop: [10, 13] })),
  scenario("sample_stop_text", sampled({ maxTokens: 2, stop: "end" })),
  scenario("sample_stop_never", sampled({ maxTokens: 2, stop: [] })),
  scenario("sample_target_logprobs", sampled({ ...few, targetPromptLogprobs: dense })),
  scenario("sample_target_logprobs_sparse", sampled({ ...few, targetPromptLogprobs: sparse })),
  scenario(
    "sample_in_a_row",
    Effect.flatMap(client, (sampling) => Effect.replicateEffect(sampling.sample({ prompt: prompt(), ...few }), 3))
  ),
  scenario("sample_two_samplers", Effect.replicateEffect(sampled(), 2)),
  scenario(
    "sample_image",
    sampled({
      ...few,
      prompt: ModelInput.fromChunks([
        new ModelInput.EncodedText({ tokens: Int32Array.of(97) }),
        new ModelInput.Image({ data: Uint8Array.of(137, 80, 78, 71), format: "png" }),
        new ModelInput.ImageAssetPointer({ location: "https://example.com/a.png", format: "png", expectedTokens: 3 })
      ])
    })
  ),
  // @ts-expect-error: does not compile, and is refused where there is no compiler
  scenario("sample_nothing_to_sample_from", SamplingClient.make({})),
  scenario(
    "sample_unknown_model",
    Effect.flatMap(
      SamplingClient.make({ baseModel: "no/such-model" }),
      (sampling) => sampling.sample({ prompt: prompt(), ...few })
    )
  ),
  scenario("sample_base_model", Effect.flatMap(client, (sampling) => sampling.baseModel)),
  scenario("logprobs", Effect.flatMap(client, (sampling) => sampling.computeLogprobs(prompt()))),
  scenario(
    "logprobs_of_the_end",
    Effect.flatMap(client, (sampling) => sampling.computeLogprobs(prompt(), { lastN: 2 }))
  ),
  scenario(
    "sample_from_handle",
    Effect.gen(function*() {
      const { handle } = yield* client
      const copy = yield* SamplingClient.fromHandle(handle)
      yield* copy.sample({ prompt: prompt(), ...few })
    }),
    { server: { clientConfig: { sampleJoinSamplingSession: true } } }
  )
]
