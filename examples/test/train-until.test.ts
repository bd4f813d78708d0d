import { Faults, LocalServer, TinkerLocal } from "@effect-tinker/local"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Option, TestClock } from "effect"
import { Datum, TrainingClient } from "effect-tinker"
import { trainUntil } from "./train-until.js"

/** The real client on the real backend, in this process; faults by rule. */
const Backend = (rules: ReadonlyArray<Faults.Rule> = []) =>
  TinkerLocal.layer().pipe(Layer.provideMerge(Faults.layer({ rules })))

const start = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
  const batch = [yield* Datum.fromTokens([3, 1, 4, 1, 5, 9])]
  return yield* Effect.fork(trainUntil(training, batch, { loss: 20, saveEvery: "10 minutes" }))
})

describe("trainUntil", () => {
  it.scoped("trains until the loss is reached, and saves nothing before its time", () =>
    Effect.gen(function*() {
      const { saved, steps } = yield* Fiber.join(yield* start)
      assert.isAbove(steps, 1)
      assert.deepStrictEqual(saved, [])
    }).pipe(Effect.provide(Backend())))

  it.scoped("saves after twenty minutes in the queue, in no time", () =>
    Effect.gen(function*() {
      const server = yield* LocalServer.LocalServer
      const loop = yield* start
      yield* server.pause({ state: "paused_capacity", reason: "short of capacity" })
      yield* TestClock.adjust("20 minutes")
      assert.isTrue(Option.isNone(yield* Fiber.poll(loop)))
      yield* server.resume
      yield* TestClock.adjust("1 minute")
      const { saved } = yield* Fiber.join(loop)
      assert.strictEqual(saved.length, 1)
    }).pipe(Effect.provide(Backend())))

  it.scoped("survives a server that is down for a while", () =>
    Effect.gen(function*() {
      const loop = yield* start
      yield* TestClock.adjust(Duration.minutes(2))
      assert.isAbove((yield* Fiber.join(loop)).steps, 1)
      const { struck } = yield* Faults.Faults
      assert.strictEqual((yield* struck).get("forwardBackward"), 4)
    }).pipe(
      Effect.provide(Backend([{ endpoints: ["forwardBackward"], times: 4, fault: { _tag: "Drop", when: "before" } }]))
    ))
})
