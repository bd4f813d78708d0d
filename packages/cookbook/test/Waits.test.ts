import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Mailbox, TestClock } from "effect"
import type { QueueState } from "effect-tinker"
import * as Waits from "../src/internal/waits.js"

const queued = (state: QueueState.QueueState): QueueState.Event => ({
  _tag: "Queued",
  requestId: "r",
  requestType: "ForwardBackward",
  elapsed: Duration.zero,
  state,
  reason: undefined
})

const operation = (waits: Waits.Waits) =>
  Effect.gen(function*() {
    const events = yield* Mailbox.make<QueueState.Event>()
    const fiber = yield* Effect.fork(waits.follow(Mailbox.toStream(events)))
    return {
      say: (state: QueueState.QueueState) => Effect.zipRight(events.offer(queued(state)), Effect.yieldNow()),
      end: Effect.zipRight(events.end, Fiber.join(fiber))
    }
  })

describe("waits", () => {
  it.effect("time in which operations are held back counts by reason, and once", () =>
    Effect.gen(function*() {
      const waits = Waits.make()
      const [first, second] = [yield* operation(waits), yield* operation(waits)]
      yield* TestClock.adjust("1 second")
      yield* first.say("paused_capacity")
      yield* TestClock.adjust("2 seconds")
      yield* second.say("paused_capacity")
      yield* TestClock.adjust("3 seconds")
      yield* first.say("paused_rate_limit")
      yield* TestClock.adjust("1 second")
      yield* second.say("active")
      yield* TestClock.adjust("4 seconds")
      yield* first.end
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* waits.take, { "wait/capacity": 6000, "wait/rate_limit": 5000 })
      yield* second.end
      assert.deepStrictEqual(yield* waits.take, {})
    }))

  it.effect("a wait that goes on is taken step by step", () =>
    Effect.gen(function*() {
      const waits = Waits.make()
      const only = yield* operation(waits)
      yield* only.say("paused_rate_limit")
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* waits.take, { "wait/rate_limit": 2000 })
      yield* TestClock.adjust("3 seconds")
      yield* only.end
      assert.deepStrictEqual(yield* waits.take, { "wait/rate_limit": 3000 })
    }))
})
