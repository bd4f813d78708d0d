import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Fiber, Layer } from "effect"
import { CustomLoss, Datum, ServiceClient, TrainingClient } from "effect-tinker"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as TinkerLocal from "../src/TinkerLocal.js"

/** The SDK's clients over the embedded backend, in process. */
const Local = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
  Layer.provideMerge(TinkerLocal.layer())
)

const texts = ["cat: meow\n", "dog: woof\n", "cow: moo\n"]
const batch = texts.map((text) => Either.getOrThrow(Datum.fromTokens(LocalTokenizer.encode(text))))
const adam = { learningRate: 5e-4 }
const create = TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
const lossOf = (output: { readonly metrics: Readonly<Record<string, number>> }) =>
  output.metrics["loss:sum"] ?? Number.NaN

describe("TrainingClient on the embedded backend", () => {
  it.scoped("a pipelined loop learns: the loss falls to a quarter", () =>
    Effect.gen(function*() {
      const training = yield* create
      // Step n + 1 is sent before the result of step n is awaited.
      let pending = yield* training.trainStep(batch, "cross_entropy", adam)
      const losses: Array<number> = []
      for (let i = 0; i < 12; i++) {
        const next = yield* training.trainStep(batch, "cross_entropy", adam)
        losses.push(lossOf((yield* pending).pass))
        pending = next
      }
      yield* pending
      assert.isBelow(losses[11] ?? Infinity, (losses[0] ?? 0) / 4)
      assert.include(yield* training.tokenizerId, "local")
    }).pipe(Effect.provide(Local)), 60_000)

  it.scoped("a resumed model goes on exactly where the saved one stopped", () =>
    Effect.gen(function*() {
      const training = yield* create
      for (let i = 0; i < 3; i++) yield* training.trainStep(batch, "cross_entropy", adam)
      const { path } = yield* Effect.flatten(training.saveState("resume-here"))
      const steps = (client: TrainingClient.Service) =>
        Effect.forEach([1, 2, 3], () =>
          Effect.map(
            Effect.flatten(client.trainStep(batch, "cross_entropy", adam)),
            ({ pass }) => lossOf(pass)
          ))
      const original = yield* steps(training)
      const resumed = yield* Effect.flatMap(TrainingClient.makeFromState({ path, withOptimizer: true }), steps)
      original.forEach((loss, i) => assert.closeTo(resumed[i] ?? Number.NaN, loss, 1e-6))
      // Without the optimizer's state the weights are the same, the steps after the first are not.
      const cold = yield* Effect.flatMap(TrainingClient.makeFromState({ path }), steps)
      assert.closeTo(cold[0] ?? Number.NaN, original[0] ?? 0, 1e-6)
      assert.isAbove(Math.abs((cold[2] ?? 0) - (original[2] ?? 0)), 1e-4)
    }).pipe(Effect.provide(Local)), 60_000)

  it.scoped("a custom cross entropy trains as the built-in one does, to 1e-5", () =>
    Effect.gen(function*() {
      const builtIn = yield* create
      const custom = yield* create
      for (let i = 0; i < 4; i++) {
        const own = yield* Effect.flatten(builtIn.forwardBackward(batch, "cross_entropy"))
        const mine = yield* Effect.flatten(custom.forwardBackwardCustom(batch, CustomLoss.crossEntropy))
        yield* builtIn.optimStep(adam)
        yield* custom.optimStep(adam)
        const tolerance = 1e-5 * Math.abs(lossOf(own))
        assert.closeTo(lossOf(mine), lossOf(own), tolerance)
        assert.closeTo(mine.metrics["surrogate_loss:sum"] ?? Number.NaN, lossOf(own), tolerance)
      }
    }).pipe(Effect.provide(Local)), 60_000)

  it.scoped(
    "preferences: direct preference optimisation widens the margin it is paid for",
    () =>
      Effect.gen(function*() {
        const training = yield* create
        const pair = ["cat: meow\n", "cat: woof\n"].map((text) =>
          Either.getOrThrow(Datum.fromTokens(LocalTokenizer.encode(text)))
        )
        const before = yield* Effect.flatten(training.forward(pair, "cross_entropy"))
        const reference = before.lossFnOutputs.map((record) => Array.from(record["logprobs"]?.data ?? [], Number))
        const loss = CustomLoss.dpo({ reference, beta: 0.5 })
        const margins: Array<number> = []
        for (let i = 0; i < 6; i++) {
          const output = yield* Effect.flatten(training.forwardBackwardCustom(pair, loss))
          yield* training.optimStep(adam)
          margins.push(output.metrics["margin"] ?? Number.NaN)
        }
        assert.closeTo(margins[0] ?? Number.NaN, 0, 1e-5)
        assert.isAbove(margins[5] ?? 0, 1)
      }).pipe(Effect.provide(Local)),
    60_000
  )

  it.scoped(
    "operations started together are computed in the order in which they started",
    () =>
      Effect.gen(function*() {
        const training = yield* create
        const fibers = yield* Effect.forEach(
          Array.from({ length: 8 }),
          () => Effect.fork(Effect.flatten(training.trainStep(batch, "cross_entropy", adam)))
        )
        const losses = (yield* Fiber.join(Fiber.all(fibers))).map(({ pass }) => lossOf(pass))
        assert.deepStrictEqual(losses, [...losses].sort((a, b) => b - a))
      }).pipe(Effect.provide(Local)),
    60_000
  )
})
