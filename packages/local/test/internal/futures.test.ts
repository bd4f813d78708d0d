import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, TestClock } from "effect"
import * as Futures from "../../src/internal/server/futures.js"
import { defaults, Settings } from "../../src/internal/server/settings.js"

const Local = Layer.provide(Futures.layer, Layer.succeed(Settings, defaults))

const settled = Effect.fnUntraced(function*(requestId: string) {
  const futures = yield* Futures.Futures
  const future = yield* futures.open({ requestId, owner: "me", fingerprint: "" })
  yield* futures.settle(future, Futures.completed(() => requestId))
  return future
})

/** What a poll would find now. */
const found = Effect.fnUntraced(function*(requestId: string) {
  const futures = yield* Futures.Futures
  return yield* Effect.match(futures.require(requestId, "me"), {
    onFailure: ({ status }) => status,
    onSuccess: ({ outcome }) => outcome?._tag
  })
})

describe("futures", () => {
  it.effect("a result is kept for an hour, then for as long again that there was one", () =>
    Effect.gen(function*() {
      yield* settled("a")
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* found("a"), "Completed")
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* found("a"), "Gone")
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* found("a"), 404)
    }).pipe(Effect.provide(Local)))

  it.effect("a result that was sent is kept for two minutes, in case its answer got lost", () =>
    Effect.gen(function*() {
      const futures = yield* Futures.Futures
      yield* settled("unsent")
      yield* futures.delivered(yield* settled("sent"))
      yield* TestClock.adjust("119 seconds")
      assert.strictEqual(yield* found("sent"), "Completed")
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* found("sent"), "Gone")
      assert.strictEqual(yield* found("unsent"), "Completed")
    }).pipe(Effect.provide(Local)))

  it.effect("nothing is dropped that has no outcome yet", () =>
    Effect.gen(function*() {
      const futures = yield* Futures.Futures
      const future = yield* futures.open({ requestId: "a", owner: "me", fingerprint: "" })
      yield* futures.forget("a", "me")
      yield* futures.delivered(future)
      yield* TestClock.adjust("3 hours")
      assert.isUndefined(yield* found("a"))
      yield* futures.settle(future, Futures.completed(() => "late"))
      assert.strictEqual(yield* found("a"), "Completed")
    }).pipe(Effect.provide(Local)))
})
