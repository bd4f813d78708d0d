import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Metric, Option, Schema, Scope, TestClock } from "effect"
import {
  Metrics,
  ModelInput,
  RestClient,
  SamplingClient,
  ServiceClient,
  TinkerConfig,
  TinkerError,
  TrainingClient
} from "../../src/index.js"
import type * as Observer from "../../src/internal/observability/observer.js"
import * as Telemetry from "../../src/internal/observability/telemetry.js"
import * as TelemetryEvents from "../../src/internal/observability/telemetryEvents.js"
import * as ApiClient from "../../src/internal/transport/apiClient.js"
import { Id, TelemetryEvent } from "../../src/wire.js"
import * as Server from "../utils/recordingServer.js"
import * as Sampling from "../utils/samplingServer.js"
import * as Training from "../utils/trainingServer.js"
import { live } from "../utils/transport.js"

const settle = Effect.yieldNow().pipe(Effect.repeatN(200))

const accepted = Server.json({ status: "accepted" })

const options = { ...Server.options, telemetry: true } as const

/** A server that takes reports, or does what the test says. */
const reporting = (answer: (n: number) => Effect.Effect<Server.Answer> | Server.Answer, other?: Server.Handler) => {
  let n = 0
  return Server.make((seen) => seen.path === "/api/v1/telemetry" ? answer(n++) : other?.(seen))
}

const decode = Schema.decodeUnknownSync(TelemetryEvent.TelemetrySendRequest)

/** What arrived, read strictly by the schema the embedded backend reads it with. */
const batches = (server: ReturnType<typeof Server.make>) => server.of("telemetry").map(({ json }) => decode(json))

const events = (server: ReturnType<typeof Server.make>) => batches(server).flatMap((batch) => batch.events)

const named = (event: TelemetryEvent.TelemetryEvent): string =>
  event.event === "GENERIC_EVENT" ? event.eventName : event.event

/** A transport with reports to the service, in a scope the test closes itself. */
const open = Effect.fnUntraced(function*(server: ReturnType<typeof Server.make>) {
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(live(server.layer, options), scope)
  const transport = yield* Effect.provide(ApiClient.ApiClient, context)
  const telemetry = yield* Scope.extend(Telemetry.make(transport), scope)
  return { scope, transport, telemetry, close: Scope.close(scope, Exit.void) }
})

const failure = new TinkerError.Unavailable({ module: "TrainingClient", method: "optimStep", status: 503 })
const refusal = new TinkerError.BadRequest({ module: "TrainingClient", method: "optimStep", status: 422 })

const attemptFailed = (
  error: TinkerError.TinkerError,
  attempt = 0
): Extract<Observer.Event, { readonly _tag: "AttemptFailed" }> => ({
  _tag: "AttemptFailed",
  endpoint: "optimStep",
  class: "submit",
  attempt,
  error,
  retrying: true,
  elapsed: 0
})

const session = Id.SessionId.make("session-1")

describe("telemetry", () => {
  it.effect("a session reports its start after ten seconds and its end when the scope closes", () =>
    Effect.gen(function*() {
      const server = reporting(() => accepted)
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(
        ServiceClient.layer(options).pipe(Layer.provide(server.layer)),
        scope
      )
      yield* Effect.provide(Effect.flatMap(ServiceClient.ServiceClient, ({ sessionId }) => sessionId), context)
      yield* TestClock.adjust("9 seconds")
      assert.lengthOf(server.of("telemetry"), 0)
      yield* TestClock.adjust("1 seconds")
      assert.deepStrictEqual(events(server).map(named), ["SESSION_START"])
      yield* TestClock.adjust("52345 millis")
      yield* Scope.close(scope, Exit.void)
      const [start, end] = events(server)
      assert.deepStrictEqual([start?.eventSessionIndex, end?.eventSessionIndex], [0, 1])
      assert.isTrue(end?.event === "SESSION_END" && end.duration === "0:01:02.345000")
      const [first, last] = batches(server)
      assert.strictEqual(first?.sessionId, "session-1")
      assert.strictEqual(first?.sdkVersion, TinkerConfig.wireVersion)
      assert.strictEqual(first?.platform, Telemetry.system())
      assert.strictEqual(first?.processUuid, last?.processUuid)
      assert.match(first?.processUuid ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      // The end of the session is the last that is said.
      assert.strictEqual(server.paths().at(-1), "telemetry")
    }))

  it.effect("off by configuration, nothing is sent", () =>
    Effect.gen(function*() {
      const server = reporting(() => accepted)
      yield* Effect.flatMap(ServiceClient.ServiceClient, ({ sessionId }) => sessionId).pipe(
        Effect.zipRight(TestClock.adjust("1 minutes")),
        Effect.provide(ServiceClient.layer({ ...options, telemetry: false }).pipe(Layer.provide(server.layer)))
      )
      assert.lengthOf(server.of("telemetry"), 0)
    }))

  it.effect("a full batch goes at once, and no batch is larger", () =>
    Effect.gen(function*() {
      const server = reporting(() => accepted)
      const { close, transport } = yield* open(server)
      for (let i = 0; i < 250; i++) transport.emit(attemptFailed(failure, i))
      yield* settle
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(batches(server).map((batch) => batch.events.length), [100, 100, 50])
      const all = events(server)
      assert.deepStrictEqual(all.map((event) => event.eventSessionIndex), Array.from({ length: 250 }, (_, i) => i))
      assert.strictEqual(new Set(all.map((event) => event.eventId)).size, 250)
      yield* close
    }))

  it.effect("a full queue drops the oldest and counts them", () =>
    Effect.gen(function*() {
      const before = (yield* Metric.value(Metrics.telemetryDropped)).count
      const server = reporting(() => Server.refuse(503))
      const { close, transport } = yield* open(server)
      const extra = 500
      for (let i = 0; i < Telemetry.maxQueue + extra; i++) transport.emit(attemptFailed(failure, i))
      assert.strictEqual((yield* Metric.value(Metrics.telemetryDropped)).count - before, extra)
      yield* settle
      const first = server.of("telemetry")[0]
      assert.strictEqual(decode(first?.json).events[0]?.eventSessionIndex, extra)
      yield* close
      // Other tests count here as well.
      assert.isAtLeast((yield* Metric.value(Metrics.telemetryDropped)).count - before, Telemetry.maxQueue + extra)
    }))

  it.effect("a failing server is tried again with the same events, ever more rarely", () =>
    Effect.gen(function*() {
      let healthy = false
      const server = reporting(() => healthy ? accepted : Server.refuse(500))
      const { close, telemetry, transport } = yield* open(server)
      telemetry.sessionStarted(session)
      const requests: Array<number> = []
      for (let minute = 0; minute < 30; minute++) {
        const seen = server.of("telemetry").length
        yield* TestClock.adjust("1 minutes")
        requests.push(server.of("telemetry").length - seen)
      }
      // Four attempts belong to one round of the retry policy.
      assert.isAbove(requests[0] ?? 0, 4)
      assert.isAtMost(requests.slice(20).reduce((sum, n) => sum + n, 0), 12)
      healthy = true
      transport.emit(attemptFailed(failure))
      yield* TestClock.adjust("6 minutes")
      const arrived = decode(server.of("telemetry").at(-1)?.json).events
      assert.deepStrictEqual(arrived.map(named), [
        "SESSION_START",
        "InternalClientHolder.execute_with_retries.exception"
      ])
      assert.strictEqual(
        new Set(events(server).filter((event) => event.event === "SESSION_START").map((e) => e.eventId)).size,
        1
      )
      yield* close
    }))

  it.effect("a server without the endpoint is asked once", () =>
    Effect.gen(function*() {
      const server = reporting(() => Server.refuse(404))
      const { close, telemetry, transport } = yield* open(server)
      telemetry.sessionStarted(session)
      yield* TestClock.adjust("10 seconds")
      for (let i = 0; i < 300; i++) transport.emit(attemptFailed(failure))
      yield* TestClock.adjust("10 minutes")
      yield* close
      assert.lengthOf(server.of("telemetry"), 1)
    }))

  it.effect("an answer that lies is taken for an answer; what the server refuses is dropped", () =>
    Effect.gen(function*() {
      const answers = [() => Server.json({ status: "perhaps" }), () => Server.refuse(422), () => accepted]
      const server = reporting((n) => answers[Math.min(n, 2)]?.() ?? accepted)
      const { close, transport } = yield* open(server)
      for (let round = 0; round < 3; round++) {
        transport.emit(attemptFailed(failure, round))
        yield* TestClock.adjust("10 seconds")
      }
      yield* close
      assert.deepStrictEqual(events(server).map((event) => event.eventSessionIndex), [0, 1, 2])
    }))

  it.effect("closing waits a second at most for a server that does not answer", () =>
    Effect.gen(function*() {
      const server = reporting(() => Effect.never)
      const { close, telemetry } = yield* open(server)
      telemetry.sessionStarted(session)
      yield* TestClock.adjust("10 seconds")
      assert.lengthOf(server.of("telemetry"), 1)
      const fiber = yield* Effect.fork(close)
      yield* TestClock.adjust("999 millis")
      assert.isTrue(Option.isNone(yield* fiber.poll))
      yield* TestClock.adjust("1 millis")
      yield* fiber.await
      assert.isTrue(server.of("telemetry").every(({ aborted }) => aborted))
      // What was on its way when the scope closed goes again, with the end of the session.
      assert.deepStrictEqual(decode(server.of("telemetry").at(-1)?.json).events.map(named), [
        "SESSION_START",
        "SESSION_END"
      ])
    }))

  it.effect("a refused credential does not cost those who work their token", () =>
    Effect.gen(function*() {
      let tokens = 0
      const server = reporting(() => Server.refuse(401), (seen) => {
        if (seen.path === "/api/v1/client/config") return Server.json({ pjwt_auth_enabled: true })
        if (seen.path !== "/api/v1/auth/token") return undefined
        tokens++
        return Server.json({ jwt: `eyJhbGciOiJub25lIn0.${btoa(JSON.stringify({ exp: 4_000_000_000 }))}.x` })
      })
      yield* Effect.gen(function*() {
        const service = yield* ServiceClient.ServiceClient
        yield* service.sessionId
        yield* TestClock.adjust("2 minutes")
        yield* Effect.either(service.serverCapabilities)
        assert.isAbove(server.of("telemetry").length, 1)
        assert.strictEqual(tokens, 1)
      }).pipe(Effect.provide(ServiceClient.layer(options).pipe(Layer.provide(server.layer))))
    }))

  it.effect("a failed operation is reported once, by whose fault it was, and its caller does not wait", () =>
    Effect.gen(function*() {
      const server = Training.make({
        accept: ({ seqId }) => seqId === 1 ? Server.refuse(422, { detail: "token 128009 is secret" }) : undefined,
        result: (request) =>
          request === undefined ? undefined : Server.json({ error: "the GPU said: secret", category: "server" }),
        other: (seen) => seen.path === "/api/v1/telemetry" ? Effect.never : undefined
      })
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(
        ServiceClient.layer(options).pipe(Layer.provide(server.layer)),
        scope
      )
      yield* Effect.gen(function*() {
        const training = yield* TrainingClient.makeLora({ baseModel: "base" })
        const refused = yield* Effect.flip(training.optimStep())
        assert.strictEqual(refused._tag, "BadRequest")
        const future = yield* training.optimStep()
        assert.strictEqual((yield* Effect.flip(future))._tag, "RequestFailed")
        // Asking again does not tell it again.
        yield* Effect.flip(future)
      }).pipe(Scope.extend(scope), Effect.provide(context))
      const fiber = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("1 seconds")
      yield* fiber.await
      const told = decode(server.seen.filter(({ path }) => path.endsWith("/telemetry")).at(-1)?.json).events
      assert.deepStrictEqual(told.map((event) => [named(event), event.severity]), [
        ["SESSION_START", "INFO"],
        ["InternalClientHolder.execute_with_retries.exception", "WARNING"],
        ["user_error", "WARNING"],
        ["APIFuture.result_async.application_error", "ERROR"],
        ["UNHANDLED_EXCEPTION", "ERROR"],
        ["SESSION_END", "INFO"]
      ])
      const user = told[2]
      assert.deepStrictEqual(user?.event === "GENERIC_EVENT" ? user.eventData : {}, {
        error_type: "UnprocessableEntityError",
        message: "TrainingClient.optimStep: BadRequest (status 422)",
        status_code: 422
      })
      const exception = told[4]
      assert.isTrue(exception?.event === "UNHANDLED_EXCEPTION" && exception.errorType === "RequestFailedError")
      assert.notInclude(JSON.stringify(server.seen.filter(({ path }) => path.endsWith("/telemetry"))), "secret")
    }))

  it.effect("a sample is reported with how often it was asked for, also while it is asked for again", () =>
    Effect.gen(function*() {
      const server = Sampling.make({}, (seen) => {
        if (seen.path === "/api/v1/telemetry") return accepted
        if (seen.path === "/api/v1/retrieve_future") return Server.refuse(410)
        return seen.path === "/api/v1/asample" && seen.json["seq_id"] === 2 ? Server.refuse(422) : undefined
      })
      yield* Effect.gen(function*() {
        const sampler = yield* SamplingClient.make({ baseModel: "base" })
        const fiber = yield* Effect.fork(Effect.flip(sampler.sample({ prompt: ModelInput.fromInts([1]) })))
        yield* TestClock.adjust("1 seconds")
        yield* TestClock.adjust("1 seconds")
        assert.strictEqual((yield* Fiber.join(fiber))._tag, "BadRequest")
      }).pipe(Effect.scoped, Effect.provide(ServiceClient.layer(options).pipe(Layer.provide(server.layer))))
      const told = events(server).flatMap((event) =>
        event.event === "GENERIC_EVENT" && event.eventName === "RetryHandler.execute.exception"
          ? [event.eventData]
          : []
      )
      const lost = { should_retry: true, exception_type: "RetryableException", status_code: null }
      const facts = [
        { ...lost, attempt_count: 1 },
        { ...lost, attempt_count: 2 },
        { should_retry: false, exception_type: "UnprocessableEntityError", status_code: 422, attempt_count: 3 }
      ]
      assert.lengthOf(told, facts.length)
      facts.forEach((expected, i) => assert.deepInclude(told[i], expected))
    }))

  it.effect("a client without a session reports under a name of its own, and no session events", () =>
    Effect.gen(function*() {
      const server = reporting(() => accepted)
      yield* Effect.gen(function*() {
        const rest = yield* RestClient.RestClient
        assert.strictEqual((yield* Effect.flip(rest.getSession("nope")))._tag, "NotFound")
      }).pipe(Effect.provide(
        RestClient.layer(options).pipe(Layer.provide(server.layer))
      ))
      assert.deepStrictEqual(events(server).map(named), [
        "InternalClientHolder.execute_with_retries.exception",
        "user_error"
      ])
      assert.match(batches(server)[0]?.sessionId ?? "", /^sessionless-[0-9a-f-]{36}$/)
    }))

  it("beats, polls and our own reports are not reported", () => {
    for (const name of ["heartbeat", "poll", "telemetry"] as const) {
      assert.isUndefined(TelemetryEvents.content({ ...attemptFailed(failure), class: name }, 0))
    }
    assert.isDefined(TelemetryEvents.content(attemptFailed(failure), 0))
  })

  it("errors have the names the service knows", () => {
    const common = { module: "M", method: "m" }
    assert.strictEqual(TelemetryEvents.typeOf(refusal), "UnprocessableEntityError")
    assert.strictEqual(TelemetryEvents.typeOf(failure), "InternalServerError")
    assert.strictEqual(TelemetryEvents.typeOf(new TinkerError.TimedOut(common)), "APITimeoutError")
    assert.strictEqual(TelemetryEvents.typeOf(new TinkerError.TransportFailed(common)), "APIConnectionError")
    assert.strictEqual(TelemetryEvents.typeOf(new TinkerError.BadRequest({ ...common, status: 418 })), "APIStatusError")
    assert.strictEqual(TelemetryEvents.typeOf(new TinkerError.Stuck(common)), "Stuck")
  })

  it("only known fields of plain values pass", () => {
    const content = TelemetryEvents.content({
      _tag: "FutureFailed",
      name: "api_status_error",
      severity: "ERROR",
      error: new TinkerError.BadRequest({
        module: "M",
        method: "m",
        status: 400,
        description: "my prompt",
        body: "my prompt"
      }),
      data: {
        kind: "fatal",
        iteration: 3,
        prompt: "my prompt",
        request_headers: { "x-api-key": "k" },
        status_code: Number.NaN
      }
    }, 0)
    assert.deepStrictEqual(content, {
      _tag: "Generic",
      name: "APIFuture.result_async.api_status_error",
      severity: "ERROR",
      data: {
        kind: "fatal",
        iteration: 3,
        exception: "M.m: BadRequest (status 400)",
        exception_type: "BadRequestError"
      }
    })
  })

  it("the platform has Python's name", () => {
    assert.strictEqual(Telemetry.system({ process: { platform: "win32" } }), "Windows")
    assert.strictEqual(Telemetry.system({ process: { platform: "freebsd" } }), "freebsd")
    assert.strictEqual(
      Telemetry.system({ navigator: { userAgent: "Mozilla/5.0 (Macintosh; Intel Mac OS X)" } }),
      "Darwin"
    )
    assert.strictEqual(Telemetry.system({}), "Unknown")
  })
})
