import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Fiber, Layer, Metric, TestClock } from "effect"
import { Datum, Metrics, ModelInput, SamplingClient, ServiceClient } from "../src/index.js"
import * as Server from "./utils/recordingServer.js"
import * as Sampling from "./utils/samplingServer.js"
import * as Training from "./utils/trainingServer.js"

const settle = Effect.yieldNow().pipe(Effect.repeatN(200))

const count = (metric: Metric.Metric.Counter<number>, tags: Readonly<Record<string, string>> = {}) =>
  Effect.map(
    Metric.value(Object.entries(tags).reduce((tagged, [key, value]) => Metric.tagged(tagged, key, value), metric)),
    (state) => state.count
  )

const millis = (metric: Metrics.Millis, tag: string, value: string) =>
  Effect.map(Metric.value(Metric.tagged(metric, tag, value)), ({ count, max }) => ({ count, max }))

// Metrics belong to the process, so one test does it all.
describe("Metrics", () => {
  it.scoped("requests, bytes, retries, waits, tokens, steps and what is under way are counted", () =>
    Effect.gen(function*() {
      let refusals = 2
      const answered = yield* Effect.makeLatch(false)
      const training = Training.make({
        accept: ({ path }) => path === "optim_step" && refusals-- > 0 ? Server.refuse(503) : undefined,
        result: (request) => request?.seqId === 1 ? Effect.as(answered.await, undefined) : undefined
      })
      const before = {
        requests: yield* count(Metrics.requests, { endpoint: "optimStep" }),
        retries: yield* count(Metrics.retries, { endpoint: "optimStep" }),
        failures: yield* count(Metrics.failures, { endpoint: "optimStep", error: "Unavailable" }),
        backoff: yield* count(Metrics.backoffTime, { endpoint: "optimStep" }),
        sent: yield* count(Metrics.bytesSent, { endpoint: "forwardBackward" }),
        received: yield* count(Metrics.bytesReceived, { endpoint: "retrieveFuture" }),
        tokens: yield* count(Metrics.tokensIn, { operation: "ForwardBackward" }),
        turns: yield* millis(Metrics.queueWait, "queue", "turn"),
        operations: yield* millis(Metrics.operationTime, "operation", "OptimStep"),
        steps: (yield* Metric.value(Metrics.stepTime)).count
      }
      const client = yield* Training.client(training)
      const data = [Either.getOrThrow(Datum.fromTokens([1, 2, 3])), Either.getOrThrow(Datum.fromTokens([4, 5]))]
      const pass = yield* client.forwardBackward(data, "cross_entropy")
      const polling = yield* Effect.fork(pass)
      yield* settle
      const underWay = Metric.value(Metric.tagged(Metrics.inFlight, "pool", "futures"))
      assert.strictEqual((yield* underWay).value, 1)
      yield* answered.open
      yield* Fiber.join(polling)
      assert.strictEqual((yield* underWay).value, 0)
      for (let step = 0; step < 2; step++) {
        const fiber = yield* Effect.fork(Effect.flatten(client.optimStep()))
        yield* settle
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(fiber)
      }
      assert.strictEqual(yield* count(Metrics.requests, { endpoint: "optimStep" }), before.requests + 4)
      assert.strictEqual(yield* count(Metrics.retries, { endpoint: "optimStep" }), before.retries + 2)
      assert.strictEqual(
        yield* count(Metrics.failures, { endpoint: "optimStep", error: "Unavailable" }),
        before.failures + 2
      )
      const backoff = (yield* count(Metrics.backoffTime, { endpoint: "optimStep" })) - before.backoff
      assert.isTrue(backoff >= 1_125 && backoff <= 1_500, String(backoff))
      assert.strictEqual(
        yield* count(Metrics.bytesSent, { endpoint: "forwardBackward" }),
        before.sent + (training.of("forward_backward")[0]?.body.length ?? Number.NaN)
      )
      assert.isAbove(yield* count(Metrics.bytesReceived, { endpoint: "retrieveFuture" }), before.received)
      const tokens = data.reduce((sum, { modelInput }) => sum + Either.getOrThrow(ModelInput.length(modelInput)), 0)
      assert.strictEqual(yield* count(Metrics.tokensIn, { operation: "ForwardBackward" }), before.tokens + tokens)
      assert.strictEqual((yield* millis(Metrics.queueWait, "queue", "turn")).count, before.turns.count + 3)
      const operations = yield* millis(Metrics.operationTime, "operation", "OptimStep")
      assert.strictEqual(operations.count, before.operations.count + 2)
      // a difference of counters is rounded
      assert.isAtLeast(operations.max, backoff - 1e-6)
      const steps = yield* Metric.value(Metrics.stepTime)
      assert.strictEqual(steps.count, before.steps + 1)

      let limits = 1
      const sampling = Sampling.make(
        { sequences: [{ stop_reason: "stop", tokens: [7, 8], logprobs: [-0.5, -0.25] }] },
        (seen) => seen.path === "/api/v1/asample" && limits-- > 0 ? Server.refuse(429) : undefined
      )
      const out = yield* count(Metrics.tokensOut)
      const inSample = yield* count(Metrics.tokensIn, { operation: "Sample" })
      const dispatched = yield* millis(Metrics.queueWait, "queue", "dispatch")
      const samples = yield* millis(Metrics.operationTime, "operation", "Sample")
      const context = yield* Layer.build(ServiceClient.layer(Server.options).pipe(Layer.provide(sampling.layer)))
      const sampler = yield* Effect.provide(SamplingClient.make({ baseModel: "m" }), context)
      const held = {
        retries: yield* count(Metrics.retries, { endpoint: "asample" }),
        backoff: yield* count(Metrics.backoffTime, { endpoint: "asample" })
      }
      const sample = yield* Effect.fork(sampler.sample({ prompt: ModelInput.fromInts([1, 2, 3]) }))
      yield* settle
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(sample)
      // A limit that the dispatcher waits out is a retry like others.
      assert.strictEqual(yield* count(Metrics.retries, { endpoint: "asample" }), held.retries + 1)
      assert.isAbove(yield* count(Metrics.backoffTime, { endpoint: "asample" }), held.backoff)
      assert.strictEqual(yield* count(Metrics.tokensOut), out + 2)
      assert.strictEqual(yield* count(Metrics.tokensIn, { operation: "Sample" }), inSample + 3)
      assert.strictEqual((yield* millis(Metrics.queueWait, "queue", "dispatch")).count, dispatched.count + 1)
      assert.strictEqual((yield* millis(Metrics.operationTime, "operation", "Sample")).count, samples.count + 1)
    }))
})
