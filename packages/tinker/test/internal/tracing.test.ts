import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Exit, Fiber, Layer, Scope, TestClock } from "effect"
import { Datum, ModelInput, SamplingClient, ServiceClient, TrainingClient } from "../../src/index.js"
import * as Server from "../utils/recordingServer.js"
import * as Sampling from "../utils/samplingServer.js"
import { recording } from "../utils/tracer.js"
import * as Training from "../utils/trainingServer.js"

const settle = Effect.yieldNow().pipe(Effect.repeatN(200))

const datum = Either.getOrThrow(Datum.fromTokens([1, 2, 3, 4]))

const service = (server: { readonly layer: Training.TrainingServer["layer"] }, options: ServiceClient.Options = {}) =>
  Layer.build(ServiceClient.layer({ ...Server.options, ...options }).pipe(Layer.provide(server.layer)))

describe("tracing", () => {
  it.scoped("a training step shows queueing, encoding, sending, polling and decoding", () =>
    Effect.gen(function*() {
      const { named, path, spans, tracer } = recording()
      let polls = 0
      let refusals = 1
      const server = Training.make({
        accept: ({ path }) => path === "optim_step" && refusals-- > 0 ? Server.refuse(503) : undefined,
        result: (request) =>
          request?.path === "forward_backward" && polls++ === 0
            ? Server.json({ type: "try_again", queue_state: "paused_capacity", queue_state_reason: "busy" })
            : undefined
      })
      yield* Effect.gen(function*() {
        const context = yield* service(server)
        const training = yield* Effect.provide(TrainingClient.makeLora({ baseModel: "base" }), context)
        const run = Effect.gen(function*() {
          const pass = yield* training.forwardBackward([datum], "cross_entropy")
          const step = yield* training.optimStep()
          yield* pass
          yield* step
        }).pipe(Effect.withSpan("step"))
        const fiber = yield* Effect.fork(run)
        yield* settle
        yield* TestClock.adjust("2 seconds")
        yield* Fiber.join(fiber)
      }).pipe(Effect.withTracer(tracer))

      const inStep = spans.filter((span) => path(span).startsWith("step > ")).map(path)
      const operation = "step > TrainingClient.forwardBackward"
      for (
        const expected of [
          operation,
          `${operation} > tinker.queue`,
          `${operation} > tinker.encode`,
          `${operation} > tinker.send`,
          "step > TrainingClient.optimStep > tinker.send",
          "step > TinkerFuture.result",
          "step > TinkerFuture.result > tinker.poll",
          "step > TinkerFuture.result > tinker.decode"
        ]
      ) assert.include(inStep, expected)
      const [pass] = named("TrainingClient.forwardBackward")
      assert.deepStrictEqual(pass?.attributes, {
        "tinker.model_id": "session-1:train:0",
        "tinker.tokens": Either.getOrThrow(ModelInput.length(datum.modelInput)),
        "tinker.data": 1,
        "tinker.loss": "cross_entropy",
        "tinker.seq_id": 1,
        "tinker.request_id": "session-1:train:0/1"
      })
      const encode = named("tinker.encode").find((span) => span.parent === pass?.spanId)
      assert.isAbove(Number(encode?.attributes["tinker.bytes"]), 0)
      const step = named("TrainingClient.optimStep")[0]
      const sends = named("tinker.send").filter((span) => span.parent === step?.spanId)
      assert.deepStrictEqual(
        sends.map(({ attributes }) => [attributes["tinker.attempt"], attributes["http.response.status_code"]]),
        [[0, 503], [1, 200]]
      )
      assert.strictEqual(
        sends[0]?.failure?.split("\n")[0],
        "Unavailable: TrainingClient.optimStep: Unavailable (status 503)"
      )
      const result = named("TinkerFuture.result").find(({ attributes }) =>
        attributes["tinker.request_type"] === "ForwardBackward"
      )
      assert.strictEqual(result?.attributes["tinker.queue_state"], "paused_capacity")
      const iterations = named("tinker.poll").filter((span) => span.parent === result?.spanId)
      assert.deepStrictEqual(iterations.map(({ attributes }) => attributes["tinker.attempt"]), [0, 1])
      assert.isTrue(spans.every(({ end }) => end !== undefined), "every span has ended")
    }))

  it.scoped("a sample is one span from the queue to the decoded result", () =>
    Effect.gen(function*() {
      const { named, path, spans, tracer } = recording()
      const server = Sampling.make({ sequences: [{ stop_reason: "stop", tokens: [7], logprobs: [-0.5] }] })
      yield* Effect.gen(function*() {
        const context = yield* service(server)
        const sampler = yield* Effect.provide(SamplingClient.make({ baseModel: "m" }), context)
        yield* sampler.sample({ prompt: ModelInput.fromInts([1, 2, 3]), numSamples: 1, maxTokens: 5, temperature: 0 })
      }).pipe(Effect.withTracer(tracer))
      const sample = named("SamplingClient.sample")[0]
      assert.deepStrictEqual(sample?.attributes, {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "tinker",
        "gen_ai.request.model": "m",
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.temperature": 0,
        "gen_ai.request.choice.count": 1,
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 1,
        "gen_ai.response.finish_reasons": ["stop"],
        "tinker.sampling_session_id": "session-1:sample:0",
        "tinker.model": "m",
        "tinker.tokens": 3,
        "tinker.num_samples": 1,
        "tinker.seq_id": 0,
        "tinker.request_id": "session-1:sample:0:0"
      })
      const inside = spans.map(path).filter((name) => name.startsWith("SamplingClient.sample > "))
      assert.deepStrictEqual([...new Set(inside)].sort(), [
        "SamplingClient.sample > TinkerFuture.result",
        "SamplingClient.sample > TinkerFuture.result > tinker.decode",
        "SamplingClient.sample > TinkerFuture.result > tinker.poll",
        "SamplingClient.sample > tinker.encode",
        "SamplingClient.sample > tinker.queue",
        "SamplingClient.sample > tinker.send"
      ])
    }))

  it.scoped("an operation that leaves the line ends its spans", () =>
    Effect.gen(function*() {
      const { named, tracer } = recording()
      const server = Training.make({ accept: ({ seqId }) => seqId === 1 ? Effect.never : undefined })
      const scope = yield* Scope.make()
      yield* Effect.gen(function*() {
        const context = yield* Scope.extend(service(server), scope)
        const training = yield* Scope.extend(
          Effect.provide(TrainingClient.makeLora({ baseModel: "base" }), context),
          scope
        )
        yield* Effect.fork(training.optimStep())
        yield* settle
        const second = yield* Effect.fork(training.optimStep())
        yield* settle
        yield* Fiber.interrupt(second)
      }).pipe(Effect.withTracer(tracer))
      const queues = named("tinker.queue")
      assert.lengthOf(queues, 2)
      assert.isTrue(queues.every(({ end }) => end !== undefined))
      assert.isDefined(named("TrainingClient.optimStep")[1]?.end)
      yield* Scope.close(scope, Exit.void)
    }))

  it.scoped("no spans where tracing is off, where no tracer is installed, and for beats and reports", () =>
    Effect.gen(function*() {
      const run = (options: ServiceClient.Options) =>
        Effect.gen(function*() {
          const server = Training.make()
          const context = yield* service(server, options)
          const training = yield* Effect.provide(TrainingClient.makeLora({ baseModel: "base" }), context)
          yield* yield* training.optimStep()
          yield* TestClock.adjust("25 seconds")
          return server
        }).pipe(Effect.scoped)
      const off = recording()
      yield* Effect.withTracer(run({ tracing: false }), off.tracer)
      assert.lengthOf(off.spans, 0)
      const on = recording()
      const server = yield* Effect.withTracer(run({ telemetry: true }), on.tracer)
      assert.isAbove(server.of("session_heartbeat").length, 0)
      assert.isAbove(server.of("telemetry").length, 0)
      const endpoints = new Set(on.spans.map(({ attributes }) => attributes["tinker.endpoint"]))
      assert.isTrue(endpoints.has("optimStep"))
      assert.isFalse(endpoints.has("heartbeat"))
      assert.isFalse(endpoints.has("telemetry"))
      // Built without a tracer, a client stays without spans: the question is asked once.
      const late = recording()
      const context = yield* service(Training.make())
      const training = yield* Effect.provide(TrainingClient.makeLora({ baseModel: "base" }), context)
      yield* Effect.withTracer(Effect.flatten(training.optimStep()), late.tracer)
      assert.lengthOf(late.spans, 0)
    }))

  it.scoped("the trace context goes along only when asked for", () =>
    Effect.gen(function*() {
      const header = (options: ServiceClient.Options, tracer = recording()) =>
        Effect.gen(function*() {
          const server = Training.make()
          const context = yield* service(server, options)
          const training = yield* Effect.provide(TrainingClient.makeLora({ baseModel: "base" }), context)
          yield* Effect.flatten(training.optimStep()).pipe(Effect.withSpan("mine"))
          return { tracer, traceparent: server.of("optim_step")[0]?.headers["traceparent"] }
        }).pipe(Effect.withTracer(tracer.tracer), Effect.scoped)
      assert.isUndefined((yield* header({})).traceparent)
      const own = yield* header({ traceContext: true })
      const send = own.tracer.named("tinker.send").find((span) => span.attributes["tinker.endpoint"] === "optimStep")
      assert.strictEqual(own.traceparent, `00-${send?.traceId}-${send?.spanId}-01`)
      assert.match(own.traceparent ?? "", /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
      // Without spans of ours, the caller's own is the parent.
      const callers = yield* header({ traceContext: true, tracing: false })
      const mine = callers.tracer.named("mine")[0]
      assert.strictEqual(callers.traceparent, `00-${mine?.traceId}-${mine?.spanId}-01`)
    }))
})
