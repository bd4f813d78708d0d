import { assert, describe, it } from "@effect/vitest"
import { Chunk, Deferred, Duration, Effect, Fiber, Stream, TestClock } from "effect"
import { Datum, Progress, type QueueState, TinkerError } from "../src/index.js"
import * as Server from "./utils/recordingServer.js"
import * as TrainingServer from "./utils/trainingServer.js"

const queued = (state: QueueState.QueueState, reason?: string): QueueState.Event => ({
  _tag: "Queued",
  requestId: "r1",
  requestType: "ForwardBackward",
  elapsed: Duration.seconds(3),
  state,
  reason
})

/** Other fibers get to where they wait. */
const settle = Effect.repeatN(Effect.yieldNow(), 30)

describe("Progress", () => {
  it.scoped("rates and the time left come from the last steps, by the clock", () =>
    Effect.gen(function*() {
      const progress = yield* Progress.make({ totalSteps: 100, startStep: 10 })
      const before = yield* progress.current
      assert.deepStrictEqual([before.step, before.eta, before.tokensPerSecond], [10, undefined, undefined])
      yield* TestClock.adjust("60 seconds") // a slow start
      yield* progress.step({ loss: 3 }, { tokens: 10 })
      for (let i = 0; i < 20; i++) {
        yield* TestClock.adjust("2 seconds")
        yield* progress.step({ loss: 2 - i / 100, reward: i }, { tokens: 500 })
      }
      const now = yield* progress.current
      assert.strictEqual(now.step, 31)
      assert.strictEqual(now.tokens, 10_010)
      assert.strictEqual(now.tokensPerSecond, 250)
      assert.deepStrictEqual(now.stepTime, Duration.seconds(2))
      assert.deepStrictEqual(now.eta, Duration.seconds(69 * 2))
      assert.deepStrictEqual(now.elapsed, Duration.seconds(100))
      assert.deepStrictEqual(now.metrics, { loss: 1.81, reward: 19 })
      assert.strictEqual(
        Progress.describe(now),
        "step 31/100: loss 1.81, reward 19, 250 tokens/s, 2m 18s left"
      )
      yield* TestClock.adjust("1 seconds")
      assert.deepStrictEqual((yield* progress.current).eta, Duration.seconds(137))
    }))

  it.scoped("a step that takes long is said to, and takes nothing from the time the others need", () =>
    Effect.gen(function*() {
      const progress = yield* Progress.make({ totalSteps: 6 })
      assert.isUndefined((yield* progress.current).sinceStep)
      for (let i = 0; i < 2; i++) {
        yield* TestClock.adjust("4 seconds")
        yield* progress.step({ loss: 1 })
      }
      yield* TestClock.adjust("12 seconds")
      assert.strictEqual(Progress.describe(yield* progress.current), "step 2/6: loss 1, 12s left")
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual(Progress.describe(yield* progress.current), "step 2/6: loss 1, 12s left, last step 13s ago")
      yield* progress.follow(Stream.make(queued("paused_capacity", "busy")))
      yield* settle
      const waiting = yield* progress.current
      assert.strictEqual(waiting.reason, "busy")
      assert.strictEqual(Progress.describe(waiting), "step 2/6: loss 1, 12s left, waiting: busy")
    }))

  it.scoped("readers see the current snapshot, then each, and the end", () =>
    Effect.gen(function*() {
      const progress = yield* Progress.make()
      yield* progress.step({ loss: 1 })
      const reader = yield* Effect.fork(Stream.runCollect(progress.changes))
      yield* settle
      yield* progress.step({ loss: 0.5 }, { tokens: Number.NaN })
      yield* progress.step({ loss: 0.25 })
      yield* progress.end
      const seen = Chunk.toReadonlyArray(yield* Fiber.join(reader))
      assert.deepStrictEqual(seen.map(({ metrics, step }) => [step, metrics["loss"]]), [[1, 1], [2, 0.5], [3, 0.25]])
      assert.isTrue(seen.every(({ eta, tokens }) => eta === undefined && tokens === 0))
      const late = yield* Stream.runCollect(progress.changes)
      assert.deepStrictEqual(Chunk.toReadonlyArray(late).map(({ step }) => step), [3])
    }))

  it.effect("the last snapshot is shown before the scope closes, whatever a renderer does", () =>
    Effect.gen(function*() {
      const shown: Array<number> = []
      yield* Effect.scoped(Effect.gen(function*() {
        const progress = yield* Progress.make({
          totalSteps: 50,
          render: ({ step }) =>
            Effect.suspend(() => {
              shown.push(step)
              return step % 2 === 0 ? Effect.dieMessage("no terminal") : Effect.void
            })
        })
        for (let i = 0; i < 50; i++) yield* progress.step()
      }))
      assert.strictEqual(shown.at(-1), 50)
    }))

  it.effect("a renderer that never returns holds nothing up, and readers that lag skip", () =>
    Effect.gen(function*() {
      const steps = yield* Effect.scoped(Effect.gen(function*() {
        const progress = yield* Progress.make({ render: () => Effect.never })
        for (let i = 0; i < 10_000; i++) yield* progress.step({ loss: i })
        yield* Effect.zipRight(Effect.yieldNow(), TestClock.adjust("2 seconds")).pipe(Effect.forkDaemon)
        return (yield* progress.current).step
      }))
      assert.strictEqual(steps, 10_000)
    }))

  it.scoped("with `every`, snapshots come though nothing happens", () =>
    Effect.gen(function*() {
      const progress = yield* Progress.make({ every: "1 second", totalSteps: 2 })
      yield* TestClock.adjust("10 seconds")
      yield* progress.step()
      const reader = yield* Effect.fork(Stream.runCollect(progress.changes))
      yield* settle
      yield* TestClock.adjust("3 seconds")
      yield* progress.end
      const left = Chunk.toReadonlyArray(yield* Fiber.join(reader)).map(({ eta }) =>
        Duration.toSeconds(eta ?? Duration.zero)
      )
      assert.deepStrictEqual(left, [10, 9, 8, 7])
    }))

  it.scoped("the reason of a wait is shown while it lasts", () =>
    Effect.gen(function*() {
      let polls = 0
      const server = TrainingServer.make({
        result: (request) => {
          if (request?.path !== "forward_backward" || polls++ > 2) return undefined
          return Server.json({ type: "try_again", queue_state: "paused_capacity", queue_state_reason: "busy" })
        }
      })
      const training = yield* TrainingServer.client(server)
      const progress = yield* Progress.make({ totalSteps: 1 })
      const reader = yield* Effect.fork(Stream.runCollect(progress.changes))
      const pass = yield* training.forwardBackward([yield* Datum.fromTokens([1, 2, 3])], "cross_entropy")
      const result = yield* Effect.fork(progress.await(pass))
      for (let i = 0; i < 20; i++) yield* TestClock.adjust("1 seconds")
      const { metrics } = yield* Fiber.join(result)
      const { waiting } = yield* progress.step({ loss: metrics["loss:sum"] ?? Number.NaN })
      yield* progress.end
      const seen = Chunk.toReadonlyArray(yield* Fiber.join(reader))
      assert.include(seen.map(Progress.note), "waiting: busy")
      assert.isUndefined(waiting)
      assert.strictEqual(seen.at(-1)?.metrics["loss"], 1)
    }))

  it.scoped("events of a sampler are followed", () =>
    Effect.gen(function*() {
      const progress = yield* Progress.make()
      const go = yield* Deferred.make<void>()
      const events = Stream.make(queued("paused_rate_limit")).pipe(
        Stream.concat(Stream.drain(Stream.fromEffect(Deferred.await(go)))),
        Stream.concat(Stream.make(queued("active")))
      )
      yield* progress.follow(events)
      yield* settle
      assert.strictEqual(
        Progress.describe(yield* progress.current),
        "step 0: waiting: the limit of concurrent operations is reached"
      )
      yield* Deferred.succeed(go, void 0)
      yield* settle
      assert.isUndefined((yield* progress.current).waiting)
    }))

  it.effect("steps that are no whole numbers are refused", () =>
    Effect.gen(function*() {
      for (const options of [{ totalSteps: -1 }, { totalSteps: 1.5 }, { startStep: Number.NaN }]) {
        const error = yield* Effect.flip(Effect.scoped(Progress.make(options)))
        assert.instanceOf(error, TinkerError.InvalidInput)
      }
    }))
})
