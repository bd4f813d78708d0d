import * as Otlp from "@effect/opentelemetry/Otlp"
import { FetchHttpClient } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer, Metric } from "effect"
import { Datum, Metrics, ModelInput, ServiceClient, TrainingClient } from "effect-tinker"
import * as TinkerLocal from "../src/TinkerLocal.js"
import { attributesOf, start } from "./support/collector.js"

const Local = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
  Layer.provide(TinkerLocal.layer())
)

const batch = [Either.getOrThrow(Datum.fromTokens([3, 1, 4, 1, 5, 9, 2, 6]))]

/** Three training steps and a sample, each step in a span of its own. */
const run = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
  for (let step = 0; step < 3; step++) {
    yield* Effect.gen(function*() {
      const pass = yield* training.forwardBackward(batch, "cross_entropy")
      const stepped = yield* training.optimStep({ learningRate: 5e-4 })
      const { metrics } = yield* pass
      yield* stepped
      yield* Effect.logInfo("stepped").pipe(Effect.annotateLogs({ step, loss: metrics["loss:sum"] }))
    }).pipe(Effect.withSpan("step", { attributes: { step } }))
  }
  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  yield* sampler.sample({ prompt: ModelInput.fromInts([3, 1, 4]), maxTokens: 4, seed: 1 })
}).pipe(Effect.scoped, Effect.withSpan("train"))

describe("OTLP", () => {
  it.scopedLive(
    "a collector gets the spans, metrics and logs of a real training run over OTLP",
    () =>
      Effect.gen(function*() {
        const collector = yield* start
        // Metrics belong to the process: other tests may have counted before.
        const steps = (yield* Metric.value(Metrics.stepTime)).count
        const out = (yield* Metric.value(Metrics.tokensOut)).count
        yield* run.pipe(
          Effect.provide(Local),
          Effect.provide(
            Otlp.layerJson({
              baseUrl: collector.url,
              resource: { serviceName: "test" },
              // a busy machine may take longer than the usual three seconds for what is left at the end
              shutdownTimeout: "20 seconds"
            }).pipe(
              Layer.provide(FetchHttpClient.layer)
            )
          )
        )
        assert.deepStrictEqual(collector.refused, [])
        const { logs, metrics, received, spans } = collector

        const byId = new Map(spans.map((span) => [span.spanId, span]))
        const path = (span: (typeof spans)[number]): string => {
          const up = span.parentSpanId === undefined ? undefined : byId.get(span.parentSpanId)
          return up === undefined ? span.name : `${path(up)} > ${span.name}`
        }
        const paths = new Map<string, number>()
        for (const span of spans) paths.set(path(span), (paths.get(path(span)) ?? 0) + 1)
        const pass = "train > step > TrainingClient.forwardBackward"
        for (const inside of ["tinker.queue", "tinker.encode", "tinker.send"]) {
          assert.strictEqual(paths.get(`${pass} > ${inside}`), 3, inside)
          assert.strictEqual(paths.get(`train > step > TrainingClient.optimStep > ${inside}`), 3, inside)
        }
        assert.strictEqual(paths.get("train > step > TinkerFuture.result"), 6)
        assert.isAtLeast(paths.get("train > step > TinkerFuture.result > tinker.poll") ?? 0, 6)
        assert.strictEqual(paths.get("train > step > TinkerFuture.result > tinker.decode"), 6)
        assert.strictEqual(paths.get("train > SamplingClient.sample > TinkerFuture.result > tinker.decode"), 1)
        const traces = new Set(spans.filter((span) => path(span).startsWith("train")).map(({ traceId }) => traceId))
        assert.strictEqual(traces.size, 1)
        assert.isTrue(spans.every((span) => span.endTimeUnixNano >= span.startTimeUnixNano))

        const passes = spans.filter(({ name }) => name === "TrainingClient.forwardBackward").map(attributesOf)
        assert.deepStrictEqual(passes.map((attributes) => attributes["tinker.seq_id"]), [1, 3, 5])
        assert.deepStrictEqual(passes.map((attributes) => attributes["tinker.tokens"]), [7, 7, 7])
        const sends = spans.filter(({ name }) => name === "tinker.send").map(attributesOf)
        assert.isTrue(sends.every((attributes) => Number(attributes["http.response.status_code"]) < 300))

        const points = (name: string, tag?: string) =>
          (metrics.get(name)?.sum ?? metrics.get(name)?.gauge ?? metrics.get(name)?.histogram)?.dataPoints.filter((
            point
          ) => tag === undefined || Object.values(attributesOf(point)).includes(tag))[0]
        assert.isAtLeast(Number(points("tinker_requests_total", "optimStep")?.asDouble), 3)
        assert.isAtLeast(Number(points("tinker_tokens_in_total", "ForwardBackward")?.asDouble), 21)
        assert.strictEqual(Number(points("tinker_tokens_out_total")?.asDouble), out + 4)
        assert.strictEqual(Number(points("tinker_step_milliseconds")?.count), steps + 2)
        assert.isAtLeast(Number(points("tinker_operation_milliseconds", "Sample")?.count), 1)
        assert.strictEqual(Number(points("tinker_in_flight", "futures")?.asDouble), 0)

        const lines = logs.filter(({ body }) => JSON.stringify(body).includes("stepped")).map(attributesOf)
        assert.lengthOf(lines, 3)
        assert.isTrue(lines.every((attributes) => "loss" in attributes && "step" in attributes))
        assert.notInclude(received.join(""), "tml-")
      })
  )
})
