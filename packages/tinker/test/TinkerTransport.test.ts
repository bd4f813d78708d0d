import { HttpClient, HttpClientError, HttpClientRequest, HttpClientResponse } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import {
  OpenAiCompat,
  RestClient,
  SamplingClient,
  ServiceClient,
  Tinker,
  TinkerTransport,
  TrainingClient
} from "effect-tinker"
import { ModelId, SamplingSessionId } from "../src/wire/Id.js"
import { recording } from "./utils/tracer.js"
import { answering } from "./utils/transport.js"

const options = { baseUrl: "https://a.test", apiKey: "tml-key", telemetry: false } as const

const capabilities = Effect.flatMap(ServiceClient.ServiceClient, (service) => service.serverCapabilities)

/** An `HttpClient` that knows of every service what its clients ask first. */
const makeClient = () => {
  const seen: Array<HttpClientRequest.HttpClientRequest> = []
  const client = HttpClient.make((request) =>
    Effect.sync(() => {
      seen.push(request)
      return HttpClientResponse.fromWeb(
        request,
        Response.json(request.url.endsWith("/get_server_capabilities") ? { supported_models: [] } : {})
      )
    })
  )
  return { client: Layer.succeed(HttpClient.HttpClient, client), seen }
}

describe("TinkerTransport", () => {
  it.effect("transformClient sees every request", () =>
    Effect.gen(function*() {
      const { client, seen } = makeClient()
      yield* capabilities.pipe(
        Effect.provide(ServiceClient.layer(options)),
        Effect.provide(TinkerTransport.layer({
          transformClient: HttpClient.mapRequest(HttpClientRequest.setHeader("x-team", "research"))
        })),
        Effect.provide(client)
      )
      assert.isAbove(seen.length, 0)
      assert.isTrue(seen.every(({ headers }) => headers["x-team"] === "research"))
    }))

  it.effect("the client's own spans and trace headers are there when asked for, and only then", () =>
    Effect.gen(function*() {
      for (const httpTracing of [undefined, true]) {
        const { client, seen } = makeClient()
        const { spans, tracer } = recording()
        yield* capabilities.pipe(
          Effect.provide(ServiceClient.layer({ ...options, tracing: false })),
          Effect.provide(TinkerTransport.layer({ httpTracing })),
          Effect.provide(client),
          Effect.withTracer(tracer)
        )
        assert.strictEqual(spans.some(({ name }) => name.startsWith("http.client")), httpTracing === true)
        assert.strictEqual(seen.some(({ headers }) => "traceparent" in headers), httpTracing === true)
      }
    }))

  it.effect("without a response it fails with a tagged error that says why", () =>
    Effect.gen(function*() {
      const refused = HttpClient.make((request) =>
        Effect.fail(new HttpClientError.RequestError({ request, reason: "Transport", cause: new Error("refused") }))
      )
      const { send } = TinkerTransport.fromHttpClient(refused)
      const error = yield* Effect.flip(send({
        method: "GET",
        origin: "https://a.test",
        path: "/",
        headers: { "x-api-key": "tml-key" },
        body: undefined,
        pool: "rest",
        timeout: 1000,
        maxBytes: 1000
      }))
      assert.instanceOf(error, TinkerTransport.TransportError)
      assert.instanceOf(error, Error)
      assert.deepInclude(error, { _tag: "TransportError", reason: "connection" })
      assert.strictEqual(error.message, "the request could not be sent")
      assert.notInclude(JSON.stringify(error), "tml-key")
      assert.isTrue(Schema.is(TinkerTransport.TransportError)(TinkerTransport.TransportError.timeout(1500)))
    }))

  it.effect("a transport can be provided with Layer.succeed and nothing else", () =>
    Effect.gen(function*() {
      const paths: Array<string> = []
      const respond = (body: unknown) => ({
        status: 200,
        headers: {},
        body: new TextEncoder().encode(JSON.stringify(body))
      })
      yield* capabilities.pipe(
        Effect.provide(ServiceClient.layer(options)),
        Effect.provide(Layer.succeed(TinkerTransport.TinkerTransport, {
          send: ({ path }) =>
            Effect.sync(() => {
              paths.push(path)
              return respond(path.endsWith("/get_server_capabilities") ? { supported_models: [] } : {})
            }),
          stream: () => Effect.dieMessage("no streams here")
        }))
      )
      assert.deepStrictEqual(paths, ["/api/v1/client/config", "/api/v1/get_server_capabilities"])
    }))
})

describe("Tinker", () => {
  it.effect("one configuration and one credential for all clients, which share what they learn of the server", () => {
    const { client, seen } = answering(({ url }) =>
      Response.json(
        url.endsWith("/get_server_capabilities")
          ? { supported_models: [] }
          : url.endsWith("/models")
          ? { data: [] }
          : {}
      )
    )
    return Effect.gen(function*() {
      yield* capabilities
      yield* Effect.flatMap(RestClient.RestClient, (rest) => rest.getServerCapabilities)
      yield* Effect.flatMap(OpenAiCompat.OpenAiCompat, (openai) => openai.models)
      assert.deepStrictEqual(
        seen.map(({ headers, url }) => [
          new URL(url).pathname,
          headers["x-api-key"] ?? headers["authorization"]
        ]),
        [
          ["/api/v1/client/config", "tml-key"],
          ["/api/v1/get_server_capabilities", "tml-key"],
          ["/api/v1/get_server_capabilities", "tml-key"],
          ["/oai/api/v1/models", "Bearer tml-key"]
        ]
      )
    }).pipe(Effect.provide(Tinker.layer(options)), Effect.provide(client))
  })

  it.effect("two services in one program keep their configurations apart", () => {
    const { client, seen } = answering(({ url }) =>
      Response.json(url.endsWith("/models") ? { data: [] } : { supported_models: [] })
    )
    return Effect.gen(function*() {
      yield* capabilities
      yield* Effect.flatMap(OpenAiCompat.OpenAiCompat, (openai) => openai.models)
      assert.deepStrictEqual(new Set(seen.map(({ url }) => new URL(url).host)), new Set(["a.test", "b.test"]))
    }).pipe(
      Effect.provide(Layer.merge(
        ServiceClient.layer(options),
        OpenAiCompat.layer({ ...options, baseUrl: "https://b.test" })
      )),
      Effect.provide(client)
    )
  })
})

describe("fake clients", () => {
  const unused = Effect.dieMessage("not used by this test")

  const sampler: SamplingClient.Service = {
    samplingSessionId: SamplingSessionId.make("fake"),
    sample: () => unused,
    computeLogprobs: () => Effect.succeed(Float32Array.of(Number.NaN, -1)),
    sampleMany: () => Stream.empty,
    baseModel: Effect.succeed("fake/model"),
    events: Stream.empty,
    get handle() {
      return Effect.runSync(unused)
    }
  }

  const training: TrainingClient.Service = {
    modelId: ModelId.make("fake"),
    forward: () => unused,
    forwardBackward: () => unused,
    forwardBackwardCustom: () => unused,
    optimStep: () => unused,
    trainStep: () => unused,
    saveState: () => unused,
    loadState: () => unused,
    loadStateWithOptimizer: () => unused,
    saveWeightsForSampler: () => unused,
    saveWeightsEphemeral: unused,
    saveWeightsAndGetSamplingClient: () => Effect.succeed(sampler),
    createSamplingClient: () => Effect.succeed(sampler),
    saveWeightsExternal: () => unused,
    settle: unused,
    getInfo: unused,
    tokenizerId: Effect.succeed("fake/tokenizer")
  }

  const service: ServiceClient.Service = {
    sessionId: unused,
    clientConfig: unused,
    dynamicConfig: unused,
    serverCapabilities: unused,
    health: Effect.succeed({ _tag: "NotStarted" }),
    healthChanges: Stream.empty,
    finish: () => Effect.void,
    createLoraTrainingClient: () => Effect.succeed(training),
    createTrainingClientFromState: () => Effect.succeed(training),
    createSamplingClient: () => Effect.succeed(sampler),
    samplingClientFromHandle: () => Effect.succeed(sampler),
    uploadLoss: () => unused
  }

  it.scoped("a ServiceClient from Layer.succeed makes the clients of a program", () =>
    Effect.gen(function*() {
      const made = yield* TrainingClient.makeLora({ baseModel: "fake/model" })
      assert.strictEqual(yield* made.tokenizerId, "fake/tokenizer")
      assert.strictEqual((yield* TrainingClient.makeFromState({ path: "tinker://run/weights/1" })).modelId, "fake")
      const sampling = yield* SamplingClient.make({ baseModel: "fake/model" })
      assert.strictEqual(yield* sampling.baseModel, "fake/model")
    }).pipe(Effect.provide(Layer.succeed(ServiceClient.ServiceClient, service))))

  it.scoped("so do a TrainingClient and a SamplingClient", () =>
    Effect.gen(function*() {
      const made = yield* TrainingClient.TrainingClient
      const sampling = yield* made.saveWeightsAndGetSamplingClient()
      assert.strictEqual(sampling, yield* SamplingClient.SamplingClient)
    }).pipe(
      Effect.provide(Layer.succeed(TrainingClient.TrainingClient, training)),
      Effect.provide(Layer.succeed(SamplingClient.SamplingClient, sampler))
    ))
})
