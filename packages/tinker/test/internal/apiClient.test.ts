import { HttpClient } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import type { Clock } from "effect"
import { Chunk, Effect, Either, Fiber, Layer, Logger, Schedule, Schema, Stream, TestClock } from "effect"
import { Credentials, RetryPolicy, TinkerConfig, TinkerTransport } from "effect-tinker"
import { Api, ClientConfig, Endpoint } from "effect-tinker/wire"
import * as ApiClient from "../../src/internal/transport/apiClient.js"
import * as ApiRequest from "../../src/internal/transport/apiRequest.js"
import { answering, json, live, over, script, status } from "../utils/transport.js"

const submit = Endpoint.make("submit", "POST", "/api/v1/things/{thing_id}", {
  pool: "training",
  retry: "submit",
  request: Schema.Struct({ thing_id: Schema.String, n: Schema.Number }),
  response: Endpoint.json(Schema.Struct({ ok: Schema.Boolean }))
})

const request = { thing_id: "a:b/c d", n: 1 }

describe("transport", () => {
  it.effect("reads large answers only where results are large", () =>
    Effect.gen(function*() {
      const limits = (config: TinkerConfig.Service) => {
        const prepare = ApiRequest.prepare(config)
        const megabytes = <A, B>(endpoint: Endpoint.Endpoint<A, B>) =>
          prepare(endpoint).request(
            { params: {}, query: Endpoint.noQuery, body: undefined },
            {
              attempt: 0,
              secret: undefined,
              idempotencyKey: undefined,
              headers: undefined,
              timeout: undefined,
              sdkMethod: undefined
            }
          ).maxBytes / 2 ** 20
        return [megabytes(Api.capabilities), megabytes(Api.retrieveFuture), megabytes(Api.retrieveFutures)]
      }
      const key = { apiKey: "tml-key" }
      assert.deepStrictEqual(limits(yield* TinkerConfig.make(key)), [32, 512, 512])
      assert.deepStrictEqual(limits(yield* TinkerConfig.make({ ...key, maxResponseBytes: 2 ** 20 })), [1, 1, 1])
    }))

  it.effect("sends what the endpoint says, with path, body, credential and names", () => {
    const { client, seen } = script([json({ ok: true, extra: 1 })])
    return Effect.gen(function*() {
      const { call } = yield* ApiClient.ApiClient
      assert.deepStrictEqual(yield* call(submit, request), { ok: true })
      assert.strictEqual(seen[0]?.url, "http://localhost:1/prefix/api/v1/things/a:b/c%20d")
      assert.strictEqual(seen[0]?.method, "POST")
      assert.strictEqual(seen[0]?.headers["x-api-key"], "tml-key")
      assert.match(seen[0]?.headers["user-agent"] ?? "", /^effect-tinker\/\d.*tinker 0\.38\.0/)
      assert.match(seen[0]?.headers["x-idempotency-key"] ?? "", /^effect-tinker-[0-9a-f]{32}-1$/)
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("retries with the same idempotency key and counts the attempts", () => {
    const { client, seen } = script([status(503), status(409), json({ ok: true })])
    return Effect.gen(function*() {
      const { call } = yield* ApiClient.ApiClient
      const fiber = yield* Effect.fork(call(submit, request))
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* Fiber.join(fiber), { ok: true })
      assert.strictEqual(new Set(seen.map(({ headers }) => headers["x-idempotency-key"])).size, 1)
      assert.deepStrictEqual(seen.map(({ headers }) => headers["x-stainless-retry-count"]), ["0", "1", "2"])
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("a wall clock that jumps, as after a machine has slept, does not use up the budget of retries", () => {
    let hours = 0
    const { client, seen } = script([
      status(503),
      () => {
        hours = 5
        return status(503)()
      },
      json({ ok: true })
    ])
    return Effect.gen(function*() {
      const clock = yield* Effect.clock
      const wall = (millis: number) => millis + hours * 3_600_000
      const jumping: Clock.Clock = {
        ...clock,
        sleep: (duration) => clock.sleep(duration),
        currentTimeNanos: clock.currentTimeNanos,
        unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos(),
        unsafeCurrentTimeMillis: () => wall(clock.unsafeCurrentTimeMillis()),
        currentTimeMillis: Effect.map(clock.currentTimeMillis, wall)
      }
      const { call } = yield* ApiClient.ApiClient
      const fiber = yield* Effect.fork(Effect.withClock(call(submit, request), jumping))
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(yield* Fiber.join(fiber), { ok: true })
      assert.strictEqual(seen.length, 3)
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("says that it goes on trying, after a few seconds and then once a minute, however many calls fail", () => {
    const { client } = script([status(503)])
    const warned: Array<string> = []
    const Warnings = Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ logLevel, message }) => {
        if (logLevel._tag === "Warning") warned.push(String(message))
      })
    )
    return Effect.gen(function*() {
      const { call } = yield* ApiClient.ApiClient
      yield* Effect.fork(Effect.all([call(submit, request), call(submit, request)], { concurrency: 2 }))
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(warned, [])
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(warned, ["Api.submit: the server is unavailable (status 503): no; retrying"])
      yield* TestClock.adjust("70 seconds")
      assert.strictEqual(warned.length, 2)
    }).pipe(Effect.provide(Warnings), Effect.provide(live(client)))
  })

  it.effect("attempt is one attempt: raw answer or tagged error with its body", () => {
    const { client, seen } = script([status(503, { "x-request-id": "r1" }), json({ any: 1 })])
    return Effect.gen(function*() {
      const { attempt } = yield* ApiClient.ApiClient
      const poll = { requestId: "q", allowMetadataOnly: true }
      const error = yield* Effect.flip(attempt(Api.retrieveFuture, poll))
      assert.strictEqual(error._tag, "Unavailable")
      assert.deepStrictEqual(error.body, { detail: "no" })
      assert.strictEqual(error.requestId, "r1")
      const answer = yield* attempt(Api.retrieveFuture, poll)
      assert.strictEqual(new TextDecoder().decode(answer.body), "{\"any\":1}")
      assert.strictEqual(seen.length, 2)
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("policies are replaced for a call, for an effect and for a client", () => {
    const { client, seen } = script([status(503)])
    return Effect.gen(function*() {
      const { call } = yield* ApiClient.ApiClient
      yield* Effect.exit(call(submit, request, { retry: Schedule.stop }))
      assert.strictEqual(seen.length, 1)
      yield* Effect.exit(RetryPolicy.withoutRetries(call(submit, request)))
      assert.strictEqual(seen.length, 2)
      yield* Effect.gen(function*() {
        const { call } = yield* ApiClient.ApiClient
        yield* Effect.exit(call(submit, request))
        assert.strictEqual(seen.length, 3)
      }).pipe(
        Effect.provide(
          Layer.provide(
            live(client),
            Layer.succeed(RetryPolicy.RetryPolicy, {
              ...RetryPolicy.defaults,
              submit: RetryPolicy.never
            })
          )
        )
      )
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("an interrupted call gives its permit back and is not retried", () => {
    const { client, seen } = script([status(503)])
    return Effect.gen(function*() {
      const { call, tenant } = yield* ApiClient.ApiClient
      const fiber = yield* Effect.fork(call(submit, request))
      yield* TestClock.adjust("100 millis")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(seen.length, 1)
      assert.strictEqual(yield* tenant.pools.training.limit.balance, TinkerConfig.defaultPoolLimits.training)
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("the outcome of a call has the error of every attempt, however it ended", () => {
    const { client, seen } = script([status(503), status(429), json({ ok: true }), status(503), status(400)])
    return Effect.gen(function*() {
      const { outcome } = yield* ApiClient.ApiClient
      const tags = ({ failures }: ApiClient.Outcome<unknown>) => failures.map(({ _tag }) => _tag)
      const first = yield* Effect.fork(outcome(submit, request))
      yield* TestClock.adjust("10 minutes")
      const succeeded = yield* Fiber.join(first)
      assert.isTrue(Either.isRight(succeeded.result))
      assert.deepStrictEqual(tags(succeeded), ["Unavailable", "RateLimited"])
      const second = yield* Effect.fork(outcome(submit, request))
      yield* TestClock.adjust("10 minutes")
      const failed = yield* Fiber.join(second)
      assert.deepStrictEqual(tags(failed), ["Unavailable", "BadRequest"])
      assert.isTrue(Either.isLeft(failed.result) && failed.result.left === failed.failures[1])
      assert.strictEqual(seen.length, 5)
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("a request cancelled on the fast path gives its place in the pool back", () => {
    let cancelled = 0
    const silent = Layer.succeed(TinkerTransport.TinkerTransport, {
      send: TinkerTransport.fromUnsafeSend(() => ({ cancel: () => cancelled++ })),
      stream: () => Effect.dieMessage("nothing is streamed")
    })
    return Effect.gen(function*() {
      const { call, tenant } = yield* ApiClient.ApiClient
      const { training } = TinkerConfig.defaultPoolLimits
      const fiber = yield* Effect.fork(call(submit, request))
      yield* TestClock.adjust("100 millis")
      assert.strictEqual(yield* tenant.pools.training.limit.balance, training - 1)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(cancelled, 1)
      assert.strictEqual(yield* tenant.pools.training.limit.balance, training)
    }).pipe(Effect.provide(live(silent)))
  })

  it.effect("a token that the server rejected is not presented again", () => {
    let exchanges = 0
    const { client, seen } = answering(({ url }) =>
      url.endsWith("/auth/token") ? Response.json({ jwt: `eyJ.token-${++exchanges}.sig` }) : status(401)()
    )
    return Effect.gen(function*() {
      const { call, configure } = yield* ApiClient.ApiClient
      yield* configure({ tokenExchange: "default" })
      for (let n = 0; n < 2; n++) {
        const error = yield* Effect.flip(call(submit, request))
        assert.strictEqual(error._tag, "Authentication")
      }
      const presented = seen.filter(({ url }) => !url.endsWith("/auth/token")).map(({ headers }) =>
        headers["x-api-key"]
      )
      assert.deepStrictEqual(presented, ["eyJ.token-1.sig", "eyJ.token-2.sig"])
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("times out by the clock", () =>
    Effect.gen(function*() {
      const { attempt } = yield* ApiClient.ApiClient
      const fiber = yield* Effect.fork(Effect.flip(attempt(submit, request, { timeout: "3 seconds" })))
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "TimedOut")
    }).pipe(Effect.provide(live(over(HttpClient.make(() => Effect.never))))))

  it.effect("input that cannot be sent is refused here", () => {
    const { client, seen } = script([json({ ok: true })])
    return Effect.gen(function*() {
      const { call } = yield* ApiClient.ApiClient
      for (const thing_id of ["", "..", "a/../b", "a//b"]) {
        const error = yield* Effect.flip(call(submit, { thing_id, n: 1 }))
        assert.strictEqual(error._tag, "InvalidInput", thing_id)
      }
      const bad: { thing_id: string; n: number; more: number } = { thing_id: "x", n: 1, more: 2 }
      assert.strictEqual((yield* Effect.flip(call(submit, bad)))._tag, "InvalidInput")
      assert.strictEqual(seen.length, 0)
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("answers that break the promise are MalformedResponse", () => {
    const bodies = ["", "null", "<html>", "{\"ok\":1}", "[", "{\"ok\":true"]
    const { client } = script(
      bodies.map((body) => () => new Response(body, { headers: { "content-type": "text/html" } }))
    )
    return Effect.gen(function*() {
      const { call } = yield* ApiClient.ApiClient
      for (const body of bodies) {
        assert.strictEqual((yield* Effect.flip(call(submit, request)))._tag, "MalformedResponse", body)
      }
    }).pipe(Effect.provide(live(client)))
  })

  it.effect("servers with other paths: a prefix of their own, a path of their own", () => {
    const { client, seen } = script([json({ ok: true })])
    return Effect.gen(function*() {
      const { attempt } = yield* ApiClient.ApiClient
      yield* attempt(submit, request)
      yield* attempt(Api.retrieveFuture, { requestId: "17", allowMetadataOnly: false })
      yield* attempt(Api.dynamicConfig, new ClientConfig.ClientConfigRequest({ sdkVersion: TinkerConfig.wireVersion }))
      assert.deepStrictEqual(seen.map(({ url }) => new URL(url).pathname), [
        "/prefix/tinker/v2/things/a:b/c%20d",
        "/prefix/poll",
        "/prefix/tinker/v2/client/dynamic_config"
      ])
      assert.strictEqual(seen[2]?.body, "{\"sdk_version\":\"0.38.0\"}")
    }).pipe(Effect.provide(live(client, { apiPrefix: "/tinker/v2", paths: { retrieveFuture: "/poll" } })))
  })

  it.effect("without a credential no header claims one", () => {
    const { client, seen } = script([json({ ok: true })])
    return Effect.gen(function*() {
      const { attempt } = yield* ApiClient.ApiClient
      yield* attempt(submit, request, { headers: { "x-extra": "1" } })
      assert.isFalse("x-api-key" in (seen[0]?.headers ?? {}))
      assert.strictEqual(seen[0]?.headers["x-extra"], "1")
    }).pipe(
      Effect.provide(ApiClient.layer.pipe(
        Layer.provide(Layer.merge(Credentials.layerAnonymous, TinkerConfig.layer({ baseUrl: "http://localhost:1" }))),
        Layer.provide(client)
      ))
    )
  })

  it.effect("after its scope has closed, calls fail as Closed", () => {
    const { client, seen } = script([json({ ok: true })])
    return Effect.gen(function*() {
      const { call } = yield* Effect.provide(ApiClient.ApiClient, live(client))
      assert.strictEqual((yield* Effect.flip(call(submit, request)))._tag, "Closed")
      assert.strictEqual(seen.length, 0)
    })
  })

  it.effect("streams a body, retrying until it begins", () => {
    const { client, seen } = script([status(503), () => new Response("hello")])
    return Effect.gen(function*() {
      const { stream, tenant } = yield* ApiClient.ApiClient
      const fiber = yield* Effect.fork(Stream.runCollect(Stream.decodeText(stream(submit, request))))
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual(Chunk.join(yield* Fiber.join(fiber), ""), "hello")
      assert.strictEqual(seen.length, 2)
      assert.strictEqual(yield* tenant.pools.training.limit.balance, TinkerConfig.defaultPoolLimits.training)
    }).pipe(Effect.provide(live(client)))
  })
})
