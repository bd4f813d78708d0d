import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { ModelInput, TensorData } from "effect-tinker"
import type { Endpoint, ForwardBackward } from "effect-tinker/wire"
import { Api, Id, Sample, SamplingParams } from "effect-tinker/wire"

/** Through the wire and back, as a server would read it. */
const roundTrip = <Request, Response>(endpoint: Endpoint.Endpoint<Request, Response>, request: Request) =>
  Either.flatMap(endpoint.encodeRequest(request), (encoded) =>
    Either.map(
      endpoint.decodeRequest({
        params: encoded.params,
        query: encoded.query,
        body: typeof encoded.body === "string"
          ? new TextEncoder().encode(encoded.body)
          : encoded.body ?? new Uint8Array(0),
        contentType: endpoint.headers["content-type"] ?? "application/json"
      }),
      (decoded) => decoded.request
    ))

/** What a server reads of a JSON body. */
const read = <Request, Response>(endpoint: Endpoint.Endpoint<Request, Response>, body: unknown) =>
  endpoint.decodeRequest({
    params: {},
    query: {},
    body: new TextEncoder().encode(JSON.stringify(body)),
    contentType: "application/json"
  })

const bodyOf = (result: Either.Either<Endpoint.Encoded, string>): unknown => {
  const body = Either.getOrThrow(result).body
  return typeof body === "string" ? JSON.parse(body) : body
}

const checkpoint = {
  trainingRunId: Id.ModelId.make("s:train:0"),
  checkpointId: Id.CheckpointId.make("weights/0001")
}

describe("Api", () => {
  it("names every endpoint once", () => {
    const names = Api.all.map(({ name }) => name)
    const routes = Api.all.map(({ method, path }) => `${method} ${path}`)
    assert.strictEqual(new Set(names).size, names.length)
    assert.strictEqual(new Set(routes).size, routes.length)
    assert.isAtLeast(names.length, 45)
  })

  it("names an endpoint as its module does", () => {
    const named = Object.entries(Api).flatMap(([name, value]) =>
      typeof value === "object" && "method" in value ? [[name, value.name]] : []
    )
    assert.strictEqual(named.length, Api.all.length)
    for (const [name, own] of named) assert.strictEqual(own, name)
  })

  it("lets no two kinds of traffic wait for each other (G5)", () => {
    const pool = (path: string) => Api.all.find((endpoint) => endpoint.path === path)?.pool
    assert.deepStrictEqual(
      [
        "/session_heartbeat",
        "/forward_backward",
        "/asample",
        "/retrieve_future",
        "/retrieve_futures",
        "/telemetry",
        "/audit"
      ]
        .map((path) => pool(`/api/v1${path}`)),
      ["session", "training", "sampling", "futures", "completions", "telemetry", "rest"]
    )
  })

  it("splits a flat request into path, query and body", () => {
    const ttl = Either.getOrThrow(Api.setCheckpointTtl.encodeRequest({ ...checkpoint, ttlSeconds: null }))
    assert.deepStrictEqual(ttl, {
      params: { training_run_id: "s:train:0", checkpoint_id: "weights/0001" },
      query: {},
      body: "{\"ttl_seconds\":null}"
    })
    const list = Either.getOrThrow(Api.listTrainingRuns.encodeRequest({ limit: 20, offset: 0, accessScope: "owned" }))
    assert.deepStrictEqual(list.query, { limit: "20", offset: "0", access_scope: "owned" })
    assert.isUndefined(list.body)
    assert.isUndefined(Either.getOrThrow(Api.publishCheckpoint.encodeRequest(checkpoint)).body)
  })

  it("a server reads what a client writes", () => {
    assert.deepStrictEqual(roundTrip(Api.deleteCheckpoint, checkpoint), Either.right(checkpoint))
    const page = { limit: 7, offset: 3, accessScope: "accessible", projectId: "p" } as const
    assert.deepStrictEqual(roundTrip(Api.listTrainingRuns, page), Either.right(page))
    const ttl = { ...checkpoint, ttlSeconds: 3600 }
    assert.deepStrictEqual(roundTrip(Api.setCheckpointTtl, ttl), Either.right(ttl))
    const poll = Either.getOrThrow(roundTrip(Api.retrieveFuture, { requestId: "a\"b", allowMetadataOnly: true }))
    assert.deepInclude(poll, { requestId: "a\"b", allowMetadataOnly: true })
    const pass: ForwardBackward.Request = {
      modelId: "m",
      seqId: 1,
      data: [],
      lossFn: "cross_entropy",
      forwardOnly: true
    }
    assert.deepInclude(Either.getOrThrow(roundTrip(Api.forwardBackward, pass)), { modelId: "m", forwardOnly: true })
  })

  describe("sample requests are written by hand exactly as their schema would", () => {
    const prompt = ModelInput.fromInts([1, 2, 3])
    const samplingSessionId = Id.SamplingSessionId.make("s:sample:0")
    const params = new SamplingParams.SamplingParams({ maxTokens: 5, stop: ["x"], temperature: 0, seed: 1 })
    const cases: ReadonlyArray<readonly [string, Sample.SampleRequest]> = [
      ["the least", new Sample.SampleRequest({ prompt, samplingParams: new SamplingParams.SamplingParams() })],
      [
        "the most",
        new Sample.SampleRequest({
          prompt,
          samplingParams: params,
          numSamples: 3,
          samplingSessionId,
          seqId: 0,
          promptLogprobs: true,
          topkPromptLogprobs: 2,
          topkSampleLogprobs: 4,
          promptAltTokensK: 1,
          promptLogprobsLastN: 1,
          recordStabilityInfo: true,
          baseModel: "b",
          modelPath: "tinker://a/b/c"
        })
      ],
      [
        "with a tensor",
        new Sample.SampleRequest({
          prompt,
          samplingParams: params,
          targetPromptLogprobs: Either.getOrThrow(TensorData.fromArray([[1], [2]], { dtype: "int64" }))
        })
      ],
      [
        "stop nowhere",
        new Sample.SampleRequest({ prompt, samplingParams: new SamplingParams.SamplingParams({ stop: [] }) })
      ]
    ]
    for (const [title, request] of cases) {
      it(title, () => {
        const encoded = Api.asample.encodeRequest(request)
        assert.deepStrictEqual(Either.getOrThrow(roundTrip(Api.asample, request)), request)
        assert.notInclude(JSON.stringify(bodyOf(encoded)), "null")
      })
    }

    it("numbers that JSON cannot say are refused", () => {
      for (const temperature of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const samplingParams = new SamplingParams.SamplingParams({ temperature, topP: 1, topK: -1 }, {
          disableValidation: true
        })
        const request = new Sample.SampleRequest({ prompt, samplingParams }, { disableValidation: true })
        assert.isTrue(Either.isLeft(Api.asample.encodeRequest(request)))
      }
    })
  })

  describe("a request of a newer client", () => {
    const save = { model_id: "m", sampling_session_seq_id: 1, type: "save_weights_for_sampler" }
    const sample = {
      base_model: "b",
      prompt: { chunks: [{ type: "encoded_text", tokens: [1] }, { type: "encoded_text", tokens: [2] }] },
      sampling_params: { max_tokens: 1 },
      num_samples: 1
    }

    it("is read without the fields that are unknown here, which are named", () => {
      const known = Either.getOrThrow(read(Api.saveWeightsForSampler, save))
      assert.deepStrictEqual(known.ignored, [])
      const newer = Either.getOrThrow(read(Api.saveWeightsForSampler, { ...save, priority: 3, nested: { a: [1] } }))
      assert.deepStrictEqual(newer.request, known.request)
      assert.deepStrictEqual(newer.ignored, ["priority", "nested"])
      const chunks = sample.prompt.chunks.map((chunk) => ({ ...chunk, hash: "x" }))
      const deep = Either.getOrThrow(read(Api.asample, { ...sample, prompt: { chunks } }))
      assert.deepStrictEqual(deep.request, Either.getOrThrow(read(Api.asample, sample)).request)
      assert.deepStrictEqual(deep.ignored, ["prompt.chunks.hash"])
    })

    it("is refused when a setting that would change the result is unknown, or a known field is wrong", () => {
      const refused = read(Api.asample, { ...sample, sampling_params: { max_tokens: 1, min_p: 0.1 }, other: 1 })
      assert.match(Either.isLeft(refused) ? refused.left : "", /sampling_params[^]*min_p[^]*is unexpected/)
      const optimizer = read(Api.optimStep, { model_id: "m", seq_id: 1, adam_params: { learning_rate: 1, muon: true } })
      assert.match(Either.isLeft(optimizer) ? optimizer.left : "", /adam_params[^]*muon[^]*is unexpected/)
      assert.isTrue(Either.isLeft(read(Api.saveWeightsForSampler, { ...save, model_id: 5, other: 1 })))
      assert.isTrue(Either.isLeft(read(Api.saveWeightsForSampler, { ...save, kind: "later" })))
    })
  })

  it("a sample's receipt is read by hand exactly as its schema would", () => {
    const read = (body: unknown) =>
      Api.asample.response.decode(new TextEncoder().encode(JSON.stringify(body)), "application/json")
    const sampled = Either.getOrThrow(read({ request_id: "r", sample_sequence_ids: ["a"], new_field: 1 }))
    assert.deepStrictEqual([sampled.requestId, sampled.sampleSequenceIds], [Id.RequestId.make("r"), [
      Id.SequenceId.make("a")
    ]])
    assert.strictEqual(Either.getOrThrow(read({ request_id: "7", model_id: "m" })).modelId, Id.ModelId.make("m"))
    for (
      const wrong of [null, [], {}, { request_id: "" }, { request_id: 5 }, {
        request_id: "r",
        sample_sequence_ids: [1]
      }]
    ) {
      assert.isTrue(Either.isLeft(read(wrong)), JSON.stringify(wrong))
    }
  })
})
