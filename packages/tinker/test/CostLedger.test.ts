import { assert, describe, it } from "@effect/vitest"
import { Chunk, Deferred, Effect, Either, Exit, FastCheck as fc, Fiber, Layer, Stream } from "effect"
import { CostLedger, Datum, TinkerError, TrainingClient } from "../src/index.js"
import * as Server from "./utils/recordingServer.js"
import * as TrainingServer from "./utils/trainingServer.js"

const prices = { base: { train: 1, prefill: 0.1, sample: 0.3 }, other: { train: 2 } }

/** At a price of 1 a million, a budget for so many tokens. */
const roomFor = (tokens: number) => ({ prices, budget: tokens / 1e6 })

const million = 1_000_000
const settle = Effect.repeatN(Effect.yieldNow(), 30)

describe("CostLedger", () => {
  it.effect("counts tokens by model and kind, exactly", () =>
    Effect.gen(function*() {
      const ledger = yield* CostLedger.make({ prices })
      for (let i = 0; i < 10; i++) yield* ledger.charge("base", { prefill: million, sample: million })
      yield* ledger.charge("other", { train: 3, forward: 4 })
      const { entries, spent } = yield* ledger.totals
      assert.strictEqual(spent, 4.000014) // ten times 0.1 + 0.3 is 4, not 3.9999999999999996
      assert.deepStrictEqual(entries, [
        { model: "base", kind: "prefill", operations: 10, tokens: 10 * million, cost: 1 },
        { model: "base", kind: "sample", operations: 10, tokens: 10 * million, cost: 3 },
        { model: "other", kind: "train", operations: 1, tokens: 3, cost: 0.000006 },
        { model: "other", kind: "forward", operations: 1, tokens: 4, cost: 0.000008 }
      ])
      assert.deepStrictEqual(ledger.cost("base", { train: 5, sample: 10 }), Either.right(0.000008))
    }))

  it.effect("what has no price, or is no number, is refused", () =>
    Effect.gen(function*() {
      const ledger = yield* CostLedger.make({ prices })
      const describe = (self: Effect.Effect<unknown, TinkerError.InvalidInput>) =>
        Effect.map(Effect.flip(self), (error) => error.description)
      assert.strictEqual(
        yield* describe(ledger.charge("gpt", { train: 1 })),
        "there is no price for \"gpt\"; there are prices for base, other"
      )
      assert.strictEqual(yield* describe(ledger.charge("other", { sample: 1 })), "other has no price for sample")
      for (const tokens of [-1, 0.5, Number.NaN, Infinity]) {
        assert.include(yield* describe(ledger.charge("base", { train: tokens })), "not a number of tokens")
      }
      for (const wrong of [-1, Number.NaN, Infinity]) {
        assert.include(yield* describe(CostLedger.make({ prices, budget: wrong })), "a budget cannot be")
        assert.include(yield* describe(CostLedger.make({ prices: { m: { train: wrong } } })), "the price of m, train")
      }
    }))

  it.effect("reserves the most, settles what was used, and refuses before it overspends", () =>
    Effect.gen(function*() {
      const ledger = yield* CostLedger.make(roomFor(100))
      const reader = yield* Effect.fork(Stream.runCollect(Stream.take(ledger.changes, 3)))
      yield* settle
      let ran = 0
      const paid = (atMost: number, used: number) =>
        ledger.guard<number>({ model: "base", atMost: { train: atMost }, used: (train) => ({ train }) })(
          Effect.sync(() => {
            ran++
            return used
          })
        )
      yield* paid(90, 20)
      yield* paid(80, 80) // to the last token
      const error = yield* Effect.flip(paid(1, 0))
      assert.strictEqual(ran, 2)
      assert.instanceOf(error, TinkerError.BudgetExceeded)
      assert.isTrue(TinkerError.isUserError(error))
      assert.include(error.message, "could cost 0.000001; budget 0.0001, spent 0.0001, reserved 0")
      yield* paid(0, 0)
      const seen = Chunk.toReadonlyArray(yield* Fiber.join(reader))
      assert.deepStrictEqual(seen.map(({ reserved, spent }) => [spent, reserved]), [[0, 0], [0, 90e-6], [20e-6, 0]])
    }))

  it.effect("what fails or is interrupted before it was sent gives its reservation back", () =>
    Effect.gen(function*() {
      const ledger = yield* CostLedger.make(roomFor(10))
      const on = ledger.guard<never>({ model: "base", atMost: { train: 10 } })
      yield* Effect.exit(on(Effect.fail("no")))
      yield* Effect.exit(on(Effect.dieMessage("no")))
      const fiber = yield* Effect.fork(on(Effect.never))
      yield* settle
      assert.strictEqual((yield* ledger.totals).reserved, 10e-6)
      assert.strictEqual((yield* Effect.flip(on(Effect.never)))._tag, "BudgetExceeded")
      yield* Fiber.interrupt(fiber)
      const { reserved, spent } = yield* ledger.totals
      assert.deepStrictEqual([reserved, spent], [0, 0])
    }))

  it.effect.prop("never overspends, however operations overlap, fail or are interrupted", {
    budget: fc.integer({ min: 0, max: 400 }),
    operations: fc.array(
      fc.record({
        atMost: fc.integer({ min: 0, max: 60 }),
        share: fc.double({ min: 0, max: 1, noNaN: true }),
        turns: fc.integer({ min: 0, max: 6 }),
        end: fc.constantFrom("succeed", "fail", "die", "interrupt")
      }),
      { minLength: 1, maxLength: 12 }
    )
  }, ({ budget, operations }) =>
    Effect.gen(function*() {
      const ledger = yield* CostLedger.make({ prices: { base: { train: million } }, budget })
      let running = 0
      let used = 0
      const watch = Effect.map(ledger.totals, ({ reserved, spent }) => {
        assert.isAtMost(spent + reserved, budget)
        assert.strictEqual(spent, used)
        assert.strictEqual(reserved, running)
      })
      const exits = yield* Effect.forEach(operations, ({ atMost, end, share, turns }) => {
        const train = Math.floor(atMost * share)
        const work = Effect.gen(function*() {
          running += atMost
          for (let i = 0; i < turns; i++) yield* Effect.zipRight(watch, Effect.yieldNow())
          if (end === "fail") return yield* Effect.fail("failed")
          if (end === "die") return yield* Effect.dieMessage("died")
          if (end === "interrupt") return yield* Effect.interrupt
        }).pipe(Effect.onExit((exit) =>
          Effect.sync(() => {
            running -= atMost
            if (Exit.isSuccess(exit)) used += train
          })
        ))
        return Effect.exit(
          ledger.guard<void>({ model: "base", atMost: { train: atMost }, used: () => ({ train }) })(work)
        )
      }, { concurrency: "unbounded" })
      yield* watch
      assert.strictEqual(running, 0)
      // Something was refused only where there was no room for it.
      const most = operations.reduce((sum, { atMost }) => sum + atMost, 0)
      const refused = exits.some((exit) => Exit.isFailure(exit) && String(exit.cause).includes("BudgetExceeded"))
      if (most <= budget) assert.isFalse(refused)
    }), { fastCheck: { numRuns: 30 } })

  const lesson = Effect.orDie(Datum.fromTokens([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])) // ten to read

  it.scoped("a training client on a budget sends nothing it cannot pay", () =>
    Effect.gen(function*() {
      const server = TrainingServer.make()
      const ledger = yield* CostLedger.make(roomFor(45))
      const training = ledger.training(yield* TrainingServer.client(server), "base")
      const batch = [yield* lesson, yield* lesson]
      yield* yield* training.forwardBackward(batch, "cross_entropy")
      yield* yield* training.optimStep()
      yield* yield* training.trainStep([yield* lesson], "cross_entropy")
      const sent = server.log.length
      const error = yield* Effect.flip(training.forwardBackward(batch, "cross_entropy"))
      assert.strictEqual(error._tag, "BudgetExceeded")
      assert.strictEqual(server.log.length, sent)
      yield* yield* training.forward([yield* lesson], "cross_entropy")
      assert.deepStrictEqual(server.log.map(({ seqId }) => seqId), [1, 2, 3, 4, 5])
      const { entries, spent } = yield* ledger.totals
      assert.deepStrictEqual(entries.map(({ kind, tokens }) => [kind, tokens]), [["train", 30], ["forward", 10]])
      assert.strictEqual(spent, 40e-6)
    }))

  it.scoped("an operation left on the wire is paid, one left in the queue or refused is not", () =>
    Effect.gen(function*() {
      const arrived = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      let refuse = false
      const server = TrainingServer.make({
        accept: ({ path }) =>
          path !== "forward_backward"
            ? undefined
            : refuse
            ? Server.refuse(400)
            : Effect.as(Effect.zipRight(Deferred.succeed(arrived, void 0), Deferred.await(go)), undefined)
      })
      const ledger = yield* CostLedger.make(roomFor(1000))
      const training = ledger.training(yield* TrainingServer.client(server), "base")
      const batch = [yield* lesson]
      const onWire = yield* Effect.fork(training.forwardBackward(batch, "cross_entropy"))
      yield* Deferred.await(arrived)
      const inQueue = yield* Effect.fork(training.forwardBackward(batch, "cross_entropy"))
      yield* settle
      assert.strictEqual((yield* ledger.totals).reserved, 20e-6)
      yield* Fiber.interrupt(inQueue)
      yield* Fiber.interrupt(onWire)
      const { reserved, spent, unconfirmed } = yield* ledger.totals
      assert.deepStrictEqual([reserved, spent, unconfirmed], [0, 10e-6, 10e-6])
      yield* Deferred.succeed(go, void 0)
      refuse = true
      assert.strictEqual((yield* Effect.flip(training.forwardBackward(batch, "cross_entropy")))._tag, "BadRequest")
      assert.strictEqual((yield* ledger.totals).spent, 10e-6)
    }))

  it.effect("the clients of layers are put on a budget", () => {
    const server = TrainingServer.make()
    const Live = CostLedger.layerTraining("base").pipe(
      Layer.provide(TrainingClient.layerLora({ baseModel: "base" })),
      Layer.provide(server.service),
      Layer.provideMerge(CostLedger.layer(roomFor(5)))
    )
    return Effect.gen(function*() {
      const training = yield* TrainingClient.TrainingClient
      const error = yield* Effect.flip(training.forwardBackward([yield* lesson], "cross_entropy"))
      assert.strictEqual(error._tag, "BudgetExceeded")
      const ledger = yield* CostLedger.CostLedger
      assert.strictEqual((yield* ledger.totals).budget, 5e-6)
    }).pipe(Effect.provide(Live))
  })
})
