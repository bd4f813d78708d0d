import { assert, describe, it } from "@effect/vitest"
import {
  Chunk,
  Deferred,
  Duration,
  Effect,
  Either,
  Exit,
  Fiber,
  Layer,
  Logger,
  Option,
  Ref,
  Schema,
  Scope,
  Stream,
  TestClock
} from "effect"
import type { QueueState } from "../src/index.js"
import { Credentials, RetryPolicy, TinkerConfig, TinkerError, TinkerFuture } from "../src/index.js"
import * as Logs from "../src/internal/observability/logs.js"
import * as Poll from "../src/internal/polling/poll.js"
import * as Admission from "../src/internal/transport/admission.js"
import * as ApiClient from "../src/internal/transport/apiClient.js"
import * as Server from "./utils/recordingServer.js"

const decoder = Poll.fromSchema(Schema.Struct({ value: Schema.Number }))
const bytes: Poll.Decoder<{ readonly value: number }> = {
  ...decoder,
  protobuf: (body) => body.length === 1 ? Either.right({ value: body[0] ?? 0 }) : Either.left("not one byte")
}

const protobuf = (value: number) =>
  new Response(Uint8Array.of(value), { headers: { "content-type": "application/x-protobuf" } })

interface Setup {
  readonly config?: Partial<TinkerConfig.Options>
  readonly budget?: Admission.ByteBudget
  readonly decoder?: Poll.Decoder<{ readonly value: number }>
}

/** A future over a server that answers its polls with the handler. */
const setup = (
  handler: (n: number, seen: Server.Seen) => Effect.Effect<Server.Answer> | Server.Answer,
  options: Setup = {}
) =>
  Effect.gen(function*() {
    let n = 0
    const server = Server.make((seen) => seen.path.endsWith("/retrieve_future") ? handler(n++, seen) : undefined)
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer((exit) => Scope.close(scope, exit))
    const layer = ApiClient.layer.pipe(
      Layer.provide(Credentials.layer),
      Layer.provide(TinkerConfig.layer({ ...Server.options, ...options.config })),
      Layer.provide(server.layer)
    )
    const api = yield* Effect.flatMap(Layer.build(layer), (context) => Effect.provide(ApiClient.ApiClient, context))
    const budget = options.budget ?? Admission.makeByteBudget(100)
    const events: Array<QueueState.Event> = []
    const future = TinkerFuture.make({
      api,
      inflight: budget,
      requestId: "req-1",
      requestType: "OptimStep",
      from: { module: "TrainingClient", method: "optimStep" },
      decoder: options.decoder ?? decoder,
      roundtrip: 0.25,
      started: 0,
      seqId: 1,
      scope,
      onEvent: (event) => Effect.sync(() => events.push(event))
    })
    return { future, server, scope, budget, events, api }
  })

const done = (value: number) => Response.json({ value })
const hold = Effect.never
const settle = Effect.yieldNow().pipe(Effect.repeatN(50))

describe("TinkerFuture", () => {
  it.scoped("asks nothing until awaited, then once for all who wait, and keeps the result", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const { future, server } = yield* setup(() => Effect.as(Deferred.await(gate), done(7)))
      yield* settle
      assert.strictEqual(server.seen.length, 0)
      const waiting = yield* Effect.forEach([1, 2, 3], () => Effect.fork(future))
      yield* settle
      yield* Deferred.succeed(gate, undefined)
      for (const fiber of waiting) assert.deepStrictEqual(yield* Fiber.join(fiber), { value: 7 })
      assert.deepStrictEqual(yield* future, { value: 7 })
      assert.strictEqual(server.seen.length, 1)
      assert.deepStrictEqual(future.requestIds, ["req-1"])
      assert.isTrue(TinkerFuture.isTinkerFuture(future))
    }))

  it.scoped("sends the poll's body and headers as the service expects them", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup((n) => n === 0 ? Response.json({ type: "try_again" }) : protobuf(9), {
        decoder: bytes
      })
      assert.deepStrictEqual(yield* future, { value: 9 })
      const [first, second] = server.seen
      assert.deepStrictEqual(first?.json, { request_id: "req-1", allow_metadata_only: true })
      assert.strictEqual(first?.headers["x-tinker-request-iteration"], "0")
      assert.strictEqual(first?.headers["x-tinker-request-type"], "OptimStep")
      assert.strictEqual(first?.headers["x-tinker-create-promise-roundtrip-time"], "0.25")
      assert.include(first?.headers["accept"] ?? "", "application/x-protobuf")
      assert.strictEqual(second?.headers["x-tinker-request-iteration"], "1")
      assert.isUndefined(second?.headers["x-tinker-create-promise-roundtrip-time"])
    }))

  it.scoped("G3: interrupted while polling, the request is aborted at once; waiting again takes the poll up", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup((n) => n === 0 ? hold : done(1))
      const fiber = yield* Effect.fork(future)
      yield* settle
      const exit = yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.isInterrupted(exit))
      assert.isTrue(server.seen[0]?.aborted)
      assert.deepStrictEqual(yield* future, { value: 1 })
      assert.strictEqual(server.seen[1]?.headers["x-tinker-request-iteration"], "1")
    }))

  for (
    const [what, config, seconds] of [
      ["after 45 seconds", {}, 45],
      ["when the configuration says so", { pollTimeout: "5 seconds" }, 5],
      ["later for a server that holds polls longer", { compatibility: TinkerConfig.skyrl }, 330],
      ["as set, whatever the server's habit", { compatibility: TinkerConfig.skyrl, pollTimeout: "20 seconds" }, 20]
    ] as const
  ) {
    it.scoped(`a poll on a silent connection is given up for another one ${what}`, () =>
      Effect.gen(function*() {
        const { events, future, server } = yield* setup((n) => n === 0 ? hold : done(1), { config })
        const fiber = yield* Effect.fork(future)
        yield* TestClock.adjust(Duration.millis(seconds * 1000 - 1))
        assert.deepStrictEqual(events, [])
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(events[0]?._tag, "Retrying")
        yield* TestClock.adjust("1 seconds")
        assert.deepStrictEqual(yield* fiber, { value: 1 })
        assert.strictEqual(server.seen[0]?.headers["x-stainless-read-timeout"], String(seconds))
      }))
  }

  it.scoped("the poll goes on while anyone waits, and is aborted with the last", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup(() => hold)
      const a = yield* Effect.fork(future)
      const b = yield* Effect.fork(future)
      yield* settle
      yield* Fiber.interrupt(a)
      assert.isFalse(server.seen[0]?.aborted)
      yield* Fiber.interrupt(b)
      assert.isTrue(server.seen[0]?.aborted)
      assert.strictEqual(server.seen.length, 1)
    }))

  it.scoped("G12: closing the client's scope ends the poll; those who wait get Closed", () =>
    Effect.gen(function*() {
      const { future, scope, server } = yield* setup(() => hold)
      const fiber = yield* Effect.fork(Effect.flip(future))
      yield* settle
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Closed")
      assert.isTrue(server.seen[0]?.aborted)
      assert.strictEqual((yield* Effect.flip(future))._tag, "Closed")
    }))

  it.scoped("a failed operation is RequestFailed with the server's words and category, and is kept", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup(() => Response.json({ error: "bad batch", category: "User" }))
      const error = yield* Effect.flip(future)
      assert.strictEqual(error._tag, "RequestFailed")
      assert.isTrue(TinkerError.isUserError(error))
      assert.strictEqual(error.requestId, "req-1")
      assert.strictEqual(error.description, "bad batch")
      assert.strictEqual(error.module, "TrainingClient")
      yield* Effect.flip(future)
      assert.strictEqual(server.seen.length, 1)
    }))

  it.scoped("G13: a large result is announced, its bytes reserved, and given back when it is decoded", () =>
    Effect.gen(function*() {
      const budget = Admission.makeByteBudget(100)
      const balances: Array<number> = []
      const { future, server } = yield* setup((n) =>
        Effect.gen(function*() {
          balances.push(yield* budget.balance)
          return n === 0
            ? Response.json({ status: "complete_metadata", response_payload_size: 1_000 })
            : n === 1
            ? Response.json({ type: "try_again" })
            : done(3)
        }), { budget })
      assert.deepStrictEqual(yield* future, { value: 3 })
      assert.deepStrictEqual(balances, [100, -900, -900])
      assert.deepStrictEqual(server.seen.map(({ json }) => json["allow_metadata_only"]), [true, false, false])
      assert.strictEqual(yield* budget.balance, 100)
    }))

  it.scoped("G13: interrupted while it waits for bytes, nothing leaks; afterwards the size is asked for anew", () =>
    Effect.gen(function*() {
      const budget = Admission.makeByteBudget(10)
      const gate = yield* Deferred.make<void>()
      const holder = yield* Effect.fork(budget.withBytes(50)(Deferred.await(gate)))
      const { future, server } = yield* setup((_, seen) =>
        seen.json["allow_metadata_only"] === true
          ? Response.json({ status: "complete_metadata", response_payload_size: 5 })
          : done(1), { budget })
      const fiber = yield* Effect.fork(future)
      yield* settle
      assert.strictEqual(yield* budget.waiting, 1)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* budget.waiting, 0)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(holder)
      assert.deepStrictEqual(yield* future, { value: 1 })
      assert.strictEqual(yield* budget.balance, 10)
      assert.deepStrictEqual(server.seen.map(({ json }) => json["allow_metadata_only"]), [true, true, false])
    }))

  it.scoped("G14: queue states of try_again and of 408 reach the stream, the observer and the log at once", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const { events, future, api } = yield* setup((n) => {
        switch (n) {
          case 0:
            return Response.json({ type: "try_again", queue_state: "paused_capacity" })
          case 1:
            return Server.refuse(408, { queue_state: "paused_rate_limit", queue_state_reason: "too many" })
          case 2:
            return Server.refuse(408, "not json")
          case 3:
            return Response.json({ type: "try_again", queue_state: "a_new_word" })
          default:
            return Effect.as(Deferred.await(gate), done(1))
        }
      })
      const observed: Array<string> = []
      yield* api.observe((event) => event._tag === "QueueState" ? observed.push(event.state) : undefined)
      const watcher = yield* Effect.fork(Stream.runCollect(future.events))
      yield* settle
      const fiber = yield* Effect.fork(future)
      yield* TestClock.adjust("5 seconds")
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(fiber)
      const states = ["paused_capacity", "paused_rate_limit", "a_new_word"]
      const stateOf = (event: QueueState.Event) => event._tag === "Queued" ? event.state : event._tag
      assert.deepStrictEqual(events.map(stateOf), states)
      assert.deepStrictEqual(Chunk.toReadonlyArray(yield* Fiber.join(watcher)).map(stateOf), states)
      assert.deepStrictEqual(observed, states)
      assert.strictEqual(events[1]?._tag === "Queued" ? events[1].reason : undefined, "too many")
    }))

  it.scoped("a server that answers try_again at once is not asked in a hot loop", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup(() => Response.json({ type: "try_again" }))
      const fiber = yield* Effect.fork(future)
      yield* TestClock.adjust("1 minutes")
      assert.isBelow(server.seen.length, 75)
      assert.isAbove(server.seen.length, 30)
      yield* Fiber.interrupt(fiber)
    }))

  it.scoped("a server that holds the request is asked again without delay", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup(() =>
        Effect.delay(Effect.sync(() => Server.refuse(408, {})), "30 seconds")
      )
      const fiber = yield* Effect.fork(future)
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(server.seen.length, 11)
      yield* Fiber.interrupt(fiber)
    }))

  it.scoped("5xx, 429 and broken connections back off by the poll policy, which a good answer resets", () =>
    Effect.gen(function*() {
      const times: Array<number> = []
      const { events, future } = yield* setup((n) =>
        Effect.gen(function*() {
          times.push(yield* Effect.clockWith((clock) => clock.currentTimeMillis))
          if (n < 4) return Server.refuse(n % 2 === 0 ? 503 : 429)
          if (n === 4) return Response.json({ type: "try_again" })
          return n === 5 ? Server.refuse(500) : done(1)
        })
      )
      const fiber = yield* Effect.fork(future)
      yield* TestClock.adjust("1 minutes")
      assert.deepStrictEqual(yield* Fiber.join(fiber), { value: 1 })
      const delays = times.slice(1).map((time, i) => time - (times[i] ?? 0))
      const within = (delay: number | undefined, limit: number) =>
        assert.isTrue(delay !== undefined && delay <= limit && delay >= 0.74 * limit, `${delay} near ${limit}`)
      within(delays[0], 1000)
      within(delays[1], 2000)
      within(delays[2], 4000)
      within(delays[3], 8000)
      within(delays[5], 1000)
      const retries = events.flatMap((event) => event._tag === "Retrying" ? [event] : [])
      assert.deepStrictEqual(retries.map(({ attempt }) => attempt), [1, 2, 3, 4, 1])
      assert.isTrue(
        retries.every(({ delay }, i) => Math.abs(Duration.toMillis(delay) - (delays[i < 4 ? i : 5] ?? 0)) < 1)
      )
    }))

  it.scoped("failing for longer than the policy's budget ends with the last error, and may be tried again", () =>
    Effect.gen(function*() {
      let healthy = false
      const { future } = yield* setup(() => healthy ? done(1) : Server.refuse(503))
      const poll = RetryPolicy.backoff({ base: "5 minutes", cap: "20 minutes", budget: "1 hour" })
      const fiber = yield* Effect.fork(Effect.flip(future).pipe(RetryPolicy.provide({ poll })))
      yield* TestClock.adjust("2 hours")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Unavailable")
      healthy = true
      assert.deepStrictEqual(yield* future, { value: 1 })
    }))

  it.scoped("400 is tried three times more, counted anew after a 408 with a body", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup((n) => n === 3 ? Server.refuse(408, {}) : Server.refuse(400))
      const fiber = yield* Effect.fork(Effect.flip(future))
      yield* TestClock.adjust("1 minutes")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "BadRequest")
      assert.strictEqual(server.seen.length, 8)
    }))

  it.scoped("where the server says failures as 400, one is a RequestFailed", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup(() => Server.refuse(400, { detail: "boom" }), {
        config: { compatibility: TinkerConfig.skyrl }
      })
      const error = yield* Effect.flip(future)
      assert.deepStrictEqual([error._tag, error.description], ["RequestFailed", "boom"])
      assert.strictEqual(server.seen.length, 1)
    }))

  it.scoped("402 pauses and goes on when it is paid; 410, 401, 404 and 403 are final and typed", () =>
    Effect.gen(function*() {
      const paid = yield* setup((n) => n < 3 ? Server.refuse(402) : done(1))
      const fiber = yield* Effect.fork(paid.future)
      yield* TestClock.adjust("16 seconds")
      assert.deepStrictEqual(yield* Fiber.join(fiber), { value: 1 })
      assert.deepStrictEqual(paid.events.map(({ _tag }) => _tag), ["BillingPaused", "BillingPaused", "BillingPaused"])
      for (
        const [status, tag] of [
          [410, "FutureExpired"],
          [401, "Authentication"],
          [403, "PermissionDenied"],
          [404, "NotFound"]
        ] as const
      ) {
        const { future, server } = yield* setup(() => Server.refuse(status))
        const error = yield* Effect.flip(future)
        assert.deepStrictEqual([error._tag, error.requestId, error.status], [tag, "req-1", status])
        yield* Effect.flip(future)
        assert.strictEqual(server.seen.length, 1)
      }
    }))

  it.scoped("G6: whatever a 2xx contains, the caller gets a typed error", () =>
    Effect.gen(function*() {
      for (
        const body of [
          () => new Response("not json"),
          () => new Response(""),
          () => Response.json({ value: "text" }),
          () => Response.json(null),
          () => Response.json([1]),
          () => new Response(Uint8Array.of(1, 2), { headers: { "content-type": "application/x-protobuf" } })
        ]
      ) {
        const { future } = yield* setup(body, { decoder: bytes })
        assert.strictEqual((yield* Effect.flip(future))._tag, "MalformedResponse")
      }
      const twice = yield* setup(() => Response.json({ status: "complete_metadata" }))
      assert.strictEqual((yield* Effect.flip(twice.future))._tag, "MalformedResponse")
    }))

  it.scoped("timeout is a typed error of the wait; the future itself can still be awaited", () =>
    Effect.gen(function*() {
      const { future, server } = yield* setup((n) => n === 0 ? hold : done(1))
      const fiber = yield* Effect.fork(Effect.flip(TinkerFuture.timeout(future, "10 seconds")))
      yield* TestClock.adjust("10 seconds")
      const error = yield* Fiber.join(fiber)
      assert.deepStrictEqual([error._tag, error.requestId], ["TimedOut", "req-1"])
      assert.isTrue(server.seen[0]?.aborted)
      assert.deepStrictEqual(yield* future, { value: 1 })
    }))

  it.scoped("combined futures wait side by side, fail with the first failure and keep what they computed", () =>
    Effect.gen(function*() {
      const a = yield* setup(() => done(1))
      const b = yield* setup(() => done(2))
      const broken = yield* setup(() => Response.json({ error: "no" }))
      const slow = yield* setup(() => hold)
      let computed = 0
      const sum = TinkerFuture.map(TinkerFuture.all([a.future, b.future]), (values) => {
        computed++
        return values.reduce((total, { value }) => total + value, 0)
      })
      assert.strictEqual(yield* sum, 3)
      assert.strictEqual(yield* sum, 3)
      assert.strictEqual(computed, 1)
      assert.deepStrictEqual(sum.requestIds, ["req-1", "req-1"])
      const error = yield* Effect.flip(TinkerFuture.zip(slow.future, broken.future))
      assert.strictEqual(error._tag, "RequestFailed")
      assert.isTrue(slow.server.seen[0]?.aborted)
    }))

  it.scoped("G10: an observer or listener that throws changes nothing", () =>
    Effect.gen(function*() {
      const { future, api } = yield* setup((n) =>
        n === 0 ? Response.json({ type: "try_again", queue_state: "active" }) : done(1)
      )
      yield* api.observe(() => {
        throw new Error("observer")
      })
      assert.deepStrictEqual(yield* future, { value: 1 })
    }))

  it.effect("G14: log lines come at once, on changes, and otherwise once a minute for all who wait", () =>
    Effect.gen(function*() {
      const lines = yield* Ref.make<ReadonlyArray<string>>([])
      const logger = Logger.make(({ message }) => {
        Effect.runSync(Ref.update(lines, (all) => [...all, String(message)]))
      })
      const report = Logs.makeQueueLog("Training m-1")
      const event = (state: string): QueueState.Event => ({
        _tag: "Queued",
        requestId: "r",
        requestType: "OptimStep",
        state,
        reason: undefined,
        elapsed: Duration.seconds(3)
      })
      yield* Effect.gen(function*() {
        yield* report(event("active"))
        for (let second = 0; second < 130; second++) {
          yield* report(event("paused_capacity"))
          yield* TestClock.adjust("1 seconds")
        }
        yield* report(event("active"))
        yield* report(event("active"))
      }).pipe(Effect.provide(Logger.replace(Logger.defaultLogger, logger)))
      const written = yield* Ref.get(lines)
      assert.strictEqual(written.length, 4)
      assert.include(written[0] ?? "", "Training m-1: OptimStep r is paused after 3s: the service is short of capacity")
      assert.include(written[3] ?? "", "is running")
    }))

  it.scoped("telemetry learns of failures without any header", () =>
    Effect.gen(function*() {
      const { future, api } = yield* setup((n) => n === 0 ? Server.refuse(503) : Server.refuse(403))
      const told: Array<readonly [string, Readonly<Record<string, unknown>>]> = []
      yield* api.observe((event) => event._tag === "FutureFailed" ? told.push([event.name, event.data]) : undefined)
      const fiber = yield* Effect.fork(Effect.flip(future))
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(told.map(([name, data]) => [name, data["kind"], data["iteration"]]), [
        ["api_status_error", "retry", 0],
        ["api_status_error", "fatal", 1]
      ])
      assert.notInclude(JSON.stringify(told), "tml-key")
      assert.isTrue(Option.isSome(Option.fromNullable(told[0])))
    }))

  it.scoped("telemetry learns of a billing block that ends a result, and of no pause before it", () =>
    Effect.gen(function*() {
      const { api, events, future } = yield* setup((n) =>
        n === 0
          ? Server.refuse(503)
          : n === 1
          ? Server.refuse(402)
          : Server.refuse(402, {}, { "x-should-retry": "false" })
      )
      const told: Array<Readonly<Record<string, unknown>>> = []
      yield* api.observe((event) => event._tag === "FutureFailed" ? told.push(event.data) : undefined)
      const fiber = yield* Effect.fork(Effect.flip(future))
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "BillingBlocked")
      assert.deepStrictEqual(events.map(({ _tag }) => _tag), ["Retrying", "BillingPaused", "BillingPaused"])
      assert.deepStrictEqual(told.map(({ kind, status_code }) => [kind, status_code]), [["retry", 503], ["fatal", 402]])
    }))
})
