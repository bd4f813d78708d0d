import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, TestClock } from "effect"
import { RetryPolicy } from "effect-tinker"
import type { TinkerTransport } from "effect-tinker"
import * as Observer from "../../src/internal/observability/observer.js"
import * as Dispatcher from "../../src/internal/sampling/dispatcher.js"
import * as Retry from "../../src/internal/transport/retry.js"
import * as Tenants from "../../src/internal/transport/tenants.js"
import * as TinkerError from "../../src/TinkerError.js"

const limited = new TinkerError.RateLimited({ module: "t", method: "t", status: 429 })

const settle = Effect.yieldNow().pipe(Effect.repeatN(50))

const never = () => undefined

const retry = Retry.make({
  billing: Tenants.makeBilling(Duration.hours(1)),
  observers: Observer.make(undefined),
  policies: RetryPolicy.defaults
})

const empty: TinkerTransport.Response = { status: 200, headers: {}, body: new Uint8Array(0) }

/** As the sampling client does it: a place is taken where there is one, and given back when the submission ends. */
const submit = <A>(
  dispatch: Dispatcher.Dispatcher,
  bytes: number,
  send: Effect.Effect<A, TinkerError.TinkerError>,
  giveUp: Dispatcher.Submission<A>["giveUp"] = never
): Effect.Effect<A, TinkerError.TinkerError> =>
  Effect.clockWith((clock) => {
    const place = dispatch.enter(bytes, clock.unsafeCurrentTimeMillis())
    let answer: Effect.Effect<A, TinkerError.TinkerError> = Effect.dieMessage("nothing was sent")
    return Effect.ensuring(
      dispatch.submit({
        bytes,
        clock,
        giveUp,
        spans: false,
        again: retry.again,
        id: ["sampler", 1],
        onEvent: () => Effect.void,
        call: () =>
          Effect.succeed({
            name: "asample",
            retry: "sample",
            send: () =>
              Effect.map(send, (value) => {
                answer = Effect.succeed(value)
                return empty
              }),
            decode: () => answer
          })
      }, place),
      Effect.sync(() => place?.leave())
    )
  })

/** A send that counts how many are in progress, and ends when told. */
const makeDoor = () => {
  let inside = 0
  let most = 0
  let release: Array<() => void> = []
  return {
    inside: () => inside,
    most: () => most,
    open: () => {
      const waiting = release
      release = []
      for (const leave of waiting) leave()
    },
    send: Effect.async<void>((resume) => {
      most = Math.max(most, ++inside)
      release.push(() => {
        inside--
        resume(Effect.void)
      })
    })
  }
}

describe("dispatch", () => {
  it.effect("admits 400 at once, and the next as one is accepted", () =>
    Effect.gen(function*() {
      const dispatch = Dispatcher.make(1e9)
      const door = makeDoor()
      const all = yield* Effect.fork(
        Effect.forEach(Array.from({ length: 1000 }), () => submit(dispatch, 1, door.send), {
          concurrency: "unbounded"
        })
      )
      yield* settle
      assert.strictEqual(door.inside(), 400)
      while ((yield* Fiber.poll(all))._tag === "None") {
        door.open()
        yield* settle
      }
      assert.strictEqual(door.most(), 400)
    }))

  it.effect("G13: the byte budget admits one too large, and then nobody until it is back", () =>
    Effect.gen(function*() {
      const dispatch = Dispatcher.make(100)
      const door = makeDoor()
      const large = yield* Effect.fork(submit(dispatch, 1_000, door.send))
      yield* settle
      const next = yield* Effect.fork(submit(dispatch, 1, door.send))
      yield* settle
      assert.strictEqual(door.inside(), 1)
      door.open()
      yield* Fiber.join(large)
      yield* settle
      assert.strictEqual(door.inside(), 1)
      door.open()
      yield* Fiber.join(next)
    }))

  it.effect("G13: a request that waited for the byte budget releases exactly one permit", () =>
    Effect.gen(function*() {
      const dispatch = Dispatcher.make(100)
      const door = makeDoor()
      const many = (count: number, bytes: number, send: Effect.Effect<void>) =>
        Effect.fork(Effect.all(Array.from({ length: count }, () => submit(dispatch, bytes, send)), {
          concurrency: "unbounded",
          discard: true
        }))
      const large = yield* many(1, 200, door.send)
      yield* settle
      const waiting = yield* many(50, 1, Effect.void)
      yield* settle
      door.open()
      yield* Fiber.join(large)
      yield* Fiber.join(waiting)
      const next = yield* many(400, 0, door.send)
      yield* settle
      assert.strictEqual(door.inside(), 400)
      door.open()
      yield* Fiber.join(next)
    }))

  it.effect("the request that met the rate limit is sent again after 1 s, a large one after 5 s, a hint after its time", () =>
    Effect.gen(function*() {
      for (
        const [bytes, error, wait] of [
          [131_072, limited, 1_000],
          [131_073, limited, 5_000],
          [1, new TinkerError.RateLimited({ ...limited, retryAfter: Duration.seconds(3) }), 3_000]
        ] as const
      ) {
        const dispatch = Dispatcher.make(1e9)
        let attempts = 0
        const fiber = yield* Effect.fork(submit(
          dispatch,
          bytes,
          Effect.suspend(() => attempts++ === 0 ? Effect.fail(error) : Effect.succeed(attempts))
        ))
        yield* TestClock.adjust(wait - 1)
        assert.strictEqual(attempts, 1)
        yield* TestClock.adjust(1)
        assert.strictEqual(yield* Fiber.join(fiber), 2)
      }
    }))

  it.effect("a back-off holds everyone, and newcomers enter ten at a time for ten seconds after", () =>
    Effect.gen(function*() {
      const dispatch = Dispatcher.make(1e9)
      const door = makeDoor()
      let met = false
      const once = Effect.suspend(() => {
        if (met) return Effect.void
        met = true
        return Effect.fail(limited)
      })
      const first = yield* Effect.fork(submit(dispatch, 1, once))
      yield* settle
      const crowd = yield* Effect.fork(
        Effect.forEach(Array.from({ length: 30 }), () => submit(dispatch, 1, door.send), {
          concurrency: "unbounded"
        })
      )
      yield* TestClock.adjust(999)
      assert.strictEqual(door.inside(), 0)
      yield* TestClock.adjust(1)
      yield* settle
      assert.strictEqual(door.inside(), 10)
      while ((yield* Fiber.poll(crowd))._tag === "None") {
        door.open()
        yield* settle
      }
      assert.strictEqual(door.most(), 10)
      yield* Fiber.join(first)
      yield* TestClock.adjust("11 seconds")
      const later = yield* Effect.fork(
        Effect.forEach(Array.from({ length: 30 }), () => submit(dispatch, 1, door.send), {
          concurrency: "unbounded"
        })
      )
      yield* settle
      assert.strictEqual(door.inside(), 30)
      yield* Fiber.interrupt(later)
    }))

  it.effect("nobody waits longer than asked when the clock is set back", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(3_600_000)
      const dispatch = Dispatcher.make(1e9)
      let sent = 0
      const limitedOnce = Effect.suspend(() => ++sent === 1 ? Effect.fail(limited) : Effect.succeed(sent))
      const first = yield* Effect.fork(submit(dispatch, 1, limitedOnce))
      yield* settle
      yield* TestClock.setTime(0)
      const second = yield* Effect.fork(submit(dispatch, 1, limitedOnce))
      yield* settle
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(second), 2)
      // its own timer had been set before
      yield* TestClock.setTime(3_601_000)
      assert.strictEqual(yield* Fiber.join(first), 3)
    }))

  it.effect("bytes weigh twenty times as much after a back-off", () =>
    Effect.gen(function*() {
      const dispatch = Dispatcher.make(100)
      const door = makeDoor()
      yield* Effect.fork(submit(dispatch, 1, Effect.fail(limited)))
      yield* settle
      // 6 x 20 overdraws a budget of 100: the second waits although 12 would fit.
      yield* Effect.fork(submit(dispatch, 6, door.send))
      yield* Effect.fork(submit(dispatch, 6, door.send))
      yield* TestClock.adjust("1 second")
      yield* settle
      assert.strictEqual(door.inside(), 1)
    }))

  it.effect("other failures are the caller's, and give their place back", () =>
    Effect.gen(function*() {
      const dispatch = Dispatcher.make(10)
      const broken = new TinkerError.BadRequest({ module: "t", method: "t", status: 400 })
      for (let i = 0; i < 500; i++) {
        const error = yield* Effect.flip(submit(dispatch, 100, Effect.fail(broken)))
        assert.strictEqual(error._tag, "BadRequest")
      }
      yield* submit(dispatch, 1, Effect.void)
    }))

  it.effect("whoever leaves while waiting gives their place back", () =>
    Effect.gen(function*() {
      const dispatch = Dispatcher.make(1)
      const door = makeDoor()
      const holder = yield* Effect.fork(submit(dispatch, 10, door.send))
      yield* settle
      const leavers = yield* Effect.fork(
        Effect.forEach(Array.from({ length: 50 }), () => submit(dispatch, 10, door.send), {
          concurrency: "unbounded"
        })
      )
      yield* settle
      yield* Fiber.interrupt(leavers)
      door.open()
      yield* Fiber.join(holder)
      const next = yield* Effect.fork(submit(dispatch, 10, door.send))
      yield* settle
      assert.strictEqual(door.inside(), 1)
      door.open()
      yield* Fiber.join(next)
    }))

  it.effect("gives up when told to, instead of trying for ever", () =>
    Effect.gen(function*() {
      const dispatch = Dispatcher.make(1e9)
      const stuck = new TinkerError.Stuck({ module: "t", method: "t" })
      const fiber = yield* Effect.fork(Effect.flip(
        submit(dispatch, 1, Effect.fail(limited), (now) => now > 60_000 ? stuck : undefined)
      ))
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Stuck")
    }))
})
