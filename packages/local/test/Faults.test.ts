import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, TestClock } from "effect"
import * as Api from "effect-tinker/wire/Api"
import * as Faults from "../src/Faults.js"
import * as TinkerLocal from "../src/TinkerLocal.js"
import { call, openSession, send } from "./server/support.js"

const withRules = (...rules: ReadonlyArray<Faults.Rule>) =>
  Effect.provide(TinkerLocal.layer().pipe(Layer.provideMerge(Faults.layer({ rules, seed: 1 }))))

const health = send("GET", "/api/v1/healthz")
const sessions = Effect.map(
  call(Api.listSessions, { limit: 10, offset: 0, accessScope: "owned" as const }),
  (page) => page.sessions.length
)

describe("Faults", () => {
  it.effect("answers with a status instead, so many times", () =>
    Effect.gen(function*() {
      const refused = yield* health
      assert.strictEqual(refused.status, 503)
      assert.strictEqual(refused.headers["retry-after-ms"], "20")
      assert.strictEqual((yield* health).status, 503)
      assert.strictEqual((yield* health).status, 200)
    }).pipe(withRules({
      endpoints: ["healthz"],
      times: 2,
      fault: { _tag: "Status", status: 503, headers: { "retry-after-ms": "20" } }
    })))

  it.effect("loses the answer of a request that was carried out, or the request itself", () =>
    Effect.gen(function*() {
      const before = yield* Effect.flip(openSession)
      assert.propertyVal(before, "_tag", "RequestError")
      assert.strictEqual(yield* sessions, 0)
      yield* Effect.flip(openSession)
      assert.strictEqual(yield* sessions, 1)
      yield* openSession
      assert.strictEqual(yield* sessions, 2)
    }).pipe(withRules(
      { endpoints: ["createSession"], times: 1, fault: { _tag: "Drop", when: "before" } },
      { endpoints: ["createSession"], skip: 1, times: 1, fault: { _tag: "Drop", when: "after" } }
    )))

  it.effect("delays by the clock", () =>
    Effect.gen(function*() {
      const waiting = yield* Effect.fork(health)
      yield* TestClock.adjust("4 seconds")
      assert.isTrue((yield* Fiber.poll(waiting))._tag === "None")
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual((yield* Fiber.join(waiting)).status, 200)
    }).pipe(withRules({ fault: { _tag: "Delay", duration: "5 seconds" } })))

  it.effect("cuts an answer short", () =>
    Effect.gen(function*() {
      const cut = yield* Effect.flip(health)
      assert.propertyVal(cut, "_tag", "ResponseError")
    }).pipe(withRules({ fault: { _tag: "Truncate", bytes: 4 } })))

  it.effect("strikes as often as its probability says, the same way for the same seed", () =>
    Effect.gen(function*() {
      const run = Effect.gen(function*() {
        const faults = yield* Faults.make({
          seed: 7,
          rules: [{ probability: 0.25, fault: { _tag: "Status", status: 500 } }]
        })
        return yield* Effect.forEach(Array.from({ length: 400 }), () => Effect.map(faults.decide("x"), (f) => f.length))
      })
      const first = yield* run
      assert.deepStrictEqual(first, yield* run)
      assert.approximately(first.reduce((a, b) => a + b, 0), 100, 30)
    }))

  it.effect("can be changed while the server runs, and counts what it did", () =>
    Effect.gen(function*() {
      const faults = yield* Faults.Faults
      assert.strictEqual((yield* health).status, 200)
      yield* faults.set([{ endpoints: ["healthz"], fault: { _tag: "Status", status: 429 } }])
      assert.strictEqual((yield* health).status, 429)
      assert.deepStrictEqual(Array.from(yield* faults.struck), [["healthz", 1]])
    }).pipe(withRules()))
})
